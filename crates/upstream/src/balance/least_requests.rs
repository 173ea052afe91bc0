//! The server with the fewest requests under way.

use super::dice::Dice;
use super::round_robin::RoundRobin;

/// Turns that are looked at before all servers are compared.
const PROBES: usize = 8;

/// A server without a request, in turn; else the one with the fewest for its weight.
///
/// Each worker counts its own requests: there is nothing to share, and since every worker has about as
/// much to do, what is least for one is least for all. Ties are decided by turn or by chance, so that
/// workers who see the same do not all choose the same.
#[derive(Debug)]
pub(crate) struct LeastRequests {
    order: RoundRobin,
    /// Index and weight of each server that has one.
    members: Box<[(usize, u32)]>,
    dice: Dice,
}

impl LeastRequests {
    /// For servers of these weights, starting at some `start`.
    pub(crate) fn new(weights: &[u32], start: usize) -> Self {
        let order = RoundRobin::new(weights, start);
        let weigh = |&index: &usize| Some((index, *weights.get(index)?));
        let members = order.turns().members().iter().filter_map(weigh).collect();
        Self { order, members, dice: Dice::default() }
    }

    /// Index of the server to ask, `load` being the requests each has under way; `None` if no server
    /// has a weight.
    #[inline]
    pub(crate) fn next(&self, load: impl Fn(usize) -> u64) -> Option<usize> {
        // Nearly always somebody is free, and then nobody else needs to be looked at. Turns that fall
        // to a busy server go to different ones after it, not all to its neighbour.
        for _ in 0..PROBES.min(self.members.len()) {
            let index = self.order.next()?;
            if load(index) == 0 {
                return Some(index);
            }
        }
        self.least(&load, &|_| false)
    }

    /// The best server that is not to be avoided; `None` if there is none.
    pub(crate) fn other(
        &self,
        load: impl Fn(usize) -> u64,
        avoid: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.least(&load, &avoid)
    }

    fn least(&self, load: &impl Fn(usize) -> u64, avoid: &impl Fn(usize) -> bool) -> Option<usize> {
        let (before, after) = self.members.split_at_checked(self.dice.below(self.members.len()))?;
        let mut best: Option<(usize, u64, u64)> = None;
        for &(index, weight) in after.iter().chain(before) {
            if avoid(index) {
                continue;
            }
            let requests = load(index);
            if requests == 0 {
                return Some(index);
            }
            // With this request among them: (requests + 1) / weight, compared without dividing.
            let (requests, weight) = (requests.saturating_add(1), u64::from(weight));
            let better = best.is_none_or(|(_, least, its_weight)| {
                requests.saturating_mul(its_weight) < least.saturating_mul(weight)
            });
            if better {
                best = Some((index, requests, weight));
            }
        }
        best.map(|(index, _, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn requests_that_stay_settle_by_weight() {
        let rule = LeastRequests::new(&[1, 2, 0, 5], 0);
        let loads = RefCell::new([0_u64; 4]);
        for _ in 0..800 {
            let index = rule.next(|index| loads.borrow()[index]).unwrap();
            loads.borrow_mut()[index] += 1;
        }
        assert_eq!(*loads.borrow(), [100, 200, 0, 500]);
    }

    #[test]
    fn the_idle_take_turns_by_weight() {
        let rule = LeastRequests::new(&[1, 3], 0);
        let mut seen = [0; 2];
        for _ in 0..400 {
            seen[rule.next(|_| 0).unwrap()] += 1;
        }
        assert_eq!(seen, [100, 300]);
    }

    #[test]
    fn a_busy_server_is_passed_over_and_its_turns_spread() {
        let rule = LeastRequests::new(&[1; 4], 0);
        let mut seen = [0; 4];
        for _ in 0..300 {
            seen[rule.next(|index| u64::from(index == 1)).unwrap()] += 1;
        }
        assert_eq!(seen, [100, 0, 100, 100]);
    }

    #[test]
    fn ties_are_decided_by_chance() {
        let rule = LeastRequests::new(&[1; 20], 0);
        let mut seen = [0; 20];
        for _ in 0..2000 {
            seen[rule.next(|_| 7).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&count| count > 40), "{seen:?}");
    }

    #[test]
    fn another_is_the_best_of_the_others() {
        let rule = LeastRequests::new(&[1, 1, 1], 0);
        let load = |index: usize| [1, 9, 5][index];
        assert_eq!(rule.other(load, |index| index == 0), Some(2));
        assert_eq!(rule.other(load, |index| index == 2), Some(0));
        assert_eq!(LeastRequests::new(&[1], 0).other(load, |_| true), None);
        assert_eq!(LeastRequests::new(&[], 0).next(load), None);
    }
}
