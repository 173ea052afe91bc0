//! Content from one connection to another, no faster than it is taken.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_message::FaultKind;
use sluice_net::{Deadline, Nanos};

use crate::channel::Channel;
use crate::send::DIRECT;
use crate::server::Progress;
use crate::{Content, Receiver, Sender};

/// Which end of a relay failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayFault {
    /// The end content comes from.
    Source(FaultKind),
    /// The end content goes to.
    Sink(FaultKind),
}

/// One direction of an exchange.
#[derive(Debug)]
pub struct Relay<'r> {
    /// What content comes over.
    pub source: Channel<'r>,
    /// Its receiving half.
    pub receiver: &'r mut Receiver,
    /// What content goes over.
    pub sink: Channel<'r>,
    /// Its sending half.
    pub sender: &'r mut Sender,
}

impl Relay<'_> {
    /// Moves content until its end was written, or neither side can go on.
    ///
    /// Output is written whenever the source has nothing more at hand: an event stream arrives event
    /// by event, a short answer in one piece with its head.
    ///
    /// # Errors
    /// [`RelayFault`], naming the end that failed.
    #[inline]
    pub fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<(), RelayFault>> {
        let Self { receiver, sender, .. } = self;
        if !sender.is_full() && receiver.take_rest(DIRECT, |rest| sender.push(rest)) {
            sender.finish(None);
            return Poll::Ready(Ok(()));
        }
        self.poll_pieces(cx)
    }

    /// As [`Relay::poll`], of content that may be held to a bandwidth where it comes from.
    ///
    /// # Errors
    /// [`RelayFault`], naming the end that failed.
    pub fn poll_upload(&mut self, cx: &Context<'_>) -> Poll<Result<(), RelayFault>> {
        match self.source {
            Channel::Paced(_) => self.poll_pieces(cx),
            _ => self.poll(cx),
        }
    }

    fn poll_pieces(&mut self, cx: &Context<'_>) -> Poll<Result<(), RelayFault>> {
        loop {
            if self.receiver.piece().is_empty() {
                match self.receiver.poll_content(self.source, cx) {
                    Poll::Ready(Ok(Content::Piece)) => {}
                    Poll::Ready(Ok(Content::End)) => {
                        self.sender.finish(self.receiver.trailers());
                        return Poll::Ready(Ok(()));
                    }
                    Poll::Ready(Err(kind)) => return Poll::Ready(Err(RelayFault::Source(kind))),
                    Poll::Pending => {
                        return match self.sender.poll_flush(self.sink, cx) {
                            Poll::Ready(Err(kind)) => Poll::Ready(Err(RelayFault::Sink(kind))),
                            _ => Poll::Pending,
                        };
                    }
                }
            }
            match self.sender.poll_piece(self.sink, cx, self.receiver.piece()) {
                Poll::Ready(Ok(taken)) => self.receiver.advance(taken),
                Poll::Ready(Err(kind)) => return Poll::Ready(Err(RelayFault::Sink(kind))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// How far the relay is: changes whenever it made progress.
    #[must_use]
    pub fn position(&self) -> u64 {
        let waits = self.source.waits().wrapping_add(self.sink.waits());
        self.receiver.received().wrapping_add(self.sender.progress()).wrapping_add(waits)
    }
}

/// How long a tunnel may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeLimits {
    /// Without a byte in either direction.
    pub idle: Duration,
    /// When it ends, whatever moves.
    pub end: Nanos,
}

/// Joins two connections byte by byte, both ways, after a switch of protocols. Ends when both
/// directions have ended, one broke, or its time is over. A side that closes is closed on the other as
/// well, while the opposite direction goes on; one that breaks is broken on the other.
///
/// # Errors
/// [`FaultKind::TimedOut`], or what broke.
pub async fn tunnel<'r>(
    mut left: Relay<'r>,
    mut right: Relay<'r>,
    deadline: &Deadline,
    limits: PipeLimits,
) -> Result<(), FaultKind> {
    let outcome = carry((&mut left, &mut right), deadline, limits).await;
    match outcome {
        Ok(()) => {}
        Err(FaultKind::TimedOut) => [left.sink, right.sink].into_iter().for_each(Channel::end),
        Err(_) => [left.sink, right.sink].into_iter().for_each(Channel::cut),
    }
    outcome
}

async fn carry<'r>(
    (left, right): (&mut Relay<'r>, &mut Relay<'r>),
    deadline: &Deadline,
    limits: PipeLimits,
) -> Result<(), FaultKind> {
    let mut progress = Progress::new(limits.idle);
    let mut ended = [false; 2];
    let mut broken = None;
    poll_fn(|cx| {
        let before = left.position().wrapping_add(right.position());
        for (relay, ended) in [&mut *left, &mut *right].into_iter().zip(&mut ended) {
            if *ended {
                continue;
            }
            match poll_direction(relay, cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    *ended = true;
                    // What a broken end said is not to be taken for all that it had to say.
                    if broken.is_none() {
                        relay.sink.end();
                    }
                }
                // What that end said before it took nothing more is passed on first.
                Poll::Ready(Err(RelayFault::Sink(kind))) if broken.is_none() => {
                    *ended = true;
                    broken = Some(kind);
                }
                Poll::Ready(Err(RelayFault::Sink(kind) | RelayFault::Source(kind))) => {
                    return Poll::Ready(Err(broken.unwrap_or(kind)));
                }
            }
        }
        if ended == [true; 2] {
            return Poll::Ready(broken.map_or(Ok(()), Err));
        }
        if left.position().wrapping_add(right.position()) != before {
            progress.renew();
        }
        // Most tunnels say nothing for most of their time: they are to cost no buffers then.
        left.sender.rest();
        right.sender.rest();
        progress.poll_until(limits.end, deadline, cx).map(|()| Err(FaultKind::TimedOut))
    })
    .await
}

/// Ready once the direction's end was written too.
fn poll_direction(relay: &mut Relay<'_>, cx: &Context<'_>) -> Poll<Result<(), RelayFault>> {
    let result = ready!(relay.poll_upload(cx));
    // Also what came before its source broke.
    let flushed = relay.sender.poll_flush(relay.sink, cx);
    match result {
        Ok(()) => flushed.map(|result| result.map(|_| ()).map_err(RelayFault::Sink)),
        Err(fault) => Poll::Ready(Err(fault)),
    }
}
