//! Connections kept open to one server by one worker.

use std::cell::RefCell;
use std::time::Duration;

use sluice_net::{Nanos, Stream, now};

struct Idle {
    stream: Stream,
    since: Nanos,
}

/// Idle connections, newest last. The newest is taken first: its buffers are warm, and those that are
/// too many grow old and are closed.
#[derive(Default)]
pub(crate) struct Pool {
    idle: RefCell<Vec<Idle>>,
}

impl Pool {
    /// A connection that was neither closed nor spoken on by the origin since it was put here. The
    /// loop has taken note of both, so looking costs no system call.
    #[inline]
    pub(crate) fn take(&self) -> Option<Stream> {
        let mut idle = self.idle.borrow_mut();
        loop {
            let candidate = idle.pop()?;
            if !candidate.stream.is_stale() {
                return Some(candidate.stream);
            }
        }
    }

    /// Keeps a connection, unless `most` are kept already.
    #[inline]
    pub(crate) fn put(&self, stream: Stream, most: usize) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < most {
            idle.push(Idle { stream, since: now() });
        }
    }

    /// Closes what is older than `age`, or was closed by the origin.
    pub(crate) fn sweep(&self, age: Duration) {
        let age = Nanos::try_from(age.as_nanos()).unwrap_or(Nanos::MAX);
        let oldest = now().saturating_sub(age);
        self.idle.borrow_mut().retain(|idle| idle.since > oldest && !idle.stream.is_stale());
    }

    /// Closes the connection that was idle for longest; whether there was one.
    pub(crate) fn close_oldest(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let oldest = if idle.is_empty() { None } else { Some(idle.remove(0)) };
        drop(idle);
        oldest.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.idle.borrow().len()
    }

    pub(crate) fn clear(&self) {
        self.idle.borrow_mut().clear();
    }
}
