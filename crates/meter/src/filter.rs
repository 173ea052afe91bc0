//! What is counted for a filter.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::{CacheReading, CacheSource, Counter, Histogram, PerWorker, VariantMeter};

/// A filter tells no more outcomes apart than this.
pub const MOST_OUTCOMES: usize = 16;

/// One worker's counts for one filter.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    outcomes: [Counter; MOST_OUTCOMES],
    waits: Histogram,
}

/// The counts of a filter, by what came of asking it.
#[derive(Debug)]
pub struct FilterMeter {
    outcomes: Box<[Box<str>]>,
    counts: PerWorker<Counts>,
    workers: usize,
    variants: OnceLock<Arc<VariantMeter>>,
    /// Those that are in use: more than one while a reload is under way.
    caches: Mutex<Vec<Weak<dyn CacheSource>>>,
}

impl FilterMeter {
    /// For so many workers and the outcomes of these names, of which [`MOST_OUTCOMES`] are counted.
    #[must_use]
    pub fn new(workers: usize, outcomes: &[&str]) -> Self {
        let outcomes = outcomes.iter().take(MOST_OUTCOMES).map(|name| (*name).into()).collect();
        Self {
            outcomes,
            counts: PerWorker::new(workers),
            workers,
            variants: OnceLock::new(),
            caches: Mutex::default(),
        }
    }

    /// Whether it tells these outcomes apart.
    #[must_use]
    pub fn is_for(&self, outcomes: &[&str]) -> bool {
        self.outcomes.iter().map(|name| &**name).eq(outcomes.iter().take(MOST_OUTCOMES).copied())
    }

    /// Counts an outcome, by its place among the names.
    #[inline]
    pub fn count(&self, worker: usize, outcome: usize) {
        if let Some(counter) = self.counts.worker(worker).outcomes.get(outcome) {
            counter.increment();
        }
    }

    /// Counts a wait for somebody else, in nanoseconds.
    pub fn observe_wait(&self, worker: usize, nanos: u64) {
        self.counts.worker(worker).waits.observe_nanos(nanos);
    }

    /// What is counted for the variants of these names, which the filter chooses between.
    pub fn variants(&self, names: &[&str]) -> Arc<VariantMeter> {
        let new = || Arc::new(VariantMeter::new(self.workers, names));
        Arc::clone(self.variants.get_or_init(new))
    }

    /// The filter keeps answers here, as long as this is there.
    pub fn watch(&self, cache: Weak<dyn CacheSource>) {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(cache);
    }

    /// The caches that the filter keeps answers in, if it does.
    #[must_use]
    pub fn caches(&self) -> Vec<Arc<dyn CacheSource>> {
        let caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        caches.iter().filter_map(Weak::upgrade).collect()
    }

    /// Those of them that are of this type.
    #[must_use]
    pub fn caches_of<T: CacheSource>(&self) -> Vec<Arc<T>> {
        let any = |cache: Arc<dyn CacheSource>| -> Arc<dyn Any + Send + Sync> { cache };
        self.caches().into_iter().filter_map(|cache| any(cache).downcast().ok()).collect()
    }

    /// How its caches are doing together.
    pub(crate) fn known_caches(&self) -> Option<CacheReading> {
        self.caches().iter().map(|cache| cache.reading()).reduce(|one, other| CacheReading {
            entries: one.entries + other.entries,
            bytes: one.bytes + other.bytes,
            budget: one.budget + other.budget,
            evictions: one.evictions + other.evictions,
        })
    }

    /// The variants it chooses between, if it does.
    pub(crate) fn known_variants(&self) -> Option<&VariantMeter> {
        self.variants.get().map(|variants| &**variants)
    }

    /// The outcomes and how often there was each.
    pub fn outcomes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.outcomes.iter().enumerate().map(|(place, name)| {
            let count = |counts: &Counts| counts.outcomes.get(place).map_or(0, Counter::value);
            (&**name, self.counts.sum(count))
        })
    }

    /// Counts of all workers, and how to read the waits in one: for the page of metrics.
    pub(crate) fn waits(&self) -> (&PerWorker<Counts>, impl Fn(&Counts) -> &Histogram + use<>) {
        (&self.counts, |counts| &counts.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_by_name() {
        let meter = FilterMeter::new(2, &["passed", "refused"]);
        for (worker, outcome) in [(0, 0), (1, 1), (1, 1), (0, 99)] {
            meter.count(worker, outcome);
        }
        assert_eq!(meter.outcomes().collect::<Vec<_>>(), [("passed", 1), ("refused", 2)]);
        assert!(meter.is_for(&["passed", "refused"]) && !meter.is_for(&["passed"]));
    }
}
