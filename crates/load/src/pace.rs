//! Schedules: when requests are due in an open loop.

use std::time::Duration;

use sluice_net::Nanos;

/// Bits of a nanosecond that a schedule keeps, so that rates which fit no whole number of nanoseconds
/// do not drift.
const FRACTION: u32 = 10;

/// The moments at which one thread's requests are due: all equally far apart, and the threads'
/// moments interleaved evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// In parts of a nanosecond.
    next: u64,
    period: u64,
}

impl Schedule {
    /// The schedule of thread `number` of `threads`, which begins at `start`. The rate is that of all
    /// threads in requests per second, from one per day to a thousand million.
    #[must_use]
    pub(crate) fn new(start: Nanos, rate: f64, (number, threads): (u32, u32)) -> Self {
        let rate = rate.clamp(1.0 / 86_400.0, 1e9);
        let whole = Duration::from_secs_f64(f64::from(1_u32 << FRACTION) / rate).as_nanos();
        let gap = u64::try_from(whole).unwrap_or(u64::MAX);
        let first = (start << FRACTION).saturating_add(gap.saturating_mul(u64::from(number)));
        Self { next: first, period: gap.saturating_mul(u64::from(threads)) }
    }

    /// When the next request is due.
    #[must_use]
    #[inline]
    pub(crate) const fn due(&self) -> Nanos {
        self.next >> FRACTION
    }

    /// The next request is on its way.
    #[inline]
    pub(crate) const fn advance(&mut self) {
        self.next = self.next.saturating_add(self.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(start: Nanos, rate: f64, place: (u32, u32), count: usize) -> Vec<Nanos> {
        let mut schedule = Schedule::new(start, rate, place);
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(schedule.due());
            schedule.advance();
        }
        found
    }

    #[test]
    fn requests_are_due_at_equal_distances() {
        assert_eq!(moments(100, 1e6, (0, 1), 4), [100, 1100, 2100, 3100]);
        assert_eq!(moments(0, 0.5, (0, 1), 3), [0, 2_000_000_000, 4_000_000_000]);
        // 3 a second do not fit whole nanoseconds: nothing adds up.
        let late = moments(0, 3.0, (0, 1), 3_000_001);
        assert!(late[3_000_000].abs_diff(1_000_000 * 1_000_000_000) < 4_000, "{}", late[3_000_000]);
    }

    #[test]
    fn threads_take_turns() {
        let mut all: Vec<Nanos> = (0..4).flat_map(|n| moments(50, 1000.0, (n, 4), 25)).collect();
        all.sort_unstable();
        let expected: Vec<Nanos> = (0..100).map(|index| 50 + index * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn absurd_rates_do_not_overflow() {
        for rate in [f64::MIN_POSITIVE, 0.0, -1.0, f64::INFINITY, f64::MAX] {
            let found = moments(Nanos::MAX >> FRACTION, rate, (1023, 1024), 3);
            assert!(found.is_sorted(), "{rate}");
        }
    }
}
