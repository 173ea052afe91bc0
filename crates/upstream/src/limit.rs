//! How much one server is asked at once, over all workers.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Weak;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use sluice_net::{Deadline, Permit, Permits, Queued, Refused, spawn};

use crate::pool::Pool;

/// What becomes of requests for which no server has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRule {
    /// How many may wait for one server.
    pub places: u32,
    /// How long one may wait.
    pub wait: Duration,
}

/// The limit of one server, shared by all workers. It outlives plans, as what is under way does.
///
/// Requests and connections are counted apart: a connection goes on when its request has ended, and
/// serves another one of the same worker. A worker that has room for a request but none for its
/// connection has idle ones of other workers closed. There always is one then: every connection that
/// is not idle belongs to a request, and the requests that have one are fewer than there may be.
#[derive(Debug)]
pub struct ServerLimit {
    requests: Arc<Permits>,
    connections: Arc<Permits>,
    keepers: Mutex<Keepers>,
}

/// Those who close idle connections when told to, one for each worker's view of the server.
#[derive(Debug, Default)]
struct Keepers {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl ServerLimit {
    /// So many requests and connections at once.
    pub(crate) fn new(most: u32, queue: QueueRule) -> Self {
        Self {
            requests: Arc::new(Permits::new(most, queue.places)),
            connections: Arc::new(Permits::new(most, u32::MAX)),
            keepers: Mutex::default(),
        }
    }

    /// Changes the limit. What is under way beyond it ends as it would have.
    pub(crate) fn resize(&self, most: u32, queue: QueueRule) {
        self.requests.resize(most, queue.places);
        self.connections.resize(most, u32::MAX);
        // Idle connections may be more than there may be now.
        self.call_keepers();
    }

    /// Lets everybody in.
    pub(crate) fn lift(&self) {
        self.requests.resize(u32::MAX, u32::MAX);
        self.connections.resize(u32::MAX, u32::MAX);
    }

    /// How many requests may be under way.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.requests.limit()
    }

    /// How many may wait.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.requests.queue_limit()
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.connections.taken()
    }

    /// Room for a request, if there is some.
    pub(crate) fn try_enter(&self) -> Option<Permit<Arc<Permits>>> {
        Permits::try_take(Arc::clone(&self.requests))
    }

    /// Room for a request, or a place in the queue for it.
    pub(crate) fn queue(&self) -> Result<Queued<Arc<Permits>>, Refused> {
        Permits::queue(Arc::clone(&self.requests))
    }

    /// Room for a connection. Somebody who keeps an idle one makes some, if need be.
    pub(crate) async fn room(
        &self,
        deadline: &Deadline,
        limit: Duration,
    ) -> Result<Permit<Arc<Permits>>, Refused> {
        if let Some(room) = Permits::try_take(Arc::clone(&self.connections)) {
            return Ok(room);
        }
        let queued = Permits::queue(Arc::clone(&self.connections))?;
        // Whoever puts an idle connection away from here on sees that somebody waits.
        self.call_keepers();
        deadline.limit(limit, queued).await.map_err(|_| Refused::TimedOut)
    }

    /// Whether an idle connection is in somebody's way.
    pub(crate) fn is_tight(&self) -> bool {
        self.connections.waiting() > 0 || self.connections.taken() > self.connections.limit()
    }

    pub(crate) fn call_keepers(&self) {
        // Woken outside the lock: the woken may be faster than we are.
        let wakers: Vec<Waker> = self.lock().wakers.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Keepers> {
        // Nothing under the lock can leave the map half-changed.
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the task that closes idle connections of this worker when others need the room. It ends
    /// with the pool, once it is called.
    pub(crate) fn keep(self: &Arc<Self>, pool: Weak<Pool>) {
        let limit = Arc::clone(self);
        spawn(async move {
            let place = {
                let mut keepers = limit.lock();
                keepers.next += 1;
                keepers.next
            };
            poll_fn(|cx| {
                limit.lock().wakers.insert(place, cx.waker().clone());
                let Some(pool) = pool.upgrade() else { return Poll::Ready(()) };
                while limit.is_tight() && pool.close_oldest() {}
                Poll::Pending
            })
            .await;
            limit.lock().wakers.remove(&place);
        });
    }
}
