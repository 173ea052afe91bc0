//! Fair shares of new connections: the kernel's choice of a worker, unless another has far less to do.
//!
//! SO_REUSEPORT spreads connections by a hash: of sixteen that stay, one of two workers may well get
//! twelve. So whoever accepts a connection looks at what the others have to do, and hands it over
//! before it has cost anything. What counts is busy connections: thousands of idle ones cost nothing.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sluice_meter::{Meters, WorkerMeter};
use sluice_net::{Accepted, Mailbox, Post, mailbox};

use crate::guard::Seat;
use crate::{ListenerPlan, Snapshot};

/// Busy connections one worker may have more than another before it hands over. It grows with what
/// the other has: sharing evenly is not worth a wake-up of another thread for every connection.
const MARGIN: i64 = 2;
const SHARE: i64 = 4;

/// Workers that are looked at for one connection; with more of them, others come next time.
const LOOKED_AT: usize = 8;

/// A connection on its way to another worker, counted by its listener's guard already.
pub(crate) struct HandOver {
    pub(crate) accepted: Accepted,
    pub(crate) seat: Seat,
    /// What it was accepted under: the other worker may not have it yet, or no longer.
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) plan: Arc<ListenerPlan>,
}

/// What a worker leaves for another.
pub(crate) enum Handed {
    Connection(HandOver),
    /// Descriptors are scarce: idle connections are to be closed.
    Shed,
}

/// Where connections are left for a worker. On cache lines of its own, since others write it.
#[repr(align(128))]
struct Berth {
    post: Post<Handed>,
    /// Connections on their way.
    inbound: AtomicU32,
    /// The worker takes no more.
    closed: AtomicBool,
}

/// A worker's place among those it shares connections with.
pub struct Member {
    index: usize,
    berths: Arc<[Berth]>,
    /// Who is looked at first.
    next: Cell<usize>,
}

/// Where a worker finds connections that others left.
pub struct Inbox(pub(crate) Mailbox<Handed>);

/// Makes so many workers share new connections.
#[must_use]
pub fn team(workers: usize) -> Vec<(Member, Inbox)> {
    let (posts, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| mailbox()).unzip();
    let berth = |post| Berth { post, inbound: AtomicU32::new(0), closed: AtomicBool::new(false) };
    let berths: Arc<[Berth]> = posts.into_iter().map(berth).collect();
    let member = |index| Member { index, berths: Arc::clone(&berths), next: Cell::new(index + 1) };
    inboxes.into_iter().enumerate().map(|(at, inbox)| (member(at), Inbox(inbox))).collect()
}

impl Member {
    /// A worker that has far less to do than this one.
    pub(crate) fn idler(&self, meters: &Meters) -> Option<usize> {
        if self.berths.len() < 2 {
            return None;
        }
        let own = self.busy(self.index, meters.threads().worker(self.index))?;
        if own < MARGIN {
            return None;
        }
        let others = self.berths.len() - 1;
        let first = self.next.get();
        self.next.set(first.wrapping_add(LOOKED_AT));
        let (busy, _, other) = (0..others.min(LOOKED_AT))
            // Every number but our own.
            .map(|step| (self.index + 1 + (first.wrapping_add(step)) % others) % self.berths.len())
            .filter_map(|other| self.load(other, meters.threads().worker(other)))
            .min()?;
        is_far_less(busy, own).then_some(other)
    }

    /// What a worker has to do, in order of weight, and its number; nothing if it is about to end.
    fn load(&self, other: usize, meter: &WorkerMeter) -> Option<(i64, i64, usize)> {
        Some((self.busy(other, meter)?, meter.connections.value(), other))
    }

    /// Busy connections of a worker, those on their way to it included, or a burst would go to one
    /// worker before it can say a word.
    fn busy(&self, worker: usize, meter: &WorkerMeter) -> Option<i64> {
        let berth = self.berths.get(worker).filter(|it| !it.closed.load(Ordering::Relaxed))?;
        Some(meter.busy.value() + i64::from(berth.inbound.load(Ordering::Relaxed)))
    }

