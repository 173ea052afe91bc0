//! What an origin has seen, shared by its threads and the test.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::request::Received;
use crate::stream::Stream;

/// What the threads of an origin have in common.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<Records>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) requests: Vec<Received>,
    pub(crate) complaints: Vec<String>,
    pub(crate) connections: usize,
    pub(crate) open: HashMap<usize, Stream>,
    pub(crate) sunk: u64,
    pub(crate) stopped: bool,
}

impl Shared {
    pub(crate) fn records(&self) -> MutexGuard<'_, Records> {
        // A failed assertion in a behaviour must not hide the records from the test.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Records) -> T) -> T {
        let result = change(&mut self.records());
        self.changed.notify_all();
        result
    }

    pub(crate) fn complain(&self, why: &str) {
        self.change(|records| records.complaints.push(why.to_owned()));
    }

    pub(crate) fn note_complete(&self, index: usize) {
        self.change(|records| {
            if let Some(request) = records.requests.get_mut(index) {
                request.complete = true;
            }
        });
    }

    pub(crate) fn add_sunk(&self, bytes: u64) {
        self.change(|records| records.sunk += bytes);
    }

    pub(crate) fn pause(&self, wait: Duration) {
        self.wait(wait, |records| records.stopped);
    }

    pub(crate) fn wait(&self, wait: Duration, done: impl Fn(&Records) -> bool) -> bool {
        let deadline = Deadline::after(wait);
        let mut records = self.records();
        while !done(&records) {
            let Some(left) = deadline.remaining() else { return false };
            let (guard, _) =
                self.changed.wait_timeout(records, left).unwrap_or_else(PoisonError::into_inner);
            records = guard;
        }
        true
    }
}
