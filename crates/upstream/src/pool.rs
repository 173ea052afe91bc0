//! Connections kept open to one server by one worker.

use std::cell::RefCell;
use std::time::Duration;

use sluice_conn::OriginChannel;
use sluice_conn::h2::{ClientStream, Http2Client};
use sluice_net::{Nanos, Stream, now};

struct Idle {
    stream: Stream,
    since: Nanos,
}

/// Connections for the next request. Of those that carry one request at a time, the idle ones, newest
/// last: the newest is taken first, its buffers are warm, and those that are too many grow old and are
/// closed. Of those that carry many, all, in the order in which they were opened: the oldest with room is
/// taken first, so that those no longer needed become idle.
#[derive(Default)]
pub(crate) struct Pool {
    idle: RefCell<Vec<Idle>>,
    shared: RefCell<Vec<Http2Client>>,
}

impl Pool {
    /// What a request can be sent over at once.
    #[inline]
    pub(crate) fn take(&self) -> Option<OriginChannel> {
        match self.take_own() {
            Some(stream) => Some(OriginChannel::Own(stream)),
            None => self.open().map(OriginChannel::Shared),
        }
    }

    /// A connection that was neither closed nor spoken on by the origin since it was put here. The
    /// loop has taken note of both, so looking costs no system call.
    #[inline]
    pub(crate) fn take_own(&self) -> Option<Stream> {
        let mut idle = self.idle.borrow_mut();
        loop {
            let candidate = idle.pop()?;
            if !candidate.stream.is_stale() {
                return Some(candidate.stream);
            }
        }
    }

    /// A stream of a connection that has room for one.
    #[inline]
    pub(crate) fn open(&self) -> Option<ClientStream> {
        let shared = self.shared.borrow();
        if shared.is_empty() { None } else { shared.iter().find_map(Http2Client::open) }
    }

    /// Keeps a connection, unless `most` are kept already.
    #[inline]
    pub(crate) fn put(&self, stream: Stream, most: usize) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < most {
            idle.push(Idle { stream, since: now() });
        }
    }

    /// Keeps a connection that carries many requests.
    pub(crate) fn share(&self, client: Http2Client) {
        let mut shared = self.shared.borrow_mut();
        shared.retain(|client| !client.is_spent());
        shared.push(client);
    }

    /// Closes what is older than `age`, or was closed by the origin.
    pub(crate) fn sweep(&self, age: Duration) {
        let age = Nanos::try_from(age.as_nanos()).unwrap_or(Nanos::MAX);
        let oldest = now().saturating_sub(age);
        self.idle.borrow_mut().retain(|idle| idle.since > oldest && !idle.stream.is_stale());
        let is_young = |client: &Http2Client| client.idle_since().is_none_or(|at| at > oldest);
        self.shared.borrow_mut().retain(|client| is_young(client) && !client.is_spent());
    }

    /// Closes the connection that was idle for longest; whether there was one.
    pub(crate) fn close_oldest(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let oldest = if idle.is_empty() { None } else { Some(idle.remove(0)) };
        drop(idle);
        oldest.is_some() || self.close_shared()
    }

    fn close_shared(&self) -> bool {
        let mut shared = self.shared.borrow_mut();
        let idle = shared.iter().position(|client| client.idle_since().is_some());
        let closed = idle.map(|at| shared.remove(at));
        drop(shared);
        closed.is_some()
    }

    /// How many are idle.
    pub(crate) fn len(&self) -> usize {
        let shared = self.shared.borrow();
        let idle = shared.iter().filter(|client| client.idle_since().is_some()).count();
        self.idle.borrow().len() + idle
    }

    /// Closes all that are idle; the others are closed when their last request is done.
    pub(crate) fn clear(&self) {
        self.idle.borrow_mut().clear();
        self.shared.borrow_mut().clear();
    }
}
