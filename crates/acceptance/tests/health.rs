//! Servers that are checked: who is out, who is back, and how often anybody is asked.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::io;

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Gate, NameServer, Origin, Resolution, Sluice, Switch,
    behaviour, get,
};

/// An upstream `api` of these servers with further lines, behind every path.
fn checked(workers: usize, origins: &[&Origin], lines: &str) -> String {
    let servers: Vec<String> =
        origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect();
    let text = format!(
        "[upstream.api]\nservers = [{}]\n{lines}\n\n[[route]]\nproxy = \"api\"\n",
        servers.join(", ")
    );
    format!("workers = {workers}\n{}", config(&text))
}

/// A check of `/up` every ten milliseconds, and these settings.
fn often(more: &str) -> String {
    format!("health = {{ path = \"/up\", interval = \"10ms\", timeout = \"5s\"{more} }}")
}

/// Requests get `good`, checks what the switch says.
fn patient(good: &str) -> (Switch, Origin) {
    let switch = Switch::new(behaviour::fixed(200, "up"));
    let (check, serve) = (switch.behaviour(), behaviour::fixed(200, good));
    let origin = Origin::start(move |exchange: &mut Exchange| {
        if exchange.head().target == "/up" { check(exchange) } else { serve(exchange) }
    });
    (switch, origin)
}

fn of_server(sluice: &Sluice, name: &str, origin: &Origin) -> u64 {
    let labels = format!("{{upstream=\"api\",server=\"{}\"}}", origin.address());
    metric(&sluice.admin(), &format!("sluice_server_{name}{labels}"))
}

fn is_available(sluice: &Sluice, origin: &Origin) -> bool {
    of_server(sluice, "available", origin) == 1
}

fn checks(sluice: &Sluice, origin: &Origin) -> u64 {
    of_server(sluice, "checks_total", origin)
}

/// Requests that are no checks.
fn served(origin: &Origin) -> usize {
    origin.requests().iter().filter(|request| request.target != "/up").count()
}

fn said(sluice: &Sluice, part: &str) -> usize {
    sluice.stderr().iter().filter(|line| line.contains(part)).count()
}

#[test]
fn a_server_that_fails_its_checks_gets_no_requests_until_it_passes_them() {
    let (switch, first) = patient("first");
    let (_, second) = patient("second");
    let sluice = Sluice::start(&checked(2, &[&first, &second], &often("")));
    let web = sluice.address("web");
    assert!(is_available(&sluice, &first) && is_available(&sluice, &second));
    switch.set(behaviour::fixed(500, "up"));
    assert!(eventually(|| !is_available(&sluice, &first)), "{:?}", sluice.stderr());
    let before = served(&first);
    for _ in 0..20 {
        assert_eq!(get(&web, "/").text(), "second");
    }
    assert_eq!(served(&first), before);
    let page = get(&sluice.admin(), "/upstreams").text();
    assert!(page.contains("\"unhealthy: status 500\""), "{page}");
    switch.set(behaviour::fixed(200, "up"));
    assert!(eventually(|| is_available(&sluice, &first)), "{:?}", sluice.stderr());
    let answers: Vec<String> = (0..20).map(|_| get(&web, "/").text()).collect();
    assert!(answers.iter().any(|answer| answer == "first"), "{answers:?}");
    // Each change is said once.
    let name = format!("upstream api: {}", first.address());
    assert_eq!(said(&sluice, &format!("{name} is unhealthy: status 500")), 1);
    assert_eq!(said(&sluice, &format!("{name} is healthy")), 1);
    assert!(of_server(&sluice, "check_failures_total", &first) >= 3);
    sluice.stop();
}

