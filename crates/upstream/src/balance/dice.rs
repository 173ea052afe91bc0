//! Numbers nobody can foresee, for choices that must not follow a pattern.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use crate::scatter::{STEP, mix};

/// A worker's own generator (SplitMix64): a few instructions for a number, no lock, no system call.
#[derive(Debug)]
pub(crate) struct Dice(Cell<u64>);

impl Default for Dice {
    fn default() -> Self {
        // Seeded by the system, so that neither workers nor programs beside each other choose alike.
        Self(Cell::new(RandomState::new().hash_one(STEP)))
    }
}

impl Dice {
    /// A number below `limit`; 0 for a limit of 0. Limits are lengths of lists, far below 2^32.
    #[inline]
    pub(crate) fn below(&self, limit: usize) -> usize {
        let state = self.0.get().wrapping_add(STEP);
        self.0.set(state);
        let limit = u64::try_from(limit).unwrap_or(0);
        usize::try_from((mix(state) >> 32).wrapping_mul(limit) >> 32).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_comes_up_as_often() {
        let dice = Dice::default();
        let mut seen = [0_u32; 6];
        for _ in 0..60_000 {
            seen[dice.below(6)] += 1;
        }
        // Five standard deviations: once in a million runs.
        assert!(seen.iter().all(|&count| (9_500..=10_500).contains(&count)), "{seen:?}");
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.below(1), 0);
    }
}