    /// Gives a connection to another worker, which serves it in any case; given back if that worker
    /// has begun to end meanwhile.
    pub(crate) fn hand_over(&self, other: usize, connection: HandOver) -> Result<(), HandOver> {
        let Some(berth) = self.berths.get(other) else { return Err(connection) };
        // Counted first: then either it waits for us, or we see that it does not (`close`,
        // `is_settled`). Both sides need one order of these two steps.
        berth.inbound.fetch_add(1, Ordering::SeqCst);
        if berth.closed.load(Ordering::SeqCst) {
            berth.inbound.fetch_sub(1, Ordering::SeqCst);
            return Err(connection);
        }
        berth.post.send(Handed::Connection(connection));
        Ok(())
    }

    /// Has the other workers close idle connections.
    pub(crate) fn shed_others(&self) {
        let others = self.berths.iter().enumerate().filter(|(at, _)| *at != self.index);
        others.for_each(|(_, berth)| berth.post.send(Handed::Shed));
    }

    /// A connection that others left is served now.
    pub(crate) fn on_taken(&self) {
        if let Some(berth) = self.berths.get(self.index) {
            berth.inbound.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Takes no more; what is on its way will still come.
    pub(crate) fn close(&self) {
        if let Some(berth) = self.berths.get(self.index) {
            berth.closed.store(true, Ordering::SeqCst);
        }
    }

    /// Whether nothing is on its way any more, after [`Member::close`].
    pub(crate) fn is_settled(&self) -> bool {
        self.berths.get(self.index).is_none_or(|it| it.inbound.load(Ordering::SeqCst) == 0)
    }
}

/// Whether one more connection here would make the difference too large.
const fn is_far_less(other: i64, own: i64) -> bool {
    own + 1 > other + MARGIN + other / SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections come in at the first of two workers alone; what both have in the end.
    fn shares(connections: i64) -> (i64, i64) {
        let (mut own, mut other) = (0, 0);
        for _ in 0..connections {
            if is_far_less(other, own) { other += 1 } else { own += 1 }
        }
        (own, other)
    }

    #[test]
    fn the_worst_hash_still_gives_everybody_a_fair_share() {
        for (connections, most) in [(2, 2), (4, 3), (16, 10), (100, 60), (1000, 560)] {
            let (own, other) = shares(connections);
            assert!(own <= most && own >= other, "{connections}: {own} and {other}");
        }
    }

    #[test]
    fn a_balanced_team_hands_nothing_over() {
        for (own, other) in [(0, 0), (1, 0), (8, 8), (9, 8), (100, 90), (1000, 900)] {
            assert!(!is_far_less(other, own), "{own} and {other}");
        }
    }

    #[test]
    fn the_one_with_least_to_do_is_found_whoever_is_asked() {
        let meters = Meters::new(12);
        let team = team(12);
        let busy = |worker: usize, count| meters.threads().worker(worker).busy.set(count);
        (0..12).for_each(|worker| busy(worker, 50));
        busy(7, 3);
        for (at, (member, _)) in team.iter().enumerate().filter(|(at, _)| *at != 7) {
            // Not all are looked at at once, but nobody is left out for long.
            let found: Vec<_> = (0..3).filter_map(|_| member.idler(&meters)).collect();
            assert!(found.contains(&7) && found.iter().all(|it| *it == 7), "{at}: {found:?}");
        }
        team[7].0.close();
        assert_eq!((0..3).filter_map(|_| team[0].0.idler(&meters)).count(), 0);
    }

    #[test]
    fn connections_decide_between_those_that_are_equally_busy() {
        let meters = Meters::new(3);
        let team = team(3);
        for (worker, busy, connections) in [(0, 9, 9), (1, 1, 500), (2, 1, 20)] {
            meters.threads().worker(worker).busy.set(busy);
            meters.threads().worker(worker).connections.set(connections);
        }
        assert_eq!(team[0].0.idler(&meters), Some(2));
    }

    #[test]
    fn who_is_alone_asks_nobody() {
        let meters = Meters::new(1);
        meters.threads().worker(0).busy.set(100);
        assert_eq!(team(1)[0].0.idler(&meters), None);
    }
}
