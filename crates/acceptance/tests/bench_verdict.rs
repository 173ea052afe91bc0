//! What `sluice bench` makes of a run: servers that hang, rates that are missed, thresholds, exit codes.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluice_acceptance::load::bench;
use sluice_testkit::{Exchange, Gate, Origin, behaviour};

fn url(origin: &Origin) -> String {
    format!("http://{}/", origin.address())
}

/// Answers so many requests and lets all others wait for the gate.
fn hanging(good: u64, gate: &Gate) -> impl Fn(&mut Exchange) -> std::io::Result<()> + use<> {
    let count = AtomicU64::new(0);
    let late = behaviour::gated(gate.clone(), behaviour::fixed(200, "late"));
    move |exchange| match count.fetch_add(1, Ordering::SeqCst) < good {
        true => exchange.answer(200, &[], "x"),
        false => late(exchange),
    }
}

#[test]
fn a_server_that_hangs_is_seen() {
    let gate = Gate::new();
    let rows: [(&[&str], u64, f64, f64); 3] = [
        // Everything that was due is accounted for.
        (&["--rate", "400/s", "-d", "500ms"], 50, 50.0, 150.0),
        (&["--rate", "400/s", "-d", "500ms"], 0, 0.0, 200.0),
        (&["-d", "1200ms"], 50, 50.0, 4.0),
    ];
    for (words, good, responses, timeouts) in rows {
        let origin = Origin::start(hanging(good, &gate));
        let done = bench(&[&["-c", "4"], words, &[&url(&origin)]].concat());
        let found = (done.number("/responses"), done.number("/errors/timeout"));
        assert_eq!(found, (responses, timeouts), "{words:?} {:?}", done.finished);
        assert_eq!(done.number("/requests"), responses + timeouts);
        assert_eq!(done.finished.code, Some(1), "{:?}", done.finished);
        let text = &done.finished.stdout;
        assert!(text.contains("no response by the end of the run, after "), "{text}");
        if words.contains(&"--rate") {
            assert!(text.contains("the server did not keep up"), "{text}");
            assert!(done.percentile("latency", 90.0) >= 1_000_000.0, "{text}");
        }
        if good == 0 {
            assert!(text.contains("Note: nothing was answered."), "{text}");
        }
    }
    gate.open();
}

#[test]
fn a_run_without_an_answer_fails_however_short_it_is() {
    let gate = Gate::new();
    let origin = Origin::start(hanging(0, &gate));
    let done = bench(&["-c", "3", "-d", "100ms", &url(&origin)]);
    assert_eq!(done.finished.code, Some(1), "{:?}", done.finished);
    assert_eq!((done.number("/in_flight"), done.number("/errors/timeout")), (3.0, 0.0));
    let text = &done.finished.stdout;
    assert!(text.contains("0 answered, 0 failed, 3 in flight at the end (oldest: "), "{text}");
    gate.open();
}

#[test]
fn connections_that_cannot_carry_the_rate_are_not_the_servers_fault() {
    let slow = behaviour::delayed(Duration::from_millis(20), behaviour::fixed(200, "x"));
    let origin = Origin::start(slow);
    // 100 a second at most. All that is due is sent within a second after the end.
    let done = bench(&["-c", "2", "--rate", "150/s", "-d", "1s", &url(&origin)]);
    assert_eq!(done.json["bottleneck"], "connections", "{:?}", done.finished);
    assert_eq!(done.number("/requests"), 150.0, "{:?}", done.finished);
    assert!(done.number("/rate") <= 102.0, "{}", done.number("/rate"));
    let text = &done.finished.stdout;
    assert!(text.contains("all 2 connections were busy"), "{text}");
    assert!(!text.contains("the server did not keep up"), "{text}");
    // On a busy machine some may still wait after the second.
    assert!([Some(4), Some(1)].contains(&done.finished.code), "{:?}", done.finished);
}

#[test]
fn thresholds_decide_with_an_exit_code_and_a_message() {
    let origin = Origin::start(behaviour::fixed(200, "x"));
    let bad = Origin::start(behaviour::fixed(503, "x"));
    let (good, bad) = (url(&origin), url(&bad));
    let rows: [(&[&str], i32, &str); 8] = [
        (&["--max-p99", "30s", "--max-errors", "0%", "--min-rate", "1/s", &good], 0, ""),
        (&["--max-p99", "1us", &good], 5, "threshold missed: --max-p99 1 µs, measured p99 "),
        (&["--min-rate", "100000000/s", &good], 5, "threshold missed: --min-rate 100 000 000/s"),
        (&["--max-errors", "50%", &bad], 5, "measured 50 of 50 requests (100%)"),
        (&["--max-errors", "100%", &bad], 0, ""),
        (&["--max-errors", "49", &bad], 5, "--max-errors 49, measured 50"),
        (&["--min-rate", "1/s", &bad], 5, "--min-rate 1/s, measured 0/s"),
        (&["--max-errors", "half", &bad], 2, "like 0.1% or 5"),
    ];
    for (words, code, part) in rows {
        let done = bench(&[&["-n", "50"], words].concat());
        assert_eq!(done.finished.code, Some(code), "{words:?} {:?}", done.finished);
        assert!(done.finished.stderr.contains(part), "{words:?} {:?}", done.finished);
        let missed = done.finished.stdout.contains("MISSED");
        assert_eq!(missed, code == 5, "{words:?} {:?}", done.finished);
    }
}

#[test]
fn unexpected_responses_stand_apart() {
    let count = AtomicU64::new(0);
    let origin = Origin::start(move |exchange: &mut Exchange| {
        match count.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => exchange.answer(500, &[], "no"),
            _ => {
                exchange.pause(Duration::from_millis(10));
                exchange.answer(200, &[], "yes")
            }
        }
    });
    let done = bench(&["-c", "1", "-n", "40", &url(&origin)]);
    assert_eq!(done.finished.code, Some(1), "{:?}", done.finished);
    assert_eq!((done.number("/latency/count"), done.number("/unexpected/count")), (20.0, 20.0));
    assert!(done.number("/latency/min_micros") >= 10_000.0, "{}", done.json);
    let text = &done.finished.stdout;
    assert!(text.contains("    expected  unexpected\n"), "{text}");
    // Forty samples say nothing about one in a hundred.
    assert!(text.contains("  p99                n/a         n/a\n"), "{text}");
    assert!(text.contains("/s as expected"), "{text}");
}

#[test]
fn a_search_fails_only_if_not_even_its_first_rate_is_sustained() {
    let slow = behaviour::delayed(Duration::from_millis(20), behaviour::fixed(200, "x"));
    let origin = Origin::start(slow);
    let search = |rates: &str| {
        let words = ["-c", "1", "--rate", rates, "--step", "2000", "--step-duration", "300ms"];
        bench(&[&words[..], &[&url(&origin)]].concat()).finished
    };
    let found = search("10..2010/s");
    assert_eq!(found.code, Some(0), "{found:?}");
    let none = search("2000..4000/s");
    assert_eq!(none.code, Some(1), "its requests have timed out: {none:?}");
    assert!(none.stdout.contains("Not even the first rate was sustained"), "{none:?}");
}
