//! How requests spread over the servers of an upstream.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Asked, ByteScript, Gate, Origin, Response, Sluice, behaviour};

/// Origins that answer with their names: "0", "1" and so on.
fn origins(count: usize) -> Vec<Origin> {
    (0..count).map(|name| Origin::start(behaviour::fixed(200, &name.to_string()))).collect()
}

/// Everything goes to an upstream of these servers, of which `more` says more.
fn balanced(workers: usize, servers: &[String], more: &str) -> String {
    let upstream = format!("[upstream.api]\nservers = [{}]\n{more}\n\n", servers.join(", "));
    let route = "[[route]]\npath = \"/*\"\nproxy = \"api\"\n";
    format!("workers = {workers}\n{}", config(&(upstream + route)))
}

fn plain(origins: &[Origin]) -> Vec<String> {
    origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect()
}

fn weighted(origins: &[Origin], weights: &[u32]) -> Vec<String> {
    let server = |(origin, weight): (&Origin, &u32)| {
        format!("{{ address = \"{}\", weight = {weight} }}", origin.address())
    };
    origins.iter().zip(weights).map(server).collect()
}

/// A client that keeps its connection.
struct Client(ByteScript);

impl Client {
    fn of(sluice: &Sluice) -> Self {
        Self(ByteScript::connect(&sluice.address("web")))
    }

    /// The answer to a request with these further field lines.
    fn ask(&mut self, target: &str, lines: &str) -> Response {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        self.0.send(request).read_response(Asked::Get).unwrap()
    }

    /// The name of the origin that answers.
    fn name(&mut self) -> String {
        let answer = self.ask("/", "");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// Who answers so many requests, and how often.
    fn count(&mut self, requests: u32) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for _ in 0..requests {
            *counts.entry(self.name()).or_insert(0) += 1;
        }
        counts
    }
}

/// Pearson's sum over the origins.
fn chi_square(origins: &[Origin], weights: &[u32]) -> f64 {
    let counts: Vec<f64> = origins
        .iter()
        .map(|origin| f64::from(u32::try_from(origin.requests().len()).unwrap()))
        .collect();
    let sum: f64 = counts.iter().sum();
    let weight: f64 = weights.iter().copied().map(f64::from).sum();
    let expected = weights.iter().map(|&it| f64::from(it) / weight * sum);
    counts.iter().zip(expected).map(|(count, expected)| (count - expected).powi(2) / expected).sum()
}

#[test]
fn round_robin_is_even_and_weighted_over_all_workers() {
    for weights in [[1, 1, 1, 1], [1, 2, 5, 2]] {
        let origins = origins(4);
        let sluice = Sluice::start(&balanced(2, &weighted(&origins, &weights), ""));
        for _ in 0..16 {
            Client::of(&sluice).count(25);
        }
        // By chance it would exceed 0.35 nineteen times of twenty: turns are no matter of chance.
        let sum = chi_square(&origins, &weights);
        assert!(sum < 0.35, "{sum} for {weights:?}");
        sluice.stop();
    }
}

#[test]
fn rules_of_chance_reach_every_server_by_weight() {
    for rule in ["random", "two_choices"] {
        let origins = origins(3);
        let more = format!("balance = \"{rule}\"");
        let sluice = Sluice::start(&balanced(1, &weighted(&origins, &[1, 2, 0]), &more));
        let counts = Client::of(&sluice).count(600);
        // Eight standard deviations on either side.
        assert!((110..290).contains(&counts["0"]) && counts.len() == 2, "{rule}: {counts:?}");
        sluice.stop();
    }
}

#[test]
fn least_requests_passes_over_a_server_that_is_busy() {
    let gate = Gate::new();
    let busy = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "busy")));
    let mut origins = origins(2);
    origins.push(busy);
    let sluice = Sluice::start(&balanced(1, &plain(&origins), "balance = \"least_requests\""));
    // As many at once as there are servers: one of them waits.
    let mut first: Vec<ByteScript> =
        (0..3).map(|_| ByteScript::connect(&sluice.address("web"))).collect();
    for script in &mut first {
        script.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // The two that are answered must have ended: they count until then.
    let active = "sluice_upstream_active_requests{upstream=\"api\"}";
    let waits = || origins[2].requests().len() == 1 && metric(&sluice.admin(), active) == 1;
    assert!(eventually(waits), "{}", metric(&sluice.admin(), active));
    let counts = Client::of(&sluice).count(100);
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [50, 50], "{counts:?}");
    assert_eq!(origins[2].requests().len(), 1, "nothing more for the busy one");
    gate.open();
    for mut script in first {
        assert_eq!(script.read_response(Asked::Get).unwrap().status, 200);
    }
    assert!(Client::of(&sluice).count(30).contains_key("busy"), "it takes part again");
    sluice.stop();
}

