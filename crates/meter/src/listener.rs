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
    /// Connections that the script of the listener failed.
    pub script_failures: Counter,
    /// Headers of requests dropped because servers may take their names for other ones.
    pub dropped_ambiguous: Counter,
    /// Headers of requests dropped, although such names are kept, because they look like one the gateway acts on.
    pub dropped_lookalikes: Counter,
    /// Trailers of requests dropped because servers may take their names for other ones.
    pub dropped_trailers: Counter,
    /// Requests received, malformed ones included.
    pub requests: Counter,
    /// Handshakes of encrypted connections.
    pub handshakes: HandshakeMeter,
    /// Connections that ended because the client broke a rule of HTTP/2.
    pub http2: Http2Meter,
}

/// Rules of HTTP/2 whose breach ends a connection, as they are written.
pub const HTTP2_REASONS: [&str; 24] = [
    "preface",
    "frame_size",
    "stream_id",
    "padding",
    "continuation",
    "compression",
    "malformed",
    "settings",
    "window",
    "window_overrun",
    "stream_state",
    "too_many_streams",
    "push",
    "dependency",
    "flood_resets",
    "flood_provoked_resets",
    "flood_settings",
    "flood_pings",
    "flood_empty",
    "flood_windows",
    "flood_priorities",
    "flood_stray",
    "flood_continuations",
    "flood_backlog",
];

/// One worker's counts of broken rules of HTTP/2.
#[derive(Debug, Default)]
pub struct Http2Meter {
    /// Connections that ended, by the rule at the same place of [`HTTP2_REASONS`].
    pub errors: [Counter; 24],
}

impl Http2Meter {
    /// A connection ended because of the rule at this place of [`HTTP2_REASONS`].
    pub fn on_error(&self, reason: usize) {
        if let Some(counter) = self.errors.get(reason) {
            counter.increment();
        }
    }
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
