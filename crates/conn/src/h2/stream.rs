//! One stream of a shared connection: what a message travels over.

use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::{FaultKind, Fields, ResponseHead};
use sluice_wire::h2::{End, ErrorCode, ResponseOptions, StreamId};

use crate::buffer::Buffer;

use super::state::{Inbound, Shared, State};

/// Content of one stream that is put into the output at once: others have their turn behind it.
const SHARE: usize = 16 * 1024;

/// A stream of a connection that others share.
#[derive(Debug)]
pub struct SharedStream {
    shared: Rc<Shared>,
    slot: usize,
    id: StreamId,
}

impl SharedStream {
    pub(super) const fn new(shared: Rc<Shared>, slot: usize, id: StreamId) -> Self {
        Self { shared, slot, id }
    }

    /// Adds content that arrived to `buffer`; 0 is the end. The window of what was taken before is given
    /// back.
    pub(crate) fn poll_read(
        &self,
        cx: &Context<'_>,
        buffer: &mut Buffer,
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.shared.borrow_mut();
        self.give_back(state);
        let Some(slot) = state.slots.get_mut(self.slot) else { return Poll::Ready(Ok(0)) };
        if !slot.inbound.is_empty() {
            let length = slot.inbound.len();
            if buffer.is_empty() {
                std::mem::swap(buffer, &mut slot.inbound);
            } else {
                buffer.tail().extend_from_slice(slot.inbound.content());
                slot.inbound.consume(length);
            }
            slot.inbound.rest();
            slot.owed = length;
            return Poll::Ready(Ok(length));
        }
        match slot.arrival {
            Inbound::Ended => Poll::Ready(Ok(0)),
            Inbound::Reset => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
            Inbound::Open => {
                slot.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn give_back(&self, state: &mut State) {
        let Some(slot) = state.slots.get_mut(self.slot) else { return };
        let owed = std::mem::take(&mut slot.owed);
        if owed > 0 {
            state.codec.consume(self.id, owed);
            if state.codec.wants_flush() {
                state.call_driver();
            }
        }
    }

    /// Trailers, behind the end of the content.
    pub(crate) fn take_trailers(&self) -> Option<Box<Fields>> {
        self.shared.borrow_mut().slots.get_mut(self.slot)?.trailers.take()
    }

    /// Ready once the peer has given the stream up.
    pub(crate) fn poll_reset(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.borrow_mut();
        let Some(slot) = state.slots.get_mut(self.slot) else { return Poll::Ready(()) };
        if slot.arrival == Inbound::Reset {
            return Poll::Ready(());
        }
        if slot.reader.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            slot.reader = Some(cx.waker().clone());
        }
        // An answer that nobody will take is of no use, although all of its request came.
        if state.gone.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Queues the head of an answer, or of an interim one; says how many bytes it took.
    #[inline]
    pub(crate) fn respond(&self, head: &ResponseHead, options: &ResponseOptions<'_>) -> usize {
        let state = &mut *self.shared.borrow_mut();
        let output = state.output.tail();
        let before = output.len();
        // A stream that is gone shows when content follows or its end is looked for.
        let _ = state.codec.respond(output, self.id, head, options);
        let length = output.len() - before;
        state.call_driver();
        length
    }

    /// Queues some of `content`; with [`End::Stream`] the stream ends if all of it was taken.
    ///
    /// # Errors
    /// The stream is gone, and its connection perhaps.
    #[inline]
    pub(crate) fn poll_send(
        &self,
        cx: &Context<'_>,
        content: &[u8],
        end: End,
    ) -> Poll<Result<usize, FaultKind>> {
        let state = &mut *self.shared.borrow_mut();
        if let Some(kind) = state.gone {
            return Poll::Ready(Err(kind));
        }
        if state.is_full() {
            state.await_room(self.slot, cx);
            return Poll::Pending;
        }
        let (piece, end) = match content.get(..SHARE) {
            Some(piece) if content.len() > SHARE => (piece, End::More),
            _ => (content, end),
        };
        match state.codec.data(state.output.tail(), self.id, piece, end) {
            Err(_) => Poll::Ready(Err(FaultKind::Reset)),
            Ok(0) if !piece.is_empty() => {
                if let Some(slot) = state.slots.get_mut(self.slot) {
                    slot.writer = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Ok(taken) => {
                state.call_driver();
                Poll::Ready(Ok(taken))
            }
        }
    }

    /// Queues trailers, which end the stream.
    pub(crate) fn send_trailers(&self, fields: &Fields) {
        let state = &mut *self.shared.borrow_mut();
        // Who is gone needs none.
        let _ = state.codec.trailers(state.output.tail(), self.id, fields);
        state.call_driver();
    }

    /// Ends this side's half, if nothing did.
    pub(crate) fn end(&self) {
        let state = &mut *self.shared.borrow_mut();
        let _ = state.codec.data(state.output.tail(), self.id, &[], End::Stream);
        state.call_driver();
    }

    /// Gives the stream up, so that half an answer is not taken for the whole.
    pub fn abort(&self) {
        self.reset(&mut self.shared.borrow_mut(), ErrorCode::INTERNAL_ERROR);
    }

    /// Gives the stream up because what it was joined to is gone.
    pub(crate) fn cancel(&self) {
        self.reset(&mut self.shared.borrow_mut(), ErrorCode::CANCEL);
    }

    fn reset(&self, state: &mut State, code: ErrorCode) {
        state.codec.reset(self.id, code);
        if state.codec.wants_flush() {
            state.call_driver();
        }
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        let state = &mut *self.shared.borrow_mut();
        let Some(slot) = state.slots.try_remove(self.slot) else { return };
        let left = slot.owed + slot.inbound.len();
        if left > 0 {
            state.codec.consume(self.id, left);
        }
        // The rest of a request whose answer is complete is not wanted (RFC 9113, 8.1); nothing happens
        // if both halves have ended.
        self.reset(state, ErrorCode::NO_ERROR);
        if state.slots.is_empty() {
            state.call_driver();
        }
    }
}
