//! What requests beside those of exchanges are made with.

use std::cell::RefCell;

use sluice_conn::{Receiver, Sender};
use sluice_message::{RequestHead, ResponseHead};
use sluice_net::Deadline;
use sluice_upstream::Pass;

/// Spares kept for reuse by each worker.
const KEPT: usize = 64;

/// Heads larger than this give their memory back.
const HEAD_KEPT: usize = 16 * 1024;

/// What such a request is made with.
#[derive(Default)]
pub(crate) struct Spare {
    /// For those that have no head of their own yet.
    pub(crate) request: RequestHead,
    pub(crate) response: ResponseHead,
    pub(crate) receiver: Receiver,
    pub(crate) sender: Sender,
    pub(crate) deadline: Deadline,
    /// From the request's first byte sent to the head of the answer.
    pub(crate) nanos: u64,
    /// The connection in use.
    pub(crate) connection: Pass,
}

/// Spares of one worker that nobody uses. They are made on demand.
#[derive(Default)]
pub(crate) struct Spares(RefCell<Vec<Spare>>);

impl Spares {
    /// One that served others before, or a new one.
    pub(crate) fn take(&self) -> Spare {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// For the next one. Its connection has to be gone.
    pub(crate) fn put(&self, mut spare: Spare) {
        spare.connection = Pass::default();
        let mut spares = self.0.borrow_mut();
        if spares.len() < KEPT {
            spare.request.fields.shrink(HEAD_KEPT);
            spare.response.fields.shrink(HEAD_KEPT);
            spare.receiver.reset();
            spare.receiver.rest();
            spare.sender.reset();
            spare.sender.rest();
            spares.push(spare);
        }
    }
}
