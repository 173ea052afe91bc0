//! A soak: everything mixed at a bounded rate, with reloads and restarts of servers; what the process
//! holds must not grow.
//!
//! By default it lasts seconds and only counts are asserted. `SOAK` is the number of seconds it goes on
//! for; from ten minutes on lines are fitted to memory, descriptors and threads, and a slope fails it.
//! `SOAK_REPORT` names a file for the report, with the samples beside it as CSV.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test fails by panicking"
)]

#[path = "soak/gateway.rs"]
mod gateway;
#[path = "soak/report.rs"]
mod report;
#[path = "soak/resources.rs"]
mod resources;
#[path = "soak/slope.rs"]
mod slope;
#[path = "soak/traffic.rs"]
mod traffic;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gateway::Gateway;
use report::Report;
use resources::Samples;
use sluice_acceptance::{eventually, metric};
use sluice_testkit::get;
use traffic::Traffic;

/// Seconds without `SOAK`: enough for every kind of traffic, and for each event several times.
const SHORT: u64 = 12;

/// From this duration on slopes are judged: before, pools and caches still fill.
const JUDGED: Duration = Duration::from_secs(600);

/// What a short run may add to the resident memory once it is warm, in KiB.
const SHORT_GROWTH: u64 = 48 * 1024;

/// Descriptors that may be left when all clients have gone: idle connections to servers, and files.
const LEFT: usize = 8;

fn duration() -> Duration {
    let seconds = std::env::var("SOAK").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(SHORT))
}

/// The counters of faults that are not zero.
fn faults(admin: &str) -> Vec<String> {
    let page = get(admin, "/metrics").text();
    let counted = |line: &&str| line.starts_with("sluice_faults_total{") && !line.ends_with(" 0");
    page.lines().filter(counted).map(ToOwned::to_owned).collect()
}

#[test]
fn nothing_grows_while_everything_happens() {
    let total = duration();
    let mut gateway = Gateway::start();
    let idle = resources::sample(gateway.sluice.pid(), Duration::ZERO);
    let kinds = resources::kinds(gateway.sluice.pid());
    let stop = Arc::new(AtomicBool::new(false));
    let traffic = Traffic::start(&gateway, &stop);
    let mut samples = Samples::new(total);
    // Events come often enough in a short run that each kind happens several times.
    let pause = (total / 20).clamp(Duration::from_millis(500), Duration::from_secs(15));
    let begun = Instant::now();
    let (mut events, mut next, mut troubles) = (0_u64, pause, Vec::new());
    // Without the program there is nothing left to measure.
    while begun.elapsed() < total && resources::is_running(gateway.sluice.pid()) {
        samples.take(gateway.sluice.pid(), begun.elapsed());
        gateway.forget_requests();
        if begun.elapsed() >= next {
            // One that fails is no reason to lose what was measured.
            if catch_unwind(AssertUnwindSafe(|| gateway.event(events))).is_err() {
                let seconds = begun.elapsed().as_secs();
                let threads = resources::threads(gateway.sluice.pid());
                troubles.push(format!("event {events} after {seconds} s: {threads}"));
            }
            events += 1;
            next += pause;
        }
        std::thread::sleep(samples.every());
    }
    samples.write_unfinished();
    let running = resources::is_running(gateway.sluice.pid());
    stop.store(true, Ordering::Relaxed);
    let counts = traffic.join();
    let lines = gateway.sluice.stderr();
    let last = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n");
    assert!(running, "the program ended after {:?}; it said last:\n{last}", begun.elapsed());
    gateway.recover();
    let admin = gateway.sluice.admin();
    let active = "sluice_listener_connections{listener=\"web\"}";
    let gone = eventually(|| metric(&admin, active) == 0);
    gateway.close_connections();
    let left = || resources::sample(gateway.sluice.pid(), begun.elapsed());
    let settled = eventually(|| left().descriptors <= idle.descriptors + LEFT);
    let report = Report {
        total,
        events,
        idle,
        end: left(),
        peak_kib: resources::peak(gateway.sluice.pid()),
        counts,
        trends: if total >= JUDGED { samples.trends() } else { Vec::new() },
        samples,
        faults: faults(&admin),
    };
    println!("{}", report.write());
    assert_eq!(metric(&admin, "sluice_panics_total"), 0);
    assert!(gone, "{} connections are left", metric(&admin, active));
    let kinds = [kinds, resources::kinds(gateway.sluice.pid())];
    println!("{kinds:?}");
    assert!(settled, "descriptors when idle and afterwards: {kinds:?}");
    assert!(report.end.threads <= report.idle.threads + 4, "{:?}, {:?}", report.idle, report.end);
    for count in &report.counts {
        assert!(count.good > 0, "nothing came of {}: {count:?}", count.name);
        assert_eq!(count.wrong, Vec::<String>::new(), "{}", count.name);
        assert!(count.failed * 20 <= count.good, "too many failed: {count:?}");
    }
    if total < JUDGED {
        let grown = report.samples.growth_kib();
        assert!(grown < SHORT_GROWTH, "{grown} KiB more than when it was warm");
    }
    assert_eq!(troubles, Vec::<String>::new());
    for trend in &report.trends {
        assert!(!trend.is_slope(), "{trend:?}");
    }
    gateway.sluice.stop();
}
