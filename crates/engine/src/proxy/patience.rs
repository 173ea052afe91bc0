//! Limits on the time without progress.

use std::task::{Context, Poll};
use std::time::Duration;

use sluice_conn::Downstream;
use sluice_net::{Nanos, now};

/// A limit on the time without progress, whoever it is that has to make it.
pub(super) struct Patience {
    since: Nanos,
    position: Option<u64>,
}

impl Patience {
    pub(super) const fn new() -> Self {
        Self { since: 0, position: None }
    }

    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        downstream: &Downstream<'_>,
        (position, limit): (u64, Duration),
    ) -> Poll<()> {
        if self.position != Some(position) {
            self.position = Some(position);
            self.since = now();
        }
        let limit = Nanos::try_from(limit.as_nanos()).unwrap_or(Nanos::MAX);
        downstream.deadline.poll_at(self.since.saturating_add(limit), cx).map(|_| ())
    }
}
