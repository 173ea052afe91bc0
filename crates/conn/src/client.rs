//! The origin's side of an exchange.

use std::task::{Context, Poll, ready};

use sluice_message::{
    BodyLength, Fault, FaultKind, Method, Persistence, RequestHead, ResponseHead, Retry,
};
use sluice_net::Stream;
use sluice_wire::h1::{Decoded, Limits, RequestFraming, Upgrade, decode_response, encode_request};
use sluice_wire::h2::{End, RequestOptions, Tunnel};

use crate::channel::{Channel, OriginChannel};
use crate::h2::Unanswered;
use crate::receive::broken;
use crate::{Receiver, Sender};

/// Whether a connection served requests before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Opened for this request.
    Fresh,
    /// Taken from the pool: the origin may have closed it while the request was on its way.
    Reused,
}

/// Limits for what an origin sends as a head. Origins are chosen by the operator, yet bounded.
pub const ORIGIN_LIMITS: Limits = Limits { head: 64 * 1024 - 1, fields: 256, target: 8 * 1024 };

/// A connection to an origin, or a stream of one, while a request is on it.
#[derive(Debug)]
pub struct Upstream<'u> {
    /// What the messages travel over.
    pub channel: OriginChannel,
    /// The answers' half.
    pub receiver: &'u mut Receiver,
    /// The requests' half.
    pub sender: &'u mut Sender,
    reuse: Reuse,
    /// Whether a head has come on a stream; of a connection the bytes tell.
    begun: Begun,
}

/// Whether an answer has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    No,
    Yes,
}

impl<'u> Upstream<'u> {
    /// Around an open connection, with halves that served others before.
    #[must_use]
    #[inline(always)]
    pub fn new(
        channel: OriginChannel,
        (receiver, sender): (&'u mut Receiver, &'u mut Sender),
        reuse: Reuse,
    ) -> Self {
        receiver.reset();
        sender.reset();
        Self { channel, receiver, sender, reuse, begun: Begun::No }
    }

    /// The same connection again, with all that its halves hold.
    #[must_use]
    #[inline]
    pub const fn resume(
        channel: OriginChannel,
        (receiver, sender): (&'u mut Receiver, &'u mut Sender),
        reuse: Reuse,
    ) -> Self {
        Self { channel, receiver, sender, reuse, begun: Begun::Yes }
    }

    /// Whether the connection served requests before.
    #[must_use]
    pub const fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Queues the head of a request; content follows through `sender`. A stream is asked to become a pipe
    /// for WebSocket, and for nothing else.
    // In line where requests pass, though others send requests too: a call costs them measurably.
    #[inline(always)]
    pub fn send_head(&mut self, head: &RequestHead, upgrade: Upgrade) {
        if let OriginChannel::Shared(_) = self.channel {
            return self.send_stream_head(head, upgrade);
        }
        let framing = RequestFraming { body: head.body, upgrade, expectation: head.expectation };
        self.sender.encode(|output| encode_request(output, head, framing));
        self.sender.announce(head.body);
    }

    /// Waits for the head of an answer, interim ones included.
    ///
    /// # Errors
    /// A malformed head, or a connection that ended or broke; see [`Upstream::lost`].
    // In line for the same reason.
    #[inline(always)]
    pub fn poll_head(
        &mut self,
        cx: &Context<'_>,
        request: Method,
        head: &mut ResponseHead,
    ) -> Poll<Result<(), Fault>> {
        let stream = match &self.channel {
            OriginChannel::Own(stream) => stream,
            OriginChannel::Shared(_) => return self.poll_stream_head(cx, head),
        };
        loop {
            if !self.receiver.input().is_empty() {
                match decode_response(self.receiver.input(), &ORIGIN_LIMITS, request, head) {
                    Ok(Decoded::Complete { consumed }) => {
                        self.receiver.consume_head(consumed);
                        self.receiver.expect(head.body);
                        return Poll::Ready(Ok(()));
                    }
                    Ok(Decoded::Partial) => {}
                    Err(kind) => return Poll::Ready(Err(Fault::upstream(kind, Retry::Never))),
                }
            }
            match ready!(self.receiver.poll_input(Channel::Own(stream), cx)) {
                Ok(0) => return Poll::Ready(Err(self.lost(FaultKind::Closed))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(self.lost(broken(&error)))),
            }
        }
    }

