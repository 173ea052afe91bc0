//! A client that behaves, beside those that do not: its requests are due at fixed times, and how long
//! each took counts from then.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sluice_acceptance::http2::Http2Client;

/// The distance between two of its requests.
const EVERY: Duration = Duration::from_millis(5);

/// What it saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Sorted.
    pub(crate) latencies: Vec<Duration>,
    /// Connections that broke, responses other than 200.
    pub(crate) failed: u64,
}

impl Seen {
    /// A percentile in milliseconds.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let at = (self.latencies.len() as f64 * share) as usize;
        let found = self.latencies.get(at.min(self.latencies.len().saturating_sub(1)));
        found.map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// The client at work.
pub(crate) struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Neighbour {
    /// Starts it at a listener that speaks HTTP/2.
    pub(crate) fn start(address: &str) -> Self {
        let (stop, address) = (Arc::new(AtomicBool::new(false)), address.to_owned());
        let stopped = Arc::clone(&stop);
        Self { stop, thread: std::thread::spawn(move || ask(&address, &stopped)) }
    }

    pub(crate) fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn ask(address: &str, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut client = None;
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let status = catch_unwind(AssertUnwindSafe(|| {
            client.get_or_insert_with(|| Http2Client::connect(address)).get("/").status()
        }));
        if matches!(status, Ok(200)) {
            seen.latencies.push(due.elapsed());
        } else {
            seen.failed += 1;
            client = None;
        }
        due += EVERY;
    }
    seen.latencies.sort_unstable();
    seen
}
