//! What all workers know of a cluster and its servers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sluice_meter::{PerWorker, ServerMeter};
use sluice_net::{Endpoint, Nanos, precise_now};

use crate::breaker::{BreakerRule, Breakers};
use crate::limit::{QueueRule, ServerLimit};

/// A cluster as the whole process knows it. It is kept by name across reloads, so that what was
/// learnt of a server is not forgotten.
#[derive(Debug, Default)]
pub struct ClusterState {
    changes: Arc<Changes>,
    /// What is under way.
    pub(crate) breakers: Breakers,
    servers: Mutex<HashMap<Endpoint, Arc<ServerState>>>,
    /// Whether servers that come along now are new beside others.
    settled: AtomicBool,
}

/// Called when the servers of a cluster should be looked at.
pub(crate) type Bell = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Changes {
    /// Counts up whenever a server becomes available or ceases to be.
    count: AtomicU64,
    /// Absent as long as nobody watches.
    bell: OnceLock<Bell>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Changes {
    fn note(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }
}

/// A server as the whole process knows it.
#[derive(Debug)]
pub struct ServerState {
    /// One bit for each [`Bar`].
    bars: AtomicU8,
    /// When it came along or came back; 0 if it was always there.
    since: AtomicU64,
    /// Failures in a row.
    streak: AtomicU32,
    changes: Arc<Changes>,
    /// What is known about the bars besides that they stand, for those who ask.
    details: Mutex<BTreeMap<Bar, String>>,
    meter: Mutex<Arc<PerWorker<ServerMeter>>>,
    /// Absent as long as there never was one.
    limit: OnceLock<Arc<ServerLimit>>,
}

/// Why a server is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bar {
    /// Active checks find it unwell.
    Unhealthy,
    /// Requests to it failed.
    Ejected,
    /// Somebody takes it out of service.
    Draining,
    /// No active check has succeeded or failed yet, and nothing is assumed.
    Unchecked,
}

impl Bar {
    const fn bit(self) -> u8 {
        match self {
            Self::Unhealthy => 1,
            Self::Ejected => 2,
            Self::Draining => 4,
            Self::Unchecked => 8,
        }
    }

    /// Every reason there is.
    const ALL: [Self; 4] = [Self::Unhealthy, Self::Ejected, Self::Draining, Self::Unchecked];

    /// The word for it, for those who ask.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
            Self::Unchecked => "unchecked",
        }
    }
}

impl ClusterState {
    /// Of this server, whose meter is `meter`; made if it is not known yet.
    #[must_use]
    pub fn server(
        &self,
        endpoint: &Endpoint,
        meter: &Arc<PerWorker<ServerMeter>>,
    ) -> Arc<ServerState> {
        let since = if self.settled.load(Ordering::Relaxed) { precise_now() } else { 0 };
        let make = || ServerState {
            bars: AtomicU8::new(0),
            since: AtomicU64::new(since),
            streak: AtomicU32::new(0),
            changes: Arc::clone(&self.changes),
            details: Mutex::default(),
            meter: Mutex::new(Arc::clone(meter)),
            limit: OnceLock::new(),
        };
        let mut servers = locked(&self.servers);
        let state = servers.entry(endpoint.clone()).or_insert_with(|| Arc::new(make()));
        state.show_on(meter);
        Arc::clone(state)
    }

    /// Lets no more than this be under way from now on; what is under way stays.
    pub fn limit(&self, rule: &BreakerRule) {
        self.breakers.set(rule);
    }

    /// Whether this server is known already.
    #[must_use]
    pub fn knows(&self, endpoint: &Endpoint) -> bool {
        locked(&self.servers).contains_key(endpoint)
    }

    /// The servers it began with are all known: whoever comes along from here on is new.
    pub fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Forgets servers that are not among these. What somebody took out of service stays out, though,
    /// when a source of servers loses it for a while, and what is under way at a server with a limit
    /// counts when it comes back.
    pub fn retain(&self, keep: impl Fn(&Endpoint) -> bool) {
        let mut servers = locked(&self.servers);
        servers.retain(|endpoint, state| {
            keep(endpoint) || state.is_barred(Bar::Draining) || state.is_visited()
        });
    }

