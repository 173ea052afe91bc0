//! What the configuration asks of a cluster, with names already resolved.

use std::sync::Arc;
use std::time::Duration;

use sluice_meter::{PerWorker, ServerMeter, UpstreamMeter};
use sluice_net::Endpoint;

use crate::{ClusterState, ServerState};

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
    /// How a server is chosen.
    pub balance: BalanceRule,
    /// When a request is tried again.
    pub retry: RetryPolicy,
    /// `Host` sent to the origin; the client's own if absent.
    pub host: Option<Box<[u8]>>,
}

/// How a server is chosen for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalanceRule {
    /// One after the other, by weight.
    RoundRobin,
}

/// When a request is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries after the first one.
    pub attempts: u32,
}

/// One address requests may go to.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Share of the requests relative to the other servers; 0 gets none.
    pub weight: u32,
    /// What all workers know of this server; outlives plans.
    pub state: Arc<ServerState>,
    /// Counters of this server.
    pub meter: Arc<PerWorker<ServerMeter>>,
}
