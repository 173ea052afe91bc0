//! Decisions that are known already, and those that somebody is asking for.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::Decision;
use crate::Recent;

/// Bytes that a key may have; a decision with a longer one is not remembered.
const KEY_BYTES: usize = 8 * 1024;

/// Those of all workers, each with its own: nobody waits for another one's lock.
#[derive(Debug)]
pub(super) struct Decisions(Box<[Mutex<Shard>]>);

#[derive(Debug)]
struct Shard {
    known: Recent<Arc<Decision>>,
    /// Keys that a request of this worker is asking for.
    flights: HashMap<Box<[u8]>, Arc<Mutex<Flight>>>,
}

/// A question under way, and who waits for its answer.
#[derive(Debug, Default)]
struct Flight {
    outcome: Option<Outcome>,
    waiting: Vec<Waker>,
}

/// Who may get a decision beside the request it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Nobody.
    Nobody,
    /// Requests with the same key that wait for it.
    Waiting,
    /// These, and others until then, in seconds since 1970.
    Until(u64),
}

/// What became of a question.
#[derive(Clone, Debug)]
enum Outcome {
    Decided(Arc<Decision>),
    /// There is no decision: whoever asked failed, or is gone.
    Abandoned,
}

/// What is known of a key.
pub(super) enum Found {
    /// The decision.
    Known(Arc<Decision>),
    /// Another request asks.
    Asked(Join),
    /// Nobody asks: the caller has to.
    Unknown(Lead),
}

/// Decisions of a worker that are known.
#[derive(Debug)]
pub(super) struct Known<'d>(MutexGuard<'d, Shard>);

/// A wait for what another request finds out.
#[derive(Debug)]
pub(super) struct Join(Arc<Mutex<Flight>>);

/// The duty to find a decision out. Dropping it tells those who wait that nothing comes.
#[derive(Debug)]
pub(super) struct Lead {
    decisions: Arc<Decisions>,
    worker: usize,
    key: Box<[u8]>,
    flight: Arc<Mutex<Flight>>,
}

impl Decisions {
    /// Room for so many decisions, over all workers.
    pub(super) fn new(workers: usize, entries: usize) -> Self {
        let each = entries.div_ceil(workers.max(1));
        let shard =
            || Mutex::new(Shard { known: Recent::new(each, KEY_BYTES), flights: HashMap::new() });
        Self((0..workers.max(1)).map(|_| shard()).collect())
    }

    fn shard(&self, worker: usize) -> Option<MutexGuard<'_, Shard>> {
        Some(locked(self.0.get(worker).or_else(|| self.0.first())?))
    }

    /// What this worker knows, while the caller looks at it.
    #[inline]
    pub(super) fn known(&self, worker: usize) -> Option<Known<'_>> {
        self.shard(worker).map(Known)
    }

    /// What is known of this key, at this time in seconds since 1970, and is for the request; the caller has to ask
    /// if nothing is.
    pub(super) fn find(
        self: &Arc<Self>,
        worker: usize,
        (key, now): (&[u8], u64),
        is_for: impl FnOnce(&Decision) -> bool,
    ) -> Option<Found> {
        let mut shard = self.shard(worker)?;
        if let Some(decision) = shard.known.get(key, now).filter(|known| is_for(known)) {
            return Some(Found::Known(Arc::clone(decision)));
        }
        if let Some(flight) = shard.flights.get(key) {
            return Some(Found::Asked(Join(Arc::clone(flight))));
        }
        let flight = Arc::default();
        shard.flights.insert(key.into(), Arc::clone(&flight));
        let decisions = Arc::clone(self);
        Some(Found::Unknown(Lead { decisions, worker, key: key.into(), flight }))
    }
}

impl Known<'_> {
    /// The decision about this key, if it holds at this time in seconds since 1970.
    #[inline]
    pub(super) fn get(&self, key: &[u8], now: u64) -> Option<&Decision> {
        self.0.known.get(key, now).map(|decision| &**decision)
    }
}

