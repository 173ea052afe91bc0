//! The end of the program: what runs finishes, everything else closes.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::{PREAMBLE, config, upstream};
use sluice_testkit::{
    Asked, ByteScript, Deadline, Gate, Origin, Signal, Sluice, State, Stream, behaviour, get,
};

const PROXY: &str = "[[route]]\npath = \"/\"\nproxy = \"slow\"\n\n[[route]]\npath = \"/quick\"\nrespond = \"quick\"\n";

fn with_limit(limit: &str, rest: &str) -> String {
    format!("shutdown_timeout = \"{limit}\"\n{PREAMBLE}{rest}")
}

#[test]
fn what_runs_finishes_and_the_rest_closes() {
    let gate = Gate::new();
    let origin =
        Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late but whole")));
    // One worker: what is closed on it tells that it has begun to drain.
    let text = config(&(upstream("slow", origin.address()) + PROXY));
    let mut sluice = Sluice::start(&format!("workers = 1\n{text}"));
    let (web, admin) = (sluice.address("web"), sluice.admin());
    let mut idle = ByteScript::connect(&web);
    idle.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n").read_response(Asked::Get).unwrap();
    let mut silent = ByteScript::connect(&web);
    let mut busy = ByteScript::connect(&web);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    assert_eq!(get(&admin, "/readyz").status, 200);

    sluice.signal(Signal::Drain);
    assert_eq!(idle.wait_for_end(), State::Closed, "an idle connection closes");
    assert_eq!(silent.wait_for_end(), State::Closed, "so does one that never asked");
    let readyz = get(&admin, "/readyz");
    assert_eq!((readyz.status, readyz.text().as_str()), (503, "draining\n"));
    assert_eq!(get(&admin, "/healthz").status, 200);
    assert_eq!(busy.state(), State::Open);
    gate.open();
    let answer = busy.read_response(Asked::Get).unwrap();
    assert_eq!(answer.text(), "late but whole");
    assert!(answer.fields.has_token("connection", "close"));
    assert_eq!(busy.wait_for_end(), State::Closed);
    // The gateway waits a while for our end of it, lest its last bytes are lost.
    drop(busy);
    assert_eq!(sluice.wait_for_exit(), Some(0));
    assert!(sluice.stderr().iter().any(|line| line == "stopped"), "{:?}", sluice.stderr());
}

#[test]
fn the_limit_cuts_off_what_does_not_finish() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "never")));
    let text = with_limit("100ms", &(upstream("slow", origin.address()) + PROXY));
    let mut sluice = Sluice::start(&text);
    let mut busy = ByteScript::connect(&sluice.address("web"));
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    sluice.signal(Signal::Drain);
    assert_eq!(sluice.wait_for_exit(), Some(0));
    assert_ne!(busy.wait_for_end(), State::Open);
    sluice.wait_for_line("stopped; one connection was cut off");
    gate.open();
}

#[test]
fn a_second_signal_ends_at_once() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "never")));
    let text = with_limit("1h", &(upstream("slow", origin.address()) + PROXY));
    let mut sluice = Sluice::start(&text);
    let mut busy = ByteScript::connect(&sluice.address("web"));
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    sluice.signal(Signal::Interrupt);
    sluice.wait_for_line("draining");
    sluice.signal(Signal::Interrupt);
    assert_eq!(sluice.wait_for_exit(), Some(0));
    gate.open();
}

#[test]
fn new_connections_are_refused_while_others_finish() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let mut sluice = Sluice::start(&config(&(upstream("slow", origin.address()) + PROXY)));
    let web = sluice.address("web");
    let mut busy = ByteScript::connect(&web);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    sluice.signal(Signal::Drain);
    let deadline = Deadline::patient();
    while Stream::connect(&web).is_ok() {
        assert!(deadline.remaining().is_some(), "new connections are refused");
        std::thread::yield_now();
    }
    assert_eq!(busy.state(), State::Open);
    gate.open();
    assert_eq!(busy.read_response(Asked::Get).unwrap().text(), "late");
    assert_eq!(sluice.wait_for_exit(), Some(0));
}
