//! The plain report.

use super::*;
use crate::histogram::Histogram;
use crate::outcome::Errors;

fn latency(micros: u64) -> Latency {
    let mut histogram = Histogram::new();
    (0..10_000).for_each(|_| histogram.record(micros));
    histogram.latency()
}

fn finished(mode: Mode) -> Finished {
    let open = matches!(mode, Mode::Open { .. });
    let outcome = Outcome {
        tool: "sluice 0.0.0".to_owned(),
        target: "http://127.0.0.1:8080/".to_owned(),
        mode,
        connections: 100,
        threads: 2,
        pipeline: 1,
        started_unix_ms: 0,
        seconds: 10.0,
        requests: 1_234_570,
        responses: 1_234_567,
        bytes_received: 20_000_000,
        bytes_sent: 10_000,
        statuses: BTreeMap::from([(200, 1_234_560), (503, 7)]),
        errors: Errors { timeout: 3, unexpected_status: 7, ..Errors::default() },
        in_flight: 0,
        oldest_in_flight_micros: 0,
        rate: 123_456.7,
        sustained: open.then_some(false),
        bottleneck: None,
        latency: latency(1500),
        uncorrected: open.then(|| latency(80)),
        unexpected: None,
        series: Vec::new(),
        client_cpu_seconds: 9.9,
        client_saturated: true,
        interrupted: true,
        reply_bytes: Some((120, 160)),
        protocol: Some("HTTP/1.1".to_owned()),
        streams: 1,
        streams_allowed: None,
        tls: None,
    };
    let reasons = BTreeMap::from([("timeout", "no whole answer within 1s".to_owned())]);
    Finished { outcome, reasons }
}

#[test]
fn protocol_streams_and_handshakes_are_named() {
    let mut finished = finished(Mode::Closed);
    assert!(report(&finished).contains("\nProtocol    HTTP/1.1\n"));
    finished.outcome.protocol = Some("HTTP/2".to_owned());
    (finished.outcome.streams, finished.outcome.streams_allowed) = (100, Some(10));
    let text = report(&finished);
    assert!(text.contains("\nProtocol    HTTP/2, 100 streams per connection\n"), "{text}");
    assert!(text.contains("allows fewer streams on a connection than were asked for"), "{text}");
    finished.outcome.streams_allowed = Some(100);
    let tls = crate::outcome::TlsFigures {
        version: "1.3".to_owned(),
        suite: "TLS_AES_128_GCM_SHA256".to_owned(),
        group: Some("X25519".to_owned()),
        full_handshakes: 12_340,
        resumed_handshakes: 0,
        full_rate: 1234.0,
        resumed_rate: 0.0,
    };
    finished.outcome.tls = Some(tls);
    let text = report(&finished);
    assert!(text.contains("connection, TLS 1.3 (TLS_AES_128_GCM_SHA256, X25519)\n"), "{text}");
    let handshakes = "\nHandshakes  12 340 full (1 234/s), 0 resumed (0/s)\n";
    assert!(text.contains(handshakes), "{text}");
    assert!(!text.contains("fewer streams"), "{text}");
}

#[test]
fn every_figure_is_there() {
    let text = report(&finished(Mode::Closed));
    for part in [
        "http://127.0.0.1:8080/\n100 connections, 2 threads, closed loop, 10 s, interrupted\n",
        "Rate        123 457/s; 123 456/s as expected\n",
        "Requests    1 234 567 answered, 3 failed\n",
        "Received    20 MB (2 MB/s)\n",
        "Sent        10 KB (1 KB/s)\n",
        "Status      200: 1 234 560, 503: 7\n",
        "timeout: 3 (no whole answer within 1s)\n",
        "unexpected status: 7\n",
        "  p99.9          1.50 ms\n",
        "  p99.99             n/a\n",
        "  max            1.50 ms\n",
        "was interrupted",
        "busy all the time",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    assert!(!text.contains("Detailed") && !text.contains("since due"), "{text}");
}

#[test]
fn what_the_end_cut_off_and_what_was_unexpected_is_shown() {
    let mut finished = finished(Mode::Closed);
    (finished.outcome.in_flight, finished.outcome.oldest_in_flight_micros) = (12, 4900);
    finished.outcome.unexpected = Some(latency(70));
    let text = report(&finished);
    for part in [
        "answered, 3 failed, 12 in flight at the end (oldest: 4.90 ms)\n",
        "Latency         expected  unexpected\n",
        "  p99            1.50 ms       70 µs\n",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
}

#[test]
fn a_rate_that_is_the_ramps_is_called_so() {
    let users = Mode::Users { users: 100, requests_each: 5, ramp_seconds: 2.0 };
    let mut finished = finished(users);
    finished.outcome.rate = 245.0;
    let text = report(&finished);
    assert!(text.contains("Note: the rate is the ramp's: the users bring 250 requests"), "{text}");
    // A server that could not follow: the rate is its own.
    finished.outcome.rate = 100.0;
    assert!(!report(&finished).contains("the ramp's"));
}

#[test]
fn a_run_without_answers_has_no_latency() {
    let mut none = finished(Mode::Closed);
    none.outcome.latency = Histogram::new().latency();
    (none.outcome.seconds, none.outcome.threads) = (0.0, 1);
    let text = report(&none);
    assert!(text.contains(" connections, 1 thread, ") && !text.contains("Latency"), "{text}");
    assert!(text.contains("interrupted before the measuring began"), "{text}");
}

#[test]
fn an_open_loop_shows_both_latencies_and_whether_it_was_sustained() {
    let finished = finished(Mode::Open { rate_per_second: 150_000.0 });
    let text = report(&finished) + &spectra(&finished.outcome);
    for part in [
        "open loop at 150 000/s",
        "Rate        123 457/s of 150 000/s: NOT SUSTAINED; 123 456/s as expected\n",
        "  since due  since sent\n",
        "  p50            1.50 ms       80 µs\n",
        "Detailed percentiles, since due (ms)\n       Value   Percentile",
        "Detailed percentiles, since sent (ms)\n       Value   Percentile",
        "       0.080     0.000000        10000         1.00\n",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
}

#[test]
fn steps_are_a_table_with_the_knee() {
    let at = |rate: f64, sustained: bool| Outcome {
        sustained: Some(sustained),
        errors: Errors::default(),
        interrupted: false,
        rate,
        ..finished(Mode::Open { rate_per_second: rate }).outcome
    };
    let all = vec![at(1000.0, true), at(2000.0, false)];
    let text = super::steps(&Steps { steps: all, knee: Some(1000.0) });
    let lines: Vec<&str> = text.lines().collect();
    let words = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(lines[0]),
        ["offered/s", "served/s", "p50", "p99", "errors", "sustained"],
        "{text}"
    );
    assert!(lines[1].ends_with("yes") && lines[2].ends_with("NO"), "{text}");
    assert!(text.contains("sustained without errors: 1 000/s"), "{text}");
    let cut = Outcome { interrupted: true, seconds: 1.5, ..at(2000.0, true) };
    let text = super::steps(&Steps { steps: vec![at(1000.0, true), cut], knee: Some(1000.0) });
    assert!(
        text.contains(
            "errors: 1 000/s\n\nNote: the run was interrupted, the last rate after 1.50 s."
        )
    );
    assert!(text.lines().nth(2).is_some_and(|line| line.ends_with(" interrupted")), "{text}");
    let text = super::steps(&Steps { steps: Vec::new(), knee: None });
    assert!(text.contains("Not even the first"), "{text}");
}
