//! What a server's own record says about the load: how punctual it was, and how long it had to wait.

use super::recorder::{Entry, Nanos};

/// Percentiles that are compared.
pub const COMPARED: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Requests that should have come at equal distances, and did come as written down.
#[derive(Clone, Debug)]
pub struct Record {
    entries: Vec<Entry>,
    /// When the first was due.
    start: f64,
    /// Between two requests, in nanoseconds.
    period: f64,
}

impl Record {
    /// The record of a load with so many requests per second.
    ///
    /// The server does not know when the first was due. It takes the plan for as early as it can be:
    /// no request comes before it is due, so the most punctual one came when it was.
    pub fn new(mut entries: Vec<Entry>, rate: f64) -> Self {
        entries.sort_by_key(|entry| entry.came);
        let period = 1e9 / rate;
        let starts = entries
            .iter()
            .zip(0_u32..)
            .map(|(entry, number)| entry.came as f64 - f64::from(number) * period);
        let start = starts.fold(f64::INFINITY, f64::min);
        Self { entries, start, period }
    }

    /// Requests that came.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn due(&self) -> impl Iterator<Item = (f64, &Entry)> {
        let at = |number: u32| self.start + f64::from(number) * self.period;
        (0_u32..).map(at).zip(&self.entries)
    }

    /// A percentile of how late requests came, in microseconds.
    pub fn lateness(&self, percentile: f64) -> f64 {
        self.of(percentile, |due, entry| entry.came as f64 - due)
    }

    /// A percentile of the time from when a request was due to its answer, in microseconds.
    pub fn since_due(&self, percentile: f64) -> f64 {
        self.of(percentile, |due, entry| entry.left as f64 - due)
    }

    /// A percentile of the time from when a request came to its answer, in microseconds.
    pub fn since_sent(&self, percentile: f64) -> f64 {
        self.of(percentile, |_, entry| time_of(entry.left.saturating_sub(entry.came)))
    }

    fn of(&self, percentile: f64, figure: impl Fn(f64, &Entry) -> f64) -> f64 {
        let mut all: Vec<f64> = self.due().map(|(due, entry)| figure(due, entry)).collect();
        all.sort_by(f64::total_cmp);
        let rank = (percentile / 100.0 * all.len() as f64).ceil().max(1.0) as usize - 1;
        all.get(rank.min(all.len().saturating_sub(1))).copied().unwrap_or(0.0) / 1e3
    }
}

fn time_of(nanos: Nanos) -> f64 {
    nanos as f64
}

/// The largest difference between two sets of percentiles, as a share of the second.
pub fn furthest(ours: &[f64], theirs: &[f64]) -> f64 {
    let share = |(one, other): (&f64, &f64)| (one - other).abs() / other;
    ours.iter().zip(theirs).map(share).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(came: Nanos, left: Nanos) -> Entry {
        Entry { came, left }
    }

    #[test]
    fn lateness_counts_from_the_plan_and_not_from_the_last_request() {
        // 1000 a second; the fourth is 2 ms late and the fifth, too, by what is left of that.
        let times = [5_000_000, 6_010_000, 7_000_000, 10_000_000, 10_000_000];
        let entries = times.map(|came| entry(came, came + 500_000)).to_vec();
        let record = Record::new(entries, 1000.0);
        assert_eq!(record.len(), 5);
        let late = [20.0, 40.0, 60.0, 80.0, 100.0].map(|percentile| record.lateness(percentile));
        assert_eq!(late, [0.0, 0.0, 10.0, 1000.0, 2000.0]);
        assert_eq!((record.since_sent(99.0), record.since_due(99.0)), (500.0, 2500.0));
    }

    #[test]
    fn a_record_has_no_order() {
        let entries = vec![entry(3_000_000, 4_000_000), entry(1_000_000, 9_000_000)];
        let record = Record::new(entries, 500.0);
        assert_eq!((record.lateness(100.0), record.since_due(100.0)), (0.0, 8000.0));
    }

    #[test]
    fn the_furthest_percentile_counts() {
        let theirs = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0];
        assert_eq!(furthest(&theirs, &theirs), 0.0);
        let ours = [101.0, 200.0, 306.0, 400.0, 495.0, 600.0];
        assert!((furthest(&ours, &theirs) - 0.02).abs() < 1e-9);
        assert!(furthest(&ours, &[0.0; 6]) > 1.0);
    }
}