#[test]
fn the_log_says_what_is_wrong() {
    let gate = Gate::new();
    type Ill = Box<dyn Fn(&mut Exchange) -> io::Result<()> + Send + Sync>;
    let rows: [(Ill, &str); 5] = [
        (Box::new(behaviour::fixed(503, "up")), "status 503"),
        (Box::new(behaviour::fixed(200, "down")), "body mismatch"),
        (Box::new(behaviour::close_unanswered), "connection closed"),
        (Box::new(behaviour::reset), "connection reset"),
        (Box::new(behaviour::gated(gate.clone(), behaviour::fixed(200, "up"))), "timed out"),
    ];
    for (ill, reason) in rows {
        let (switch, origin) = patient("x");
        let health =
            "health = { path = \"/up\", body = \"up\", interval = \"10ms\", timeout = \"1s\" }";
        let sluice = Sluice::start(&checked(1, &[&origin], health));
        assert!(eventually(|| checks(&sluice, &origin) > 0), "{reason}");
        switch.set(ill);
        let line = sluice.words().wait_after(0, "is unhealthy");
        let line = line.unwrap_or_else(|| panic!("{reason}: {:?}", sluice.stderr()));
        assert!(line.contains(&format!("is unhealthy: {reason}")), "{line}");
        sluice.stop();
    }
    gate.open();
    let gone = Origin::start(behaviour::fixed(200, "up")).address().to_owned();
    let text = format!(
        "[upstream.api]\nservers = \"{gone}\"\n{}\n[[route]]\nproxy = \"api\"\n",
        often("")
    );
    let sluice = Sluice::start(&config(&text));
    let line = sluice.words().wait_after(0, "is unhealthy").unwrap();
    assert!(
        line.contains(&format!("upstream api: {gone} is unhealthy: connection refused")),
        "{line}"
    );
    sluice.stop();
}

#[test]
fn one_check_is_made_for_all_workers() {
    let (switch, origin) = patient("x");
    let gate = Gate::new();
    switch.set(behaviour::gated(gate.clone(), behaviour::fixed(200, "up")));
    let sluice = Sluice::start(&checked(4, &[&origin], &often("")));
    assert!(origin.wait_for_requests(1));
    // All workers serve, and many intervals pass, while the first check is under way.
    for _ in 0..200 {
        assert_eq!(get(&sluice.address("web"), "/").text(), "x");
    }
    assert_eq!(origin.requests().len() - served(&origin), 1);
    gate.open();
    assert!(eventually(|| checks(&sluice, &origin) >= 20));
    // The one that is under way is not counted yet, those made meanwhile come on top.
    let counted = checks(&sluice, &origin);
    let asked = u64::try_from(origin.requests().len() - served(&origin)).unwrap();
    let after = checks(&sluice, &origin) + 1;
    assert!((counted..=after).contains(&asked), "{counted} <= {asked} <= {after}");
    sluice.stop();
}

#[test]
fn single_failures_change_nothing() {
    let (switch, origin) = patient("x");
    let (ill, well) = (behaviour::fixed(500, ""), behaviour::fixed(200, "up"));
    // Each check is a connection of its own: two failures of three, never three in a row.
    switch.set(move |exchange: &mut Exchange| {
        if exchange.head().connection.is_multiple_of(3) { well(exchange) } else { ill(exchange) }
    });
    let sluice = Sluice::start(&checked(1, &[&origin], &often("")));
    assert!(eventually(|| of_server(&sluice, "check_failures_total", &origin) >= 30));
    assert!(is_available(&sluice, &origin));
    assert_eq!(said(&sluice, "is unhealthy"), 0);
    switch.set(behaviour::fixed(500, ""));
    assert!(eventually(|| !is_available(&sluice, &origin)));
    sluice.stop();
}

#[test]
fn what_was_found_survives_a_reload_and_ends_with_the_check() {
    let (switch, first) = patient("first");
    let (_, second) = patient("second");
    let origins = [&first, &second];
    switch.set(behaviour::fixed(500, ""));
    let sluice = Sluice::start(&checked(2, &origins, &often("")));
    assert!(eventually(|| !is_available(&sluice, &first)));
    // The same rule in another configuration, then another rule.
    for lines in [format!("{}\nretry.attempts = 5", often("")), often(", unhealthy = 7")] {
        let before = checks(&sluice, &first);
        assert!(sluice.reload(&checked(2, &origins, &lines)).starts_with("reloaded"), "{lines}");
        assert!(!is_available(&sluice, &first), "{lines}");
        assert_eq!(get(&sluice.address("web"), "/").text(), "second", "{lines}");
        assert!(eventually(|| checks(&sluice, &first) > before), "checked on: {lines}");
    }
    assert_eq!(said(&sluice, "is unhealthy"), 1);
    assert!(sluice.reload(&checked(2, &origins, "")).starts_with("reloaded"));
    assert!(eventually(|| is_available(&sluice, &first)));
    let answers: Vec<String> = (0..8).map(|_| get(&sluice.address("web"), "/").text()).collect();
    assert!(answers.iter().any(|answer| answer == "first"), "{answers:?}");
    // Nobody asks any more.
    let made = checks(&sluice, &first);
    for _ in 0..50 {
        assert!(get(&sluice.address("web"), "/").status == 200);
    }
    assert_eq!(checks(&sluice, &first), made);
    sluice.stop();
}

