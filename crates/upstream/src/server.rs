//! One address requests go to, as one worker sees it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{Fault, FaultKind, Retry};
use sluice_meter::{PerWorker, ServerMeter};
use sluice_net::{Deadline, Elapsed, Endpoint, Stream, connect};

use crate::pool::Pool;
use crate::{EjectionRule, ServerPlan, ServerState};

/// A server with its pool. It outlives a change of its cluster's plan.
pub struct Server {
    endpoint: Endpoint,
    /// The endpoint's text, for log and admin.
    label: String,
    meter: Arc<PerWorker<ServerMeter>>,
    pub(crate) state: Arc<ServerState>,
    worker: usize,
    pub(crate) pool: Pool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(plan: &ServerPlan, worker: usize) -> Self {
        Self {
            endpoint: plan.endpoint.clone(),
            label: plan.endpoint.to_string(),
            meter: Arc::clone(&plan.meter),
            state: Arc::clone(&plan.state),
            worker,
            pool: Pool::default(),
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where it listens, as text.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// This worker's counters.
    #[must_use]
    pub fn meter(&self) -> &ServerMeter {
        self.meter.worker(self.worker)
    }

    /// Counts a failure that is the server's own.
    #[cold]
    pub(crate) fn blame(&self, rule: &EjectionRule) {
        self.meter().faulty.increment();
        self.state.add_failure(rule.failures);
    }

    /// Opens a connection within `timeout`.
    ///
    /// # Errors
    /// An upstream [`Fault`] that allows another try: nothing was sent. Our own lack of descriptors is
    /// an internal one.
    pub async fn connect(&self, deadline: &Deadline, timeout: Duration) -> Result<Stream, Fault> {
        match deadline.limit(timeout, connect(&self.endpoint)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) if is_exhaustion(&error) => Err(Fault::internal(FaultKind::Exhausted)),
            Ok(Err(_)) => Err(Fault::upstream(FaultKind::ConnectFailed, Retry::Always)),
            Err(Elapsed) => Err(Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always)),
        }
    }
}

/// EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL: ours to mend, another server would not help.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 23 | 24 | 99 | 105))
}
