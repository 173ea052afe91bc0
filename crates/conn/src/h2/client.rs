//! The client's side of a shared connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::{FaultKind, ResponseHead};
use sluice_net::{Nanos, Stream, spawn};
use sluice_wire::h2::{ClientConnection, Config, Scheme};

use super::state::{Parting, Role, Shared, State};
use super::stream::ClientStream;

/// A connection to an origin that carries many requests. It is driven by a task of its own, which ends
/// when the connection is gone, or when this is dropped and its last request is done.
#[derive(Debug)]
pub struct Http2Client {
    shared: Rc<Shared<ResponseHead>>,
    /// Requests at once.
    most: usize,
}

impl Http2Client {
    /// Over an open connection. `config` says, among the rest, how many requests are sent at once; the
    /// origin may allow fewer.
    #[must_use]
    pub fn start(stream: Stream, config: &Config) -> Self {
        let mut state = State::new(ClientConnection::client(config), &[], Role::Client);
        state.scheme = if stream.is_encrypted() { Scheme::Https } else { Scheme::Http };
        let shared = Rc::new(RefCell::new(state));
        let driven = Rc::clone(&shared);
        spawn(async move { poll_fn(|cx| poll_drive(&driven, &stream, cx)).await });
        Self { shared, most: usize::try_from(config.streams).unwrap_or(usize::MAX) }
    }

    /// Waits until the origin has said what it allows: then it speaks this protocol.
    ///
    /// # Errors
    /// What became of the connection instead.
    pub fn poll_ready(&self, cx: &Context<'_>) -> Poll<Result<(), FaultKind>> {
        let mut state = self.shared.borrow_mut();
        if state.greeted {
            return Poll::Ready(Ok(()));
        }
        if let Some(kind) = state.gone {
            return Poll::Ready(Err(kind));
        }
        state.opener = Some(cx.waker().clone());
        Poll::Pending
    }

    /// A place for one more request, which is to be sent at once.
    #[must_use]
    pub fn open(&self) -> Option<ClientStream> {
        let state = self.shared.borrow();
        let room = state.slots.len() < self.most && state.codec.can_open() > 0;
        let usable = room && state.gone.is_none() && !state.retired;
        drop(state);
        usable.then(|| ClientStream::reserve(&self.shared))
    }

    /// Whether it will never take another request.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        let state = self.shared.borrow();
        let full = state.codec.streams() > 0;
        state.gone.is_some() || state.retired || (state.codec.can_open() == 0 && !full)
    }

    /// Since when nothing is under way, if nothing is.
    #[must_use]
    pub fn idle_since(&self) -> Option<Nanos> {
        let state = self.shared.borrow();
        state.slots.is_empty().then_some(state.idle_since)
    }
}

impl Drop for Http2Client {
    /// Requests under way go on.
    fn drop(&mut self) {
        let mut state = self.shared.borrow_mut();
        state.parting = Parting::Wanted;
        state.call_driver();
    }
}

fn poll_drive(shared: &Shared<ResponseHead>, socket: &Stream, cx: &Context<'_>) -> Poll<()> {
    let state = &mut *shared.borrow_mut();
    let driven = state.poll_drive((cx, socket), |state| {
        state.take_answers()?;
        Ok(None::<()>)
    });
    if driven.is_ready() {
        return Poll::Ready(());
    }
    if state.is_over() {
        state.give_up(FaultKind::Closed);
        return Poll::Ready(());
    }
    Poll::Pending
}
