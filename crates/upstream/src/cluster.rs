//! A cluster as one worker sees it.

use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use sluice_conn::OriginChannel;
use sluice_message::{Fault, FaultKind, GrpcStatus, RequestHead, Side};
use sluice_meter::UpstreamMeter;
use sluice_net::{Endpoint, Nanos, Stream, now};

use crate::balance::Selection;
use crate::breaker::CircuitOpen;
use crate::retry::Budget;
use crate::sticky::StickyTable;
use crate::{
    Ask, Bar, Breaker, BreakerRule, ClusterPlan, ClusterSettings, Demand, Pass, Server, ServerPlan,
};

/// Servers, the rotation among them, and the plan they came from.
#[derive(Debug)]
pub struct Cluster {
    plan: Arc<ClusterPlan>,
    servers: Vec<Rc<Server>>,
    /// Among the servers that were available when it was laid out.
    selection: RefCell<Selection>,
    /// Change of the cluster's state that the selection knows of; [`GROWING`] if time changes it too.
    seen: Cell<u64>,
    /// What may be spent on retries.
    budget: Option<Budget>,
    /// What the selection knows of while it depends on the time, and when it is to be made anew.
    growing: Cell<(u64, Nanos)>,
    /// How often it was made, so that not every turn begins with the same server.
    builds: Cell<usize>,
    /// Copies of requests under way.
    copies: Cell<usize>,
    /// Whether a server of it has a limit.
    is_limited: bool,
    /// Whether what it does at a time has a limit.
    has_breaker: bool,
    worker: usize,
}

/// No change has this number: a selection that depends on the time is looked at for each request, all
/// others cost no look at the clock.
const GROWING: u64 = u64::MAX;

impl Cluster {
    /// What `worker` makes of a plan. Servers that `before` had already are taken over with their
    /// open connections.
    #[must_use]
    pub fn build(plan: &Arc<ClusterPlan>, worker: usize, before: Option<&Self>) -> Self {
        let known: HashMap<&Endpoint, &Rc<Server>> = before
            .into_iter()
            .flat_map(|cluster| &cluster.servers)
            .map(|server| (server.endpoint(), server))
            .collect();
        let proxy_protocol = plan.settings.proxy_protocol;
        let server = |wanted: &ServerPlan| match known.get(&wanted.endpoint) {
            Some(server) if server.is_reached_by(wanted, proxy_protocol) => Rc::clone(server),
            // Connections opened another way are of no use, not even those that are still busy.
            _ => Rc::new(Server::new(wanted, proxy_protocol, worker)),
        };
        let servers: Vec<Rc<Server>> = plan.servers.iter().map(server).collect();
        for (server, plan) in servers.iter().zip(&plan.servers) {
            server.follow(plan.limit.as_ref());
        }
        // Read before the servers are: a change in between is seen at the next choice.
        let changes = plan.state.changes();
        let selection = Selection::build(plan, worker, now());
        let cluster = Self {
            plan: Arc::clone(plan),
            servers,
            seen: Cell::new(changes),
            growing: Cell::new((changes, 0)),
            builds: Cell::new(worker),
            selection: RefCell::new(selection),
            budget: plan.settings.retry.budget.map(Budget::new),
            copies: Cell::new(0),
            has_breaker: plan.settings.breaker != BreakerRule::default(),
            is_limited: plan.servers.iter().any(|server| server.limit.is_some()),
            worker,
        };
        cluster.note_build(changes);
        cluster
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
        if let Some(table) = &self.plan.layout.sticky
            && let Some(index) = table.find(ask.head)
            && selection.may_be_named(index)
            && let Some(server) = self.servers.get(index)
            && !ask.avoids(server)
        {
            return Some(server);
        }
        let other = || selection.other(ask, &self.servers);
        let other = if ask.avoid.is_empty() { None } else { other() };
        self.servers.get(other.or_else(|| selection.next(ask, &self.servers))?)
    }

