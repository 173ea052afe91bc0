//! Content that is changed on its way to the client.

use std::task::{Context, Poll};

use sluice_conn::{Content, Relay, RelayFault};
use sluice_message::{FaultKind, Fields};

use crate::guarded::Guarded;

/// Content that is changed at once, so that no more waits than a peer takes at a time.
const SHARE: usize = 16 * 1024;

/// A client may be so many bytes behind others who wait for the same.
const BEHIND: usize = 16 * 1024 * 1024;

/// So often content is changed before others have their turn.
const SHARES: usize = 4;

/// Content of an answer that goes through a pipeline.
#[derive(Debug)]
pub(super) struct Rewriting {
    pipeline: Guarded,
    /// What has come out of it, and how much of that is sent.
    bytes: Vec<u8>,
    sent: usize,
    /// Whether something may be held back that can be had without more coming in.
    begun: bool,
    /// No more comes in.
    over: bool,
    /// No more comes out.
    ended: bool,
    /// The client takes nothing more, and somebody else waits for the rest.
    gone: Option<FaultKind>,
    trailers: Option<Fields>,
    /// Whether something that it goes through can take nothing more for now.
    full: bool,
}

impl Rewriting {
    pub(super) const fn new(pipeline: Guarded) -> Self {
        Self {
            pipeline,
            bytes: Vec::new(),
            sent: 0,
            begun: false,
            over: false,
            ended: false,
            gone: None,
            trailers: None,
            full: false,
        }
    }

    /// Moves content until its end was written, or neither side can go on.
    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        relay: &mut Relay<'_>,
    ) -> Poll<Result<(), RelayFault>> {
        let mut shares = 0;
        loop {
            match self.send(cx, relay) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(kind)) if self.ended || !self.pipeline.is_awaited(cx.waker()) => {
                    return Poll::Ready(Err(RelayFault::Sink(kind)));
                }
                Poll::Ready(Err(kind)) => self.gone = Some(kind),
                Poll::Pending
                    if self.ended
                        || self.bytes.len() > BEHIND
                        || !self.pipeline.is_awaited(cx.waker()) =>
                {
                    return Poll::Pending;
                }
                Poll::Pending => {}
            }
            if self.ended {
                relay.sender.finish(self.trailers.as_ref());
                return Poll::Ready(Ok(()));
            }
            if self.is_held_up(cx) {
                // A client that is gone is found out when it is sent something.
                let _ = relay.sender.poll_flush(relay.sink, cx);
                return Poll::Pending;
            }
            if self.over {
                match self.pipeline.poll_end(cx.waker(), &mut self.trailers, &mut self.bytes) {
                    Poll::Ready(Ok(())) => self.ended = true,
                    Poll::Ready(Err(kind)) => return Poll::Ready(Err(RelayFault::Source(kind))),
                    Poll::Pending => {
                        self.full = true;
                        let _ = relay.sender.poll_flush(relay.sink, cx);
                        return Poll::Pending;
                    }
                }
                continue;
            }
            let changed = match relay.receiver.poll_content(relay.source, cx) {
                Poll::Ready(Ok(Content::Piece)) => {
                    if shares == SHARES {
                        // Others have their turn: changing content may take long.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    shares += 1;
                    let piece = relay.receiver.piece();
                    let share = piece.get(..SHARE).unwrap_or(piece);
                    let taken = share.len();
                    let pushed = self.pipeline.push(share, &mut self.bytes);
                    relay.receiver.advance(taken);
                    self.begun = true;
                    pushed
                }
                Poll::Ready(Ok(Content::End)) => {
                    self.over = true;
                    self.trailers = relay.receiver.trailers().cloned();
                    Ok(())
                }
                Poll::Ready(Err(kind)) => return Poll::Ready(Err(RelayFault::Source(kind))),
                Poll::Pending if std::mem::take(&mut self.begun) => {
                    // What came so far is to be read before more comes.
                    self.pipeline.flush(&mut self.bytes)
                }
                Poll::Pending if self.gone.is_some() => return Poll::Pending,
                Poll::Pending => {
                    return match relay.sender.poll_flush(relay.sink, cx) {
                        Poll::Ready(Err(kind)) => Poll::Ready(Err(RelayFault::Sink(kind))),
                        _ => Poll::Pending,
                    };
                }
            };
            if let Err(kind) = changed {
                return Poll::Ready(Err(RelayFault::Source(kind)));
            }
        }
    }

    /// Whether something that content goes through can take nothing more for now.
    fn is_held_up(&mut self, cx: &Context<'_>) -> bool {
        let before = std::mem::replace(&mut self.full, self.pipeline.is_full(cx.waker()));
        // What has come out meanwhile is not to wait for what comes in.
        self.begun |= before && !self.full;
        self.full
    }

    /// Sends what has come out.
    fn send(&mut self, cx: &Context<'_>, relay: &mut Relay<'_>) -> Poll<Result<(), FaultKind>> {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            if let Some(kind) = self.gone {
                self.bytes.clear();
                self.sent = 0;
                return Poll::Ready(Err(kind));
            }
            match relay.sender.poll_piece(relay.sink, cx, rest) {
                Poll::Ready(Ok(taken)) => self.sent += taken,
                Poll::Ready(Err(kind)) => return Poll::Ready(Err(kind)),
                Poll::Pending => {
                    self.bytes.drain(..self.sent);
                    self.sent = 0;
                    return Poll::Pending;
                }
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Poll::Ready(self.gone.map_or(Ok(()), Err))
    }

    /// Whether somebody else waits for what passes.
    pub(super) fn is_awaited(&self, cx: &Context<'_>) -> bool {
        !self.ended && self.pipeline.is_awaited(cx.waker())
    }

    /// Whether something waits for the client to take it, or it is not the origin that is waited for.
    pub(super) const fn is_owing(&self) -> bool {
        self.sent < self.bytes.len() || self.full
    }
}
