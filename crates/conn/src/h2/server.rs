//! The server's side of a shared connection.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::{Fault, FaultKind, RequestHead, Syntax};
use sluice_net::{Stream, now};
use sluice_wire::h2::{Config, End, Error, ServerConnection};

use super::state::{Shared, State};
use super::stream::SharedStream;

/// Drives a connection: to be polled by one task, which serves the requests it finds or hands them over.
#[derive(Debug)]
pub struct Http2Server {
    shared: Rc<Shared>,
}

/// A request that has come in; its head is where it was asked for.
#[derive(Debug)]
pub struct Arrival {
    /// What it travels over.
    pub stream: SharedStream,
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
        let state = State::new(ServerConnection::server(config), received);
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
        state.begin_turn(cx);
        loop {
            // What has come in is not looked at while the client does not take its answers.
            if !state.is_full() {
                match state.next_request(now(), head) {
                    Ok(Some(opened)) => {
                        let shared = Rc::clone(&self.shared);
                        let stream = SharedStream::new(shared, opened.slot, opened.id);
                        let (end, refusal) = (opened.end, opened.refusal);
                        return Poll::Ready(Ok(Some(Arrival { stream, end, refusal })));
                    }
                    Ok(None) => match state.poll_fill(socket, cx) {
                        Poll::Ready(Ok(0)) => {
                            state.give_up(FaultKind::Closed);
                            return Poll::Ready(Ok(None));
                        }
                        Poll::Ready(Ok(_)) => continue,
                        Poll::Ready(Err(kind)) => return Poll::Ready(Err(fail(state, kind))),
                        Poll::Pending => {}
                    },
                    Err(error) => {
                        // GOAWAY says why; nobody waits for it to arrive.
                        let _ = state.poll_flush(socket, cx);
                        let kind = FaultKind::Malformed(Syntax::Frame);
                        let failure = Failure { rule: Some(error), ..fail(state, kind) };
                        return Poll::Ready(Err(failure));
                    }
                }
            }
            let was_full = state.is_full();
            match state.poll_flush(socket, cx) {
                Poll::Ready(Err(kind)) => return Poll::Ready(Err(fail(state, kind))),
                _ if was_full && !state.is_full() => {}
                _ => {
                    state.end_turn();
                    return Poll::Pending;
                }
            }
        }
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

fn fail(state: &mut State, kind: FaultKind) -> Failure {
    state.give_up(kind);
    Failure { fault: Fault::downstream(kind), rule: None }
}