/// Who answers each of so many users.
fn owners(sluice: &Sluice, users: usize) -> Vec<String> {
    let mut client = Client::of(sluice);
    (0..users).map(|user| client.ask("/", &format!("X-User: u{user}\r\n")).text()).collect()
}

#[test]
fn a_server_more_takes_its_share_of_the_keys_and_moves_no_other() {
    let origins = origins(5);
    let more = "balance = \"hash\"\nhash = { on = \"header\", name = \"x-user\" }";
    let servers = plain(&origins);
    let sluice = Sluice::start(&balanced(2, &servers[..4], more));
    let before = owners(&sluice, 400);
    assert_eq!(before, owners(&sluice, 400), "the same for the same key, whoever asks");
    let said = sluice.reload(&balanced(2, &servers, more));
    assert!(said.starts_with("reloaded"), "{said}");
    let after = owners(&sluice, 400);
    let moved: Vec<&String> =
        before.iter().zip(&after).filter(|(old, new)| old != new).map(|(_, new)| new).collect();
    assert!(moved.iter().all(|new| *new == "4"), "{moved:?}");
    // A fifth is 80; points are enough to be near it.
    assert!((40..130).contains(&moved.len()), "{}", moved.len());
    sluice.stop();
}

#[test]
fn keys_of_a_server_that_is_gone_spread_and_come_back() {
    let mut origins = origins(4);
    let more = "balance = \"hash\"\nhash = { on = \"header\", name = \"x-user\" }";
    let sluice = Sluice::start(&balanced(1, &plain(&origins), more));
    let before = owners(&sluice, 200);
    drop(origins.pop());
    // Each of its requests is tried again, on the next server of the ring.
    for (old, new) in before.iter().zip(owners(&sluice, 200)) {
        assert!(if old == "3" { new != "3" } else { new == *old }, "{old} {new}");
    }
    sluice.stop();
}

#[test]
fn path_cookie_and_query_decide_too() {
    let rows = [
        ("on = \"path\"", "/k", ""),
        ("on = \"cookie\", name = \"sid\"", "/", "k"),
        ("on = \"query\", name = \"id\"", "/?a=b&id=k", ""),
    ];
    let origins = origins(4);
    for (on, target, cookie) in rows {
        let more = format!("balance = \"hash\"\nhash = {{ {on} }}");
        let sluice = Sluice::start(&balanced(1, &plain(&origins), &more));
        let mut client = Client::of(&sluice);
        let mut ask = |key: usize| {
            let lines = format!("Cookie: x=y; sid={cookie}{key}\r\n");
            client.ask(&format!("{target}{key}"), &lines).text()
        };
        let mut seen = BTreeMap::new();
        for key in 0..60 {
            let owner = ask(key);
            assert_eq!(ask(key), owner, "{on}");
            *seen.entry(owner).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 4, "{on}: {seen:?}");
        sluice.stop();
    }
}

#[test]
fn a_backup_is_asked_only_when_nobody_else_is_there() {
    let mut origins = origins(3);
    let mut servers = plain(&origins);
    servers[2] = format!("{{ address = \"{}\", backup = true }}", origins[2].address());
    let sluice = Sluice::start(&balanced(1, &servers, "retry = { attempts = 2 }"));
    let mut client = Client::of(&sluice);
    assert_eq!(client.count(20), BTreeMap::from([("0".to_owned(), 10), ("1".to_owned(), 10)]));
    origins.remove(0);
    assert_eq!(client.count(20), BTreeMap::from([("1".to_owned(), 20)]));
    origins.remove(0);
    assert_eq!(client.count(20), BTreeMap::from([("2".to_owned(), 20)]));
    sluice.stop();
}

/// The cookie an answer sets, and what follows it.
fn cookie(answer: &Response) -> Option<(String, String)> {
    let set: Vec<&str> = answer.fields.all("set-cookie").collect();
    assert!(set.len() <= 1, "{set:?}");
    let (pair, attributes) = set.first()?.split_once(';')?;
    Some((pair.to_owned(), attributes.to_owned()))
}

