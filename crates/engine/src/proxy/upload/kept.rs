//! Content that is kept while it goes up, so that it can be sent again.

use std::task::{Context, Poll, Waker, ready};

use sluice_conn::{Content, Relay, RelayFault};
use sluice_message::{FaultKind, Fields};

use crate::exchange::ReadAhead;
use crate::guarded::Guarded;

/// The beginning of a request's content, as far as it has come.
pub(super) struct Kept {
    bytes: Vec<u8>,
    /// More is not kept.
    most: usize,
    /// So much may be sent again.
    again: usize,
    /// How much of it the present try has sent.
    sent: usize,
    /// All has come in.
    over: bool,
    /// All of it is kept, changed if it is to be.
    ended: bool,
    /// Whether what changes it can take nothing more for now.
    full: bool,
    /// Changes what comes.
    pipeline: Option<Guarded>,
    /// What follows the content, once that has ended and was changed.
    trailers: Option<Fields>,
    /// There is more than is kept: what was sent is gone.
    outgrown: bool,
}

/// What passing content on came to.
pub(super) enum Passed {
    /// As with a relay.
    Moved(Poll<Result<(), RelayFault>>),
    /// There is more than is kept. What was kept is sent, the piece at hand is not.
    Outgrown,
}

impl Kept {
    /// Keeps up to `most` bytes, of which up to `again` may be sent again.
    pub(super) const fn new(most: usize, again: usize) -> Self {
        Self {
            bytes: Vec::new(),
            most,
            again,
            sent: 0,
            over: false,
            ended: false,
            full: false,
            pipeline: None,
            trailers: None,
            outgrown: false,
        }
    }

    /// Content that was read already.
    pub(super) fn of_gathered(gathered: ReadAhead) -> Self {
        let ReadAhead { bytes, ended } = gathered;
        let length = bytes.len();
        Self { over: ended, ended, bytes, ..Self::new(length, length) }
    }

    /// Keeps nothing for longer than it takes to send it, changed by this.
    ///
    /// # Errors
    /// What is wrong with the content.
    pub(super) fn through(self, mut pipeline: Guarded) -> Result<Self, FaultKind> {
        let mut kept = Self { over: self.over, ..Self::new(0, 0) };
        pipeline.push(&self.bytes, &mut kept.bytes)?;
        if self.over {
            // If it cannot end yet, it is asked again when the content goes up.
            let ended = pipeline.poll_end(Waker::noop(), &mut kept.trailers, &mut kept.bytes);
            if let Poll::Ready(ended) = ended {
                ended?;
                kept.ended = true;
            }
        }
        kept.allow_again(kept.bytes.len());
        kept.pipeline = Some(pipeline);
        Ok(kept)
    }

    /// From now on up to so many bytes are kept.
    pub(super) fn keep_more(&mut self, most: usize) {
        self.most = self.most.max(most);
    }

    /// From now on up to so many bytes may be sent again.
    pub(super) fn allow_again(&mut self, again: usize) {
        self.again = again;
        self.most = self.most.max(again);
    }

    /// Whether what came so far may be sent again.
    pub(super) fn is_repeatable(&self) -> bool {
        !self.outgrown && self.bytes.len() <= self.again
    }

    /// All content, if all has come and it is no more than `limit` bytes.
    pub(super) fn whole(&self, limit: usize) -> Option<&[u8]> {
        (self.ended && !self.exceeds(limit)).then_some(&*self.bytes)
    }

    /// Whether it is already more than that.
    pub(super) fn exceeds(&self, limit: usize) -> bool {
        self.outgrown || self.bytes.len() > limit
    }

    /// For another try: all goes up again.
    pub(super) const fn restart(&mut self) {
        self.sent = 0;
    }

    /// Whether something waits for the origin to take it.
    pub(super) fn is_owing(&self) -> bool {
        self.sent < self.bytes.len()
    }

