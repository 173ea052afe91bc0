//! The server's side of a shared connection.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_message::{Fault, FaultKind, RequestHead, Syntax};
use sluice_net::Stream;
use sluice_wire::h2::{Config, End, Error, ServerConnection};

use super::state::{Driven, Opened, Role, Shared, State};
use super::stream::{ServerStream, SharedStream};

/// Drives a connection: to be polled by one task, which serves the requests it finds or hands them over.
#[derive(Debug)]
pub struct Http2Server {
    shared: Rc<Shared<RequestHead>>,
}

/// A request that has come in; its head is where it was asked for.
#[derive(Debug)]
pub struct Arrival {
    /// What it travels over.
    pub stream: ServerStream,
    /// Whether no content follows.
    pub end: End,
    /// Why it cannot be served, if it cannot.
    pub refusal: Option<FaultKind>,
}

/// How a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub fault: Fault,
    /// The rule the client broke, if it was that.
    pub rule: Option<Error>,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Requests: there is none.
    Idle,
    /// The rest of a frame.
    Frame,
    /// The client, to take what waits for it.
    Output,
    /// Nothing of the client's: requests are being served.
    Streams,
}

impl Http2Server {
    /// Over a connection of which `received` has been read already.
    #[must_use]
    pub fn new(config: &Config, received: &[u8]) -> Self {
        let state = State::new(ServerConnection::server(config), received, Role::Server);
        Self { shared: Rc::new(RefCell::new(state)) }
    }

    /// Waits for a request, whose head is put into `head`; `None` when the client has closed the
    /// connection. While it waits the output of all streams is written.
    ///
    /// # Errors
    /// The client broke the connection or its rules; it has been told, as far as it listens.
    pub fn poll_request(
        &self,
        cx: &Context<'_>,
        socket: &Stream,
        head: &mut RequestHead,
    ) -> Poll<Result<Option<Arrival>, Failure>> {
        let state = &mut *self.shared.borrow_mut();
        let driven = ready!(state.poll_drive((cx, socket), |state| state.next_request(head)));
        let failed = |kind, rule| Failure { fault: Fault::downstream(kind), rule };
        Poll::Ready(match driven {
            Driven::Event(Opened { slot, id, end, refusal }) => {
                let stream = SharedStream::new(Rc::clone(&self.shared), slot, id);
                Ok(Some(Arrival { stream, end, refusal }))
            }
            Driven::Ended => Ok(None),
            Driven::Broken(kind) => Err(failed(kind, None)),
            Driven::Failed(error) => Err(failed(FaultKind::Malformed(Syntax::Frame), Some(error))),
        })
    }

    /// What the connection waits for.
    #[must_use]
    pub fn pause(&self) -> Pause {
        let state = self.shared.borrow();
        match () {
            () if !state.output.is_empty() => Pause::Output,
            () if state.is_mid_frame() => Pause::Frame,
            () if state.slots.is_empty() => Pause::Idle,
            () => Pause::Streams,
        }
    }

    /// Changes whenever bytes were read or written.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.shared.borrow().moved
    }

    /// Begins a graceful end: no more requests are wanted, those on their way are served.
    pub fn drain(&self) {
        self.shared.borrow_mut().codec.drain();
    }

    /// Names the last request that is served, although the client may not know yet.
    pub fn end_drain(&self) {
        self.shared.borrow_mut().codec.end_drain();
    }

    /// Whether all is served and said after [`Http2Server::drain`].
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let state = self.shared.borrow();
        state.codec.is_drained() && state.output.is_empty() && !state.codec.wants_flush()
    }
}

impl Drop for Http2Server {
    /// Streams are told that nobody drives their connection any more.
    fn drop(&mut self) {
        self.shared.borrow_mut().give_up(FaultKind::Closed);
    }
}
