//! Smooth weighted round robin.

use std::cell::Cell;

/// Longest rotation that is laid out beforehand. Weights whose sum is larger are scaled down to it,
/// which moves no server's share by more than one in this many.
const LONGEST: u32 = 8192;

/// A rotation in which each server appears as often as its weight says, spread evenly: with weights
/// 5, 1, 1 it is a a b a c a a, not five times a in a row.
///
/// It is laid out once, so that picking costs the same for one server and for thousands.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    rotation: Box<[u32]>,
    next: Cell<usize>,
}

impl RoundRobin {
    /// For servers of these weights, starting at some `start`, so that workers do not all begin with
    /// the same server.
    pub(crate) fn new(weights: &[u32], start: usize) -> Self {
        let rotation = lay_out(&scaled(weights));
        let next = Cell::new(start.checked_rem(rotation.len()).unwrap_or(0));
        Self { rotation, next }
    }

    /// Index of the next server; `None` if no server has a weight.
    #[inline]
    pub(crate) fn next(&self) -> Option<usize> {
        let at = self.next.get();
        let &index = self.rotation.get(at)?;
        let following = at + 1;
        self.next.set(if following == self.rotation.len() { 0 } else { following });
        usize::try_from(index).ok()
    }
}

fn scaled(weights: &[u32]) -> Vec<u32> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let sum: u64 = weights.iter().map(|&weight| u64::from(weight / divisor)).sum();
    let limit = u64::from(LONGEST).max(u64::try_from(weights.len()).unwrap_or(u64::MAX));
    weights
        .iter()
        .map(|&weight| {
            let weight = u64::from(weight / divisor);
            let scaled =
                if sum > limit { (weight * limit / sum).max(weight.min(1)) } else { weight };
            u32::try_from(scaled).unwrap_or(u32::MAX)
        })
        .collect()
}

const fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Each server's k-th turn of w is due at (k + 1/2) / w of the rotation; sorted by that, turns are
/// spread as evenly as whole places allow.
fn lay_out(weights: &[u32]) -> Box<[u32]> {
    let mut turns: Vec<(u64, u32)> = Vec::new();
    for (index, &weight) in (0_u32..).zip(weights) {
        let period = (1_u64 << 40) / u64::from(weight.max(1));
        turns.extend((0..u64::from(weight)).map(|turn| (turn * period + period / 2, index)));
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, index)| index).collect()
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
    fn huge_weights_keep_their_ratio() {
        let weights = [1_000_003, 2_000_003, 1];
        let rotation = RoundRobin::new(&weights, 0);
        assert!(rotation.rotation.len() <= LONGEST as usize + 3);
        let share = |index| rotation.rotation.iter().filter(|&&pick| pick == index).count();
        assert!(share(2) >= 1, "the small one is not forgotten");
        assert!((share(1) as f64 / share(0) as f64 - 2.0).abs() < 0.01);
    }
}
