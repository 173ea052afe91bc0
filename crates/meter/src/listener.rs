//! What is counted for a listener.

use crate::{Counter, Gauge};

/// One worker's counts for one listener.
#[derive(Debug, Default)]
pub struct ListenerMeter {
    /// Connections accepted, rejected ones included.
    pub accepted: Counter,
    /// Connections open.
    pub active: Gauge,
    /// Connections closed at once because the listener had its limit.
    pub rejected_listener_limit: Counter,
    /// Connections closed at once because the client's address had its limit.
    pub rejected_client_limit: Counter,
    /// Connections closed at once because memory was short.
    pub rejected_memory: Counter,
    /// Requests received, malformed ones included.
    pub requests: Counter,
}
