//! Who is asked now, and who if there is nobody else.

use std::rc::Rc;

use sluice_net::Nanos;

use super::share::Shares;
use super::{Parts, Rotation};
use crate::health::{is_asked, is_panic};
use crate::{Ask, ClusterPlan, Role, Server, ServerPlan};

/// What a worker makes of a cluster's rule and the state its servers are in.
#[derive(Debug)]
pub(crate) struct Selection {
    first: Rotation,
    /// Servers that are asked when `first` has nobody left for a request.
    backup: Option<Rotation>,
    /// Whether a client that names a server gets it; empty if clients do not.
    named: Box<[bool]>,
    /// When shares are to be looked at again, since one of them grows.
    pub(crate) until: Option<Nanos>,
}

impl Selection {
    /// For the servers of a plan as they are at this time.
    pub(crate) fn build(plan: &ClusterPlan, start: usize, now: Nanos) -> Self {
        let full: Vec<u32> = plan.servers.iter().map(|server| server.weight).collect();
        let parts = Parts {
            rule: &plan.settings.balance,
            ring: plan.layout.ring.as_ref(),
            full: &full,
            start,
        };
        let slow_start = plan.settings.slow_start;
        let panic = is_panic(plan);
        let in_service =
            |server: &ServerPlan| server.state.is_available() || panic && is_asked(server);
        let shares = |role| {
            let takes_part = |server: &ServerPlan| server.role == role && in_service(server);
            Shares::new(&plan.servers, takes_part, (slow_start, now))
        };
        let backup = shares(Role::Backup);
        let (first, backup, asked) = match shares(Role::Primary) {
            Some(primary) => (primary, backup, Role::Primary),
            None => (backup.unwrap_or_default(), None, Role::Backup),
        };
        let until = [first.until, backup.as_ref().and_then(|it| it.until)].into_iter().flatten();
        // A weight of 0 keeps new clients away, not those who are there. A session on a backup ends
        // with the need for it.
        let named = |server: &ServerPlan| {
            in_service(server) && (server.role == Role::Primary || asked == server.role)
        };
        let named = plan.layout.sticky.as_ref().map(|_| plan.servers.iter().map(named).collect());
        let rotation = |shares: Shares| Rotation::build(parts, &shares.weights);
        Self {
            until: until.min(),
            first: rotation(first),
            backup: backup.map(rotation),
            named: named.unwrap_or_default(),
        }
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

    /// Whether a client that names this server gets it.
    pub(crate) fn may_be_named(&self, index: usize) -> bool {
        self.named.get(index).copied().unwrap_or(false)
    }
}