#[test]
fn a_server_may_have_to_prove_itself_first() {
    let (switch, origin) = patient("x");
    let gate = Gate::new();
    switch.set(behaviour::gated(gate.clone(), behaviour::fixed(200, "up")));
    let sluice = Sluice::start(&checked(2, &[&origin], &often(", initial = \"unhealthy\"")));
    assert!(origin.wait_for_requests(1));
    let refused = get(&sluice.address("web"), "/");
    assert_eq!(
        (refused.status, refused.text().as_str()),
        (503, "503 Service Unavailable: no_server\n")
    );
    assert!(get(&sluice.admin(), "/upstreams").text().contains("\"unchecked\""));
    gate.open();
    assert!(eventually(|| is_available(&sluice, &origin)));
    assert_eq!(get(&sluice.address("web"), "/").text(), "x");
    sluice.stop();
}

#[test]
fn an_open_connection_is_enough_where_that_is_asked() {
    let ill = Origin::start(behaviour::fixed(500, "ill"));
    let gone = Origin::start(behaviour::fixed(200, "gone"));
    let health = "health = { tcp = true, interval = \"10ms\" }";
    let sluice = Sluice::start(&checked(2, &[&ill, &gone], health));
    assert!(eventually(|| checks(&sluice, &ill) >= 5));
    let address = gone.address().to_owned();
    drop(gone);
    let line = sluice.words().wait_after(0, "is unhealthy").unwrap();
    assert!(line.contains(&format!("upstream api: {address} is unhealthy")), "{line}");
    assert!(is_available(&sluice, &ill));
    let back = Origin::start_at(&address, behaviour::fixed(200, "back"));
    assert!(eventually(|| is_available(&sluice, &back)));
    assert!(ill.requests().is_empty(), "nothing was sent");
    sluice.stop();
}

#[test]
fn every_address_of_a_name_is_checked_as_long_as_it_is_one() {
    let one = Origin::start(behaviour::fixed(200, "one"));
    let port = one.address().rsplit(':').next().unwrap().to_owned();
    let two = Origin::start_at(&format!("127.0.0.2:{port}"), behaviour::fixed(500, "two"));
    let names = NameServer::start();
    let resolve = |list: &[&str]| {
        let list = list.iter().map(|text| text.parse().unwrap()).collect();
        names.set("origin.test", Resolution::Addresses(list, 0));
    };
    resolve(&["127.0.0.1", "127.0.0.2"]);
    let text = format!(
        "[resolver]\nservers = [\"{}\"]\nmin_ttl = \"50ms\"\n[upstream.api]\n\
         servers = \"origin.test:{port}\"\n{}\n[[route]]\nproxy = \"api\"\n",
        names.address(),
        often("")
    );
    let sluice = Sluice::start(&config(&text));
    assert!(eventually(|| !is_available(&sluice, &two)));
    assert!(checks(&sluice, &one) > 0 && is_available(&sluice, &one));
    resolve(&["127.0.0.1"]);
    let known = || get(&sluice.admin(), "/metrics").text().contains(two.address());
    assert!(eventually(|| !known()));
    assert!(two.wait_for_open_connections(0));
    let before = checks(&sluice, &one);
    assert!(eventually(|| checks(&sluice, &one) > before), "the other is checked on");
    assert_eq!(get(&sluice.address("web"), "/").text(), "one");
    sluice.stop();
}

/// Sends requests until the log says that a server is ejected; the line.
fn until_ejected(sluice: &Sluice, mark: usize) -> String {
    let web = sluice.address("web");
    let ejected =
        || sluice.stderr().into_iter().skip(mark).find(|line| line.contains("is ejected"));
    assert!(eventually(|| get(&web, "/").status > 0 && ejected().is_some()));
    ejected().unwrap()
}

