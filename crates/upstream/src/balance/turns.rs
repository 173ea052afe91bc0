//! Weights as a list in which each server stands as often as its weight says.

/// Longest list that is laid out. Weights whose sum is larger are scaled down to it, which moves no
/// server's share by more than one in this many.
const LONGEST: u32 = 8192;

/// Servers' turns, spread evenly: with weights 5, 1, 1 it is a a b a c a a, not five times a in a row.
///
/// It is laid out once, so that taking a turn costs the same for one server and for thousands.
#[derive(Debug)]
pub(crate) struct Turns(Box<[u32]>);

impl Turns {
    /// For servers of these weights.
    pub(crate) fn new(weights: &[u32]) -> Self {
        Self(lay_out(&scaled(weights)))
    }

    /// How many turns there are; none if no server has a weight.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Index of the server whose turn this is.
    #[inline]
    pub(crate) fn at(&self, turn: usize) -> Option<usize> {
        usize::try_from(*self.0.get(turn)?).ok()
    }

    /// Indices of all servers that have a turn, in ascending order.
    pub(crate) fn members(&self) -> Box<[usize]> {
        let mut members: Vec<usize> = (0..self.len()).filter_map(|turn| self.at(turn)).collect();
        members.sort_unstable();
        members.dedup();
        members.into()
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

    #[test]
    fn huge_weights_keep_their_ratio() {
        let turns = Turns::new(&[1_000_003, 2_000_003, 1]);
        assert!(turns.len() <= LONGEST as usize + 3);
        let share = |index| turns.0.iter().filter(|&&pick| pick == index).count();
        assert!(share(2) >= 1, "the small one is not forgotten");
        assert!((share(1) as f64 / share(0) as f64 - 2.0).abs() < 0.01);
    }

    #[test]
    fn members_are_those_with_a_weight() {
        assert_eq!(*Turns::new(&[2, 0, 6]).members(), [0, 2]);
        assert_eq!(Turns::new(&[2, 0, 6]).len(), 4);
        assert!(Turns::new(&[0, 0]).members().is_empty());
    }
}
