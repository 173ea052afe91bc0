//! Who is asked now, and who if there is nobody else.

use std::rc::Rc;

use super::{Parts, Rotation};
use crate::{Ask, ClusterPlan, Role, Server, ServerPlan};

/// What a worker makes of a cluster's rule and the state its servers are in.
#[derive(Debug)]
pub(crate) struct Selection {
    first: Rotation,
    /// Servers that are asked when `first` has nobody left for a request.
    backup: Option<Rotation>,
}

impl Selection {
    /// For the servers of a plan as they are now.
    pub(crate) fn build(plan: &ClusterPlan, start: usize) -> Self {
        let full: Vec<u32> = plan.servers.iter().map(|server| server.weight).collect();
        let parts = Parts {
            rule: &plan.settings.balance,
            ring: plan.layout.ring.as_ref(),
            full: &full,
            start,
        };
        let weights = |role| -> Option<Vec<u32>> {
            let weight = |server: &ServerPlan| {
                if server.role == role && server.state.is_available() { server.weight } else { 0 }
            };
            let weights: Vec<u32> = plan.servers.iter().map(weight).collect();
            weights.iter().any(|&weight| weight > 0).then_some(weights)
        };
        let backup = weights(Role::Backup);
        let (first, backup) = match weights(Role::Primary) {
            Some(primary) => (primary, backup),
            None => (backup.unwrap_or_default(), None),
        };
        let rotation = |weights: Vec<u32>| Rotation::build(parts, &weights);
        Self { first: rotation(first), backup: backup.map(rotation) }
    }

    /// Index of the server to ask; `None` if none is available.
    #[inline]
    pub(crate) fn next(&self, ask: &Ask<'_>, servers: &[Rc<Server>]) -> Option<usize> {
        self.first.next(ask, servers)
    }

    /// Index of a server that was not asked in vain, a backup if need be; `None` if there is none.
    pub(crate) fn other(&self, ask: &Ask<'_>, servers: &[Rc<Server>]) -> Option<usize> {
        let other = self.first.other(ask, servers);
        other.or_else(|| self.backup.as_ref()?.other(ask, servers))
    }
}