impl Join {
    /// The decision; none if nobody found one out.
    pub(super) async fn outcome(self) -> Option<Arc<Decision>> {
        poll_fn(|cx| {
            let mut flight = locked(&self.0);
            match &flight.outcome {
                Some(Outcome::Decided(decision)) => Poll::Ready(Some(Arc::clone(decision))),
                Some(Outcome::Abandoned) => Poll::Ready(None),
                None => {
                    flight.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Lead {
    /// Tells those who may know. Those who wait for a decision that is not for them ask for themselves.
    pub(super) fn decide(self, decision: &Arc<Decision>, sharing: Sharing) {
        let until = match sharing {
            Sharing::Nobody => return self.end(Outcome::Abandoned),
            Sharing::Waiting => None,
            Sharing::Until(until) => Some(until),
        };
        if let (Some(until), Some(mut shard)) = (until, self.decisions.shard(self.worker)) {
            shard.known.put(&self.key, until, Arc::clone(decision));
        }
        self.end(Outcome::Decided(Arc::clone(decision)));
    }

    fn end(&self, outcome: Outcome) {
        if let Some(mut shard) = self.decisions.shard(self.worker) {
            shard.flights.remove(&self.key);
        }
        let mut flight = locked(&self.flight);
        if flight.outcome.is_some() {
            return;
        }
        flight.outcome = Some(outcome);
        let waiting = std::mem::take(&mut flight.waiting);
        drop(flight);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // After a decision there is another flight of this key at most, which is somebody else's.
        if locked(&self.flight).outcome.is_none() {
            self.end(Outcome::Abandoned);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic could leave behind is at worst a decision too few.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    fn poll(join: Join) -> Option<Option<Arc<Decision>>> {
        let mut cx = Context::from_waker(Waker::noop());
        match pin!(join.outcome()).poll(&mut cx) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_asks_and_the_others_wait_for_it() {
        let decisions = Arc::new(Decisions::new(2, 16));
        let find = |now| decisions.find(0, (b"k", now), |_| true).unwrap();
        let Found::Unknown(lead) = find(0) else { panic!("nobody asks") };
        let Found::Asked(first) = find(0) else { panic!("somebody asks") };
        let Found::Asked(second) = find(0) else { panic!("somebody asks") };
        assert!(poll(first).is_none());
        assert!(
            matches!(decisions.find(1, (b"k", 0), |_| true), Some(Found::Unknown(_))),
            "another worker"
        );
        let decision = Arc::new(Decision::default());
        lead.decide(&decision, Sharing::Until(10));
        assert!(Arc::ptr_eq(&poll(second).unwrap().unwrap(), &decision));
        assert!(matches!(find(9), Found::Known(_)));
        let Found::Unknown(lead) = find(10) else { panic!("it is over") };
        let Found::Asked(join) = find(10) else { panic!("somebody asks") };
        drop(lead);
        assert!(poll(join).unwrap().is_none());
        let Found::Unknown(lead) = find(10) else { panic!("nobody asks any more") };
        let Found::Asked(join) = find(10) else { panic!("somebody asks") };
        lead.decide(&decision, Sharing::Waiting);
        assert!(poll(join).unwrap().is_some());
        let Found::Unknown(lead) = find(10) else { panic!("not to be remembered") };
        let Found::Asked(join) = find(10) else { panic!("somebody asks") };
        lead.decide(&decision, Sharing::Nobody);
        assert!(poll(join).unwrap().is_none(), "for whom it was asked alone");
        let Found::Unknown(lead) = find(10) else { panic!("not to be remembered") };
        lead.decide(&decision, Sharing::Until(20));
        let other = decisions.find(0, (b"k", 11), |_| false);
        assert!(matches!(other, Some(Found::Unknown(_))), "for other requests");
    }
}
