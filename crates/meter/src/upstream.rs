//! What is counted for an upstream and for each of its servers.

use sluice_message::FaultKind;

use crate::{ClassCounters, Counter, Gauge, GrpcCounters, Histogram, Level, ReasonCounters, Tally};

/// One worker's counts for one upstream.
#[derive(Debug, Default)]
pub struct UpstreamMeter {
    /// Requests sent, retries included.
    pub requests: Counter,
    /// Requests sent again after a fault, or after an answer that calls for it.
    pub retries: Counter,
    /// Requests not sent again because the budget for it was spent.
    pub retries_refused: Counter,
    /// Tries made beside a slow one.
    pub hedges: Counter,
    /// Such tries that were the first to answer.
    pub hedges_won: Counter,
    /// Connections opened.
    pub connects: Counter,
    /// Connections that could not be opened.
    pub connect_failures: Counter,
    /// Requests that went over a connection used before.
    pub reuses: Counter,
    /// Requests that got no response, by reason.
    pub failures: ReasonCounters,
    /// Final responses by class.
    pub responses: ClassCounters,
    /// gRPC calls by how the upstream ended them.
    pub calls: GrpcCounters,
    /// From the request's first byte sent to the end of the response head.
    pub duration: Histogram,
    /// Requests under way, from the choice of a server to the end of the answer.
    pub active: Gauge,
    /// Requests that wait for room at a server.
    pub waiting: Gauge,
    /// Connections kept open for the next request.
    pub idle: Gauge,
    /// What was refused because as much was under way as may be.
    pub refused: RefusalCounters,
    /// 1 while servers that are out are asked as well, because too few are left.
    pub panic: Level,
    /// Connections that became tunnels.
    pub tunnels: TunnelMeters,
    /// Bytes received from servers.
    pub received_bytes: Counter,
    /// Bytes sent to servers.
    pub sent_bytes: Counter,
}

/// Tunnels by what they carry.
#[derive(Debug, Default)]
pub struct TunnelMeters {
    /// WebSocket.
    pub websocket: TunnelMeter,
    /// Whatever else clients and servers agreed upon.
    pub other: TunnelMeter,
}

/// One worker's counts of tunnels.
#[derive(Debug, Default)]
pub struct TunnelMeter {
    /// Tunnels opened.
    pub opened: Counter,
    /// Tunnels open.
    pub open: Gauge,
}

/// What was refused because as much was under way as may be, by limit.
#[derive(Debug, Default)]
pub struct RefusalCounters {
    /// Connections in use.
    pub connections: Counter,
    /// Requests that wait for a connection to be opened.
    pub pending: Counter,
    /// Requests.
    pub requests: Counter,
    /// Requests that are tried again.
    pub retries: Counter,
}

impl UpstreamMeter {
    /// Counts a final response head that came after `nanos` nanoseconds.
    #[inline]
    pub fn on_response(&self, status: u16, nanos: u64) {
        self.responses.on_status(status);
        self.duration.observe_nanos(nanos);
    }

    /// Counts a request that got no response.
    pub fn on_failure(&self, kind: FaultKind) {
        self.failures.on_kind(kind);
    }
}

/// One worker's counts for one server of an upstream.
#[derive(Debug, Default)]
pub struct ServerMeter {
    /// Requests sent, retries included.
    pub requests: Counter,
    /// Requests that got no response.
    pub failures: Counter,
    /// Requests under way, from the choice of a server to the end of the answer.
    pub active: Gauge,
    /// Connections that could not be opened, if somebody ejects servers for that.
    pub unreached: Counter,
    /// Failures that are the server's own, answers included, if somebody ejects servers for that.
    pub faulty: Counter,
    /// Ejections.
    pub ejections: Tally,
    /// Reasons for which the server is out of the rotation.
    pub bars: Level,
    /// Active checks.
    pub checks: Tally,
    /// Active checks that failed.
    pub check_failures: Tally,
}
