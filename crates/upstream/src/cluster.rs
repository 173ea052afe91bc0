//! A cluster as one worker sees it.

use std::rc::Rc;
use std::sync::Arc;

use sluice_meter::UpstreamMeter;
use sluice_net::Stream;

use crate::balance::RoundRobin;
use crate::{ClusterPlan, ClusterSettings, Server};

/// Servers, the rotation among them, and the plan they came from.
#[derive(Debug)]
pub struct Cluster {
    plan: Arc<ClusterPlan>,
    servers: Vec<Rc<Server>>,
    rotation: RoundRobin,
    worker: usize,
}

impl Cluster {
    /// What `worker` makes of a plan. Servers that `before` had already are taken over with their
    /// open connections.
    #[must_use]
    pub fn build(plan: &Arc<ClusterPlan>, worker: usize, before: Option<&Self>) -> Self {
        let servers = plan
            .servers
            .iter()
            .map(|wanted| {
                before
                    .and_then(|cluster| cluster.server_at(wanted))
                    .unwrap_or_else(|| Rc::new(Server::new(wanted, worker)))
            })
            .collect();
        let weights: Vec<u32> = plan.servers.iter().map(|server| server.weight).collect();
        let rotation = RoundRobin::new(&weights, worker);
        Self { plan: Arc::clone(plan), servers, rotation, worker }
    }

    fn server_at(&self, wanted: &crate::ServerPlan) -> Option<Rc<Server>> {
        self.servers.iter().find(|server| *server.endpoint() == wanted.endpoint).map(Rc::clone)
    }

    /// The plan this was built from.
    #[must_use]
    pub const fn plan(&self) -> &Arc<ClusterPlan> {
        &self.plan
    }

    /// How connections behave.
    #[must_use]
    pub fn settings(&self) -> &ClusterSettings {
        &self.plan.settings
    }

    /// This worker's counters.
    #[must_use]
    #[inline]
    pub fn meter(&self) -> &UpstreamMeter {
        self.plan.meter.worker(self.worker)
    }

    /// The server whose turn it is; `None` if there is none to ask.
    #[must_use]
    #[inline]
    pub fn next_server(&self) -> Option<&Rc<Server>> {
        self.servers.get(self.rotation.next()?)
    }

    /// An idle connection to `server`.
    #[must_use]
    #[inline]
    pub fn take_idle(&self, server: &Server) -> Option<Stream> {
        server.pool.take()
    }

    /// Keeps a connection for the next request.
    #[inline]
    pub fn keep(&self, server: &Server, stream: Stream) {
        server.pool.put(stream, self.plan.settings.idle_connections);
    }

    /// Closes connections that were idle for too long, and counts those that are left.
    pub fn sweep(&self) {
        let mut idle = 0;
        for server in &self.servers {
            server.pool.sweep(self.plan.settings.idle_timeout);
            idle += server.pool.len();
        }
        self.meter().idle.set(i64::try_from(idle).unwrap_or(i64::MAX));
    }

    /// Closes every idle connection, before the worker ends.
    pub fn close_idle(&self) {
        self.servers.iter().for_each(|server| server.pool.clear());
    }
}
