//! The client's side of an exchange.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::{
    BodyLength, Fault, FaultKind, Method, Persistence, RequestHead, ResponseHead, Version,
};
use sluice_net::{Deadline, Nanos, Stream, now};
use sluice_wire::h1::{Decoded, Limits, ResponseFraming, Upgrade, decode_request, encode_response};

use crate::receive::broken;
use crate::{Content, Receiver, Sender};

/// How long a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTimeouts {
    /// For a whole request head, from its first byte on.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// For the next byte of content.
    pub body: Duration,
    /// For taking the next byte of an answer.
    pub write: Duration,
}

/// What waiting for a head came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadArrival {
    /// A request head is there.
    Request,
    /// All input is answered, all output written: the connection is idle.
    Idle,
    /// The client closed, between requests.
    End,
    /// The client does not take the answers it has got so far, or is gone: nobody is there to be
    /// told of it.
    Deaf(Fault),
}

/// A client's connection while it has something to say.
#[derive(Debug)]
pub struct Downstream<'c> {
    /// The socket.
    pub stream: &'c Stream,
    /// The deadline of the connection's task.
    pub deadline: &'c Deadline,
    /// The requests' half.
    pub receiver: &'c mut Receiver,
    /// The answers' half.
    pub sender: &'c mut Sender,
    timeouts: ServerTimeouts,
    version: Version,
    request: Method,
    /// When the first byte of the present request was there.
    started: Nanos,
    /// What browsers are told about coming back encrypted.
    strict_transport: Option<&'static str>,
}

impl<'c> Downstream<'c> {
    /// Around a connection that has become readable, with halves that served others before.
    #[must_use]
    pub fn new(
        (stream, deadline): (&'c Stream, &'c Deadline),
        (receiver, sender): (&'c mut Receiver, &'c mut Sender),
        timeouts: ServerTimeouts,
    ) -> Self {
        receiver.reset();
        sender.reset();
        Self {
            stream,
            deadline,
            receiver,
            sender,
            timeouts,
            version: Version::Http11,
            request: Method::Get,
            started: now(),
            strict_transport: None,
        }
    }

    /// The value of `Strict-Transport-Security` of the next answers that have none.
    pub const fn set_strict_transport(&mut self, value: Option<&'static str>) {
        self.strict_transport = value;
    }

    /// Limits of time for the next requests.
    pub const fn set_timeouts(&mut self, timeouts: ServerTimeouts) {
        self.timeouts = timeouts;
    }

    /// When the first byte of the present request was there.
    #[must_use]
    pub const fn started(&self) -> Nanos {
        self.started
    }

    /// Takes the next request head, from input that is there if possible: pipelined requests are
    /// answered in one go, their answers written together.
    ///
    /// # Errors
    /// A head that is malformed, too large or too slow; a connection that broke.
    pub async fn read_head(
        &mut self,
        limits: &Limits,
        head: &mut RequestHead,
    ) -> Result<HeadArrival, Fault> {
        self.receiver.restart_count();
        self.sender.restart_count();
        self.started = now();
        loop {
            // Small requests may ask for large answers: no more are begun than are taken.
            if self.sender.is_full()
                && let Err(fault) = self.flush().await
            {
                return Ok(HeadArrival::Deaf(fault));
            }
            if !self.receiver.input().is_empty() {
                match decode_request(self.receiver.input(), limits, head) {
                    Ok(Decoded::Complete { consumed }) => {
                        self.begin(consumed, head);
                        return Ok(HeadArrival::Request);
                    }
                    Ok(Decoded::Partial) => {}
                    Err(kind) => return Err(Fault::downstream(kind)),
                }
            }
            if self.sender.waiting() > 0 {
                if let Err(fault) = self.flush().await {
                    return Ok(HeadArrival::Deaf(fault));
                }
                // The time the client took for the answers before is not the present head's.
                if !self.receiver.input().is_empty() {
                    self.started = now();
                }
            }
            match self.read_more().await? {
                None => return Ok(HeadArrival::Idle),
                Some(0) if self.receiver.input().is_empty() => return Ok(HeadArrival::End),
                Some(0) => return Err(Fault::downstream(FaultKind::Closed)),
                Some(_) => {}
            }
        }
    }

    fn begin(&mut self, consumed: usize, head: &RequestHead) {
        self.receiver.consume_head(consumed);
        self.receiver.expect(head.body);
        self.version = head.version;
        self.request = head.method;
    }

    /// `None` if nothing has come of the next request yet.
    async fn read_more(&mut self) -> Result<Option<usize>, Fault> {
        let at = self.started.saturating_add(nanos(self.timeouts.head));
        let (stream, deadline, receiver) = (self.stream, self.deadline, &mut *self.receiver);
        poll_fn(|cx| {
            if let Poll::Ready(result) = receiver.poll_input(stream, cx) {
                let kind = |error: io::Error| Fault::downstream(broken(&error));
                return Poll::Ready(result.map(Some).map_err(kind));
            }
            if receiver.input().is_empty() {
                return Poll::Ready(Ok(None));
            }
            deadline.poll_at(at, cx).map(|_| Err(Fault::downstream(FaultKind::TimedOut)))
        })
        .await
    }

    /// How content of this length is sent to this client: a length nobody knows beforehand becomes
    /// chunks, or the end of the connection for HTTP/1.0 (RFC 9112, 6.3).
    #[must_use]
    pub fn body_for_client(&self, status: u16, body: BodyLength) -> BodyLength {
        match body {
            _ if !self.wants_content(status) => BodyLength::Empty,
            BodyLength::Framed | BodyLength::UntilClose if self.version == Version::Http10 => {
                BodyLength::UntilClose
            }
            BodyLength::Framed | BodyLength::UntilClose => BodyLength::Framed,
            known => known,
        }
    }

