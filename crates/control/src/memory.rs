//! The memory's watch: says when connections have to be given up, and when no more.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use sluice_engine::{ConnectionCap, Order, Snapshot};
use sluice_meter::Meters;
use sluice_model::MemoryLimit;
use sluice_net::process::{start_thread, uptime};
use sluice_net::{Post, memory};

use crate::voice::Voice;

/// How often the memory is looked at.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time between two words about it: what changes faster is told as it is in the end.
const SILENCE: Duration = Duration::from_secs(5);

/// Tells the watch what to watch. The watch ends when this goes.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    orders: Option<Sender<Watched>>,
    cap: Arc<ConnectionCap>,
}

/// What is watched: the limit in bytes, and whose connections count.
struct Watched {
    limit: Option<u64>,
    snapshot: Arc<Snapshot>,
}

/// What the watch works with.
pub(crate) struct MemoryWatchParts {
    pub(crate) workers: Vec<Post<Order>>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) voice: Voice,
}

impl MemoryWatch {
    /// Starts the watch, which has nothing to watch yet. A machine that has no thread left for it is told
    /// of; the gateway runs without.
    pub(crate) fn start(parts: MemoryWatchParts) -> Self {
        let (orders, inbox) = channel();
        let cap = Arc::<ConnectionCap>::default();
        let voice = parts.voice.clone();
        let keeper = Keeper { parts, cap: Arc::clone(&cap), told: Told::default() };
        let started = start_thread("sluice-memory", move || keeper.run(&inbox), |_| {});
        if let Err(error) = &started {
            voice.warn(&format!("memory is not watched: {error}"));
        }
        Self { orders: started.is_ok().then_some(orders), cap }
    }

    /// What snapshots hold, so that workers see it.
    pub(crate) fn cap(&self) -> Arc<ConnectionCap> {
        Arc::clone(&self.cap)
    }

    /// Watches this from now on.
    pub(crate) fn follow(&self, limit: MemoryLimit, snapshot: &Arc<Snapshot>) {
        let snapshot = Arc::clone(snapshot);
        let limit = bytes(limit, memory::available());
        if let Some(orders) = &self.orders {
            // A watch that ended has said why on standard error.
            let _ = orders.send(Watched { limit, snapshot });
        }
    }
}

/// The limit in bytes; `None` if there is none or it is a share of nobody knows what.
fn bytes(limit: MemoryLimit, available: Option<u64>) -> Option<u64> {
    match limit {
        MemoryLimit::Off => None,
        MemoryLimit::Bytes(bytes) => Some(bytes),
        MemoryLimit::Share(percent) => Some((available? / 100).saturating_mul(u64::from(percent))),
    }
}

/// The thread's own.
struct Keeper {
    parts: MemoryWatchParts,
    cap: Arc<ConnectionCap>,
    told: Told,
}

