//! That a connection is there: what it counts for as long as it is.

use std::net::IpAddr;
use std::rc::Rc;

use sluice_filter::Place;

use crate::activity::LastSeen;
use crate::guard::{Refusal, Seat};
use crate::listener::ListenerState;
use crate::local::Worker;

/// A connection as those see it who count. When it is dropped, the connection is gone.
pub(crate) struct Presence {
    /// Its place among those of the listener; it has none without a client.
    seat: Option<Seat>,
    seen: LastSeen,
    listener: Rc<ListenerState>,
    worker: Rc<Worker>,
}

impl Presence {
    /// A client's connection, which is counted from now on.
    pub(crate) fn of_client(seat: Seat, listener: &Rc<ListenerState>, worker: &Rc<Worker>) -> Self {
        listener.meter().accepted.increment();
        listener.meter().active.add(1);
        worker.connections.set(worker.connections.get() + 1);
        let seen = LastSeen::default();
        worker.activity.enter(&seen, worker.meter());
        Self { seat: Some(seat), seen, listener: Rc::clone(listener), worker: Rc::clone(worker) }
    }

    /// A connection behind which there is no client.
    pub(crate) fn of_nobody(listener: &Rc<ListenerState>, worker: &Rc<Worker>) -> Self {
        let (listener, worker) = (Rc::clone(listener), Rc::clone(worker));
        Self { seat: None, seen: LastSeen::default(), listener, worker }
    }

    /// Something happens on it: a comparison, but for the first time in a second.
    #[inline]
    pub(crate) fn touch(&self) {
        if self.worker.activity.is_first(&self.seen) {
            self.worker.activity.touch(&self.seen, self.worker.meter());
        }
    }

    /// Counts the client, which was told by a header, among those of the listener.
    pub(crate) fn count_client(&mut self, client: IpAddr) -> Result<(), Refusal> {
        let limits = self.listener.plan().connections;
        self.seat = Some(self.listener.guard().enter_client(client, &limits)?);
        Ok(())
    }
}

impl Place for Presence {
    fn on_failure(&self) {
        self.listener.meter().script_failures.increment();
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let Some(seat) = self.seat else { return };
        self.listener.guard().leave(seat);
        self.listener.meter().active.add(-1);
        self.worker.activity.leave(&self.seen, self.worker.meter());
        self.worker.on_connection_closed();
    }
}
