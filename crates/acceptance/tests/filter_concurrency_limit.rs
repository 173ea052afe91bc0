//! The limit of concurrency by key lets so many requests be under way, and forgets them however they end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use sluice_acceptance::filters::{ask, ask_http2, page_example};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{FaultOrigin, Gate, Mode, Origin, Sluice, behaviour};

fn outcome(gateway: &Sluice, filter: &str, outcome: &str) -> u64 {
    let sample =
        format!("sluice_filter_outcomes_total{{filter=\"{filter}\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &sample)
}

/// A request by curl that goes on by itself.
fn begin(gateway: &Sluice, version: &str, path: &str) -> Child {
    let url = format!("http://{}{path}", gateway.address("web"));
    Command::new("curl")
        .args(["-s", "-m", "60", version, &url])
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let replace = [("127.0.0.1:9001", origin.address())];
    let gateway = Sluice::start(&page_example("concurrency_limit.md", &replace, ""));
    // The versions of the protocol count together.
    let mut first = begin(&gateway, "--http1.1", "/");
    let mut second = begin(&gateway, "--http2-prior-knowledge", "/");
    assert!(origin.wait_for_requests(2));
    assert_eq!((ask(&gateway, "/", &[]).status, ask_http2(&gateway, "/", &[]).status), (429, 429));
    gate.open();
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    for _ in 0..3 {
        assert!(eventually(|| ask(&gateway, "/", &[]).content == "late"));
        assert!(eventually(|| ask_http2(&gateway, "/", &[]).content == "late"));
    }
    assert!(outcome(&gateway, "few", "refused") >= 2);
    gateway.stop();
}

fn one_at_once(origin: &str) -> Sluice {
    Sluice::start(&config(&format!(
        "[filter.one]\nconcurrency_limit = {{ limit = 1, key = \"{{request.header.x-key}}\" }}\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{origin}\"\nfilters = [\"one\"]\n"
    )))
}

/// A client that leaves without having got an answer.
enum Client {
    Plain(TcpStream),
    Program(Child),
}

impl Client {
    /// By HTTP/1.1 or, in odd rounds, on a stream of HTTP/2.
    fn begin(gateway: &Sluice, round: usize) -> Self {
        if round % 2 == 1 {
            return Self::Program(begin(gateway, "--http2-prior-knowledge", "/"));
        }
        let mut client = TcpStream::connect(gateway.address("web")).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        Self::Plain(client)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(std::net::Shutdown::Both)),
            Self::Program(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

#[test]
fn clients_that_leave_count_no_more() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let gateway = one_at_once(origin.address());
    let count = |name| outcome(&gateway, "one", name);
    for round in 0..6 {
        let mut held: Option<Client> = None;
        // The gateway has to notice first that the client before has left: until then it refuses this one.
        assert!(eventually(|| {
            let before = (count("passed"), count("refused"));
            held = Some(Client::begin(&gateway, round));
            assert!(eventually(|| (count("passed"), count("refused")) != before));
            count("passed") > before.0
        }));
        assert_eq!(ask(&gateway, "/", &[]).status, 429);
        drop(held);
    }
    gate.open();
    assert!(eventually(|| ask(&gateway, "/", &[]).status == 200));
    gateway.stop();
}

#[test]
fn requests_that_fail_count_no_more() {
    let origin = FaultOrigin::start("one");
    let gateway = one_at_once(origin.address());
    let modes = [
        Mode::Good,
        Mode::Status(503),
        Mode::CloseBeforeHead,
        Mode::ResetBeforeHead,
        Mode::ResetAfterHead,
        Mode::HalfBody,
        Mode::Gone,
        Mode::Good,
    ];
    for mode in modes {
        origin.set(mode);
        for ask in [ask, ask_http2] {
            // The end of a request is counted behind the last byte of its answer.
            assert!(eventually(|| ask(&gateway, "/", &[]).status != 429), "{mode:?}");
        }
    }
    assert!(eventually(|| ask(&gateway, "/", &[]).content == "one"));
    gateway.stop();
}

#[test]
fn keys_count_apart() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let gateway = one_at_once(origin.address());
    let mut waiting = Vec::new();
    for key in 0..50_usize {
        let mut client = TcpStream::connect(gateway.address("web")).unwrap();
        write!(client, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n").unwrap();
        waiting.push(client);
        assert!(origin.wait_for_requests(key + 1));
        let same = format!("X-Key: {key}");
        assert_eq!(ask(&gateway, "/", &["-H", &same]).status, 429);
    }
    assert_eq!(outcome(&gateway, "one", "passed"), 50);
    gate.open();
    drop(waiting);
    gateway.stop();
}
