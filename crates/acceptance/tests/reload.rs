//! A configuration that changes while the program runs.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::{config, upstream};
use sluice_testkit::{
    Asked, ByteScript, Deadline, Origin, Signal, Sluice, State, Stream, behaviour, get,
};

fn answering(text: &str) -> String {
    format!("[[route]]\npath = \"/\"\nrespond = \"{text}\"\n")
}

/// One worker, so that there is one pool.
fn alone(rest: &str) -> String {
    format!("workers = 1\n{}", config(rest))
}

fn refused(address: &str) -> bool {
    let deadline = Deadline::patient();
    while deadline.remaining().is_some() {
        if Stream::connect(address).is_err() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn routes_take_effect_and_counters_survive() {
    let sluice = Sluice::start(&config(&answering("one")));
    let web = sluice.address("web");
    let mut kept = ByteScript::connect(&web);
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(kept.send(request).read_response(Asked::Get).unwrap().text(), "one");
    let said = sluice.reload(&config(&answering("two")));
    assert!(said.starts_with("reloaded "), "{said}");
    assert_eq!(sluice.address("web"), web, "the listener stays");
    // A connection outlives the reload, its next request sees the new configuration.
    assert_eq!(kept.send(request).read_response(Asked::Get).unwrap().text(), "two");
    assert_eq!(get(&web, "/").text(), "two");
    let metrics = get(&sluice.admin(), "/metrics").text();
    assert!(metrics.contains("sluice_route_requests_total{route=\"/\"} 3"), "{metrics}");
    assert!(!metrics.contains("sluice_reloads_total{result=\"ok\"} 0"), "{metrics}");
    sluice.stop();
}

#[test]
fn a_saved_file_is_taken_over_without_a_signal() {
    let sluice = Sluice::start(&config(&answering("one")));
    let mark = sluice.words().mark();
    sluice.rewrite(&config(&answering("two")));
    assert!(sluice.words().wait_after(mark, "reloaded").is_some(), "{:?}", sluice.stderr());
    assert_eq!(get(&sluice.address("web"), "/").text(), "two");
    let mark = sluice.words().mark();
    sluice.rewrite("[[listener");
    assert!(sluice.words().wait_after(mark, "reload failed").is_some(), "{:?}", sluice.stderr());
    assert_eq!(get(&sluice.address("web"), "/").text(), "two");
    sluice.stop();
}

#[test]
fn a_broken_file_is_told_in_full_and_changes_nothing() {
    let sluice = Sluice::start(&config(&answering("one")));
    let web = sluice.address("web");
    let holder = Origin::start(behaviour::fixed(200, "mine"));
    let listener = format!("[[listener]]\nname = \"more\"\naddress = \"{}\"\n", holder.address());
    let rows: [(&str, &[&str]); 4] = [
        (
            "[[route]]\npth = \"/\"\nrespond = \"x\"\n[[route]]\npath = \"y\"\nrespond = \"x\"\n",
            &["sluice.toml:12:1", "pth", "^^^", "sluice.toml:15:8", "and one more problem"],
        ),
        ("[[route]]\nrespond = { file = \"/nowhere\" }\n", &["/nowhere", "no such file"]),
        ("[[route]]\nlistener = \"none\"\nrespond = \"x\"\n", &["there is no listener"]),
        (&(listener + &answering("two")), &["listener \"more\": cannot listen on", "in use"]),
    ];
    for (rest, parts) in rows {
        let mark = sluice.words().mark();
        let said = sluice.reload(&config(rest));
        assert!(said.starts_with("reload failed: "), "{said}");
        for part in parts {
            let found = sluice.words().wait_after(mark, part);
            assert!(found.is_some(), "{part} in {:#?}", sluice.stderr());
        }
        assert_eq!(get(&web, "/").text(), "one");
        let metrics = get(&sluice.admin(), "/metrics").text();
        // A watcher that wakes between the rewriting and the signal makes it two.
        assert!(!metrics.contains("sluice_reloads_total{result=\"failed\"} 0"), "{metrics}");
        assert!(metrics.contains("sluice_reloads_total{result=\"ok\"} 0"), "{metrics}");
    }
    assert!(get(&sluice.admin(), "/config").text().contains("\"generation\": 1"));
    sluice.stop();
}

#[test]
fn listeners_come_and_go() {
    let sluice = Sluice::start(&config(&answering("one")));
    let extra = "[[listener]]\nname = \"extra\"\naddress = \"127.0.0.1:0\"\n";
    sluice.reload(&config(&format!("{extra}{}", answering("two"))));
    let address = sluice.address("extra");
    assert_eq!(get(&address, "/").text(), "two");
    let mut idle = ByteScript::connect(&address);
    idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").read_response(Asked::Get).unwrap();
    sluice.reload(&config(&answering("three")));
    assert_eq!(idle.wait_for_end(), State::Closed);
    assert!(refused(&address), "nobody listens there any more");
    assert_eq!(get(&sluice.address("web"), "/").text(), "three");
    sluice.stop();
}

#[test]
fn unix_listeners_come_and_go_with_their_file() {
    let sluice = Sluice::start(&config(&answering("one")));
    let path = sluice.scratch().path().join("web.sock");
    let extra = format!("[[listener]]\nname = \"file\"\naddress = \"unix:{}\"\n", path.display());
    sluice.reload(&config(&format!("{extra}{}", answering("two"))));
    assert_eq!(get(&sluice.address("file"), "/").text(), "two");
    sluice.reload(&config(&answering("three")));
    assert!(refused(&format!("unix:{}", path.display())));
    sluice.reload(&config(&format!("{extra}{}", answering("four"))));
    assert_eq!(get(&sluice.address("file"), "/").text(), "four");
    sluice.stop();
    assert!(!path.exists());
}

#[test]
fn connections_to_origins_survive() {
    let origin = Origin::start(behaviour::fixed(200, "origin"));
    let api = upstream("api", origin.address());
    let route = |path: &str| format!("[[route]]\npath = \"{path}\"\nproxy = \"api\"\n");
    let sluice = Sluice::start(&alone(&(api.clone() + &route("/one"))));
    assert_eq!(get(&sluice.address("web"), "/one").text(), "origin");
    // Another route, then another setting of the upstream, then another server beside it.
    sluice.reload(&alone(&(api.clone() + &route("/two"))));
    assert_eq!(get(&sluice.address("web"), "/two").text(), "origin");
    let settings = "timeout = { read = \"7s\" }\n\n";
    sluice.reload(&alone(&(api.trim_end().to_owned() + "\n" + settings + &route("/three"))));
    assert_eq!(get(&sluice.address("web"), "/three").text(), "origin");
    assert_eq!(origin.connections(), 1);
    // Without the upstream its connection goes.
    sluice.reload(&alone(&answering("none")));
    assert!(origin.wait_for_open_connections(0));
    sluice.stop();
}

#[test]
fn servers_change() {
    let (one, two) =
        (Origin::start(behaviour::fixed(200, "one")), Origin::start(behaviour::fixed(200, "two")));
    let route = "[[route]]\npath = \"/\"\nproxy = \"api\"\n";
    let sluice = Sluice::start(&config(&(upstream("api", one.address()) + route)));
    assert_eq!(get(&sluice.address("web"), "/").text(), "one");
    sluice.reload(&config(&(upstream("api", two.address()) + route)));
    assert_eq!(get(&sluice.address("web"), "/").text(), "two");
    let metrics = get(&sluice.admin(), "/metrics").text();
    let series = |address: &str| metrics.contains(&format!("server=\"{address}\""));
    assert!(series(two.address()) && !series(one.address()), "{metrics}");
    assert!(metrics.contains("sluice_upstream_requests_total{upstream=\"api\"} 2"), "{metrics}");
    sluice.stop();
}

#[test]
fn a_running_request_keeps_the_configuration_it_began_with() {
    let gate = sluice_testkit::Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "old origin")));
    let old = upstream("api", origin.address()) + "[[route]]\npath = \"/\"\nproxy = \"api\"\n";
    let sluice = Sluice::start(&config(&old));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    sluice.reload(&config(&answering("new")));
    assert_eq!(get(&sluice.address("web"), "/").text(), "new");
    gate.open();
    assert_eq!(client.read_response(Asked::Get).unwrap().text(), "old origin");
    sluice.stop();
}

