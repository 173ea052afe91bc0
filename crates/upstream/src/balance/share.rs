//! The share of the requests a server gets now: none, its weight, or a growing part of it.

use std::time::Duration;

use sluice_net::Nanos;

use crate::ServerPlan;

/// Steps in which the share of a server grows.
const STEPS: u32 = 20;

/// Weights of the servers of one role now.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// One for each server of the plan; 0 for those that get nothing.
    pub(crate) weights: Vec<u32>,
    /// When a share grows next; `None` if all have what they shall have.
    pub(crate) until: Option<Nanos>,
}

impl Shares {
    /// Of the servers that take part; `None` if there is none with a weight.
    pub(crate) fn new(
        servers: &[ServerPlan],
        takes_part: impl Fn(&ServerPlan) -> bool,
        (slow_start, now): (Option<Duration>, Nanos),
    ) -> Option<Self> {
        let mut shares = Self::default();
        for server in servers {
            let (part, next) = match slow_start {
                Some(length) => grown(server.state.since(), now, length),
                None => (STEPS, None),
            };
            let asked = takes_part(server) && server.weight > 0;
            let weight = if asked { server.weight.saturating_mul(part) } else { 0 };
            shares.weights.push(weight);
            if asked && let Some(next) = next {
                shares.until = Some(shares.until.map_or(next, |until| until.min(next)));
            }
        }
        shares.weights.iter().any(|&weight| weight > 0).then_some(shares)
    }
}

/// How many of [`STEPS`] a server has reached that is there since then, and when it takes the next one.
/// It starts with one: with none it would never show whether it is well.
fn grown(since: Option<Nanos>, now: Nanos, length: Duration) -> (u32, Option<Nanos>) {
    let Some(since) = since else { return (STEPS, None) };
    let length = Nanos::try_from(length.as_nanos()).unwrap_or(Nanos::MAX);
    let gone = now.saturating_sub(since);
    if gone >= length {
        return (STEPS, None);
    }
    // Rounded up, so that the last step ends where the length does, or after it.
    let pace = length.div_ceil(u64::from(STEPS));
    let step = gone / pace;
    let next = since.saturating_add((step + 1).saturating_mul(pace));
    (u32::try_from(step).unwrap_or(STEPS).clamp(1, STEPS), Some(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn a_share_grows_step_by_step_until_it_is_whole() {
        let length = Duration::from_secs(20);
        let at = |seconds: Nanos| grown(Some(100 * SECOND), (100 + seconds) * SECOND, length);
        let parts: Vec<u32> = [0, 1, 2, 10, 19, 20, 500].map(|seconds| at(seconds).0).to_vec();
        assert_eq!(parts, [1, 1, 2, 10, 19, 20, 20]);
        for seconds in 0..20 {
            let next = at(seconds).1.unwrap();
            assert_eq!(next, (101 + seconds) * SECOND, "the clock need not be asked before");
            assert!(grown(Some(100 * SECOND), next, length).0 > seconds.try_into().unwrap());
        }
        assert_eq!(at(20).1, None);
        assert_eq!(grown(None, 5, length), (STEPS, None), "there from the beginning");
        assert_eq!(grown(Some(9), 5, length).0, 1, "the clock of a turn may lag");
    }

    #[test]
    fn lengths_beyond_measure_are_no_trouble() {
        assert_eq!(grown(Some(1), Nanos::MAX, Duration::from_nanos(1)), (STEPS, None));
        assert_eq!(grown(Some(1), 2, Duration::MAX).0, 1);
    }
}
