//! The less busy of two servers drawn by chance.

use super::random::Random;

/// Draws for a second server that differs from the first.
const DRAWS: usize = 4;

/// Costs the same for two servers and for thousands, and keeps queues nearly as short as looking at
/// all of them would.
#[derive(Debug)]
pub(crate) struct TwoChoices {
    random: Random,
    weights: Box<[u32]>,
}

impl TwoChoices {
    /// For servers of these weights.
    pub(crate) fn new(weights: &[u32]) -> Self {
        Self { random: Random::new(weights), weights: weights.into() }
    }

    /// Index of the server to ask, `load` being the requests each has under way; `None` if no server
    /// has a weight.
    #[inline]
    pub(crate) fn next(&self, load: impl Fn(usize) -> u64) -> Option<usize> {
        let one = self.random.next()?;
        let drawn = || (0..DRAWS).find_map(|_| self.random.next().filter(|&two| two != one));
        let Some(two) = drawn() else { return Some(one) };
        // Both were drawn by weight already; compared is what each carries for its weight.
        let lighter =
            load(two).saturating_mul(self.weight(one)) < load(one).saturating_mul(self.weight(two));
        Some(if lighter { two } else { one })
    }

    /// A server that is not to be avoided; `None` if there is none.
    pub(crate) fn other(
        &self,
        load: impl Fn(usize) -> u64,
        avoid: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.next(load).filter(|&index| !avoid(index)).or_else(|| self.random.other(avoid))
    }

    #[inline]
    fn weight(&self, index: usize) -> u64 {
        self.weights.get(index).copied().map_or(1, u64::from)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn chance_follows_the_weights_while_all_are_idle() {
        let rule = TwoChoices::new(&[1, 3, 0]);
        let mut seen = [0_u32; 3];
        for _ in 0..40_000 {
            seen[rule.next(|_| 0).unwrap()] += 1;
        }
        assert!((9_500..=10_500).contains(&seen[0]) && seen[2] == 0, "{seen:?}");
    }

    #[test]
    fn requests_that_stay_spread_better_than_by_chance() {
        let rule = TwoChoices::new(&[1; 100]);
        let loads = RefCell::new([0_u64; 100]);
        for _ in 0..10_000 {
            let index = rule.next(|index| loads.borrow()[index]).unwrap();
            loads.borrow_mut()[index] += 1;
        }
        // By chance alone, the fullest of a hundred would have more than 120.
        let most = loads.borrow().iter().copied().max().unwrap();
        assert!(most <= 108, "{most}");
    }

    #[test]
    fn a_busy_server_is_asked_only_against_itself() {
        let rule = TwoChoices::new(&[1, 1]);
        let busy = (0..1000).filter(|_| rule.next(|index| [9, 0][index]) == Some(0)).count();
        // Both draws and the repeated ones have to come up with it.
        assert!(busy < 100, "{busy}");
        assert_eq!(TwoChoices::new(&[4]).next(|_| 5), Some(0));
        assert_eq!(TwoChoices::new(&[0]).next(|_| 0), None);
        assert_eq!(rule.other(|_| 0, |index| index == 1), Some(0));
        assert_eq!(TwoChoices::new(&[4]).other(|_| 0, |_| true), None);
    }
}