#[test]
fn a_server_that_fails_requests_is_ejected_and_comes_back() {
    type Ill = Box<dyn Fn(&mut Exchange) -> io::Result<()> + Send + Sync>;
    let rows: [(&str, Ill); 3] = [
        ("an answer", Box::new(behaviour::fixed(503, "ill"))),
        ("none", Box::new(behaviour::close_unanswered)),
        ("a broken one", Box::new(behaviour::raw(b"nonsense\r\n\r\n", After::Close))),
    ];
    for (what, ill) in rows {
        let switch = Switch::new(behaviour::fixed(200, "first"));
        let first = Origin::start(switch.behaviour());
        let second = Origin::start(behaviour::fixed(200, "second"));
        let ejection = "ejection = { failures = 3, time = \"1s\" }\nretry.attempts = 0";
        let sluice = Sluice::start(&checked(2, &[&first, &second], ejection));
        let web = sluice.address("web");
        switch.set(ill);
        let line = until_ejected(&sluice, 0);
        let name = format!("upstream api: {}", first.address());
        assert!(line.contains(&format!("{name} is ejected for 1s: ")), "{what}: {line}");
        assert!(line.ends_with("failures in a row"), "{what}: {line}");
        assert_eq!(of_server(&sluice, "ejections_total", &first), 1, "{what}");
        assert!(of_server(&sluice, "faulty_total", &first) >= 3, "{what}");
        switch.set(behaviour::fixed(200, "first"));
        // While it is out everything goes to the other.
        assert!(sluice.words().wait_after(0, &format!("{name} is back")).is_some(), "{what}");
        assert!(is_available(&sluice, &first), "{what}");
        assert!(eventually(|| get(&web, "/").text() == "first"), "{what}");
        sluice.stop();
    }
}

#[test]
fn what_an_application_answers_is_no_failure_unless_it_is_said_to_be() {
    let ill = Origin::start(behaviour::fixed(500, "ill"));
    let well = Origin::start(behaviour::fixed(200, "well"));
    let config = |more: &str| {
        checked(
            1,
            &[&ill, &well],
            &format!("ejection = {{ failures = 3, time = \"1h\", max_time = \"1h\"{more} }}"),
        )
    };
    let sluice = Sluice::start(&config(""));
    let web = sluice.address("web");
    let answers: Vec<u16> = (0..40).map(|_| get(&web, "/").status).collect();
    assert_eq!(answers.iter().filter(|&&status| status == 500).count(), 20);
    assert!(sluice.reload(&config(", statuses = \"5xx\"")).starts_with("reloaded"));
    let line = until_ejected(&sluice, 0);
    assert!(line.contains(ill.address()), "{line}");
    assert!((0..20).all(|_| get(&web, "/").status == 200));
    // Removing the rule lets it back in.
    assert!(sluice.reload(&checked(1, &[&ill, &well], "")).starts_with("reloaded"));
    assert!(eventually(|| is_available(&sluice, &ill)));
    assert!((0..4).any(|_| get(&web, "/").status == 500));
    sluice.stop();
}

#[test]
fn no_more_are_ejected_than_the_limit() {
    let origins: Vec<Origin> =
        (0..4).map(|_| Origin::start(behaviour::fixed(503, "ill"))).collect();
    let all: Vec<&Origin> = origins.iter().collect();
    let ejection = "ejection = { failures = 2, time = \"1h\", max_time = \"1h\", limit = \"50%\" }";
    let sluice = Sluice::start(&checked(2, &all, ejection));
    let web = sluice.address("web");
    let out = || origins.iter().filter(|origin| !is_available(&sluice, origin)).count();
    assert!(eventually(|| get(&web, "/").status == 503 && out() == 2));
    for _ in 0..50 {
        assert_eq!(get(&web, "/").text(), "ill", "somebody is still asked");
    }
    assert_eq!(out(), 2);
    sluice.stop();
}

#[test]
fn a_share_of_failures_ejects_too() {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let first = Origin::start(move |exchange: &mut Exchange| {
        let number = turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        exchange.sink_body()?;
        // Never two in a row.
        exchange.answer(if number.is_multiple_of(2) { 503 } else { 200 }, &[], "first")
    });
    let second = Origin::start(behaviour::fixed(200, "second"));
    let ejection = "ejection = { failures = 2, share = \"30%\", requests = 10, window = \"50ms\", time = \"1h\", max_time = \"1h\" }";
    let sluice = Sluice::start(&checked(1, &[&first, &second], ejection));
    let line = until_ejected(&sluice, 0);
    assert!(line.contains(first.address()) && line.contains("requests failed"), "{line}");
    assert!((0..10).all(|_| get(&sluice.address("web"), "/").text() == "second"));
    sluice.stop();
}

