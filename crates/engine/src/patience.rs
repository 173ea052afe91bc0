//! Limits on the time without progress.

use std::task::{Context, Poll};
use std::time::Duration;

use sluice_net::{Deadline, Nanos, now};

/// A limit on the time without progress, whoever it is that has to make it, and on all of the time.
pub(crate) struct Patience {
    since: Nanos,
    position: Option<u64>,
    end: Nanos,
}

impl Patience {
    /// Until this time, whatever the progress.
    pub(crate) const fn until(end: Nanos) -> Self {
        Self { since: 0, position: None, end }
    }

    pub(crate) fn poll(
        &mut self,
        cx: &Context<'_>,
        deadline: &Deadline,
        (position, limit): (u64, Duration),
    ) -> Poll<()> {
        if self.position != Some(position) {
            self.position = Some(position);
            self.since = now();
        }
        let limit = Nanos::try_from(limit.as_nanos()).unwrap_or(Nanos::MAX);
        deadline.poll_at(self.since.saturating_add(limit).min(self.end), cx).map(|_| ())
    }

    /// When all of the time is over.
    pub(crate) const fn end(&self) -> Nanos {
        self.end
    }

    /// All of the time begins anew, but does not go on for longer than until `last`.
    pub(crate) fn restart(&mut self, limit: Option<Duration>, last: Nanos) {
        self.end = end_after(limit).min(last);
    }
}

/// The end of a limit that begins now.
pub(crate) fn end_after(limit: Option<Duration>) -> Nanos {
    match limit {
        Some(limit) => {
            now().saturating_add(Nanos::try_from(limit.as_nanos()).unwrap_or(Nanos::MAX))
        }
        None => Nanos::MAX,
    }
}
