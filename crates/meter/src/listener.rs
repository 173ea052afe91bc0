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
    /// Handshakes of encrypted connections.
    pub handshakes: HandshakeMeter,
}

/// Versions of TLS, as they are written.
pub const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// Reasons a handshake fails for, as they are written.
pub const HANDSHAKE_REASONS: [&str; 13] = [
    "plain_http",
    "not_tls",
    "closed",
    "timed_out",
    "version",
    "suite",
    "protocol",
    "certificate_missing",
    "certificate_refused",
    "distrusted",
    "alert",
    "no_certificate",
    "misbehaved",
];

/// One worker's counts of handshakes.
#[derive(Debug, Default)]
pub struct HandshakeMeter {
    /// With everything, by version.
    pub full: [Counter; 2],
    /// Shortened by a ticket, by version.
    pub resumed: [Counter; 2],
    /// Failed, by reason.
    pub failed: [Counter; 13],
}

impl HandshakeMeter {
    /// A handshake failed for the reason at this place of [`HANDSHAKE_REASONS`].
    pub fn on_failure(&self, reason: usize) {
        if let Some(counter) = self.failed.get(reason) {
            counter.increment();
        }
    }
}
