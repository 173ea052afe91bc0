//! Connections given up while memory or descriptors are short: new ones are refused or wait, idle
//! ones are closed.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

use sluice_net::Nanos;

/// How many connections there may be: any number, unless memory is short. Control says so, workers
/// look at it when a connection comes in.
#[derive(Debug)]
pub struct ConnectionCap(AtomicU32);

impl Default for ConnectionCap {
    fn default() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }
}

impl ConnectionCap {
    /// `None` is any number.
    pub fn set(&self, cap: Option<u32>) {
        self.0.store(cap.unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// How many; `None` is any number, and costs one look.
    #[inline]
    pub(crate) fn get(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|cap| *cap != u32::MAX)
    }
}

/// The choice among idle connections: each is woken, says since when it is idle, and is woken again
/// to hear what became of it. Between two choices nothing is kept of them.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Whether there is one at all: what every connection looks at that is woken.
    under_way: Cell<bool>,
    since: RefCell<Vec<Nanos>>,
    /// Those that are idle since then or longer go, as long as there are some to go.
    last: Cell<Nanos>,
    left: Cell<usize>,
}

impl Selection {
    /// Asked by a connection that is idle since then: whether it is to close.
    #[inline]
    pub(crate) fn falls_on(&self, since: Nanos) -> bool {
        self.under_way.get() && self.choose(since)
    }

    #[cold]
    fn choose(&self, since: Nanos) -> bool {
        if self.left.get() == 0 {
            self.since.borrow_mut().push(since);
            return false;
        }
        let falls = since <= self.last.get();
        if falls {
            self.left.set(self.left.get() - 1);
        }
        falls
    }

    /// Begins the first round: every connection is to be woken. False if another choice is under way.
    pub(crate) fn begin(&self) -> bool {
        !self.under_way.replace(true)
    }

    /// Ends the first round: the `count` longest idle ones are chosen. How many that are; unless none,
    /// every connection is to be woken again.
    pub(crate) fn settle(&self, count: usize) -> usize {
        let mut since = self.since.take();
        since.sort_unstable();
        let count = count.min(since.len());
        if let Some(last) = count.checked_sub(1).and_then(|at| since.get(at)) {
            self.last.set(*last);
            self.left.set(count);
        }
        count
    }

    /// Ends the last round; how many that were chosen did not go, since they had work again.
    pub(crate) fn end(&self) -> usize {
        self.under_way.set(false);
        self.since.take();
        self.left.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_go_and_no_more_than_asked_for() {
        let idle = [50, 10, 40, 10, 10, 30];
        let rows: [(usize, &[Nanos]); 5] = [
            (0, &[]),
            (1, &[10]),
            (2, &[10, 10]),
            (4, &[10, 10, 10, 30]),
            (9, &[10, 10, 10, 30, 40, 50]),
        ];
        for (count, expected) in rows {
            let selection = Selection::default();
            assert!(!selection.falls_on(10), "nobody is asked for");
            assert!(selection.begin() && !selection.begin());
            assert!(idle.iter().all(|since| !selection.falls_on(*since)));
            assert_eq!(selection.settle(count), expected.len());
            if count > 0 {
                let falls = |since: &&Nanos| selection.falls_on(**since);
                let mut fallen: Vec<Nanos> = idle.iter().filter(falls).copied().collect();
                fallen.sort_unstable();
                assert_eq!(fallen, expected);
                assert_eq!(selection.end(), 0);
            }
        }
    }
}
