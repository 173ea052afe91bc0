//! One stream of a shared connection: what a message travels over.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::{FaultKind, Fields, RequestHead, ResponseHead};
use sluice_net::now;
use sluice_wire::h2::{End, ErrorCode, Peer, RequestOptions, ResponseOptions, Scheme, StreamId};

use crate::buffer::Buffer;

use super::state::{Inbound, Shared, Slot, State};

/// Content of one stream that is put into the output at once: others have their turn behind it.
const SHARE: usize = 16 * 1024;

/// A stream of a connection that others share. `H` is the head its peer sends.
#[derive(Debug)]
pub struct SharedStream<H: Peer> {
    shared: Rc<Shared<H>>,
    slot: usize,
    /// [`StreamId::NONE`] until a request is sent.
    id: Cell<StreamId>,
}

/// A stream that a client opened.
pub type ServerStream = SharedStream<RequestHead>;

/// A stream for a request to an origin.
pub type ClientStream = SharedStream<ResponseHead>;

impl<H: Peer> SharedStream<H> {
    pub(super) const fn new(shared: Rc<Shared<H>>, slot: usize, id: StreamId) -> Self {
        Self { shared, slot, id: Cell::new(id) }
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
            Inbound::Reset | Inbound::Refused => {
                Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
            }
            Inbound::Open => {
                slot.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn give_back(&self, state: &mut State<H>) {
        let Some(slot) = state.slots.get_mut(self.slot) else { return };
        let owed = std::mem::take(&mut slot.owed);
        if owed > 0 {
            state.codec.consume(self.id.get(), owed);
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
        if slot.is_given_up() {
            return Poll::Ready(());
        }
        if slot.reader.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            slot.reader = Some(cx.waker().clone());
        }
        // An answer that nobody will take is of no use, although all of its request came.
        if state.gone.is_some() { Poll::Ready(()) } else { Poll::Pending }
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
        match state.codec.data(state.output.tail(), self.id.get(), piece, end) {
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
        let _ = state.codec.trailers(state.output.tail(), self.id.get(), fields);
        state.call_driver();
    }

    /// Ends this side's half, if nothing did.
    pub(crate) fn end(&self) {
        let state = &mut *self.shared.borrow_mut();
        let _ = state.codec.data(state.output.tail(), self.id.get(), &[], End::Stream);
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

    fn reset(&self, state: &mut State<H>, code: ErrorCode) {
        state.codec.reset(self.id.get(), code);
        if state.codec.wants_flush() {
            state.call_driver();
        }
    }
}

impl ServerStream {
    /// Queues the head of an answer, or of an interim one; says how many bytes it took.
    #[inline]
    pub(crate) fn respond(&self, head: &ResponseHead, options: &ResponseOptions<'_>) -> usize {
        let state = &mut *self.shared.borrow_mut();
        let output = state.output.tail();
        let before = output.len();
        // A stream that is gone shows when content follows or its end is looked for.
        let _ = state.codec.respond(output, self.id.get(), head, options);
        let length = output.len() - before;
        state.call_driver();
        length
    }
}

/// How asking for an answer ends without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The peer did nothing of what was asked: it may be asked again, whatever it was.
    Refused,
    /// The stream was given up.
    Stream(FaultKind),
    /// The connection is gone.
    Connection(FaultKind),
}

impl ClientStream {
    /// A place on a connection, for a request that is about to be sent.
    pub(super) fn reserve(shared: &Rc<Shared<ResponseHead>>) -> Self {
        let slot = Slot::new(StreamId::NONE, End::More);
        let slot = shared.borrow_mut().slots.insert(slot);
        Self::new(Rc::clone(shared), slot, StreamId::NONE)
    }

    /// Whether the peer lets streams become pipes (RFC 8441, 3).
    #[must_use]
    pub fn may_be_pipe(&self) -> bool {
        self.shared.borrow().codec.peer_settings().connect_protocol == 1
    }

    /// What its connection is called in requests.
    pub(crate) fn scheme(&self) -> Scheme {
        self.shared.borrow().scheme
    }

    /// Queues the head of a request; says how many bytes it took.
    pub(crate) fn request(&self, head: &RequestHead, options: &RequestOptions) -> usize {
        let state = &mut *self.shared.borrow_mut();
        let output = state.output.tail();
        let before = output.len();
        let opened = state.codec.request(output, head, options);
        let length = output.len() - before;
        if let Some(slot) = state.slots.get_mut(self.slot) {
            match opened {
                Ok(id) => {
                    (slot.id, slot.asked_at) = (id, state.read);
                    self.id.set(id);
                    state.codec.set_tag(id, u32::try_from(self.slot).unwrap_or(u32::MAX));
                }
                // It went to an end between being chosen and being used.
                Err(_) => slot.arrival = Inbound::Refused,
            }
        }
        state.call_driver();
        length
    }

    /// Waits for the head of an answer, interim ones included.
    pub(crate) fn poll_answer(
        &self,
        cx: &Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<(), Unanswered>> {
        let state = &mut *self.shared.borrow_mut();
        let gone = state.gone;
        let Some(slot) = state.slots.get_mut(self.slot) else {
            return Poll::Ready(Err(Unanswered::Stream(FaultKind::Reset)));
        };
        if let Some(mut answer) = slot.take_answer() {
            std::mem::swap(&mut *answer, head);
            state.recycle(answer);
            return Poll::Ready(Ok(()));
        }
        let unanswered = match (slot.arrival, slot.refusal, gone) {
            (Inbound::Refused, ..) => Unanswered::Refused,
            (_, Some(kind), _) => Unanswered::Stream(kind),
            (_, _, Some(kind)) => Unanswered::Connection(kind),
            (Inbound::Reset | Inbound::Ended, ..) => Unanswered::Stream(FaultKind::Reset),
            (Inbound::Open, ..) => {
                slot.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
        };
        Poll::Ready(Err(unanswered))
    }

    /// Whether nothing at all has come over the connection since the request was sent: it may lead
    /// nowhere any more.
    pub(crate) fn is_mute(&self) -> bool {
        let state = self.shared.borrow();
        state.slots.get(self.slot).is_some_and(|slot| slot.asked_at == state.read)
    }

    /// No other request is to go over this connection.
    pub(crate) fn retire(&self) {
        self.shared.borrow_mut().retired = true;
    }
}

impl<H: Peer> Drop for SharedStream<H> {
    fn drop(&mut self) {
        let state = &mut *self.shared.borrow_mut();
        let Some(slot) = state.slots.try_remove(self.slot) else { return };
        let left = slot.owed + slot.inbound.len();
        if left > 0 {
            state.codec.consume(self.id.get(), left);
        }
        // Nothing happens if both halves have ended.
        let unwanted = state.unwanted();
        self.reset(state, unwanted);
        if state.slots.is_empty() {
            state.idle_since = now();
            state.call_driver();
        }
    }
}
