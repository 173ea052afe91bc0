//! Runs against real servers, good and bad.

mod encrypted;
mod open;
mod scripts;
mod server;
mod streams;
mod trouble;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluice_net::Endpoint;
use sluice_net::tls::Trust;

use super::*;
use crate::live::silence;
use crate::outcome::{Errors, Mode};
use crate::plan::{Expected, Extent, Place, Statuses, Work};
use crate::request::{Keepalive, Wish, prepare};
use crate::target::Target;
use crate::worker::Worker;
use server::{Connection, Server};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// A plan for so many requests to `url` over two connections.
fn plan(url: &str, requests: u64) -> Plan {
    plan_of(url, &wish("", None), Extent { duration: None, requests: Some(requests) })
}

fn timed(url: &str, millis: u64) -> Plan {
    let duration = Some(Duration::from_millis(millis));
    plan_of(url, &wish("", None), Extent { duration, requests: None })
}

fn wish(method: &str, body: Option<Vec<u8>>) -> Wish {
    let (method, headers) = (method.to_owned(), Vec::new());
    Wish { method, headers, body, keepalive: Keepalive::On }
}

fn plan_of(url: &str, wish: &Wish, extent: Extent) -> Plan {
    let target = Target::parse(url).unwrap();
    let endpoints = target.endpoints().unwrap();
    Plan {
        shown: url.to_owned(),
        work: Work::Fixed(Arc::new(prepare(&target, wish).unwrap())),
        targets: vec![Place::new(target, endpoints, &Trust::Anything).unwrap()],
        mode: Mode::Closed,
        extent,
        connections: 2,
        threads: 1,
        pipeline: 1,
        keepalive: Keepalive::On,
        timeout: Duration::from_secs(20),
        warmup: Duration::ZERO,
        expected: Expected::default(),
    }
}

fn outcome(plan: Plan) -> Outcome {
    finished(plan).outcome
}

fn finished(plan: Plan) -> Finished {
    run(plan, &Stopper::default(), silence()).unwrap()
}

