//! What is counted for the variants that a filter chooses between.

use crate::{Counter, Histogram, Level, PerWorker};

/// A filter chooses between no more variants than this.
pub const MOST_VARIANTS: usize = 13;

/// One worker's counts for one variant.
#[derive(Debug, Default)]
struct Counts {
    requests: Counter,
    errors: Counter,
    answers: Histogram,
}

/// One worker's counts for all variants of a filter.
#[derive(Debug, Default)]
pub(crate) struct AllCounts([Counts; MOST_VARIANTS]);

impl AllCounts {
    fn of(&self, place: usize) -> &Counts {
        let [first, ..] = &self.0;
        self.0.get(place).unwrap_or(first)
    }

    pub(crate) fn answers(&self, place: usize) -> &Histogram {
        &self.of(place).answers
    }
}

/// The counts of the variants that a filter chooses between.
#[derive(Debug)]
pub struct VariantMeter {
    names: Box<[Box<str>]>,
    /// Parts of a thousand that each gets now.
    shares: Box<[Level]>,
    counts: PerWorker<AllCounts>,
}

/// What was counted for a variant since the program began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VariantTotals {
    /// Requests that were answered, or given up.
    pub requests: u64,
    /// Those among them that failed.
    pub errors: u64,
    /// Those among them that an origin answered.
    pub answers: u64,
    /// How long origins took until they began to answer, together, in nanoseconds.
    pub nanos: u64,
}

/// Whether a request went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantEnd {
    /// It did.
    Good,
    /// It failed, and the client is not to blame.
    Failed,
}

impl VariantMeter {
    /// For so many workers and variants of these names, of which [`MOST_VARIANTS`] are counted.
    #[must_use]
    pub fn new(workers: usize, names: &[&str]) -> Self {
        let names = names.iter().take(MOST_VARIANTS);
        Self {
            names: names.clone().map(|name| (*name).into()).collect(),
            shares: names.map(|_| Level::default()).collect(),
            counts: PerWorker::new(workers),
        }
    }

    /// Counts the end of a request. `nanos` is how long its origin took until it began to answer, if it did.
    pub fn on_end(&self, worker: usize, variant: usize, end: VariantEnd, nanos: Option<u64>) {
        let Some(counts) = self.counts.worker(worker).0.get(variant) else { return };
        counts.requests.increment();
        if end == VariantEnd::Failed {
            counts.errors.increment();
        }
        if let Some(nanos) = nanos {
            counts.answers.observe_nanos(nanos);
        }
    }

    /// A variant gets so many parts of a thousand from now on.
    pub fn set_share(&self, variant: usize, per_mille: u32) {
        if let Some(share) = self.shares.get(variant) {
            share.set(per_mille.into());
        }
    }

    /// All that was counted for a variant.
    #[must_use]
    pub fn totals(&self, variant: usize) -> VariantTotals {
        let sum = |read: fn(&Counts) -> u64| self.counts.sum(|all| read(all.of(variant)));
        VariantTotals {
            requests: sum(|counts| counts.requests.value()),
            errors: sum(|counts| counts.errors.value()),
            answers: sum(|counts| counts.answers.count()),
            nanos: sum(|counts| counts.answers.sum_nanos()),
        }
    }

    /// Name and share of each variant, in order.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (&str, i64)> {
        self.names.iter().zip(&self.shares).map(|(name, share)| (&**name, share.value()))
    }

    pub(crate) const fn counts(&self) -> &PerWorker<AllCounts> {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_apart_and_sum_together() {
        let meter = VariantMeter::new(2, &["stable", "new"]);
        meter.on_end(0, 1, VariantEnd::Good, Some(10));
        meter.on_end(1, 1, VariantEnd::Failed, Some(20));
        meter.on_end(1, 1, VariantEnd::Failed, None);
        meter.on_end(0, 99, VariantEnd::Good, None);
        meter.set_share(1, 250);
        meter.set_share(99, 1);
        let expected = VariantTotals { requests: 3, errors: 2, answers: 2, nanos: 30 };
        assert_eq!((meter.totals(1), meter.totals(0)), (expected, VariantTotals::default()));
        assert_eq!(meter.shares().collect::<Vec<_>>(), [("stable", 0), ("new", 250)]);
    }
}