impl Keeper {
    fn run(mut self, inbox: &Receiver<Watched>) {
        let mut watched: Option<(Pressure, Arc<Snapshot>)> = None;
        loop {
            let order = match &watched {
                Some(_) => inbox.recv_timeout(INTERVAL),
                // Nothing to watch: sleep until there is.
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match order {
                Ok(Watched { limit, snapshot }) => {
                    let before = watched.take().map(|(pressure, _)| pressure);
                    let same = before.filter(|before| Some(before.limit) == limit);
                    let fresh = same.or_else(|| limit.map(Pressure::new));
                    watched = fresh.map(|pressure| (pressure, snapshot));
                    let limit = i64::try_from(limit.unwrap_or_default()).unwrap_or(i64::MAX);
                    self.parts.meters.memory_limit.set(limit);
                    if watched.is_none() {
                        self.relax();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Some((pressure, snapshot)) = &mut watched {
                self.look(pressure, snapshot);
            }
        }
    }

    fn look(&mut self, pressure: &mut Pressure, snapshot: &Snapshot) {
        let Some(used) = memory::resident() else { return };
        let connections = snapshot.connections();
        let cap = pressure.look(used, connections);
        self.cap.set(cap);
        self.parts.meters.memory_short.set(i64::from(cap.is_some()));
        if let Some(thousandths) = cap.and_then(|cap| excess(connections, cap)) {
            self.parts.workers.iter().for_each(|worker| worker.send(Order::Shed(thousandths)));
        }
        self.tell(cap, (used, pressure.limit));
    }

    /// Nothing is watched any more.
    fn relax(&mut self) {
        self.cap.set(None);
        self.parts.meters.memory_short.set(0);
        self.told = Told::default();
    }

    fn tell(&mut self, cap: Option<u32>, (used, limit): (u64, u64)) {
        if !self.told.is_news(cap.is_some(), uptime()) {
            return;
        }
        let (used, limit) = (used >> 20, limit >> 20);
        match cap {
            Some(cap) => self.parts.voice.warn(&format!(
                "memory is short, {used} MiB of {limit} MiB are used: there may be {cap} connections, \
                 others are refused and idle ones closed"
            )),
            None => self.parts.voice.say(&format!(
                "memory is no longer short, {used} MiB of {limit} MiB are used: connections are taken \
                 again"
            )),
        }
    }
}

/// Thousandths of the connections that are too many.
fn excess(connections: u32, cap: u32) -> Option<usize> {
    let excess = u64::from(connections.checked_sub(cap).filter(|excess| *excess > 0)?);
    usize::try_from((excess * 1000).div_ceil(u64::from(connections))).ok()
}

/// What was said last, and when.
#[derive(Debug, Default)]
struct Told {
    short: bool,
    at: Option<Duration>,
}

impl Told {
    /// Whether this is worth a word.
    fn is_news(&mut self, short: bool, now: Duration) -> bool {
        let silent = self.at.is_some_and(|at| now.saturating_sub(at) < SILENCE);
        if short == self.short || silent {
            return false;
        }
        (self.short, self.at) = (short, Some(now));
        true
    }
}

/// Decides how many connections there may be.
///
/// Memory that connections held goes back to the allocator, which keeps much of it for the next ones:
/// what the kernel counts may stay where it is when the need is long over. So not the memory is waited
/// for, but the number of connections at which it became short is not reached again.
#[derive(Debug)]
struct Pressure {
    limit: u64,
    /// The most that was used since memory became short.
    most: u64,
    /// The most connections of late: a flood may be over when its memory is seen.
    crowd: u32,
    cap: Option<u32>,
}

/// So many connections there may be in any case. The allocator keeps memory that nobody uses any more, so a gateway
/// that serves nobody would go on like that.
const LEAST: u32 = 16;

impl Pressure {
    const fn new(limit: u64) -> Self {
        Self { limit, most: 0, crowd: 0, cap: None }
    }

    fn look(&mut self, used: u64, connections: u32) -> Option<u32> {
        self.crowd = connections.max(self.crowd - self.crowd / 8);
        if used < self.limit / 10 * 9 {
            (self.most, self.cap) = (0, None);
        } else if used >= self.limit && used > self.most.saturating_add(self.most / 64) {
            // Short, or shorter than it was: one of ten has to go. Where fewer are left than there may be, memory grew
            // for another reason, and half of what there may be is enough at a time.
            let cap = match self.cap {
                None => self.crowd - self.crowd.div_ceil(10),
                Some(cap) => (connections - connections.div_ceil(10)).max(cap / 2).min(cap),
            };
            self.cap = Some(cap.max(LEAST));
            self.most = used;
        }
        self.cap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_given_up_until_memory_is_there_again() {
        let mut pressure = Pressure::new(1000);
        // Used, connections, how many there may be.
        let rows = [
            (100, 10, None),
            (999, 100, None),
            (1000, 100, Some(90)),
            // No more is used: what is left of them may stay.
            (1010, 95, Some(90)),
            (1010, 90, Some(90)),
            (1100, 90, Some(81)),
            (1099, 10, Some(81)),
            // The memory goes slowly back.
            (950, 10, Some(81)),
            (901, 10, Some(81)),
            (899, 10, None),
            (999, 200, None),
            (1000, 200, Some(180)),
        ];
        for (at, (used, connections, expected)) in rows.into_iter().enumerate() {
            assert_eq!(pressure.look(used, connections), expected, "row {at}");
        }
    }

    #[test]
    fn nobody_is_locked_out_for_good() {
        // A limit below what the program needs.
        assert_eq!(Pressure::new(1).look(10_000, 0), Some(LEAST));
        assert_eq!(Pressure::new(1).look(10_000, 1), Some(LEAST));
        // The flood is over before its memory is seen, and the allocator keeps that for ever.
        let mut pressure = Pressure::new(1000);
        assert_eq!(pressure.look(900, 8000), None);
        let cap = pressure.look(1500, 0).unwrap();
        assert!((6000..7200).contains(&cap), "{cap}");
        // What grows while few are left costs half at a time, and no more than all but a few.
        assert_eq!(pressure.look(1600, 3), Some(cap / 2));
        let mut used = 1600;
        for _ in 0..20 {
            used += used / 32;
            pressure.look(used, 3);
        }
        assert_eq!(pressure.cap, Some(LEAST));
    }

    #[test]
    fn what_is_too_much_is_a_share() {
        let rows = [
            (0, 0, None),
            (10, 10, None),
            (9, 10, None),
            (100, 90, Some(100)),
            (3, 0, Some(1000)),
            (1000, 999, Some(1)),
            (u32::MAX, 1, Some(1000)),
        ];
        for (connections, cap, expected) in rows {
            assert_eq!(excess(connections, cap), expected, "{connections} of {cap}");
        }
    }

    #[test]
    fn news_are_told_once_and_not_too_often() {
        let mut told = Told::default();
        let rows = [
            (0, false, false),
            (1, true, true),
            (2, true, false),
            (3, false, false),
            (7, false, true),
            (8, true, false),
            (9, false, false),
            (30, true, true),
        ];
        for (second, short, expected) in rows {
            assert_eq!(told.is_news(short, Duration::from_secs(second)), expected, "{second}");
        }
    }

    #[test]
    fn shares_are_of_what_there_is() {
        let rows = [
            (MemoryLimit::Off, Some(1000), None),
            (MemoryLimit::Bytes(7), None, Some(7)),
            (MemoryLimit::Share(80), Some(1000), Some(800)),
            (MemoryLimit::Share(80), None, None),
        ];
        for (limit, available, expected) in rows {
            assert_eq!(bytes(limit, available), expected, "{limit:?}");
        }
    }
}
