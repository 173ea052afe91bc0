//! The client's side of an exchange.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::{
    BodyLength, Fault, FaultKind, Lines, Method, Persistence, RequestHead, ResponseHead, Version,
};
use sluice_net::{Deadline, Nanos, now};
use sluice_wire::h1::{Decoded, Limits, ResponseFraming, Upgrade, decode_request, encode_response};
use sluice_wire::h2::{End, ResponseOptions};

use crate::channel::{Channel, Line, Pacing};
use crate::h2::ServerStream;
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
    /// What the messages travel over.
    pub channel: Channel<'c>,
    /// The deadline of the connection's task.
    pub deadline: &'c Deadline,
    pacing: &'c Pacing<'c>,
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
    given: Given,
}

/// What writing and then reading came to.
enum Turned {
    /// All is written, and nothing has come of the next request yet.
    Nothing,
    /// So many bytes came; 0 is the end.
    Read(usize),
    /// The client does not take its answers.
    Deaf(Fault),
    /// What it sends broke off or takes too long.
    Broken(Fault),
}

/// What of a stream's request was read by the connection it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Nothing, or it has been taken: heads are read here.
    Nothing,
    /// The head.
    Head,
    /// A head that cannot be served, and why.
    Refusal(FaultKind),
}

impl<'c> Downstream<'c> {
    /// Around a connection that has become readable, with halves that served others before.
    #[must_use]
    pub fn new(
        (channel, deadline, pacing): (Channel<'c>, &'c Deadline, &'c Pacing<'c>),
        (receiver, sender): (&'c mut Receiver, &'c mut Sender),
        timeouts: ServerTimeouts,
        given: Given,
    ) -> Self {
        receiver.reset();
        sender.reset();
        Self {
            channel,
            deadline,
            pacing,
            receiver,
            sender,
            timeouts,
            version: Version::Http11,
            request: Method::Get,
            started: now(),
            strict_transport: None,
            given,
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

    /// All input, if it begins with these bytes; waits for them as long as what came is part of them.
    pub async fn input_after(&mut self, preface: &[u8]) -> Option<&[u8]> {
        while preface.len() > self.receiver.input().len()
            && preface.starts_with(self.receiver.input())
        {
            let (channel, receiver) = (self.channel, &mut *self.receiver);
            let at = self.started.saturating_add(nanos(self.timeouts.head));
            let deadline = self.deadline;
            let read = poll_fn(|cx| match receiver.poll_input(channel, cx) {
                Poll::Ready(read) => Poll::Ready(read.ok()),
                Poll::Pending => deadline.poll_at(at, cx).map(|_| None),
            });
            if !matches!(read.await, Some(1..)) {
                return None;
            }
        }
        Some(self.receiver.input()).filter(|input| input.starts_with(preface))
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
        if !matches!(self.channel, Channel::Own(_)) {
            if !self.is_own() {
                return self.take_given(head).await;
            }
            if let Err(fault) = self.leave_pace().await {
                return Ok(HeadArrival::Deaf(fault));
            }
        }
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
            match self.turn_around().await {
                Turned::Nothing => return Ok(HeadArrival::Idle),
                Turned::Read(0) if self.receiver.input().is_empty() => return Ok(HeadArrival::End),
                Turned::Read(0) => return Err(Fault::downstream(FaultKind::Closed)),
                Turned::Read(_) => {}
                Turned::Deaf(fault) => return Ok(HeadArrival::Deaf(fault)),
                Turned::Broken(fault) => return Err(fault),
            }
        }
    }

    /// The request of a stream, and then its end, once all of the answer is on its way.
    #[inline(never)]
    async fn take_given(&mut self, head: &RequestHead) -> Result<HeadArrival, Fault> {
        match std::mem::replace(&mut self.given, Given::Nothing) {
            Given::Head => {
                self.receiver.expect_stream(head.body);
                self.version = head.version;
                self.request = head.method;
                Ok(HeadArrival::Request)
            }
            Given::Refusal(kind) => {
                self.version = Version::Http2;
                Err(Fault::downstream(kind))
            }
            Given::Nothing => {
                Ok(self.flush().await.map_or_else(HeadArrival::Deaf, |()| HeadArrival::End))
            }
        }
    }

    fn begin(&mut self, consumed: usize, head: &RequestHead) {
        self.receiver.consume_head(consumed);
        self.receiver.expect(head.body);
        self.version = head.version;
        self.request = head.method;
    }

    /// Writes all output, then reads. One wait for both, and limits of time that nobody needs unless
    /// there is something to wait for.
    async fn turn_around(&mut self) -> Turned {
        let Self { channel, deadline, receiver, sender, timeouts, started, .. } = self;
        let mut progress = None;
        poll_fn(|cx| {
            let waiting = sender.waiting();
            if waiting > 0 {
                match sender.poll_flush(*channel, cx) {
                    // The time the client took for the answers before is not the present head's.
                    Poll::Ready(Ok(())) if !receiver.input().is_empty() => *started = now(),
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(kind)) => {
                        return Poll::Ready(Turned::Deaf(Fault::downstream(kind)));
                    }
                    Poll::Pending => {
                        let patience =
                            progress.get_or_insert_with(|| Progress::new(timeouts.write));
                        if sender.waiting() < waiting {
                            patience.renew();
                        }
                        let late = Fault::downstream(FaultKind::TimedOut);
                        return patience.poll(deadline, cx).map(|()| Turned::Deaf(late));
                    }
                }
            }
            if let Poll::Ready(result) = receiver.poll_input(*channel, cx) {
                return Poll::Ready(match result {
                    Ok(length) => Turned::Read(length),
                    Err(error) => Turned::Broken(Fault::downstream(broken(&error))),
                });
            }
            if receiver.input().is_empty() {
                return Poll::Ready(Turned::Nothing);
            }
            let at = started.saturating_add(nanos(timeouts.head));
            let late = Fault::downstream(FaultKind::TimedOut);
            deadline.poll_at(at, cx).map(|_| Turned::Broken(late))
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
        if let Some(stream) = self.channel.client_stream() {
            return self.send_stream_head(stream, head, framing);
        }
        self.sender.encode(|output| encode_response(output, head, framing));
        let content =
            if self.wants_content(head.status) { framing.body } else { BodyLength::Empty };
        self.sender.announce(content);
    }

    #[inline(never)]
    fn send_stream_head(
        &mut self,
        stream: &ServerStream,
        head: &ResponseHead,
        framing: &ResponseFraming<'_>,
    ) {
        let empty = matches!(framing.body, BodyLength::Empty | BodyLength::Known(0));
        let ends = !head.is_interim() && (empty || !self.wants_content(head.status));
        let end = if ends { End::Stream } else { End::More };
        let options = ResponseOptions {
            request: framing.request,
            body: framing.body,
            date: framing.date,
            strict_transport: framing.strict_transport,
            end,
        };
        let length = stream.respond(head, &options);
        if let Channel::Paced(paced) = self.channel {
            paced.charge_download(length);
        }
        if !head.is_interim() {
            self.sender.announce_stream(length, end);
        }
    }

    /// Queues an interim answer; HTTP/1.0 knows none (RFC 9110, 15.2).
    pub fn send_interim(&mut self, head: &ResponseHead) {
        if self.version == Version::Http10 {
            return;
        }
        let framing = self.framing(BodyLength::Empty, Persistence::KeepAlive, None);
        if let Some(stream) = self.channel.client_stream() {
            return self.send_stream_head(stream, head, &framing);
        }
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
            lines: Lines::Unknown,
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
        let (channel, deadline, sender) = (self.channel, self.deadline, &mut *self.sender);
        poll_fn(|cx| {
            let (before, waits) = (sender.waiting(), channel.waits());
            if let Poll::Ready(result) = sender.poll_flush(channel, cx) {
                return Poll::Ready(result.map_err(Fault::downstream));
            }
            if sender.waiting() < before || channel.waits() != waits {
                progress.renew();
            }
            progress.poll(deadline, cx).map(|()| Err(Fault::downstream(FaultKind::TimedOut)))
        })
        .await
    }

    /// Whether content that nobody wants stands before the next request.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        self.channel.is_own()
    }

    /// From now on what goes to this client and what comes from it is held to the bandwidth of the line, until
    /// the answer to the present request is written.
    pub fn hold_to(&mut self, line: &Rc<Line>) {
        self.channel = self.pacing.hold(self.channel, line, self.sender.waiting());
    }

    /// Writes the answer that was held to a bandwidth; the next request knows nothing of it.
    #[cold]
    async fn leave_pace(&mut self) -> Result<(), Fault> {
        self.flush().await?;
        self.channel = self.pacing.leave(self.channel);
        Ok(())
    }

    /// Content as fast as the bandwidth allows. The client may wait for the answer before it sends more.
    #[cold]
    async fn read_paced(&mut self) -> Result<Option<Content>, FaultKind> {
        if let Err(fault) = self.flush().await {
            return Err(fault.kind);
        }
        self.read_content().await.map(Some).map_err(|fault| fault.kind)
    }

    /// Reads content that nobody wants, up to `limit` bytes, so that the next request can be found.
    /// Says whether it found the end.
    pub async fn discard_content(&mut self, limit: u64) -> Persistence {
        loop {
            let decoded = match self.channel {
                Channel::Paced(_) => self.read_paced().await,
                _ => self.receiver.decode(),
            };
            match decoded {
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
        let mut progress = Progress::new(self.timeouts.body);
        let (channel, deadline, receiver) = (self.channel, self.deadline, &mut *self.receiver);
        poll_fn(|cx| {
            let waits = channel.waits();
            if let Poll::Ready(result) = receiver.poll_content(channel, cx) {
                return Poll::Ready(result.map_err(Fault::downstream));
            }
            if channel.waits() != waits {
                progress.renew();
            }
            progress.poll(deadline, cx).map(|()| Err(Fault::downstream(FaultKind::TimedOut)))
        })
        .await
    }

    /// Ready once the client is gone. A client that only closed its sending side counts as gone too,
    /// as with most gateways: the two cannot be told apart before something is written.
    #[inline(always)]
    pub fn poll_gone(&self, cx: &Context<'_>) -> Poll<Fault> {
        self.channel.poll_closed(cx).map(|()| Fault::downstream(FaultKind::Closed))
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
        self.sender.progress().wrapping_add(self.channel.waits())
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

    /// The same, and no longer than until `end`.
    pub(crate) fn poll_until(&self, end: Nanos, deadline: &Deadline, cx: &Context<'_>) -> Poll<()> {
        deadline.poll_at(self.at.min(end), cx).map(|_| ())
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}