#[test]
fn the_number_of_workers_waits_for_the_next_start() {
    let sluice = Sluice::start(&alone(&answering("one")));
    let mark = sluice.words().mark();
    sluice.reload(&format!("workers = 2\n{}", config(&answering("two"))));
    assert!(sluice.words().wait_after(mark, "at the next start").is_some());
    assert_eq!(get(&sluice.address("web"), "/").text(), "two");
    sluice.signal(Signal::Reload);
    sluice.stop();
}

#[test]
fn a_listener_removed_with_a_busy_connection_can_come_back() {
    let gate = sluice_testkit::Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let route = "[[route]]\npath = \"/\"\nproxy = \"api\"\n";
    let base = upstream("api", origin.address()) + route;
    let sluice = Sluice::start(&config(&base));
    let extra =
        |address: &str| format!("[[listener]]\nname = \"extra\"\naddress = \"{address}\"\n");
    sluice.reload(&config(&(extra("127.0.0.1:0") + &base)));
    let address = sluice.address("extra");
    let mut busy = ByteScript::connect(&address);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    sluice.reload(&config(&base));
    assert!(refused(&address));
    let fixed = extra(address.trim_start_matches("http://"));
    let said = sluice.reload(&config(&(fixed + &base)));
    assert!(said.starts_with("reloaded"), "{said}");
    gate.open();
    assert_eq!(busy.read_response(Asked::Get).unwrap().text(), "late");
    for _ in 0..16 {
        assert_eq!(get(&address, "/").text(), "late");
    }
    sluice.stop();
}
