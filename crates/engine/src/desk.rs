//! Where requests of connections that carry many are served, used again and again.

use std::cell::RefCell;
use std::rc::Rc;

use sluice_conn::h2::ServerStream;
use sluice_message::{FaultKind, RequestHead};
use sluice_net::Deadline;

use crate::connection::Connection;

/// Desks kept for reuse by each thread: as many as a busy connection has requests under way.
const KEPT: usize = 256;

/// Heads larger than this give their memory back.
const HEAD_KEPT: usize = 16 * 1024;

thread_local! {
    #[expect(clippy::vec_box, reason = "a desk goes from hand to hand in one word")]
    static FREE: RefCell<Vec<Box<Desk>>> = const { RefCell::new(Vec::new()) };
}

/// What a request of a connection that carries many is served with.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) head: RequestHead,
    /// The deadline of its task.
    pub(crate) deadline: Deadline,
    pub(crate) order: Option<Order>,
}

/// A request whose head is on the desk.
pub(crate) struct Order {
    /// The connection it came over.
    pub(crate) connection: Rc<Connection>,
    /// Its own part of it.
    pub(crate) stream: ServerStream,
    /// Why it cannot be served, if it cannot.
    pub(crate) refusal: Option<FaultKind>,
}

impl Desk {
    /// One that served others before, or a new one.
    pub(crate) fn take() -> Box<Self> {
        FREE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Leaves it to the next one.
    pub(crate) fn leave(mut self: Box<Self>) {
        self.order = None;
        self.head.fields.shrink(HEAD_KEPT);
        FREE.with_borrow_mut(|free| {
            if free.len() < KEPT {
                free.push(self);
            }
        });
    }
}
