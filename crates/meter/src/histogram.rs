//! Durations in fixed buckets.

use crate::Counter;

/// Upper bounds in nanoseconds, inclusive; the last bucket takes what is longer.
pub(crate) const BOUNDS: [u64; BUCKETS - 1] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Buckets, the unbounded one included.
pub(crate) const BUCKETS: usize = 17;

/// For every count of leading zeros: the first bucket and its bound. There is one bound at most
/// between neighbouring powers of two, so one comparison settles the bucket.
const FIRST: [(u8, u64); 65] = first_buckets();

const fn first_buckets() -> [(u8, u64); 65] {
    let mut table = [(16, u64::MAX); 65];
    let mut zeros = 0_u32;
    let mut slots: &mut [(u8, u64)] = &mut table;
    while let [slot, rest @ ..] = slots {
        // The smallest number with so many leading zeros.
        let least = if zeros == 64 { 0 } else { (1 << 63) >> zeros };
        let mut bounds: &[u64] = &BOUNDS;
        let mut bucket = 0;
        while let [bound, longer @ ..] = bounds {
            if *bound >= least {
                *slot = (bucket, *bound);
                break;
            }
            bucket += 1;
            bounds = longer;
        }
        zeros += 1;
        slots = rest;
    }
    table
}

/// Durations of one worker, in the buckets Prometheus users know, and their sum.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    nanos: Counter,
}

impl Histogram {
    /// Counts a duration of `nanos` nanoseconds.
    #[inline]
    pub fn observe_nanos(&self, nanos: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(nanos)) {
            bucket.increment();
        }
        self.nanos.add(nanos);
    }

    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(Counter::value).fold(0, u64::wrapping_add)
    }

    /// The sum of all durations in nanoseconds.
    #[must_use]
    pub fn sum_nanos(&self) -> u64 {
        self.nanos.value()
    }

    /// Counts by bucket, not cumulative.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Counter::value)
    }
}

#[inline]
fn bucket_of(nanos: u64) -> usize {
    let zeros = usize::try_from(nanos.leading_zeros()).unwrap_or_default();
    let (first, bound) = FIRST.get(zeros).copied().unwrap_or_default();
    usize::from(first) + usize::from(nanos > bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_agree_with_a_linear_search() {
        let linear = |nanos| BOUNDS.iter().position(|&bound| nanos <= bound).unwrap_or(16);
        let around = |nanos: u64| [nanos.saturating_sub(1), nanos, nanos.saturating_add(1)];
        let powers = (0..64).map(|bit| 1_u64 << bit);
        for nanos in BOUNDS.into_iter().chain(powers).chain([0, u64::MAX]).flat_map(around) {
            assert_eq!(bucket_of(nanos), linear(nanos), "{nanos}");
        }
    }

    #[test]
    fn count_and_sum() {
        let histogram = Histogram::default();
        for nanos in [1, 100_000, 100_001, 20_000_000_000] {
            histogram.observe_nanos(nanos);
        }
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.sum_nanos(), 20_000_200_002);
        let buckets: Vec<u64> = histogram.buckets().collect();
        assert_eq!((buckets[0], buckets[1], buckets[16]), (2, 1, 1));
    }
}
