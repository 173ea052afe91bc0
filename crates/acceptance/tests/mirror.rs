//! Copies of requests for another upstream, which harm nothing.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io;
use std::sync::{Arc, Mutex};

use sluice_acceptance::{eventually, metric, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Gate, Origin, Sluice, ask, behaviour, get,
};

const GET: &str = "GET /path?q=1 HTTP/1.1\r\nHost: a.example\r\nX-One: 1\r\n\r\n";

/// A gateway that passes requests on to one origin, with copies as `mirror` says. `MIRROR` stands for
/// the address that gets them.
fn gateway(origin: &Origin, copies: &str, mirror: &str) -> Sluice {
    let upstream = "retry = { on = [\"reset\"] }\n\n[upstream.copies]\n\
                    host = \"copies.example\"\nservers = [\"";
    let config = passing("", origin.address(), &format!("{upstream}{copies}\"]\n"));
    Sluice::start(&format!("{config}name = \"it\"\nmirror = {mirror}\n"))
}

fn count(sluice: &Sluice, what: &str) -> u64 {
    metric(&sluice.admin(), &format!("sluice_route_{what}_total{{route=\"it\"}}"))
}

fn good() -> Origin {
    Origin::start(behaviour::echo)
}

/// An origin that remembers what content it got.
fn listening() -> (Origin, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ears = Arc::clone(&heard);
    let origin = Origin::start(move |exchange: &mut Exchange| {
        let body = exchange.read_body()?;
        let text = format!("{} {:?}", String::from_utf8_lossy(&body.bytes), body.trailers.0);
        ears.lock().unwrap().push(text);
        exchange.answer(200, &[], "ignored")
    });
    (origin, heard)
}

