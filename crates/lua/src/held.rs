//! Coroutines that wait until the peer has taken enough of what they wrote.

use std::cell::{Cell, RefCell};

use mlua_sys::lua_State;

use crate::cause::Cause;
use crate::host::{Host, Id};
use crate::vm;

/// The writers of a connection that go on later.
#[derive(Default)]
pub(crate) struct Held {
    /// How many, looked at more often than there are any.
    count: Cell<usize>,
    writers: RefCell<Vec<(Id, *mut lua_State)>>,
}

impl Held {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// A coroutine waits from now on.
    pub(crate) fn add(&self, id: Id, thread: *mut lua_State) {
        self.writers.borrow_mut().push((id, thread));
        self.count.set(self.count.get() + 1);
    }

    /// All go on, through the queue of those who are ready: what they wrote was taken, or will not be.
    pub(crate) fn release(&self, host: &Host, outcome: Result<(), Cause>) {
        self.count.set(0);
        for (id, thread) in self.writers.take() {
            // It may have gone with its state.
            if host.status(id).is_none() {
                continue;
            }
            let values = vm::with_stack(host, thread, |frame| match outcome {
                Ok(()) => {
                    frame.push_truth(true);
                    1
                }
                Err(cause) => {
                    frame.refuse(cause.text().as_bytes());
                    2
                }
            });
            host.make_ready(id, values);
        }
    }
}
