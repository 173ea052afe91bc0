//! Keys that are fetched from their issuer, and fetched anew as they grow old.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sluice_filter::{Fetch, FetchFault, Fetched, Gateway, Level, Local};
use sluice_message::Fields;

use super::{Jwks, KeySet, Secrets};
use crate::flight::Flight;

/// Where keys are fetched, and how often.
#[derive(Clone, Debug)]
pub struct RemoteKeys {
    /// The upstream, by its index.
    pub cluster: usize,
    /// Path and query.
    pub target: Vec<u8>,
    /// The host asked for; empty = that of the upstream.
    pub host: Vec<u8>,
    /// How long fetching may take.
    pub timeout: Duration,
    /// How old keys get before they are fetched anew, in seconds.
    pub refresh: u64,
    /// How long to wait after a failure, and between questions for keys that nobody knows; in seconds.
    pub pause: u64,
}

/// More is no set of keys, in bytes.
const LIMIT: usize = 512 * 1024;

/// Whether keys that are there will do for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hurry {
    /// They will.
    None,
    /// A token names another one.
    Unknown,
}

/// The keys of an issuer, shared by all workers.
pub(crate) struct Remote {
    source: RemoteKeys,
    keys: RwLock<Arc<KeySet>>,
    /// Grows with every change of the keys; 0 = there never were any.
    version: AtomicU64,
    /// When they are due, as Unix time in seconds.
    due: AtomicU64,
    /// Before this moment an unknown key is no reason to ask, as Unix time in seconds.
    unknown_due: AtomicU64,
    flight: Arc<Flight>,
}

impl Remote {
    pub(crate) fn new(source: RemoteKeys) -> Self {
        Self {
            source,
            keys: RwLock::default(),
            version: AtomicU64::new(0),
            due: AtomicU64::new(0),
            unknown_due: AtomicU64::new(0),
            flight: Arc::default(),
        }
    }

    /// Which keys these are.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether both are fetched from the same place.
    pub(crate) fn is_from(&self, other: &Self) -> bool {
        let place = |remote: &Self| {
            let RemoteKeys { cluster, target, host, .. } = &remote.source;
            (*cluster, target.clone(), host.clone())
        };
        place(self) == place(other)
    }

    /// Whether keys ought to be fetched before a token is looked at.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.due.load(Ordering::Relaxed)
    }

    /// Whether a key that nobody knows is a reason to fetch. At most once per pause: anybody can name one.
    pub(crate) fn is_due_for_unknown(&self, now: u64) -> bool {
        now >= self.unknown_due.load(Ordering::Relaxed)
    }

    /// Fetches, or waits until whoever fetches is done. `None` if somebody fetches and there is no hurry.
    pub(crate) fn renew(
        self: &Arc<Self>,
        gateway: &dyn Gateway,
        (hurry, now): (Hurry, u64),
    ) -> Option<Local<Renewal>> {
        let Some(pilot) = self.flight.board() else {
            if hurry == Hurry::None && self.version() > 0 {
                return None;
            }
            let landing = Arc::clone(&self.flight).landing();
            return Some(Box::pin(async move {
                landing.await;
                Renewal::ByAnother
            }));
        };
        let RemoteKeys { cluster, target, host, timeout, .. } = &self.source;
        let mut fields = Fields::new();
        // An empty head has room for a line.
        let _ = fields.push(b"accept", b"application/json");
        let fetching = gateway.fetch(Fetch {
            cluster: *cluster,
            method: b"GET".to_vec(),
            target: target.clone(),
            host: host.clone(),
            fields,
            body: Vec::new(),
            timeout: *timeout,
            limit: LIMIT,
            client: gateway.peer(),
        });
        let remote = Arc::clone(self);
        Some(Box::pin(async move {
            let outcome = remote.learn(fetching.await, now);
            drop(pilot);
            outcome
        }))
    }

    fn learn(&self, fetched: Result<Fetched, FetchFault>, now: u64) -> Renewal {
        let pause = now.saturating_add(self.source.pause);
        self.unknown_due.store(pause, Ordering::Relaxed);
        let keys = match fetched {
            Ok(fetched) if fetched.status == 200 => {
                Jwks::parse(&fetched.body, Secrets::Ignored).map_err(|flaw| flaw.to_string())
            }
            Ok(fetched) => Err(format!("it answered {}", fetched.status)),
            Err(fault) => Err(fault.to_string()),
        };
        match keys {
            Ok(found) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) =
                    Arc::new(KeySet::new(found.keys));
                self.version.fetch_add(1, Ordering::Release);
                self.due.store(now.saturating_add(self.source.refresh), Ordering::Relaxed);
                Renewal::Done(found.ignored)
            }
            Err(why) => {
                self.due.store(pause, Ordering::Relaxed);
                Renewal::Failed(why)
            }
        }
    }

    /// Says what came of it, where that is worth a line.
    pub(crate) fn report(&self, renewal: &Renewal, gateway: &dyn Gateway) {
        let target = String::from_utf8_lossy(&self.source.target);
        match renewal {
            Renewal::Done(ignored) => {
                for key in ignored {
                    gateway.log(Level::Info, format_args!("keys of {target}: left out {key}"));
                }
            }
            Renewal::Failed(why) => {
                let kept = if self.version() > 0 { "; the last ones stay" } else { "" };
                gateway.log(Level::Warn, format_args!("no keys from {target}: {why}{kept}"));
            }
            Renewal::ByAnother => {}
        }
    }
}

/// What came of fetching.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// There are new keys; these were left out.
    Done(Vec<String>),
    /// There are none.
    Failed(String),
    /// Somebody else fetched.
    ByAnother,
}

impl fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Remote").field("source", &self.source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_filter::{FetchFault, Fetched};
    use sluice_testkit::{SigningKey, jwks};

    use super::{Remote, RemoteKeys, Renewal};

    #[test]
    fn the_last_good_keys_stay() {
        let remote = Remote::new(RemoteKeys {
            cluster: 0,
            target: b"/keys".to_vec(),
            host: Vec::new(),
            timeout: Duration::from_secs(1),
            refresh: 3600,
            pause: 30,
        });
        assert!(remote.is_due(0) && remote.version() == 0 && remote.keys().is_empty());
        let answer =
            |status, body: &str| Ok(Fetched { status, body: body.into(), ..Fetched::default() });
        let failed = |renewal: Renewal| matches!(renewal, Renewal::Failed(_));
        assert!(failed(remote.learn(Err(FetchFault::TimedOut), 100)));
        assert!(!remote.is_due(129) && remote.is_due(130), "not every token asks");
        let (one, secret) =
            (SigningKey::generate("ES256", "1"), SigningKey::generate("HS256", "2"));
        let learned = remote.learn(answer(200, &jwks(&[&one, &secret])), 200);
        assert!(matches!(learned, Renewal::Done(ignored) if ignored.len() == 1), "no secrets");
        assert_eq!((remote.version(), remote.keys().len()), (1, 1));
        assert!(!remote.is_due(3799) && remote.is_due(3800));
        assert!(!remote.is_due_for_unknown(229) && remote.is_due_for_unknown(230));
        for (status, body) in [(500, "{}"), (200, "{}"), (200, "<html>"), (302, "")] {
            assert!(failed(remote.learn(answer(status, body), 4000)), "{status} {body}");
            assert_eq!((remote.version(), remote.keys().len()), (1, 1));
        }
        assert!(!remote.is_due(4029) && remote.is_due(4030));
    }
}
