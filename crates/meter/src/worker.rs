//! What is counted for a worker thread, whatever listener it was about.

use crate::{Counter, Gauge};

/// One worker's counts. Other workers read the gauges to tell who has least to do.
#[derive(Debug, Default)]
pub struct WorkerMeter {
    /// Connections open.
    pub connections: Gauge,
    /// Those of them on which something happened in this second or the one before.
    pub busy: Gauge,
    /// Connections accepted here and given to a worker that had less to do.
    pub handed_over: Counter,
}