    /// How often availability changed: one load, so that every choice of a server can ask.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.count.load(Ordering::Acquire)
    }

    /// Calls `bell` from now on when somebody should look at the servers. Once for the life of the
    /// cluster.
    pub(crate) fn hang_bell(&self, bell: impl FnOnce() -> Bell) {
        self.changes.bell.get_or_init(bell);
    }
}

impl ServerState {
    /// How much may be under way there, changed to `most` and `queue`; `None` if there is no limit.
    #[must_use]
    pub fn limit(&self, most: Option<u32>, queue: QueueRule) -> Option<Arc<ServerLimit>> {
        let Some(most) = most else {
            // Whoever waits need not any more.
            if let Some(limit) = self.limit.get() {
                limit.lift();
            }
            return None;
        };
        let limit = self.limit.get_or_init(|| Arc::new(ServerLimit::new(most, queue)));
        limit.resize(most, queue);
        Some(Arc::clone(limit))
    }

    /// Whether a worker still holds on to the limit.
    fn is_visited(&self) -> bool {
        self.limit.get().is_some_and(|limit| Arc::strong_count(limit) > 1)
    }

    /// From now on availability is shown on this meter. A server that was known while no source named
    /// it comes back with a new one.
    fn show_on(&self, meter: &Arc<PerWorker<ServerMeter>>) {
        let mut shown = locked(&self.meter);
        if !Arc::ptr_eq(&shown, meter) {
            *shown = Arc::clone(meter);
            self.show(&shown);
        }
    }

    /// Under the lock of the meter, so that the last word is the newest.
    fn show(&self, meter: &PerWorker<ServerMeter>) {
        let bars = self.bars.load(Ordering::Acquire).count_ones();
        meter.worker(0).bars.set(i64::from(bars));
    }

    /// Takes the server out of the rotation.
    pub fn bar(&self, why: Bar) {
        if self.bars.fetch_or(why.bit(), Ordering::AcqRel) & why.bit() == 0 {
            self.show(&locked(&self.meter));
            self.changes.note();
        }
    }

    /// Takes the server out of the rotation, and remembers more about the reason.
    pub fn bar_because(&self, why: Bar, detail: &str) {
        locked(&self.details).insert(why, detail.to_owned());
        self.bar(why);
    }

    /// Removes one reason why the server is out.
    pub fn lift(&self, why: Bar) {
        let before = self.bars.fetch_and(!why.bit(), Ordering::AcqRel);
        if before == why.bit() {
            self.since.store(precise_now(), Ordering::Release);
        }
        if before & why.bit() != 0 {
            self.show(&locked(&self.meter));
            locked(&self.details).remove(&why);
            self.changes.note();
        }
    }

    /// When it came along or came back; `None` if it was there from the beginning.
    #[must_use]
    pub fn since(&self) -> Option<Nanos> {
        Some(self.since.load(Ordering::Acquire)).filter(|&since| since > 0)
    }

