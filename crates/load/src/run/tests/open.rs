//! Open loops: schedules that are kept, and stalls that are not hidden.

use std::sync::Mutex;
use std::time::Instant;

use super::*;

fn open(plan: Plan, rate_per_second: f64) -> Plan {
    Plan { mode: Mode::Open { rate_per_second }, ..plan }
}

#[test]
fn a_rate_is_kept_and_its_number_is_exact() {
    let server = Server::start(always(HELLO));
    for threads in [1, 2] {
        let plan = Plan { connections: 4, threads, ..timed(&server.url(), 1000) };
        let outcome = outcome(open(plan, 200.0));
        assert_eq!((outcome.requests, outcome.responses), (200, 200), "{outcome:?}");
        assert_eq!((outcome.seconds, outcome.sustained), (1.0, Some(true)));
        assert_eq!(outcome.uncorrected.as_ref().map(|latency| latency.count), Some(200));
        assert_eq!(outcome.latency.count, 200);
    }
}

#[test]
fn a_rate_can_have_a_number_of_requests_and_a_warm_up() {
    let server = Server::start(always(HELLO));
    let warmup = Duration::from_millis(200);
    let plan = Plan { warmup, ..plan(&server.url(), 50) };
    let outcome = outcome(open(plan, 200.0));
    assert_eq!((outcome.requests, outcome.responses), (50, 50), "{outcome:?}");
    assert!(server.requests() >= 80, "{}", server.requests());
}

#[test]
fn a_rate_is_sustained_if_one_answer_in_a_hundred_is_missing_and_not_if_two_are() {
    let timed = timed("http://127.0.0.1:1/", 10_000);
    let counted = plan("http://127.0.0.1:1/", 1000);
    for (plan, seconds, responses, sustained) in [
        (&timed, 10.0, 1000, true),
        (&timed, 10.0, 990, true),
        (&timed, 10.0, 989, false),
        (&counted, 10.0, 1000, true),
        (&counted, 10.09, 1000, true),
        (&counted, 10.2, 1000, false),
        // Cut short: what was due until then counts.
        (&counted, 5.0, 500, true),
        (&counted, 5.0, 400, false),
    ] {
        let found = is_sustained(plan, 100.0, seconds, (responses, 0.0));
        assert_eq!(found, sustained, "{responses} answers in {seconds} s");
    }
}

#[test]
fn a_stall_shows_in_the_corrected_figures_and_hides_in_the_others() {
    // The 50th request is answered half a second late; on one connection everything waits for it.
    let stall = Duration::from_millis(500);
    let count = AtomicU64::new(0);
    let (_gate, closed) = std::sync::mpsc::channel::<()>();
    let closed = Mutex::new(closed);
    let server = Server::start(move |connection| {
        while connection.read_request().is_some() {
            if count.fetch_add(1, Ordering::SeqCst) == 50 {
                let _ = closed.lock().unwrap().recv_timeout(stall);
            }
            connection.write(HELLO);
        }
    });
    let plan = Plan { connections: 1, ..timed(&server.url(), 1500) };
    let outcome = outcome(open(plan, 200.0));
    assert_eq!(outcome.errors, Errors::default());
    // Of 300 requests 100 were due during the stall: their waits run from 500 ms down to nothing.
    let corrected = &outcome.latency;
    let uncorrected = outcome.uncorrected.as_ref().unwrap();
    assert!(corrected.percentile(90.0) > 200_000, "{corrected:?}");
    assert!(corrected.percentile(99.0) > 400_000, "{corrected:?}");
    assert!(uncorrected.percentile(99.0) < 200_000, "{uncorrected:?}");
    assert!(uncorrected.max_micros > 490_000, "{uncorrected:?}");
}

#[test]
fn a_rate_that_is_too_high_is_not_sustained() {
    // A few hundred a second at most over one connection.
    let (_gate, closed) = std::sync::mpsc::channel::<()>();
    let closed = Mutex::new(closed);
    let server = Server::start(move |connection| {
        while connection.read_request().is_some() {
            let _ = closed.lock().unwrap().recv_timeout(Duration::from_millis(3));
            connection.write(HELLO);
        }
    });
    let plan = Plan { connections: 1, ..timed(&server.url(), 600) };
    let outcome = outcome(open(plan, 2000.0));
    assert_eq!(outcome.sustained, Some(false), "{outcome:?}");
    assert!(outcome.rate < 1000.0);
    assert!(outcome.latency.percentile(99.0) > 100_000, "{:?}", outcome.latency);
}

