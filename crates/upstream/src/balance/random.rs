//! A server by chance, by weight.

use super::dice::Dice;
use super::turns::Turns;

/// Draws that may come to nothing before somebody is taken who is certainly there.
const DRAWS: usize = 8;

/// Each turn is as likely as every other.
#[derive(Debug)]
pub(crate) struct Random {
    turns: Turns,
    dice: Dice,
}

impl Random {
    /// For servers of these weights.
    pub(crate) fn new(weights: &[u32]) -> Self {
        Self { turns: Turns::new(weights), dice: Dice::default() }
    }

    /// Index of a server; `None` if no server has a weight.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        self.turns.at(self.dice.below(self.turns.len()))
    }

    /// A server that is not to be avoided; `None` if there is none.
    pub(crate) fn other(&self, avoid: impl Fn(usize) -> bool) -> Option<usize> {
        let is_other = |index: &usize| !avoid(*index);
        let drawn = (0..DRAWS).find_map(|_| self.next().filter(is_other));
        drawn
            .or_else(|| (0..self.turns.len()).filter_map(|turn| self.turns.at(turn)).find(is_other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_follows_the_weights() {
        let random = Random::new(&[1, 0, 3]);
        let mut seen = [0_u32; 3];
        for _ in 0..40_000 {
            seen[random.next().unwrap()] += 1;
        }
        // More than five standard deviations on either side.
        assert!((9_500..=10_500).contains(&seen[0]) && seen[1] == 0, "{seen:?}");
    }

    #[test]
    fn another_is_found_if_there_is_one() {
        let random = Random::new(&[1000, 1, 0]);
        for _ in 0..100 {
            assert_eq!(random.other(|index| index == 0), Some(1));
        }
        assert_eq!(Random::new(&[0, 7]).other(|index| index == 1), None);
        assert_eq!(Random::new(&[]).next(), None);
    }
}