    /// Queues the head of an answer; content follows through `sender`.
    #[inline]
    pub fn send_head(&mut self, head: &ResponseHead, framing: &ResponseFraming<'_>) {
        self.sender.encode(|output| encode_response(output, head, framing));
        let content =
            if self.wants_content(head.status) { framing.body } else { BodyLength::Empty };
        self.sender.announce(content);
    }

    /// Queues an interim answer; HTTP/1.0 knows none (RFC 9110, 15.2).
    pub fn send_interim(&mut self, head: &ResponseHead) {
        if self.version == Version::Http10 {
            return;
        }
        let framing = self.framing(BodyLength::Empty, Persistence::KeepAlive, None);
        self.sender.encode(|output| encode_response(output, head, &framing));
    }

    /// The framing of an answer to the present request.
    #[must_use]
    #[inline]
    pub const fn framing<'d>(
        &self,
        body: BodyLength,
        persistence: Persistence,
        date: Option<&'d [u8]>,
    ) -> ResponseFraming<'d> {
        ResponseFraming {
            version: self.version,
            body,
            persistence,
            date,
            request: self.request,
            upgrade: Upgrade::No,
            strict_transport: self.strict_transport,
        }
    }

    /// Whether an answer of this status has content for this client (RFC 9110, 6.4.1).
    #[must_use]
    #[inline]
    pub const fn wants_content(&self, status: u16) -> bool {
        !matches!(self.request, Method::Head) && !matches!(status, 100..=199 | 204 | 304)
    }

    /// Whether nothing of the request's content was read off the connection's input.
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        self.receiver.is_untouched()
    }

    /// Writes all output.
    ///
    /// # Errors
    /// The client takes nothing for too long, or is gone.
    pub async fn flush(&mut self) -> Result<(), Fault> {
        let mut progress = Progress::new(self.timeouts.write);
        let (stream, deadline, sender) = (self.stream, self.deadline, &mut *self.sender);
        poll_fn(|cx| {
            let before = sender.waiting();
            if let Poll::Ready(result) = sender.poll_flush(stream, cx) {
                return Poll::Ready(result.map_err(Fault::downstream));
            }
            if sender.waiting() < before {
                progress.renew();
            }
            progress.poll(deadline, cx).map(|()| Err(Fault::downstream(FaultKind::TimedOut)))
        })
        .await
    }

    /// Reads content that nobody wants, up to `limit` bytes, so that the next request can be found.
    /// Says whether it found the end.
    pub async fn discard_content(&mut self, limit: u64) -> Persistence {
        loop {
            match self.receiver.decode() {
                Ok(Some(Content::End)) => return Persistence::KeepAlive,
                Ok(Some(Content::Piece)) => {
                    let piece = self.receiver.piece().len();
                    self.receiver.advance(piece);
                }
                // The client may wait for the answer before it goes on sending.
                Ok(None) if self.flush().await.is_err() => return Persistence::Close,
                Ok(None) if self.read_content().await.is_err() => return Persistence::Close,
                Ok(None) => {}
                Err(_) => return Persistence::Close,
            }
            if self.receiver.content() > limit {
                return Persistence::Close;
            }
        }
    }

    /// Waits for the next piece of the request's content.
    ///
    /// # Errors
    /// Malformed framing, a client that is too slow or gone.
    pub async fn read_content(&mut self) -> Result<Content, Fault> {
        let progress = Progress::new(self.timeouts.body);
        let (stream, deadline, receiver) = (self.stream, self.deadline, &mut *self.receiver);
        poll_fn(|cx| {
            if let Poll::Ready(result) = receiver.poll_content(stream, cx) {
                return Poll::Ready(result.map_err(Fault::downstream));
            }
            progress.poll(deadline, cx).map(|()| Err(Fault::downstream(FaultKind::TimedOut)))
        })
        .await
    }

    /// Ready once the client is gone. A client that only closed its sending side counts as gone too,
    /// as with most gateways: the two cannot be told apart before something is written.
    pub fn poll_gone(&self, cx: &Context<'_>) -> Poll<Fault> {
        self.stream.poll_closed(cx).map(|()| Fault::downstream(FaultKind::Closed))
    }

    /// From now on both directions are bytes without a frame.
    pub fn become_pipe(&mut self) {
        self.receiver.expect(BodyLength::UntilClose);
        self.sender.announce(BodyLength::UntilClose);
    }

    /// Gives memory back before a wait that may be long.
    pub fn rest(&mut self) {
        self.receiver.rest();
        self.sender.rest();
    }

    /// Changes whenever output was queued or written.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.sender.progress()
    }

    /// Limits of time.
    #[must_use]
    pub const fn timeouts(&self) -> &ServerTimeouts {
        &self.timeouts
    }

    /// Protocol version of the present request.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }
}

/// A limit on the time without progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    limit: Nanos,
    at: Nanos,
}

impl Progress {
    pub(crate) fn new(limit: Duration) -> Self {
        let limit = nanos(limit);
        Self { limit, at: now().saturating_add(limit) }
    }

    pub(crate) fn renew(&mut self) {
        self.at = now().saturating_add(self.limit);
    }

    pub(crate) fn poll(&self, deadline: &Deadline, cx: &Context<'_>) -> Poll<()> {
        deadline.poll_at(self.at, cx).map(|_| ())
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