#[test]
fn requests_go_out_when_they_are_due() {
    let arrivals: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let record = Arc::clone(&arrivals);
    let server = Server::start(move |connection| {
        while connection.read_request().is_some() {
            record.lock().unwrap().push(Instant::now());
            connection.write(HELLO);
        }
    });
    let plan = Plan { connections: 4, threads: 2, ..timed(&server.url(), 1000) };
    outcome(open(plan, 250.0));
    let arrivals = arrivals.lock().unwrap();
    assert_eq!(arrivals.len(), 250);
    // The plan begins where the arrivals fit it best; an idle machine is within a tenth of this.
    let first = *arrivals.iter().min().unwrap();
    let mut late: Vec<f64> = (0..250_u32)
        .zip(arrivals.iter())
        .map(|(index, at)| {
            (at.duration_since(first).as_secs_f64() - f64::from(index) / 250.0).abs()
        })
        .collect();
    late.sort_by(f64::total_cmp);
    assert!(late[125] < 0.02, "half of them are {} s or more off", late[125]);
}

#[test]
fn a_pipeline_lets_requests_out_without_waiting_for_answers() {
    // Answers nothing until eight requests are there.
    let server = Server::start(|connection| {
        while (0..8).all(|_| connection.read_request().is_some()) {
            connection.write(&HELLO.repeat(8));
        }
    });
    let plan = Plan { connections: 1, pipeline: 16, ..plan(&server.url(), 40) };
    let outcome = outcome(open(plan, 400.0));
    assert_eq!((outcome.responses, outcome.errors), (40, Errors::default()));
}

#[test]
fn connections_that_close_while_idle_are_opened_again_in_time() {
    // One request each.
    let server = Server::start(|connection| {
        if connection.read_request().is_some() {
            connection.write(HELLO);
        }
    });
    let plan = Plan { connections: 3, ..timed(&server.url(), 600) };
    let outcome = outcome(open(plan, 50.0));
    assert_eq!((outcome.responses, outcome.errors.total()), (30, 0), "{outcome:?}");
}

/// Answers so many requests at once and nothing after them, on any connection.
fn hangs_after(requests: u64) -> impl Fn(&mut Connection) + Send + Sync + 'static {
    let count = AtomicU64::new(0);
    move |connection| {
        while connection.read_request().is_some() {
            if count.fetch_add(1, Ordering::SeqCst) >= requests {
                return connection.wait();
            }
            connection.write(HELLO);
        }
    }
}

#[test]
fn what_was_due_and_not_answered_has_timed_out() {
    for threads in [1, 2] {
        let server = Server::start(hangs_after(30));
        let plan = Plan { connections: 2, threads, ..timed(&server.url(), 1000) };
        let finished = finished(open(plan, 200.0));
        let outcome = finished.outcome;
        // Two requests are in flight for good, all others were never sent.
        assert_eq!((outcome.requests, outcome.responses), (200, 30), "{outcome:?}");
        assert_eq!(outcome.errors, Errors { timeout: 170, ..Errors::default() });
        assert_eq!((outcome.in_flight, outcome.sustained), (0, Some(false)));
        assert_eq!(outcome.bottleneck, Some(Bottleneck::Server));
        // Each is among the latencies with what it had waited: a second of grace at least.
        assert_eq!(outcome.latency.count, 200);
        assert!(outcome.latency.percentile(50.0) >= 1_000_000, "{:?}", outcome.latency);
        assert!(outcome.latency.max_micros >= 1_500_000, "{:?}", outcome.latency);
        assert_eq!(outcome.uncorrected.map(|latency| latency.count), Some(30));
        assert!(finished.reasons["timeout"].contains("by the end of the run"));
    }
}

#[test]
fn what_is_sent_after_the_end_is_no_part_of_the_rate() {
    // 100 a second at most; the backlog of the end is worked off for a second.
    let (_gate, closed) = std::sync::mpsc::channel::<()>();
    let closed = Mutex::new(closed);
    let server = Server::start(move |connection| {
        while connection.read_request().is_some() {
            let _ = closed.lock().unwrap().recv_timeout(Duration::from_millis(10));
            connection.write(HELLO);
        }
    });
    let plan = Plan { connections: 1, ..timed(&server.url(), 500) };
    let outcome = outcome(open(plan, 200.0));
    assert_eq!(outcome.requests, 100, "every request that was due is accounted for: {outcome:?}");
    assert!(outcome.rate <= 102.0, "{outcome:?}");
    assert_eq!(outcome.sustained, Some(false));
    assert_eq!(outcome.bottleneck, Some(Bottleneck::Connections));
}

#[test]
fn a_warm_up_that_hangs_is_no_failure() {
    let server = Server::start(hangs_after(0));
    let warmup = Duration::from_millis(300);
    let plan = Plan { warmup, connections: 1, ..timed(&server.url(), 100) };
    let outcome = outcome(open(plan, 100.0));
    assert_eq!((outcome.requests, outcome.errors.timeout), (10, 10), "{outcome:?}");
}