/// Answers every request with these bytes.
fn always(answer: &'static [u8]) -> impl Fn(&mut Connection) + Send + Sync + 'static {
    move |connection| while connection.read_request().is_some() && connection.write(answer) {}
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    for (requests, connections, threads) in [(1, 1, 1), (1000, 10, 1), (777, 5, 3), (3, 8, 2)] {
        let server = Server::start(always(HELLO));
        let plan = Plan { connections, threads, ..plan(&server.url(), requests) };
        let outcome = outcome(plan);
        assert_eq!((outcome.requests, outcome.responses), (requests, requests));
        assert_eq!(outcome.statuses, BTreeMap::from([(200, requests)]));
        assert_eq!(outcome.errors, Errors::default());
        assert_eq!(outcome.latency.count, requests);
        assert_eq!(outcome.bytes_received, requests * HELLO.len() as u64);
        assert_eq!(outcome.reply_bytes, Some((HELLO.len() as u64, HELLO.len() as u64)));
        assert_eq!(server.requests(), requests);
        assert!(server.connections() <= u64::from(connections));
        assert!(outcome.seconds > 0.0 && outcome.rate > 0.0);
        assert_eq!((outcome.sustained, outcome.interrupted), (None, false));
        assert_eq!(outcome.series.iter().map(|second| second.responses).sum::<u64>(), requests);
    }
}

#[test]
fn a_duration_is_kept() {
    let server = Server::start(always(HELLO));
    let outcome = outcome(timed(&server.url(), 1200));
    assert_eq!(outcome.seconds, 1.2);
    assert_eq!(outcome.series.len(), 2);
    assert!(outcome.responses > 10, "{outcome:?}");
    assert_eq!(outcome.errors, Errors::default());
    // What was sent and not answered when the time was over counts as nothing.
    assert!(server.requests() - outcome.responses <= 2);
    assert!(outcome.client_cpu_seconds > 0.0);
}

#[test]
fn warm_up_is_not_counted() {
    let server = Server::start(always(HELLO));
    let warmup = Duration::from_millis(100);
    let outcome = outcome(Plan { warmup, ..plan(&server.url(), 50) });
    assert_eq!((outcome.requests, outcome.latency.count), (50, 50));
    assert!(server.requests() > 60, "{}", server.requests());
}

#[test]
fn the_quota_goes_by_when_requests_are_due() {
    sluice_net::run(async {
        // Claimed at the edge of the warm-up: the moment of the claim has passed it, the due time not.
        let mut plan = plan("http://127.0.0.1:1/", 3);
        plan.warmup = Duration::from_secs(1);
        let (post, _mailbox) = mailbox();
        let worker = Worker::new(Arc::new(Shared::new(plan)), 0, post);
        let edge = precise_now();
        worker.begin(edge - 1_000_000_000);
        assert_eq!(worker.take(2, edge - 1), 2);
        assert_eq!(worker.take(2, edge), 2);
        assert_eq!(worker.take(2, edge - 1), 2);
        assert_eq!(worker.take(2, edge), 1);
        assert_eq!(worker.take(2, edge), 0);
    })
    .unwrap();
}

#[test]
fn users_come_send_and_leave() {
    let server = Server::start(always(HELLO));
    for (threads, ramp_seconds) in [(1, 0.0), (3, 0.2)] {
        let before = (server.requests(), server.connections());
        let mode = Mode::Users { users: 7, requests_each: 3, ramp_seconds };
        let extent = Extent::default();
        let outcome = outcome(Plan { mode, extent, threads, ..plan(&server.url(), 1) });
        assert_eq!((outcome.requests, outcome.connections), (21, 7));
        assert_eq!(server.requests() - before.0, 21);
        assert_eq!(server.connections() - before.1, 7);
        assert!(outcome.seconds >= ramp_seconds * 6.0 / 7.0, "{}", outcome.seconds);
    }
}

#[test]
fn pipelined_requests_are_out_together() {
    // Answers only once four requests are there.
    let server = Server::start(|connection| {
        while (0..4).all(|_| connection.read_request().is_some()) {
            connection.write(&HELLO.repeat(4));
        }
    });
    let outcome = outcome(Plan { pipeline: 4, connections: 1, ..plan(&server.url(), 40) });
    assert_eq!((outcome.requests, outcome.errors), (40, Errors::default()));
}

#[test]
fn what_an_announced_end_left_unanswered_is_sent_again() {
    // Looks at three requests of each connection.
    let server = Server::start(|connection| {
        for answer in [HELLO, HELLO, LAST] {
            if connection.read_request().is_none() || !connection.write(answer) {
                return;
            }
        }
    });
    for pipeline in [1, 5] {
        let plan = Plan { pipeline, connections: 2, ..plan(&server.url(), 31) };
        let outcome = outcome(plan);
        assert_eq!((outcome.requests, outcome.responses), (31, 31), "depth {pipeline}");
        // A server that closes with requests unread resets, which may overtake its last answers.
        assert_eq!(outcome.errors.connect + outcome.errors.timeout + outcome.errors.protocol, 0);
    }
}

#[test]
fn without_keepalive_each_request_has_a_connection() {
    let server = Server::start(always(HELLO));
    let wish = Wish { keepalive: Keepalive::Off, ..wish("", None) };
    let extent = Extent { duration: None, requests: Some(30) };
    let plan = Plan { keepalive: Keepalive::Off, ..plan_of(&server.url(), &wish, extent) };
    let outcome = outcome(plan);
    assert_eq!((outcome.responses, outcome.errors), (30, Errors::default()));
    assert_eq!((server.requests(), server.connections()), (30, 30));
}

#[test]
fn a_unix_socket_is_connected_to() {
    let path = std::env::temp_dir().join(format!("sluice-load-{}.sock", std::process::id()));
    let server = Server::start_unix(&path, always(HELLO));
    let mut plan = plan("http://127.0.0.1:1/", 20);
    plan.targets[0].endpoints = vec![Endpoint::Unix(path.clone())];
    assert_eq!(outcome(plan).responses, 20);
    assert_eq!(server.requests(), 20);
    drop(server);
    let _ = std::fs::remove_file(path);
}

#[test]
fn statuses_and_bodies_are_compared_with_what_is_expected() {
    let turn = AtomicU64::new(0);
    let server = Server::start(move |connection| {
        while connection.read_request().is_some() {
            let odd = turn.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            connection.write(if odd { MISSING } else { HELLO });
        }
    });
    let with = |statuses: Statuses, body: Option<&[u8]>| {
        let expected = Expected { statuses, body: body.map(<[u8]>::to_vec) };
        let errors = outcome(Plan { expected, ..plan(&server.url(), 40) }).errors;
        (errors.unexpected_status, errors.unexpected_body, errors.total())
    };
    assert_eq!(with(Statuses::fine(), None), (20, 0, 20));
    assert_eq!(with(Statuses::any(), None), (0, 0, 0));
    assert_eq!(with(Statuses::parse("404").unwrap(), None), (20, 0, 20));
    assert_eq!(with(Statuses::any(), Some(b"ell")), (0, 20, 20));
    assert_eq!(with(Statuses::any(), Some(b"hello!")), (0, 40, 40));
}

#[test]
fn every_framing_is_followed() {
    let large = 3_000_000;
    let known = format!("HTTP/1.1 200 OK\r\nContent-Length: {large}\r\n\r\n").into_bytes();
    let known = [known, vec![b'x'; large]].concat();
    let chunk = [b"8000\r\n".to_vec(), vec![b'y'; 0x8000], b"\r\n".to_vec()].concat();
    let chunked = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        chunk.repeat(40),
        b"0\r\nX-T: 1\r\n\r\n".to_vec(),
    ]
    .concat();
    let interim = [b"HTTP/1.1 103 Early Hints\r\n\r\n", HELLO].concat();
    for answer in [known, chunked, interim] {
        let answer: &'static [u8] = Box::leak(answer.into_boxed_slice());
        let server = Server::start(always(answer));
        let outcome = outcome(plan(&server.url(), 10));
        assert_eq!((outcome.responses, outcome.errors), (10, Errors::default()));
        assert_eq!(outcome.bytes_received, 10 * answer.len() as u64);
    }
    let until_close = Server::start(|connection| {
        if connection.read_request().is_some() {
            connection.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
        }
    });
    let outcome = outcome(plan(&until_close.url(), 10));
    assert_eq!((outcome.responses, outcome.errors), (10, Errors::default()));
    assert_eq!(until_close.connections(), 10);
}

