//! Smooth weighted round robin.

use std::cell::Cell;

use super::turns::Turns;

/// One turn after the other.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    turns: Turns,
    next: Cell<usize>,
}

impl RoundRobin {
    /// For servers of these weights, starting at some `start`, so that workers do not all begin with
    /// the same server.
    pub(crate) fn new(weights: &[u32], start: usize) -> Self {
        let turns = Turns::new(weights);
        let next = Cell::new(start.checked_rem(turns.len()).unwrap_or(0));
        Self { turns, next }
    }

    /// Index of the next server; `None` if no server has a weight.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        let at = self.next.get();
        let index = self.turns.at(at)?;
        let following = at + 1;
        self.next.set(if following == self.turns.len() { 0 } else { following });
        Some(index)
    }

    /// The next server that is not to be avoided; `None` if there is none.
    pub(crate) fn other(&self, avoid: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.turns.len()).find_map(|_| self.next().filter(|&index| !avoid(index)))
    }

    pub(super) const fn turns(&self) -> &Turns {
        &self.turns
    }
}

#[cfg(test)]
#[expect(clippy::as_conversions, reason = "small test numbers")]
mod tests {
    use super::*;

    fn picks(weights: &[u32], count: usize) -> Vec<usize> {
        let rotation = RoundRobin::new(weights, 0);
        (0..count).map(|_| rotation.next().unwrap()).collect()
    }

    #[test]
    fn each_server_gets_its_share() {
        for weights in [&[1, 1, 1][..], &[5, 1, 1], &[3, 0, 2], &[1000, 1], &[10, 20, 30]] {
            let sum: u32 = weights.iter().sum();
            let got = picks(weights, sum as usize * 3);
            for (index, &weight) in weights.iter().enumerate() {
                let share = got.iter().filter(|&&pick| pick == index).count();
                assert_eq!(share, weight as usize * 3, "{weights:?}[{index}]");
            }
        }
    }

    #[test]
    fn turns_are_spread() {
        let got = picks(&[5, 1, 1], 7);
        assert!(got.windows(4).all(|run| run.iter().any(|&pick| pick != 0)), "{got:?}");
    }

    #[test]
    fn nobody_is_picked_without_weight() {
        assert_eq!(RoundRobin::new(&[], 3).next(), None);
        assert_eq!(RoundRobin::new(&[0, 0], 0).next(), None);
    }

    #[test]
    fn another_is_found_past_many_turns_of_the_same() {
        let rotation = RoundRobin::new(&[1000, 1], 0);
        assert_eq!(rotation.other(|index| index == 0), Some(1));
        assert_eq!(rotation.other(|index| index == 1), Some(0));
        assert_eq!(RoundRobin::new(&[3], 0).other(|_| true), None);
    }
}