    /// Whether a server is left that is neither unhealthy nor ejected nor drained.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.plan.servers.iter().any(|server| server.state.is_available())
    }

    /// Whether a server may have no room for a request.
    #[must_use]
    #[inline]
    pub const fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Whether the client of this request is led to this server by its cookie.
    #[must_use]
    pub fn is_named(&self, head: &RequestHead, server: &Rc<Server>) -> bool {
        let table = self.plan.layout.sticky.as_ref();
        let named = table.and_then(|table| self.servers.get(table.find(head)?));
        named.is_some_and(|named| Rc::ptr_eq(named, server))
    }

    /// A request comes in, which allows its share of retries.
    #[inline]
    pub fn on_request(&self) {
        if let Some(budget) = &self.budget {
            budget.deposit();
        }
    }

    /// How many copies of requests are under way to here.
    #[must_use]
    pub const fn copies(&self) -> &Cell<usize> {
        &self.copies
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

    /// Takes back a retry that was paid for and is not made.
    pub fn refund_retry(&self) {
        if let Some(budget) = &self.budget {
            budget.refund();
        }
    }

    /// The value of `Set-Cookie` that leads a client back to the server that answered, if clients are
    /// led back and this one does not say so already.
    #[must_use]
    #[inline]
    pub fn sticky_cookie(&self, head: &RequestHead, answered: &Rc<Server>) -> Option<Vec<u8>> {
        self.name_server(self.plan.layout.sticky.as_ref()?, head, answered)
    }

    fn name_server(
        &self,
        table: &StickyTable,
        head: &RequestHead,
        answered: &Rc<Server>,
    ) -> Option<Vec<u8>> {
        let named = table.find(head).and_then(|index| self.servers.get(index));
        if named.is_some_and(|server| Rc::ptr_eq(server, answered)) {
            return None;
        }
        table.cookie(self.servers.iter().position(|server| Rc::ptr_eq(server, answered))?)
    }

    /// The choice among the servers that are available now.
    #[inline]
    fn selection(&self) -> Ref<'_, Selection> {
        let changes = self.plan.state.changes();
        if changes != self.seen.get() {
            self.renew(changes);
        }
        self.selection.borrow()
    }

    #[cold]
    fn renew(&self, changes: u64) {
        let (known, until) = self.growing.get();
        if self.seen.get() == GROWING && known == changes && now() < until {
            return;
        }
        self.builds.set(self.builds.get().wrapping_add(1));
        *self.selection.borrow_mut() = Selection::build(&self.plan, self.builds.get(), now());
        self.note_build(changes);
    }

    fn note_build(&self, changes: u64) {
        match self.selection.borrow().until {
            None => self.seen.set(changes),
            Some(until) => {
                self.seen.set(GROWING);
                self.growing.set((changes, until));
            }
        }
    }

    /// Takes note that `server` answered with `status` after `nanos` nanoseconds.
    #[inline]
    pub fn on_response(&self, server: &Server, status: u16, nanos: u64) {
        self.meter().on_response(status, nanos);
        if let Some(rule) = &self.plan.settings.health.ejection
            && rule.covers(status)
        {
            server.blame(rule);
        }
    }

    /// Takes note that an answer with `status` came in whole. Its head alone says nothing: a server may
    /// break every answer off.
    #[inline]
    pub fn on_whole_answer(&self, server: &Server, status: u16) {
        if let Some(rule) = &self.plan.settings.health.ejection
            && !rule.covers(status)
        {
            server.state.end_streak();
        }
    }

    /// Takes note of how a call ended whose answer came in whole, with this HTTP status. Whether that is
    /// the server's fault is another question than whether it answers.
    pub fn on_call(&self, server: Option<&Server>, http: u16, status: GrpcStatus) {
        self.meter().calls.on_status(status);
        let Some((server, rule)) = server.zip(self.plan.settings.health.ejection.as_ref()) else {
            return;
        };
        if rule.calls.has(status) {
            // An answer of a bad HTTP status was blamed for that already.
            if !rule.covers(http) {
                server.blame(rule);
            }
        } else {
            self.on_whole_answer(server, http);
        }
    }

    /// Whether what it does at a time has a limit.
    #[must_use]
    #[inline]
    pub const fn has_breaker(&self) -> bool {
        self.has_breaker
    }

    /// Lets something begin, which ends when the pass is dropped.
    ///
    /// # Errors
    /// As much is under way already as may be.
    #[inline]
    pub fn admit(&self, what: Breaker) -> Result<Pass, Fault> {
        if !self.has_breaker {
            return Ok(Pass::default());
        }
        let rule = &self.plan.settings.breaker;
        self.plan.state.breakers.admit(rule, what).map_err(|CircuitOpen| self.refuse(what))
    }

    #[cold]
    fn refuse(&self, what: Breaker) -> Fault {
        let count = &self.meter().refused;
        match what {
            Breaker::Connections => count.connections.increment(),
            Breaker::Pending => count.pending.increment(),
            Breaker::Requests => count.requests.increment(),
            Breaker::Retries => count.retries.increment(),
        }
        Fault::internal(FaultKind::CircuitOpen)
    }

    /// Takes note that `server` gave no answer.
    pub fn on_failure(&self, server: &Server, fault: Fault) {
        if fault.kind == FaultKind::CircuitOpen {
            // It was not asked.
            return;
        }
        self.meter().on_failure(fault.kind);
        server.meter().failures.increment();
    }

    /// Takes note that it is the server's own doing that it gave no answer, or not all of one.
    pub fn on_blame(&self, server: &Server, fault: Fault) {
        let Some(rule) = &self.plan.settings.health.ejection else { return };
        use FaultKind as K;
        let unsent =
            [K::ConnectFailed, K::ConnectTimedOut, K::TlsUntrusted, K::TlsFailed, K::NoHttp2];
        if unsent.contains(&fault.kind) {
            // What was never sent is not among the requests.
            server.meter().unreached.increment();
        }
        if fault.side == Side::Upstream {
            server.blame(rule);
        }
    }

    /// What a request to `server` can be sent over at once.
    #[must_use]
    #[inline]
    pub fn take_idle(&self, server: &Server, demand: Demand) -> Option<OriginChannel> {
        match demand {
            Demand::Any => server.pool.take(),
            Demand::Pipe => server.take_pipe(),
        }
    }

    /// Keeps a connection for the next request.
    #[inline]
    pub fn keep(&self, server: &Server, stream: Stream) {
        let most = self.plan.settings.idle_connections;
        match self.is_limited {
            false => server.pool.put(stream, most),
            true => server.keep(stream, most),
        }
    }

    /// Closes connections that were idle for too long, and counts those that are left.
    pub fn sweep(&self) {
        let mut idle = 0;
        for (server, plan) in self.servers.iter().zip(&self.plan.servers) {
            if plan.state.is_barred(Bar::Draining) {
                // Whoever waits for the last request to end wants the connections gone too.
                server.pool.clear();
            }
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