    /// A stream is opened with the head; what frames the content differs, too.
    #[inline(never)]
    fn send_stream_head(&mut self, head: &RequestHead, upgrade: Upgrade) {
        let OriginChannel::Shared(stream) = &self.channel else { return };
        let (tunnel, end) = match (upgrade, head.body) {
            (Upgrade::Yes, _) => (Tunnel::WebSocket, End::More),
            (Upgrade::No, BodyLength::Empty) => (Tunnel::AsInHead, End::Stream),
            (Upgrade::No, _) => (Tunnel::AsInHead, End::More),
        };
        let options = RequestOptions {
            scheme: stream.scheme(),
            body: head.body,
            expectation: head.expectation,
            end,
            tunnel,
        };
        let length = stream.request(head, &options);
        self.sender.announce_stream(length, end);
    }

    #[inline(never)]
    fn poll_stream_head(
        &mut self,
        cx: &Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<(), Fault>> {
        let OriginChannel::Shared(stream) = &self.channel else {
            return Poll::Ready(Err(self.lost(FaultKind::Closed)));
        };
        match ready!(stream.poll_answer(cx, head)) {
            Ok(()) => {
                self.begun = Begun::Yes;
                self.receiver.expect_stream(head.body);
                Poll::Ready(Ok(()))
            }
            Err(unanswered) => Poll::Ready(Err(self.unanswered(unanswered))),
        }
    }

    #[cold]
    fn unanswered(&mut self, unanswered: Unanswered) -> Fault {
        match unanswered {
            Unanswered::Refused => Fault::upstream(FaultKind::StreamRefused, Retry::Always),
            // A connection that others opened may have been at its end; a stream has its end alone.
            Unanswered::Connection(kind) => self.lost(kind),
            Unanswered::Stream(kind) => {
                self.reuse = Reuse::Fresh;
                match kind {
                    FaultKind::Reset => self.lost(kind),
                    _ => Fault::upstream(kind, Retry::Never),
                }
            }
        }
    }

    /// From now on both directions are bytes without a frame.
    pub fn become_pipe(&mut self) {
        self.receiver.expect(BodyLength::UntilClose);
        self.sender.announce(BodyLength::UntilClose);
    }

    /// Changes whenever output was queued or written.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.sender.progress()
    }

    /// The connection ended, or was given up, before its answer was there. If not a byte of the answer
    /// had come, the request may be repeated if that does no harm (RFC 9112, 9.3.1).
    #[must_use]
    pub fn lost(&self, kind: FaultKind) -> Fault {
        let untouched = match &self.channel {
            OriginChannel::Own(_) => {
                self.receiver.input().is_empty() && self.receiver.received() == 0
            }
            OriginChannel::Shared(stream) => {
                // A way that leads nowhere is left, or every request would wait there in turn.
                if kind == FaultKind::ResponseTimedOut && stream.is_mute() {
                    stream.retire();
                }
                self.begun == Begun::No
            }
        };
        let retry = if untouched { Retry::IfIdempotent } else { Retry::Never };
        Fault::upstream(kind, retry)
    }

    /// The connection, if another request may go on it: all was sent, all was taken, the origin wants
    /// to go on, and it said nothing that nobody asked for.
    ///
    /// A stream is done with its message; the connection it belongs to is known to others.
    #[must_use]
    #[inline]
    pub fn into_idle(self, head: &ResponseHead) -> Option<Stream> {
        let OriginChannel::Own(stream) = self.channel else { return None };
        let reusable = head.persistence == Persistence::KeepAlive
            && head.body != BodyLength::UntilClose
            && self.receiver.is_done()
            && self.receiver.input().is_empty()
            && self.sender.waiting() == 0
            && !stream.is_closed();
        reusable.then_some(stream)
    }
}
