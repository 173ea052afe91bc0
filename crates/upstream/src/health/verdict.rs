//! When checks that fail or succeed make a server unhealthy or healthy.

use super::rule::CheckRule;

/// What the results of checks have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It may be used again.
    Healthy,
    /// It may not be used any more.
    Unhealthy,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    Failure,
}

/// What a server counts as when a check comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Healthy,
    Unhealthy,
    /// Unhealthy, but only because it was never checked.
    Unknown,
}

/// Results in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    successes: u32,
    failures: u32,
}

impl Verdict {
    /// Takes a result in; what it changes for a server of this standing.
    pub(super) fn take(
        &mut self,
        outcome: Outcome,
        standing: Standing,
        rule: &CheckRule,
    ) -> Option<Change> {
        match outcome {
            Outcome::Success => {
                self.failures = 0;
                self.successes = self.successes.saturating_add(1);
            }
            Outcome::Failure => {
                self.successes = 0;
                self.failures = self.failures.saturating_add(1);
            }
        }
        match standing {
            Standing::Healthy if self.failures >= rule.unhealthy => Some(Change::Unhealthy),
            Standing::Unhealthy if self.successes >= rule.healthy => Some(Change::Healthy),
            // Nothing speaks against a server that has never failed.
            Standing::Unknown if self.successes > 0 => Some(Change::Healthy),
            Standing::Unknown if self.failures >= rule.unhealthy => Some(Change::Unhealthy),
            _ => None,
        }
    }
}
