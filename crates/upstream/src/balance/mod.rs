//! Which server is next.

mod round_robin;

use crate::{Ask, BalanceRule, ServerPlan};
use round_robin::RoundRobin;

/// The rule of a cluster, laid out over the servers that are available. Building it costs what the
/// list is long; it happens when a server comes or goes, so that choosing costs little.
#[derive(Debug)]
pub(crate) enum Rotation {
    RoundRobin(RoundRobin),
}

impl Rotation {
    /// For `servers`, of which the available ones take part.
    pub(crate) fn build(rule: &BalanceRule, servers: &[ServerPlan], worker: usize) -> Self {
        let weight = |server: &ServerPlan| match server.state.is_available() {
            true => server.weight,
            false => 0,
        };
        let weights: Vec<u32> = servers.iter().map(weight).collect();
        match rule {
            BalanceRule::RoundRobin => Self::RoundRobin(RoundRobin::new(&weights, worker)),
        }
    }

    /// Index of the server to ask; `None` if none is available.
    #[inline]
    pub(crate) fn next(&self, _ask: &Ask<'_>) -> Option<usize> {
        match self {
            Self::RoundRobin(rotation) => rotation.next(),
        }
    }
}
