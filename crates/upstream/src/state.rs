//! What all workers know of a cluster and its servers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sluice_net::{Endpoint, Nanos, precise_now};

/// A cluster as the whole process knows it. It is kept by name across reloads, so that what was
/// learnt of a server is not forgotten.
#[derive(Debug, Default)]
pub struct ClusterState {
    /// Counts up whenever a server becomes available or ceases to be.
    changes: Arc<AtomicU64>,
    servers: Mutex<HashMap<Endpoint, Arc<ServerState>>>,
    /// Whether servers that come along now are new beside others.
    settled: AtomicBool,
}

/// A server as the whole process knows it.
#[derive(Debug)]
pub struct ServerState {
    /// One bit for each [`Bar`].
    bars: AtomicU8,
    changes: Arc<AtomicU64>,
    /// When it came along or came back; 0 if it was always there.
    since: AtomicU64,
}

/// Why a server is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// Active checks find it unwell.
    Unhealthy,
    /// Requests to it failed.
    Ejected,
    /// Somebody takes it out of service.
    Draining,
}

impl Bar {
    const fn bit(self) -> u8 {
        match self {
            Self::Unhealthy => 1,
            Self::Ejected => 2,
            Self::Draining => 4,
        }
    }

    /// Every reason there is.
    const ALL: [Self; 3] = [Self::Unhealthy, Self::Ejected, Self::Draining];

    /// The word for it, for those who ask.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
        }
    }
}

impl ClusterState {
    /// Of this server; made if it is not known yet.
    #[must_use]
    pub fn server(&self, endpoint: &Endpoint) -> Arc<ServerState> {
        // Nothing under the lock can leave the map half-changed.
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let since = if self.settled.load(Ordering::Relaxed) { precise_now() } else { 0 };
        let make = || ServerState {
            bars: AtomicU8::new(0),
            changes: Arc::clone(&self.changes),
            since: AtomicU64::new(since),
        };
        Arc::clone(servers.entry(endpoint.clone()).or_insert_with(|| Arc::new(make())))
    }

    /// The servers it began with are all known: whoever comes along from here on is new.
    pub fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Forgets servers that are not among these. What somebody took out of service stays out, though,
    /// when a source of servers loses it for a while.
    pub fn retain(&self, keep: impl Fn(&Endpoint) -> bool) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|endpoint, state| keep(endpoint) || state.is_barred(Bar::Draining));
    }

    /// How often availability changed: one load, so that every choice of a server can ask.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

impl ServerState {
    /// Takes the server out of the rotation.
    pub fn bar(&self, why: Bar) {
        if self.bars.fetch_or(why.bit(), Ordering::AcqRel) & why.bit() == 0 {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Removes one reason why the server is out.
    pub fn lift(&self, why: Bar) {
        let before = self.bars.fetch_and(!why.bit(), Ordering::AcqRel);
        if before == why.bit() {
            self.since.store(precise_now(), Ordering::Release);
        }
        if before & why.bit() != 0 {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Why the server is out, in words. Empty if it is not.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let standing = Bar::ALL.into_iter().filter(|&bar| self.is_barred(bar));
        standing.map(|bar| bar.word().to_owned()).collect()
    }

    /// When it came along or came back; `None` if it was there from the beginning.
    #[must_use]
    pub fn since(&self) -> Option<Nanos> {
        Some(self.since.load(Ordering::Acquire)).filter(|&since| since > 0)
    }

    /// Whether this reason stands.
    #[must_use]
    pub fn is_barred(&self, why: Bar) -> bool {
        self.bars.load(Ordering::Acquire) & why.bit() != 0
    }

    /// Whether requests may go there.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.bars.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_to_be_lifted() {
        let cluster = ClusterState::default();
        let server = cluster.server(&Endpoint::Tcp("127.0.0.1:1".parse().unwrap()));
        assert!(server.is_available());
        server.bar(Bar::Ejected);
        server.bar(Bar::Draining);
        server.bar(Bar::Draining);
        assert_eq!(cluster.changes(), 2, "the same reason twice is no change");
        server.lift(Bar::Ejected);
        assert!(!server.is_available() && server.is_barred(Bar::Draining));
        assert_eq!(server.reasons(), ["draining"]);
        server.lift(Bar::Draining);
        assert!(server.is_available());
        assert_eq!(cluster.changes(), 4);
    }

    #[test]
    fn servers_are_known_by_their_place() {
        let cluster = ClusterState::default();
        let place = |port| Endpoint::Tcp(([127, 0, 0, 1], port).into());
        cluster.server(&place(1)).bar(Bar::Ejected);
        assert!(!cluster.server(&place(1)).is_available());
        assert!(cluster.server(&place(2)).is_available());
        cluster.retain(|endpoint| *endpoint == place(2));
        assert!(cluster.server(&place(1)).is_available(), "forgotten");
        cluster.server(&place(1)).bar(Bar::Draining);
        cluster.retain(|_| false);
        assert!(!cluster.server(&place(1)).is_available(), "whoever took it out brings it back");
    }

    #[test]
    fn only_who_comes_later_or_comes_back_is_new() {
        let cluster = ClusterState::default();
        let place = |port| Endpoint::Tcp(([127, 0, 0, 1], port).into());
        let first = cluster.server(&place(1));
        cluster.settle();
        assert_eq!(first.since(), None);
        let second = cluster.server(&place(2)).since();
        assert!(second.is_some());
        assert_eq!(cluster.server(&place(2)).since(), second, "known by now");
        first.bar(Bar::Ejected);
        first.bar(Bar::Unhealthy);
        first.lift(Bar::Ejected);
        assert_eq!(first.since(), None, "not back yet");
        first.lift(Bar::Unhealthy);
        assert!(first.since() >= second);
    }
}
