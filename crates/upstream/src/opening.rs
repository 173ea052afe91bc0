//! Opening connections that many requests share: one at a time, while the others wait for it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use sluice_message::Fault;
use sluice_wire::h2::Config;

/// How the servers of a cluster are spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, known to be spoken there (RFC 9113, 3.3) or insisted on when encryption is agreed upon.
    Http2(Config),
    /// Whichever of the two the server prefers when encryption is agreed upon (RFC 7301).
    Negotiated(Config),
}

/// Whether a connection is being opened that others wait for, and how the last one went.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    under_way: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
    /// Counts openings that ended.
    ended: Cell<u64>,
    failure: Cell<Option<Fault>>,
    /// Whether the server chose HTTP/1.1 last time: then nobody waits for others.
    alone: Cell<bool>,
}

/// The one who opens. Whoever waits goes on when it is dropped.
#[derive(Debug)]
pub(crate) struct Opener<'o>(&'o Opening);

impl Opening {
    /// The right to open a connection, if nobody else does.
    pub(crate) fn begin(&self) -> Option<Opener<'_>> {
        (!self.under_way.replace(true)).then(|| {
            self.failure.set(None);
            Opener(self)
        })
    }

    /// Whether requests have to have connections of their own.
    pub(crate) const fn is_alone(&self) -> bool {
        self.alone.get()
    }

    /// Takes note of what the server chose.
    pub(crate) fn note(&self, chosen: Chosen) {
        self.alone.set(chosen == Chosen::Http1);
    }

    /// Waits until whoever opens a connection has one, or has given up.
    ///
    /// # Errors
    /// It failed: nobody is to try the same again for the same request, one after the other.
    pub(crate) async fn wait(&self) -> Result<(), Fault> {
        let before = self.ended.get();
        poll_fn(|cx| {
            if self.ended.get() != before {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
        self.failure.get().map_or(Ok(()), Err)
    }
}

/// What a server chose to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    Http1,
    Http2,
}

impl Opener<'_> {
    /// It came to nothing.
    pub(crate) fn fail(self, fault: Fault) -> Fault {
        self.0.failure.set(Some(fault));
        fault
    }
}

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.0.under_way.set(false);
        self.0.ended.set(self.0.ended.get().wrapping_add(1));
        self.0.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}
