//! One copy of a meter, or of what a worker knows, for each worker.

/// On lines of its own: two workers that write to neighbouring copies would otherwise send one cache
/// line back and forth. 128 bytes, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// A `T` for each worker, written by that worker alone; whoever sums reads all.
#[derive(Debug)]
pub struct PerWorker<T> {
    first: Padded<T>,
    others: Box<[Padded<T>]>,
}

impl<T: Default> PerWorker<T> {
    /// Copies for `workers` workers, one at least.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let others = (1..workers).map(|_| Padded::default()).collect();
        Self { first: Padded::default(), others }
    }
}

impl<T> PerWorker<T> {
    /// The copy of a worker. A number beyond the last worker gives the first one's copy: counts may
    /// be lost then, nothing else.
    #[must_use]
    #[inline]
    pub fn worker(&self, worker: usize) -> &T {
        match worker.checked_sub(1).and_then(|at| self.others.get(at)) {
            Some(other) => &other.0,
            None => &self.first.0,
        }
    }

    /// All copies.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others).map(|padded| &padded.0)
    }

    /// The sum of what `value` reads from each copy.
    pub fn sum(&self, value: impl Fn(&T) -> u64) -> u64 {
        self.iter().map(value).fold(0, u64::wrapping_add)
    }

    /// The sum of a gauge over all copies.
    pub fn balance(&self, value: impl Fn(&T) -> i64) -> i64 {
        self.iter().map(value).fold(0, i64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

    #[test]
    fn workers_write_apart_and_sum_together() {
        let counters = PerWorker::<Counter>::new(3);
        for (worker, amount) in [(0, 1), (1, 10), (2, 100)] {
            counters.worker(worker).add(amount);
        }
        assert_eq!(counters.sum(Counter::value), 111);
        assert_eq!(counters.worker(2).value(), 100);
        assert!(std::ptr::eq(counters.worker(9), counters.worker(0)));
        let distance = std::ptr::from_ref(counters.worker(2)).addr()
            - std::ptr::from_ref(counters.worker(1)).addr();
        assert!(distance >= 128, "{distance}");
    }

    #[test]
    fn no_workers_is_one() {
        assert_eq!(PerWorker::<Counter>::new(0).iter().count(), 1);
    }
}