#[test]
fn an_ejected_server_has_to_pass_its_checks_as_well() {
    let (switch, first) = patient("first");
    let (_, second) = patient("second");
    let lines = format!("{}\nejection = {{ failures = 1, time = \"20ms\" }}", often(""));
    let sluice = Sluice::start(&checked(1, &[&first, &second], &lines));
    switch.set(behaviour::fixed(500, ""));
    assert!(eventually(|| !is_available(&sluice, &first)));
    first.close_connections();
    let address = first.address().to_owned();
    drop(first);
    assert_eq!(get(&sluice.address("web"), "/").text(), "second");
    let (switch, first) = (Switch::new(behaviour::fixed(503, "ill")), address);
    let back = Origin::start_at(&first, switch.behaviour());
    assert!(eventually(|| checks(&sluice, &back) > 0 && !is_available(&sluice, &back)));
    switch.set(behaviour::fixed(200, "back"));
    assert!(eventually(|| is_available(&sluice, &back)));
    assert!(eventually(|| get(&sluice.address("web"), "/").text() == "back"));
    // Now by its requests alone: its checks go well.
    let good = behaviour::fixed(200, "up");
    switch.set(move |exchange: &mut Exchange| {
        if exchange.head().target == "/up" { good(exchange) } else { exchange.answer(503, &[], "") }
    });
    let mark = sluice.words().mark();
    let line = until_ejected(&sluice, mark);
    assert!(
        line.contains(&format!("{first} is ejected for ")) && line.ends_with(": a failure"),
        "{line}"
    );
    assert!(sluice.words().wait_after(mark, "is back from its ejection").is_some());
    sluice.stop();
}

#[test]
fn when_none_is_left_all_are_asked_unless_that_is_off() {
    let (first_up, first) = patient("first");
    let (second_up, second) = patient("second");
    let origins = [&first, &second];
    let sluice = Sluice::start(&checked(2, &origins, &often("")));
    let web = sluice.address("web");
    let panics = || metric(&sluice.admin(), "sluice_upstream_panic{upstream=\"api\"}") == 1;
    assert!(!panics());
    first_up.set(behaviour::fixed(500, ""));
    second_up.set(behaviour::fixed(500, ""));
    assert!(eventually(panics));
    assert!(
        sluice.words().wait_after(0, "api: 0 of 2 servers are available, all are asked").is_some()
    );
    let answers = || -> BTreeSet<String> { (0..8).map(|_| get(&web, "/").text()).collect() };
    assert_eq!(answers().len(), 2, "both are asked");
    // One that recovers gets everything.
    first_up.set(behaviour::fixed(200, "up"));
    assert!(eventually(|| is_available(&sluice, &first) && !panics()));
    assert!(sluice.words().wait_after(0, "1 of 2 servers are available, no more panic").is_some());
    assert_eq!(answers(), BTreeSet::from(["first".to_owned()]));
    let off = format!("{}\npanic = \"off\"", often(""));
    assert!(sluice.reload(&checked(2, &origins, &off)).starts_with("reloaded"));
    first_up.set(behaviour::fixed(500, ""));
    assert!(eventually(|| !is_available(&sluice, &first)));
    let refused = get(&web, "/");
    assert_eq!(
        (refused.status, refused.text().as_str()),
        (503, "503 Service Unavailable: no_server\n")
    );
    assert!(!panics());
    sluice.stop();
}

#[test]
fn when_too_few_are_left_all_are_asked() {
    let patients: Vec<(Switch, Origin)> = ["a", "b", "c", "d"].map(patient).into();
    let origins: Vec<&Origin> = patients.iter().map(|(_, origin)| origin).collect();
    let lines = format!("{}\npanic = \"50%\"", often(""));
    let sluice = Sluice::start(&checked(1, &origins, &lines));
    let answers = || -> BTreeSet<String> {
        (0..16).map(|_| get(&sluice.address("web"), "/").text()).collect()
    };
    for (switch, origin) in patients.iter().take(2) {
        switch.set(behaviour::fixed(500, ""));
        assert!(eventually(|| !is_available(&sluice, origin)));
    }
    assert_eq!(answers(), BTreeSet::from(["c".to_owned(), "d".to_owned()]), "half is enough");
    let (switch, origin) = &patients[2];
    switch.set(behaviour::fixed(500, ""));
    assert!(eventually(|| !is_available(&sluice, origin)));
    assert_eq!(answers().len(), 4);
    sluice.stop();
}