    /// Why the server is out, in words: `unhealthy: status 500`. Empty if it is not.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let details = locked(&self.details);
        let standing = Bar::ALL.into_iter().filter(|&bar| self.is_barred(bar));
        let words = standing.map(|bar| match details.get(&bar) {
            Some(detail) => format!("{}: {detail}", bar.word()),
            None => bar.word().to_owned(),
        });
        words.collect()
    }

    /// Whether this reason stands.
    #[must_use]
    pub fn is_barred(&self, why: Bar) -> bool {
        self.bars.load(Ordering::Acquire) & why.bit() != 0
    }

    /// Takes note of a failure; somebody has to look once there are `enough` in a row.
    pub(crate) fn add_failure(&self, enough: u32) {
        let before = self.streak.fetch_add(1, Ordering::Relaxed);
        if before.wrapping_add(1) == enough {
            self.changes.ring();
        }
    }

    /// Failures in a row.
    pub(crate) fn streak(&self) -> u32 {
        self.streak.load(Ordering::Relaxed)
    }

    /// The server has done well: one load, since it nearly always did so before.
    #[inline]
    pub(crate) fn end_streak(&self) {
        if self.streak.load(Ordering::Relaxed) != 0 {
            self.streak.store(0, Ordering::Relaxed);
        }
    }

    /// Whether requests may go there.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.bars.load(Ordering::Acquire) == 0
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can leave a map half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Arc<PerWorker<ServerMeter>> {
        Arc::new(PerWorker::new(2))
    }

    #[test]
    fn every_reason_has_to_be_lifted() {
        let cluster = ClusterState::default();
        let meter = meter();
        let server = cluster.server(&Endpoint::Tcp("127.0.0.1:1".parse().unwrap()), &meter);
        assert!(server.is_available());
        server.bar(Bar::Ejected);
        server.bar(Bar::Draining);
        server.bar(Bar::Draining);
        assert_eq!(cluster.changes(), 2, "the same reason twice is no change");
        assert_eq!(meter.balance(|meter| meter.bars.value()), 2);
        server.lift(Bar::Ejected);
        assert!(!server.is_available() && server.is_barred(Bar::Draining));
        assert_eq!(server.reasons(), ["draining"]);
        server.lift(Bar::Draining);
        assert!(server.is_available());
        assert_eq!(cluster.changes(), 4);
        assert_eq!(meter.balance(|meter| meter.bars.value()), 0);
    }

    #[test]
    fn a_server_that_comes_back_is_shown_as_it_is() {
        let cluster = ClusterState::default();
        let place = Endpoint::Tcp("127.0.0.1:1".parse().unwrap());
        let server = cluster.server(&place, &meter());
        server.bar(Bar::Draining);
        cluster.retain(|_| false);
        let second = meter();
        assert!(Arc::ptr_eq(&cluster.server(&place, &second), &server));
        assert_eq!(second.balance(|meter| meter.bars.value()), 1);
        server.lift(Bar::Draining);
        assert_eq!(second.balance(|meter| meter.bars.value()), 0);
    }

    #[test]
    fn reasons_are_told_as_long_as_they_stand() {
        let cluster = ClusterState::default();
        let server = cluster.server(&Endpoint::Tcp("127.0.0.1:1".parse().unwrap()), &meter());
        assert!(server.reasons().is_empty());
        server.bar_because(Bar::Unhealthy, "timed out");
        server.bar_because(Bar::Unhealthy, "status 500");
        server.bar(Bar::Draining);
        assert_eq!(server.reasons(), ["unhealthy: status 500", "draining"]);
        server.lift(Bar::Unhealthy);
        assert_eq!(server.reasons(), ["draining"]);
        server.bar(Bar::Unhealthy);
        assert_eq!(server.reasons(), ["unhealthy", "draining"], "the old detail is gone");
    }

    #[test]
    fn servers_are_known_by_their_place() {
        let cluster = ClusterState::default();
        let place = |port| Endpoint::Tcp(([127, 0, 0, 1], port).into());
        cluster.server(&place(1), &meter()).bar(Bar::Ejected);
        assert!(!cluster.server(&place(1), &meter()).is_available());
        assert!(cluster.server(&place(2), &meter()).is_available());
        cluster.retain(|endpoint| *endpoint == place(2));
        assert!(cluster.server(&place(1), &meter()).is_available(), "forgotten");
        cluster.server(&place(1), &meter()).bar(Bar::Draining);
        cluster.retain(|_| false);
        assert!(
            !cluster.server(&place(1), &meter()).is_available(),
            "whoever took it out brings it back"
        );
    }

    #[test]
    fn only_who_comes_later_or_comes_back_is_new() {
        let cluster = ClusterState::default();
        let place = |port| Endpoint::Tcp(([127, 0, 0, 1], port).into());
        let first = cluster.server(&place(1), &meter());
        cluster.settle();
        assert_eq!(first.since(), None);
        let second = cluster.server(&place(2), &meter()).since();
        assert!(second.is_some());
        assert_eq!(cluster.server(&place(2), &meter()).since(), second, "known by now");
        first.bar(Bar::Ejected);
        first.bar(Bar::Unhealthy);
        first.lift(Bar::Ejected);
        assert_eq!(first.since(), None, "not back yet");
        first.lift(Bar::Unhealthy);
        assert!(first.since() >= second);
    }
}
