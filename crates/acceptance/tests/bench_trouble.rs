//! `sluice bench` where something is wrong: no server, a bad one, a wrong word, Ctrl-C.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::net::SocketAddr;

use sluice_acceptance::load::{bench, bench_plainly};
use sluice_testkit::{
    After, Gate, Job, Origin, PATIENCE, Scratch, Signal, behaviour, unclaimed_port,
};

fn url(origin: &Origin) -> String {
    format!("http://{}/", origin.address())
}

#[test]
fn what_cannot_be_reached_is_told_with_its_reason() {
    let free = SocketAddr::from(([127, 0, 0, 1], unclaimed_port()));
    let refused = format!("http://{free}/");
    let rows: [(&[&str], i32, &str); 9] = [
        (&[&refused], 3, "Connection refused"),
        (&[&refused, "--rate", "10/s"], 3, "Connection refused"),
        (&[&refused, "--users", "5"], 3, "Connection refused"),
        (&[&refused, "--no-keepalive"], 3, "Connection refused"),
        (&["--unix", "/none/such.sock", "http://x/"], 3, "/none/such.sock"),
        (&["http://none.invalid/"], 3, "none.invalid"),
        (&["none.txt"], 2, "no URL"),
        (&["ftp://127.0.0.1/"], 2, "ftp"),
        (&["http://127.0.0.1:99999/"], 2, "port"),
    ];
    for (words, code, part) in rows {
        let done = bench(words);
        assert_eq!(done.finished.code, Some(code), "{words:?} {:?}", done.finished);
        assert!(done.finished.stderr.contains(part), "{words:?} {:?}", done.finished);
        assert!(done.finished.stderr.contains("error: "), "{:?}", done.finished);
        assert_eq!(done.finished.stdout, "", "{words:?}");
        assert!(done.json.is_null(), "nothing was measured: {}", done.json);
    }
}

#[test]
fn options_without_an_effect_are_refused() {
    let scratch = Scratch::new();
    let rows: [(&[&str], &str); 8] = [
        (&[], "required"),
        (&["--full", "http://127.0.0.1:1/"], "--suite"),
        (&["--test", "ping", "http://127.0.0.1:1/"], "--test"),
        (&["--suite", "x.toml", "-c", "5"], "--connections"),
        (&["--suite", "none.toml"], "none.toml"),
        (&["--compare", "a.json"], "--compare"),
        (&["--compare", "a.json", "b.json"], "a.json"),
        (&["-c", "0", "http://127.0.0.1:1/"], "0"),
    ];
    for (words, part) in rows {
        let done = bench_plainly(&scratch, words);
        assert_eq!(done.code, Some(2), "{words:?} {done:?}");
        assert!(done.stderr.contains(part), "{words:?} {done:?}");
    }
}

#[test]
fn a_bad_server_gives_errors_by_kind_and_the_figures_until_then() {
    let rubbish = Origin::start(behaviour::raw(b"SSH-2.0-OpenSSH_9.2\r\n", After::Close));
    let early = Origin::start(behaviour::close_after(3));
    let short = Origin::start(behaviour::cut_short(10, "half", After::Close));
    let reset = Origin::start(behaviour::reset);
    let half_line = Origin::start(behaviour::raw(b"HTTP/1.1 200 O", After::Close));
    let rows = [
        (&rubbish, "protocol", 0.0, 8.0),
        (&early, "read", 6.0, 2.0),
        (&short, "read", 0.0, 8.0),
        (&reset, "read", 0.0, 8.0),
        (&half_line, "read", 0.0, 8.0),
    ];
    for (origin, kind, responses, errors) in rows {
        let done = bench(&["-c", "1", "-n", "8", "--timeout", "9s", &url(origin)]);
        assert_eq!(done.finished.code, Some(1), "{:?}", done.finished);
        let found = (done.number("/responses"), done.number(&format!("/errors/{kind}")));
        assert_eq!(found, (responses, errors), "{kind} {:?}", done.finished);
        assert!(
            done.finished.stdout.contains(&format!("{kind}: {errors} (")),
            "{:?}",
            done.finished
        );
    }
}

#[test]
fn a_server_that_vanishes_leaves_figures() {
    let origin = Origin::start(behaviour::fixed(200, "x"));
    let scratch = Scratch::new();
    let target = url(&origin);
    let line = ["bench", "-c", "2", "-d", "60s", "--json", "r.json", &target];
    let job = Job::start(&line, scratch.path());
    assert!(origin.wait_for_requests(50));
    drop(origin);
    // Errors show in the live line, and the run goes on: a server may come back.
    let mut mark = 0;
    while !job.words().wait_after(mark, "errors").expect("a live line").contains("  0/s") {
        mark = job.words().mark();
    }
    job.signal(Signal::Interrupt);
    let done = job.finish(PATIENCE);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("connect: "), "{done:?}");
}

#[test]
fn ctrl_c_prints_the_report_of_what_ran() {
    let rows: [&[&str]; 4] = [
        &["-d", "60s"],
        &["--rate", "100/s", "-d", "60s"],
        &["--users", "2", "--requests-each", "100000000"],
        &["--rate", "50..1000/s", "--step", "50", "--step-duration", "60s"],
    ];
    for words in rows {
        let origin = Origin::start(behaviour::fixed(200, "x"));
        let scratch = Scratch::new();
        let target = url(&origin);
        let line = [&["bench", "-c", "2", "--json", "r.json", &target], words].concat();
        let job = Job::start(&line, scratch.path());
        assert!(origin.wait_for_requests(20), "{words:?}");
        job.signal(Signal::Interrupt);
        let done = job.finish(PATIENCE);
        assert_eq!(done.code, Some(0), "{words:?} {done:?}");
        let text = std::fs::read_to_string(scratch.path().join("r.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let outcome = json.get(0).unwrap_or(&json);
        assert_eq!(outcome["interrupted"], true, "{words:?}");
        // Two of the twenty that the origin has seen may be in flight.
        let count = |name: &str| outcome[name].as_u64().unwrap();
        assert!(count("responses") + count("in_flight") >= 19, "{words:?} {outcome}");
        assert!(done.stdout.contains("interrupted"), "{words:?} {}", done.stdout);
    }
}

#[test]
fn ctrl_c_ends_a_run_that_waits_for_an_answer() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let target = url(&origin);
    let scratch = Scratch::new();
    let line = ["bench", "-c", "1", "-n", "5", "--timeout", "300s", &target];
    let job = Job::start(&line, scratch.path());
    assert!(origin.wait_for_requests(1));
    job.signal(Signal::Interrupt);
    let done = job.finish(PATIENCE);
    gate.open();
    assert!(done.stdout.contains("interrupted"), "{done:?}");
    assert!(done.stdout.contains("0 answered"), "{done:?}");
}
