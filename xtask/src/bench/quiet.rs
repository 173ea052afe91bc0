//! Whether the machine was left to a measurement: figures of a busy one do not get onto the page.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// A load average per CPU above which others were working before anything was started.
const BUSY: f64 = 0.5;

/// A share of the CPU time that the host may take.
const STEAL: f64 = 0.01;

static BEGUN: OnceLock<Moment> = OnceLock::new();
static INSISTS: AtomicBool = AtomicBool::new(false);

/// The machine at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moment {
    /// Load average per CPU.
    load: f64,
    /// Ticks of all CPUs, and those the host took.
    ticks: (u64, u64),
}

/// A measurement begins.
pub(super) fn begin() {
    BEGUN.get_or_init(Moment::now);
}

/// Whatever the machine does, the page is written.
pub(super) fn insist() {
    INSISTS.store(true, Ordering::Relaxed);
}

/// Why what was measured since the beginning may not be published.
pub(super) fn disturbance() -> Option<String> {
    let begun = BEGUN.get().copied().unwrap_or_default();
    begun.disturbed_until(Moment::now()).filter(|_| !INSISTS.load(Ordering::Relaxed))
}

impl Moment {
    fn now() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let load = read("/proc/loadavg");
        let load = load.split_ascii_whitespace().next().and_then(|load| load.parse().ok());
        Self { load: load.unwrap_or(0.0) / cpus as f64, ticks: ticks(&read("/proc/stat")) }
    }

    fn disturbed_until(self, end: Self) -> Option<String> {
        if self.load > BUSY {
            return Some(format!("a load average of {:.2} per CPU before it began", self.load));
        }
        let total = end.ticks.0.saturating_sub(self.ticks.0).max(1);
        let steal = end.ticks.1.saturating_sub(self.ticks.1) as f64 / total as f64;
        (steal > STEAL).then(|| format!("the host took {:.1} % of the CPU time", steal * 100.0))
    }
}

/// All ticks and those of the column `steal`; guest time is in others already.
fn ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    let fields: Vec<u64> =
        line.split_ascii_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    (fields.iter().take(8).sum(), fields.get(7).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_seen() {
        assert_eq!(ticks("cpu  10 0 20 60 0 0 0 10 5 0\ncpu0 1 1\n"), (100, 10));
        let quiet = Moment { load: 0.2, ticks: (1000, 0) };
        let end = Moment { load: 0.9, ticks: (2000, 5) };
        assert_eq!(quiet.disturbed_until(end), None);
        let robbed = Moment { ticks: (2000, 20), ..end };
        assert!(quiet.disturbed_until(robbed).is_some_and(|why| why.contains("2.0 %")));
        let busy = Moment { load: 0.6, ..quiet };
        assert!(busy.disturbed_until(end).is_some_and(|why| why.contains("0.60 per CPU")));
    }
}