#[test]
fn a_copy_is_the_same_request_for_another_host() {
    let (origin, copies) = (good(), good());
    let sluice = gateway(&origin, copies.address(), "\"copies\"");
    let hops = "Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nKeep-Alive: 5";
    let _ = ask(&sluice.address("web"), &GET.replace("X-One: 1", &format!("X-One: 1\r\n{hops}")));
    assert!(copies.wait_for_requests(1));
    let (real, copy) = (origin.last_request(), copies.last_request());
    assert_eq!(copy.fields.first("host"), Some("copies.example"));
    assert_eq!(real.fields.first("host"), Some("a.example"));
    let without_host = |lines: &[String]| -> Vec<String> {
        let mut lines: Vec<String> = lines
            .iter()
            .filter(|line| !line.to_lowercase().starts_with("host:"))
            .cloned()
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(without_host(&copy.lines), without_host(&real.lines));
    assert_eq!(copy.fields.first("x-forwarded-host"), Some("a.example"));
    sluice.stop();
}

#[test]
fn content_goes_along_if_it_is_small() {
    let (origin, (copies, heard)) = (good(), listening());
    let sluice = gateway(&origin, copies.address(), "{ to = \"copies\", body_limit = \"8B\" }");
    let rows = [
        ("Content-Length: 4\r\n\r\nknow".to_owned(), Some("know []")),
        ("Content-Length: 8\r\n\r\n12345678".to_owned(), Some("12345678 []")),
        ("Content-Length: 9\r\n\r\n123456789".to_owned(), None),
        (
            "Transfer-Encoding: chunked\r\n\r\n2\r\nch\r\n3\r\nunk\r\n0\r\nX-End: 1\r\n\r\n"
                .to_owned(),
            Some("chunk [(\"X-End\", \"1\")]"),
        ),
        ("Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n".to_owned(), None),
        ("Content-Length: 5\r\nExpect: 100-continue\r\n\r\nawait".to_owned(), Some("await []")),
        ("Content-Length: 0\r\n\r\n".to_owned(), Some(" []")),
    ];
    let (mut sent, mut skipped) = (0, 0);
    for (rest, expected) in rows {
        let answer = ask(&sluice.address("web"), &format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}"));
        assert_eq!(answer.status, 200);
        match expected {
            Some(text) => {
                sent += 1;
                assert!(eventually(|| heard.lock().unwrap().len() == sent), "{rest}");
                assert_eq!(heard.lock().unwrap().last().unwrap(), text);
                assert_eq!(copies.last_request().fields.first("expect"), None);
            }
            None => skipped += 1,
        }
        let counts = || (count(&sluice, "mirrored"), count(&sluice, "mirror_skipped"));
        assert_eq!(counts(), (u64::try_from(sent).unwrap(), skipped), "{rest}");
    }
    sluice.stop();
}

#[test]
fn the_share_is_kept() {
    for (share, expected) in [("10%", 19..=21), ("100%", 200..=200), ("0%", 0..=0)] {
        let (origin, copies) = (good(), good());
        let mirror = format!("{{ to = \"copies\", share = \"{share}\" }}");
        let sluice = gateway(&origin, copies.address(), &mirror);
        let mut client = ByteScript::connect(&sluice.address("web"));
        for _ in 0..200 {
            assert_eq!(client.send(GET).read_response(Asked::Get).unwrap().status, 200);
        }
        let copied = count(&sluice, "mirrored");
        assert!(expected.contains(&copied), "{share}: {copied}");
        assert!(copies.wait_for_requests(usize::try_from(copied).unwrap()));
        assert_eq!((count(&sluice, "mirror_skipped"), count(&sluice, "mirror_failures")), (0, 0));
        sluice.stop();
    }
}

#[test]
fn nobody_waits_for_those_who_get_copies() {
    let never = Gate::new();
    let hanging = Origin::start(behaviour::gated(never, behaviour::echo));
    // Takes no content, sends half a head, half an answer, rubbish, or closes: and nobody at all.
    let deaf = Origin::start(|exchange: &mut Exchange| {
        exchange.then(After::Close);
        exchange.write("HTTP/1.1 2")?;
        let mut rest = [0; 1];
        io::Read::read(exchange.raw().0, &mut rest).map(drop)
    });
    let rubbish = Origin::start(behaviour::raw(b"rubbish\r\n\r\n", After::Close));
    let half = Origin::start(behaviour::cut_short(100, "half", After::Reset));
    let closing = Origin::start(behaviour::close_unanswered);
    let failing = Origin::start(behaviour::fixed(500, "failing"));
    let endless = Origin::start(behaviour::stream(1 << 32));
    let nobody = "127.0.0.1:1".to_owned();
    let mut all: Vec<String> = [&hanging, &deaf, &rubbish, &half, &closing, &failing, &endless]
        .map(|it| it.address().to_owned())
        .to_vec();
    all.push(nobody);
    for copies in all {
        let origin = good();
        let sluice = gateway(&origin, &copies, "{ to = \"copies\", at_once = 3 }");
        let mut client = ByteScript::connect(&sluice.address("web"));
        for round in 0..10 {
            let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n{round}");
            let answer = client.send(post).read_response(Asked::Get).unwrap();
            assert!(answer.text().ends_with(&format!("\n\n{round}")), "{copies}");
            assert_eq!(client.send(GET).read_response(Asked::Get).unwrap().status, 200, "{copies}");
        }
        assert_eq!((origin.requests().len(), origin.connections()), (20, 1), "{copies}");
        // What becomes of copies is no fault of an exchange.
        let faults = get(&sluice.admin(), "/metrics").text();
        let told = faults
            .lines()
            .any(|line| line.starts_with("sluice_faults_total") && !line.ends_with(" 0"));
        assert!(!told, "{copies}");
        assert_eq!(count(&sluice, "mirrored") + count(&sluice, "mirror_skipped"), 20, "{copies}");
        sluice.stop();
    }
}

#[test]
fn copies_under_way_are_bounded() {
    let gate = Gate::new();
    let (origin, copies) = (good(), Origin::start(behaviour::gated(gate.clone(), behaviour::echo)));
    let sluice = gateway(&origin, copies.address(), "{ to = \"copies\", at_once = 3 }");
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..10 {
        assert_eq!(client.send(GET).read_response(Asked::Get).unwrap().status, 200);
    }
    assert!(copies.wait_for_requests(3));
    assert_eq!((count(&sluice, "mirrored"), count(&sluice, "mirror_skipped")), (3, 7));
    gate.open();
    // Those that have their answers make room, and leave their connections to others.
    let active = "sluice_upstream_active_requests{upstream=\"copies\"}";
    assert!(eventually(|| metric(&sluice.admin(), active) == 0));
    assert!(eventually(|| {
        client.send(GET).read_response(Asked::Get).unwrap();
        count(&sluice, "mirrored") >= 6
    }));
    assert_eq!((copies.connections(), count(&sluice, "mirror_failures")), (3, 0));
    sluice.stop();
}

#[test]
fn failures_are_counted() {
    let origin = good();
    for (copies, after) in [("127.0.0.1:1".to_owned(), None), (String::new(), Some(After::Reset))] {
        let failing = Origin::start(behaviour::raw(b"", after.unwrap_or(After::Close)));
        let copies = if copies.is_empty() { failing.address().to_owned() } else { copies };
        let sluice = gateway(&origin, &copies, "\"copies\"");
        for round in 1..=3 {
            assert_eq!(ask(&sluice.address("web"), GET).status, 200);
            assert!(eventually(|| count(&sluice, "mirror_failures") == round), "{copies}");
        }
        sluice.stop();
    }
}

#[test]
fn the_request_itself_is_no_more_repeatable_than_before() {
    let resets = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.then(After::Reset);
        Ok(())
    });
    let (copies, heard) = listening();
    let sluice = gateway(&resets, copies.address(), "\"copies\"");
    let put = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nput";
    assert_eq!(ask(&sluice.address("web"), put).status, 502);
    assert_eq!(resets.requests().len(), 1, "its content was kept for the copy alone");
    // The copy goes out all the same.
    assert!(eventually(|| *heard.lock().unwrap() == ["put []"]));
    sluice.stop();
}

#[test]
fn upgrades_are_not_copied() {
    let (origin, copies) = (Origin::start(behaviour::upgrade_echo), good());
    let sluice = gateway(&origin, copies.address(), "\"copies\"");
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    client.read_until(b"\r\n\r\n").unwrap();
    assert_eq!(client.send("hello").read_exactly(5).unwrap(), b"hello");
    assert_eq!((count(&sluice, "mirror_skipped"), copies.requests().len()), (1, 0));
    drop(client);
    sluice.stop();
}