#[test]
fn a_session_stays_with_its_server_through_workers_and_reloads() {
    let origins = origins(4);
    let more = "sticky = { cookie = \"to\", max_age = \"1h\", secure = true }";
    let text = balanced(2, &plain(&origins), more);
    let sluice = Sluice::start(&text);
    let first = Client::of(&sluice).ask("/", "");
    let (pair, attributes) = cookie(&first).unwrap();
    assert!(pair.starts_with("to=") && !pair.contains("127"), "{pair}");
    assert_eq!(attributes, " Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Lax");
    let line = format!("Cookie: a=b; {pair}\r\n");
    for round in 0..12 {
        if round == 6 {
            sluice.reload(&format!("{text}# another text\n"));
        }
        let back = Client::of(&sluice).ask("/", &line);
        assert_eq!(back.text(), first.text());
        assert_eq!(cookie(&back), None, "it knows");
    }
    let shown = sluice_testkit::get(&sluice.admin(), "/config").text();
    assert!(shown.contains("sticky"), "{shown}");
    sluice.stop();
}

#[test]
fn forged_and_stale_cookies_lead_nowhere() {
    let mut origins = origins(4);
    let keyed = |key: &str| format!("sticky = {{ key = \"{key}\" }}");
    let (key, other) = (keyed("a key for this test"), keyed("a key of somebody else"));
    let servers = plain(&origins);
    let sluice = Sluice::start(&balanced(1, &servers, &key));
    let mut client = Client::of(&sluice);
    let (pair, _) = cookie(&client.ask("/", "")).unwrap();
    let (name, value) = pair.split_once('=').unwrap();
    let last = if value.ends_with('0') { '1' } else { '0' };
    let forged = format!("{}{last}", &value[..value.len() - 1]);
    for value in ["", "x", &forged, &format!("{value}0")] {
        let line = format!("Cookie: {name}={value}\r\n");
        let names: Vec<String> = (0..4).map(|_| client.ask("/", &line).text()).collect();
        assert!(names.iter().any(|name| *name != names[0]), "{value} leads to {names:?}");
        assert!(cookie(&client.ask("/", &line)).is_some(), "a right one is given");
    }
    let line = format!("Cookie: {pair}\r\n");
    let owner: usize = client.ask("/", &line).text().parse().unwrap();
    // Signed by another, then naming a server that is no more.
    sluice.reload(&balanced(1, &servers, &other));
    assert!(cookie(&client.ask("/", &line)).is_some());
    let mut rest = servers.clone();
    rest.remove(owner);
    sluice.reload(&balanced(1, &rest, &key));
    let (next, _) = cookie(&client.ask("/", &line)).unwrap();
    assert_ne!(next, pair);
    // Back in the list, and found; gone for good, the answer names who answered instead.
    sluice.reload(&balanced(1, &servers, &key));
    assert_eq!(cookie(&client.ask("/", &line)), None);
    drop(origins.remove(owner));
    let moved = client.ask("/", &line);
    let (pair, _) = cookie(&moved).unwrap();
    let again = client.ask("/", &format!("Cookie: {pair}\r\n"));
    assert_eq!((again.text(), cookie(&again)), (moved.text(), None));
    let shown = sluice_testkit::get(&sluice.admin(), "/config").text();
    assert!(!shown.contains("a key for this test"), "{shown}");
    sluice.stop();
}

#[test]
fn an_upgrade_names_its_server_too() {
    let origins = vec![Origin::start(behaviour::upgrade_echo)];
    let sluice = Sluice::start(&balanced(1, &plain(&origins), "sticky = {}"));
    let mut script = ByteScript::connect(&sluice.address("web"));
    script.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    let answer = script.read_response(Asked::Get).unwrap();
    assert_eq!(answer.status, 101);
    assert!(cookie(&answer).unwrap().0.starts_with("sluice_server="));
    drop(script);
    sluice.stop();
}

#[test]
fn a_new_server_starts_with_a_small_share_that_grows() {
    let origins = origins(3);
    let servers = plain(&origins);
    let slow = |length: &str| format!("slow_start = \"{length}\"");
    let sluice = Sluice::start(&balanced(1, &servers[..1], &slow("1h")));
    let mut client = Client::of(&sluice);
    assert_eq!(client.count(20), BTreeMap::from([("0".to_owned(), 20)]));
    sluice.reload(&balanced(1, &servers[..2], &slow("1h")));
    let counts = client.count(210);
    assert_eq!(counts["1"], 10, "one in twenty-one at first: {counts:?}");
    // A second later, or whenever that is, it has as much as the others.
    sluice.reload(&balanced(1, &servers, &slow("1s")));
    assert!(eventually(|| {
        let counts = client.count(60);
        counts.len() == 3 && counts.values().all(|&count| count == 20)
    }));
    sluice.stop();
}
