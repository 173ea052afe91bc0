//! The bound on every wait of a test.

use std::time::{Duration, Instant};

/// How long anything in this crate waits before it gives up. Long, because a busy machine is slow; a test that passes
/// never waits for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Within this a configured time-out of two seconds or less has taken effect, on a busy machine as well. Those that
/// nobody configured are 10 s and longer.
pub const SOON: Duration = Duration::from_secs(8);

/// A moment after which waiting is over.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline that is `wait` away.
    #[must_use]
    pub fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    /// A deadline that is [`PATIENCE`] away.
    #[must_use]
    pub fn patient() -> Self {
        Self::after(PATIENCE)
    }

    /// What is left, `None` once it has passed. Never zero, which a socket timeout would refuse.
    #[must_use]
    pub fn remaining(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}
