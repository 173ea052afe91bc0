//! What the program can tell about itself, for those who ask.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sluice_meter::{Meters, PerWorker, PurgeTarget, ServerMeter, Thoroughness, UpstreamMeter};
use sluice_net::LogCounts;
use sluice_upstream::ServerState;

use crate::Document;
use crate::voice::Voice;

/// How far the program's life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No configuration is in force yet.
    Starting,
    /// Requests are served.
    Serving,
    /// Running requests are finished, no others are taken.
    Draining,
}

/// The state of the program, shared by whoever tells of it. Asking it costs a lock, so nothing that
/// every request needs is in here.
#[derive(Debug)]
pub struct Status {
    phase: AtomicU8,
    workers: usize,
    meters: Arc<Meters>,
    log_counts: Arc<LogCounts>,
    /// Lines of the access log the meters know of: written, dropped.
    counted: Mutex<(u64, u64)>,
    shown: Mutex<Option<Arc<Shown>>>,
    /// For what is done by those who ask.
    voice: OnceLock<Voice>,
}

/// The configuration in force, as it is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Counts up with each reload; the first is 1.
    pub generation: u64,
    /// When it was loaded, since 1970.
    pub loaded_at: Duration,
    /// Its text.
    pub document: Document,
    /// The file it came from, if it did.
    pub file: Option<String>,
    /// Where clients connect.
    pub listeners: Vec<ShownListener>,
    /// Where requests go.
    pub upstreams: Vec<ShownUpstream>,
}

/// A listener, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownListener {
    /// Its name.
    pub name: String,
    /// `http://127.0.0.1:8080` with the real port, or `unix:/path`.
    pub url: String,
}

/// An upstream, as it is shown.
#[derive(Clone, Debug)]
pub struct ShownUpstream {
    /// Its name.
    pub name: String,
    /// Its counters.
    pub meter: Arc<PerWorker<UpstreamMeter>>,
    /// Its servers as written.
    pub servers: Vec<ShownServer>,
}

/// A server of an upstream, as it is shown.
#[derive(Clone, Debug)]
pub struct ShownServer {
    /// As written, its name not resolved.
    pub address: String,
    /// Its share of the requests.
    pub weight: u32,
    /// Each address it stands for.
    pub resolved: Vec<ShownPlace>,
}

/// An address of a server, as it is shown.
#[derive(Clone, Debug)]
pub struct ShownPlace {
    /// The address.
    pub address: String,
    /// Its counters.
    pub meter: Arc<PerWorker<ServerMeter>>,
    /// What is known about it.
    pub state: Arc<ServerState>,
}

impl Status {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            phase: AtomicU8::new(code(Phase::Starting)),
            workers,
            meters: Meters::new(workers),
            log_counts: Arc::default(),
            counted: Mutex::default(),
            shown: Mutex::default(),
            voice: OnceLock::new(),
        })
    }

    /// Has the cache of this name forget something, and tells how many answers that hit.
    ///
    /// # Errors
    /// The names of the caches that there are, if this is none of them.
    pub fn purge(
        &self,
        name: &str,
        target: PurgeTarget<'_>,
        thoroughness: Thoroughness,
    ) -> Result<usize, Vec<String>> {
        let mut caches = self.meters.caches();
        let Some(found) = caches.remove(name) else { return Err(caches.into_keys().collect()) };
        let hits = found.iter().map(|cache| cache.purge(target, thoroughness)).sum();
        self.say(&format!("cache {name}: {hits} answers purged"));
        Ok(hits)
    }

    /// What is done from here on is said by this voice.
    pub(crate) fn set_voice(&self, voice: Voice) {
        // There is one for the life of the program.
        let _ = self.voice.set(voice);
    }

    pub(crate) fn say(&self, text: &str) {
        if let Some(voice) = self.voice.get() {
            voice.say(text);
        }
    }

    /// How far the program's life is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        [Phase::Starting, Phase::Serving, Phase::Draining]
            .into_iter()
            .find(|&phase| code(phase) == self.phase.load(Ordering::Relaxed))
            .unwrap_or(Phase::Starting)
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(code(phase), Ordering::Relaxed);
    }

    /// Worker threads.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// The counters of the process; those of the log are as of now.
    #[must_use]
    pub fn meters(&self) -> &Arc<Meters> {
        let written = self.log_counts.written.load(Ordering::Relaxed);
        let dropped = self.log_counts.dropped.load(Ordering::Relaxed);
        let mut counted = locked(&self.counted);
        self.meters.access_log_written.add(written.wrapping_sub(counted.0));
        self.meters.access_log_dropped.add(dropped.wrapping_sub(counted.1));
        *counted = (written, dropped);
        &self.meters
    }

    pub(crate) const fn log_counts(&self) -> &Arc<LogCounts> {
        &self.log_counts
    }

    /// The configuration in force; `None` before the first one.
    #[must_use]
    pub fn shown(&self) -> Option<Arc<Shown>> {
        locked(&self.shown).clone()
    }

    pub(crate) fn show(&self, shown: Shown) {
        *locked(&self.shown) = Some(Arc::new(shown));
    }
}

const fn code(phase: Phase) -> u8 {
    match phase {
        Phase::Starting => 0,
        Phase::Serving => 1,
        Phase::Draining => 2,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Values are replaced as a whole, so a panicking holder left none half-done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_are_counted_once() {
        let status = Status::new(1);
        for (written, total) in [(3, 3), (0, 3), (4, 7)] {
            status.log_counts.written.fetch_add(written, Ordering::Relaxed);
            assert_eq!(status.meters().access_log_written.value(), total);
        }
        assert_eq!(status.meters().access_log_dropped.value(), 0);
    }

    #[test]
    fn phases_come_back_as_they_were_set() {
        let status = Status::new(1);
        assert_eq!(status.phase(), Phase::Starting);
        for phase in [Phase::Serving, Phase::Draining, Phase::Starting] {
            status.set_phase(phase);
            assert_eq!(status.phase(), phase);
        }
    }
}