fn refusals(sluice: &Sluice, limit: &str) -> u64 {
    let labels = format!("{{upstream=\"api\",limit=\"{limit}\"}}");
    metric(&sluice.admin(), &format!("sluice_upstream_circuit_open_total{labels}"))
}

const ASKED: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn what_goes_beyond_the_breaker_is_refused_at_once() {
    for limit in ["requests", "connections"] {
        let gate = Gate::new();
        let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "ok")));
        let config =
            |most: u32| checked(2, &[&origin], &format!("breaker = {{ {limit} = {most} }}"));
        let sluice = Sluice::start(&config(2));
        let web = sluice.address("web");
        let mut held: Vec<ByteScript> = (0..2).map(|_| ByteScript::connect(&web)).collect();
        held.iter_mut().for_each(|client| _ = client.send(ASKED));
        assert!(origin.wait_for_requests(2), "{limit}");
        // The workers count together, and a connection that was refused goes on.
        let mut client = ByteScript::connect(&web);
        for round in 1..=3 {
            let refused = client.send(ASKED).read_response(Asked::Get).unwrap();
            assert_eq!(refused.status, 503, "{limit}");
            assert_eq!(refused.text(), "503 Service Unavailable: circuit_open\n", "{limit}");
            assert_eq!(refusals(&sluice, limit), round, "{limit}");
        }
        assert_eq!(origin.requests().len(), 2, "{limit}");
        // A reload may raise the limit; who is under way still counts.
        assert!(sluice.reload(&config(3)).starts_with("reloaded"), "{limit}");
        let third = client.send(ASKED);
        assert!(origin.wait_for_requests(3), "{limit}");
        assert_eq!(get(&web, "/").status, 503, "{limit}");
        gate.open();
        assert_eq!(third.read_response(Asked::Get).unwrap().text(), "ok", "{limit}");
        for client in &mut held {
            assert_eq!(client.read_response(Asked::Get).unwrap().text(), "ok", "{limit}");
        }
        // All is given back once the answers have been passed on.
        for _ in 0..20 {
            assert!(eventually(|| get(&web, "/").status == 200), "{limit}");
        }
        sluice.stop();
    }
}

#[test]
fn requests_that_wait_for_a_connection_are_limited() {
    // Nobody accepts: once the queue is full, opening a connection takes for ever.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let patience = std::time::Duration::from_millis(100);
    let mut queue = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, patience) {
        queue.push(stream);
    }
    let text = format!(
        "[upstream.api]\nservers = \"{address}\"\ntimeout = {{ connect = \"1h\" }}\n\
         breaker = {{ pending = 1 }}\n\n[[route]]\nproxy = \"api\"\n"
    );
    let sluice = Sluice::start(&format!("workers = 2\n{}", config(&text)));
    let web = sluice.address("web");
    let mut waiting = ByteScript::connect(&web);
    waiting.send(ASKED);
    let active = || metric(&sluice.admin(), "sluice_upstream_active_requests{upstream=\"api\"}");
    assert!(eventually(|| active() == 1));
    for round in 1..=2 {
        assert_eq!(get(&web, "/").text(), "503 Service Unavailable: circuit_open\n");
        assert_eq!(refusals(&sluice, "pending"), round);
    }
    assert_eq!(active(), 1);
    drop(queue);
}

#[test]
fn retries_are_limited_without_a_refusal_of_their_own() {
    let dead = Origin::start(behaviour::fixed(200, "")).address().to_owned();
    let alive = Origin::start(behaviour::fixed(200, "alive"));
    let config = |lines: &str| {
        let text = format!(
            "[upstream.api]\nservers = [\"{dead}\", \"{}\"]\n{lines}\n\n[[route]]\nproxy = \"api\"\n",
            alive.address()
        );
        format!("workers = 1\n{}", config(&text))
    };
    let sluice = Sluice::start(&config("breaker = { retries = 0 }"));
    let web = sluice.address("web");
    let mut statuses: Vec<u16> = (0..6).map(|_| get(&web, "/").status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 502, 502, 502], "what the first try came to");
    assert_eq!(refusals(&sluice, "retries"), 3);
    assert!(sluice.reload(&config("breaker = { retries = 1 }")).starts_with("reloaded"));
    assert!(eventually(|| (0..6).all(|_| get(&web, "/").status == 200)));
    sluice.stop();
}
