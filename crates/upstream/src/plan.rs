//! What the configuration asks of a cluster, with names already resolved.

use std::sync::Arc;
use std::time::Duration;

use sluice_meter::{PerWorker, ServerMeter, UpstreamMeter};
use sluice_net::Endpoint;
use sluice_net::tls::TlsClient;
use sluice_wire::proxy::Version;

use crate::limit::{QueueRule, ServerLimit};
use crate::opening::Protocol;
use crate::ring::Ring;
use crate::sticky::{StickyRule, StickyTable};
use crate::{BreakerRule, ClusterState, HealthSettings, RetryPolicy, ServerState};

/// A cluster as all workers share it. Immutable: a change makes a new plan.
#[derive(Debug)]
pub struct ClusterPlan {
    /// Name in the configuration.
    pub name: String,
    /// Everything but the servers.
    pub settings: ClusterSettings,
    /// Servers that may be asked, one for each address a name resolved to.
    pub servers: Vec<ServerPlan>,
    /// What all workers know of the cluster; outlives plans.
    pub state: Arc<ClusterState>,
    /// What is laid out once for all workers.
    pub layout: Layout,
    /// Counters of the cluster.
    pub meter: Arc<PerWorker<UpstreamMeter>>,
}

/// How a cluster's connections behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Idle connections kept per server and worker.
    pub idle_connections: usize,
    /// How long a connection is kept without use.
    pub idle_timeout: Duration,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// How long the origin may be silent while an answer is due.
    pub read_timeout: Duration,
    /// How long the origin may take nothing of a request.
    pub write_timeout: Duration,
    /// How long nothing may move through an upgraded connection.
    pub tunnel_timeout: Duration,
    /// How long an upgraded connection may last in all.
    pub tunnel_lifetime: Option<Duration>,
    /// How a server is chosen.
    pub balance: BalanceRule,
    /// How clients are led back to the server they had.
    pub sticky: Option<StickyRule>,
    /// How long the share of a server grows that is new or back; not at all if absent.
    pub slow_start: Option<Duration>,
    /// What becomes of requests for which no server has room.
    pub queue: QueueRule,
    /// When a request is tried again.
    pub retry: RetryPolicy,
    /// How servers are found to be well or not.
    pub health: HealthSettings,
    /// What may be under way at a time.
    pub breaker: BreakerRule,
    /// How a header in front of each connection says for whom it is; absent if none does.
    pub proxy_protocol: Option<Version>,
    /// `Host` sent to the origin; the client's own if absent.
    pub host: Option<Box<[u8]>>,
}

/// How a server is chosen for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalanceRule {
    /// One after the other, by weight.
    RoundRobin,
    /// The one with the fewest requests under way for its weight.
    LeastRequests,
    /// The less busy of two drawn by chance.
    TwoChoices,
    /// By chance, by weight.
    Random,
    /// The same one for the same key.
    Hash(HashKey),
}

/// What of a request decides on its server, when they are chosen by hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashKey {
    /// The client's address.
    Client,
    /// The path, in the spelling routes are matched in.
    Path,
    /// The value of the first field of this name.
    Header(Box<[u8]>),
    /// The value of the cookie of this name.
    Cookie(Box<[u8]>),
    /// The value of this parameter of the query.
    Query(Box<[u8]>),
}

/// One address requests may go to.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Share of the requests relative to the other servers; 0 gets none.
    pub weight: u32,
    /// When it is asked.
    pub role: Role,
    /// How connections to it are encrypted; absent if they are not.
    pub tls: Option<TlsClient>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// How much may be under way there, if there is a limit; outlives plans.
    pub limit: Option<Arc<ServerLimit>>,
    /// What all workers know of this server; outlives plans.
    pub state: Arc<ServerState>,
    /// Counters of this server.
    pub meter: Arc<PerWorker<ServerMeter>>,
}

/// When a server is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Always.
    #[default]
    Primary,
    /// When no other server is available.
    Backup,
}

/// What is laid out once for all workers, since it is too large for each to make its own.
#[derive(Debug)]
pub struct Layout {
    /// If servers are chosen by hash.
    pub(crate) ring: Option<Arc<Ring>>,
    /// If clients are led back to their servers.
    pub(crate) sticky: Option<StickyTable>,
}

impl Layout {
    /// For these settings and servers.
    #[must_use]
    pub fn new(settings: &ClusterSettings, servers: &[ServerPlan]) -> Self {
        let address = |server: &ServerPlan| server.endpoint.to_string();
        let ring = || {
            let place = |server| (address(server), server.weight);
            Arc::new(Ring::new(servers.iter().map(place)))
        };
        let table = |rule| StickyTable::new(rule, servers.iter().map(address));
        Self {
            ring: matches!(settings.balance, BalanceRule::Hash(_)).then(ring),
            sticky: settings.sticky.as_ref().map(table),
        }
    }
}