#[test]
fn large_requests_and_heads_without_content_work() {
    let server = Server::start(always(HELLO));
    let extent = Extent { duration: None, requests: Some(6) };
    let body = Some(vec![b'z'; 5_000_000]);
    let sent = outcome(plan_of(&server.url(), &wish("PUT", body), extent));
    assert_eq!((sent.responses, sent.errors), (6, Errors::default()));
    assert!(sent.bytes_sent > 30_000_000);
    let server = Server::start(always(&HELLO[..HELLO.len() - 5]));
    let head = outcome(plan_of(&server.url(), &wish("HEAD", None), extent));
    assert_eq!((head.responses, head.errors), (6, Errors::default()));
}

#[test]
fn a_run_is_ended_from_outside_and_tells_what_it_did() {
    let server = Server::start(always(HELLO));
    let stopper = Stopper::default();
    let other = stopper.clone();
    // Ends the run as soon as it has told about one second.
    let watcher = Box::new(move |progress: &Progress| {
        if matches!(progress.phase, Phase::Running { .. }) {
            other.stop();
        }
    });
    let finished = run(timed(&server.url(), 60_000), &stopper, watcher).unwrap();
    assert!(finished.outcome.interrupted && finished.outcome.responses > 0);
    assert!(finished.outcome.seconds < 30.0, "{}", finished.outcome.seconds);
    assert!(stopper.is_stopped());
    // Nothing starts after that.
    let before = server.connections();
    let failure = run(timed(&server.url(), 60_000), &stopper, silence()).unwrap_err();
    assert!(matches!(&failure, Failure::Broken(why) if why.contains("stopped")), "{failure:?}");
    assert_eq!(server.connections(), before);
}

#[test]
fn a_run_that_is_stopped_while_it_warms_up_has_measured_nothing() {
    let stopper = Stopper::default();
    let other = stopper.clone();
    let count = AtomicU64::new(0);
    let server = Server::start(move |connection| {
        while connection.read_request().is_some() && connection.write(HELLO) {
            if count.fetch_add(1, Ordering::SeqCst) == 50 {
                other.stop();
            }
        }
    });
    let plan = Plan { warmup: Duration::from_secs(600), ..timed(&server.url(), 60_000) };
    let outcome = run(plan, &stopper, silence()).unwrap().outcome;
    assert!(outcome.interrupted && server.requests() > 50);
    assert_eq!((outcome.requests, outcome.bytes_sent, outcome.bytes_received), (0, 0, 0));
    assert_eq!(outcome.seconds, 0.0);
}

#[test]
fn a_run_that_is_stopped_before_anybody_was_reached_says_so() {
    // It takes the connection but never shakes hands, so that the run waits.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stopper = Stopper::default();
    let tls = Target::parse(&format!("https://{address}/")).unwrap();
    let mut plan = timed(&format!("http://{address}/"), 60_000);
    plan.targets =
        vec![Place::new(tls, plan.targets[0].endpoints.clone(), &Trust::Anything).unwrap()];
    let other = stopper.clone();
    let accepted = std::thread::spawn(move || {
        let greeted = listener.accept().unwrap();
        other.stop();
        // Closing the listener would reset whoever still waits in its queue.
        (listener, greeted)
    });
    let failure = run(plan, &stopper, silence()).unwrap_err();
    assert!(matches!(&failure, Failure::Broken(why) if why.contains("before a connection")));
    drop(accepted.join().unwrap());
}

#[test]
fn many_connections_open_without_an_error() {
    sluice_net::process::raise_descriptor_limit();
    let server = Server::start_many(HELLO);
    let outcome = outcome(Plan { connections: 600, threads: 2, ..plan(&server.url(), 3000) });
    assert_eq!((outcome.responses, outcome.errors), (3000, Errors::default()));
    assert_eq!(server.connections(), 600);
}