    /// Sends what was kept, and then what comes, which is kept too. More is read only when all was
    /// taken: the client is held back as by a relay.
    pub(super) fn poll(&mut self, cx: &Context<'_>, relay: &mut Relay<'_>) -> Passed {
        loop {
            while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
                match relay.sender.poll_piece(relay.sink, cx, rest) {
                    Poll::Ready(Ok(taken)) => self.sent += taken,
                    Poll::Ready(Err(kind)) => return failed(RelayFault::Sink(kind)),
                    Poll::Pending => return Passed::Moved(Poll::Pending),
                }
            }
            if self.ended {
                let trailers = match &self.pipeline {
                    None => relay.receiver.trailers(),
                    Some(_) => self.trailers.as_ref(),
                };
                relay.sender.finish(trailers);
                return Passed::Moved(Poll::Ready(Ok(())));
            }
            match self.poll_pipeline(cx) {
                Poll::Ready(Ok(Held::Goes)) => {}
                Poll::Ready(Ok(Held::Gave)) => continue,
                Poll::Ready(Err(kind)) => return failed(RelayFault::Source(kind)),
                Poll::Pending => return wait(cx, relay),
            }
            match relay.receiver.poll_content(relay.source, cx) {
                Poll::Ready(Ok(Content::Piece)) => {
                    let piece = relay.receiver.piece();
                    let taken = piece.len();
                    if taken > self.most.saturating_sub(self.bytes.len()) {
                        if self.pipeline.is_none() {
                            return Passed::Outgrown;
                        }
                        self.outgrown = true;
                    }
                    if self.outgrown {
                        self.bytes.clear();
                        self.sent = 0;
                    }
                    match &mut self.pipeline {
                        None => self.bytes.extend_from_slice(piece),
                        Some(pipeline) => {
                            if let Err(kind) = pipeline.push(piece, &mut self.bytes) {
                                return failed(RelayFault::Source(kind));
                            }
                        }
                    }
                    relay.receiver.advance(taken);
                }
                Poll::Ready(Ok(Content::End)) => {
                    self.over = true;
                    match self.pipeline {
                        None => self.ended = true,
                        Some(_) => self.trailers = relay.receiver.trailers().cloned(),
                    }
                }
                Poll::Ready(Err(kind)) => return failed(RelayFault::Source(kind)),
                Poll::Pending => return wait(cx, relay),
            }
        }
    }

    /// Waits until what changes the content can take more, or has ended where no more comes.
    fn poll_pipeline(&mut self, cx: &Context<'_>) -> Poll<Result<Held, FaultKind>> {
        let Some(pipeline) = &mut self.pipeline else { return Poll::Ready(Ok(Held::Goes)) };
        let before = std::mem::replace(&mut self.full, pipeline.is_full(cx.waker()));
        if self.full {
            return Poll::Pending;
        }
        if self.over {
            ready!(pipeline.poll_end(cx.waker(), &mut self.trailers, &mut self.bytes))?;
            self.ended = true;
            return Poll::Ready(Ok(Held::Gave));
        }
        if !before {
            return Poll::Ready(Ok(Held::Goes));
        }
        // What has come out meanwhile is not to wait for what comes in.
        pipeline.flush(&mut self.bytes)?;
        self.outgrown |= self.bytes.len() > self.most;
        Poll::Ready(Ok(Held::Gave))
    }
}

/// What can go on with content that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// More can come in.
    Goes,
    /// Something has come out.
    Gave,
}

/// Nothing moves for now: what was sent goes out meanwhile.
fn wait(cx: &Context<'_>, relay: &mut Relay<'_>) -> Passed {
    match relay.sender.poll_flush(relay.sink, cx) {
        Poll::Ready(Err(kind)) => failed(RelayFault::Sink(kind)),
        _ => Passed::Moved(Poll::Pending),
    }
}

fn failed(fault: RelayFault) -> Passed {
    Passed::Moved(Poll::Ready(Err(fault)))
}
