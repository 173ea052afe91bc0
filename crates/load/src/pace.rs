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

    /// How many requests are due from `first` on and before `end`.
    #[must_use]
    pub(crate) const fn count_before(&self, first: Nanos, end: Nanos) -> u64 {
        let next = self.from(first).next;
        let end = end.saturating_mul(1 << FRACTION);
        match end.saturating_sub(next).checked_div(self.period) {
            Some(_) if next >= end => 0,
            Some(whole) if whole * self.period == end - next => whole,
            Some(whole) => whole + 1,
            None => 0,
        }
    }

    /// The schedule from `first` on.
    #[must_use]
    pub(crate) const fn from(&self, first: Nanos) -> Self {
        let first = first.saturating_mul(1 << FRACTION);
        let missing = first.saturating_sub(self.next);
        let steps = match missing.checked_div(self.period) {
            Some(steps) if steps * self.period < missing => steps + 1,
            Some(steps) => steps,
            None => 0,
        };
        Self { next: self.next.saturating_add(steps.saturating_mul(self.period)), ..*self }
    }

    /// When the request is due that comes so many after the next one.
    #[must_use]
    pub(crate) const fn due_after(&self, count: u64) -> Nanos {
        self.next.saturating_add(count.saturating_mul(self.period)) >> FRACTION
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
    fn what_is_due_can_be_counted() {
        let schedule = Schedule::new(100, 1e6, (0, 1));
        for (first, end, count) in [
            (0, 100, 0),
            (0, 101, 1),
            (0, 1100, 1),
            (0, 1101, 2),
            (100, 3100, 3),
            (101, 3100, 2),
            (5000, 3000, 0),
        ] {
            assert_eq!(schedule.count_before(first, end), count, "{first} {end}");
            assert!(schedule.from(first).due() >= first);
        }
        assert_eq!(schedule.from(101).due_after(2), 3100);
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
