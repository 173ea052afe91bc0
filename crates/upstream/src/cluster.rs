//! A cluster as one worker sees it.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use sluice_message::{Fault, FaultKind, Side};
use sluice_meter::UpstreamMeter;
use sluice_net::Stream;

use crate::balance::Selection;
use crate::retry::Budget;
use crate::{Ask, ClusterPlan, ClusterSettings, Server};

/// Servers, the rotation among them, and the plan they came from.
#[derive(Debug)]
pub struct Cluster {
    plan: Arc<ClusterPlan>,
    servers: Vec<Rc<Server>>,
    /// Among the servers that were available when it was laid out.
    selection: RefCell<Selection>,
    /// Change of the cluster's state that the selection knows of.
    seen: Cell<u64>,
    /// What may be spent on retries.
    budget: Option<Budget>,
    worker: usize,
}

impl Cluster {
    /// What `worker` makes of a plan. Servers that `before` had already are taken over with their
    /// open connections.
    #[must_use]
    pub fn build(plan: &Arc<ClusterPlan>, worker: usize, before: Option<&Self>) -> Self {
        let servers: Vec<Rc<Server>> = plan
            .servers
            .iter()
            .map(|wanted| {
                before
                    .and_then(|cluster| cluster.server_at(wanted))
                    .unwrap_or_else(|| Rc::new(Server::new(wanted, worker)))
            })
            .collect();
        // Read before the servers are: a change in between is seen at the next choice.
        let seen = plan.state.changes();
        let selection = Selection::build(plan, worker);
        Self {
            plan: Arc::clone(plan),
            servers,
            selection: RefCell::new(selection),
            seen: Cell::new(seen),
            budget: plan.settings.retry.budget.map(Budget::new),
            worker,
        }
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

    /// The server to ask; `None` if none is available.
    #[must_use]
    #[inline]
    pub fn choose(&self, ask: &Ask<'_>) -> Option<&Rc<Server>> {
        let selection = self.selection();
        let other = || selection.other(ask, &self.servers);
        let other = if ask.avoid.is_empty() { None } else { other() };
        self.servers.get(other.or_else(|| selection.next(ask, &self.servers))?)
    }

    /// A request comes in, which allows its share of retries.
    #[inline]
    pub fn on_request(&self) {
        if let Some(budget) = &self.budget {
            budget.deposit();
        }
    }

    /// Whether one more retry fits into the budget; it is spent then. Counted if not.
    #[must_use]
    pub fn spend_retry(&self) -> Option<()> {
        let Some(budget) = &self.budget else { return Some(()) };
        let spent = budget.withdraw();
        if spent.is_none() {
            self.meter().retries_refused.increment();
        }
        spent
    }

    /// The choice among the servers that are available now.
    #[inline]
    fn selection(&self) -> Ref<'_, Selection> {
        let changes = self.plan.state.changes();
        if changes != self.seen.get() {
            self.seen.set(changes);
            *self.selection.borrow_mut() = Selection::build(&self.plan, self.worker);
        }
        self.selection.borrow()
    }

    /// Takes note that `server` answered with `status` after `nanos` nanoseconds.
    #[inline]
    pub fn on_response(&self, server: &Server, status: u16, nanos: u64) {
        self.meter().on_response(status, nanos);
        if let Some(rule) = &self.plan.settings.health.ejection {
            if rule.covers(status) {
                server.blame(rule);
            } else {
                server.state.end_streak();
            }
        }
    }

    /// Takes note that `server` gave no answer.
    pub fn on_failure(&self, server: &Server, fault: Fault) {
        self.meter().on_failure(fault.kind);
        server.meter().failures.increment();
    }

    /// Takes note that it is the server's own doing that it gave no answer, or not all of one.
    pub fn on_blame(&self, server: &Server, fault: Fault) {
        let Some(rule) = &self.plan.settings.health.ejection else { return };
        if matches!(fault.kind, FaultKind::ConnectFailed | FaultKind::ConnectTimedOut) {
            // What was never sent is not among the requests.
            server.meter().unreached.increment();
        }
        if fault.side == Side::Upstream {
            server.blame(rule);
        }
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
