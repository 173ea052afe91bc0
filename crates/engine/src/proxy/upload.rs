//! A request's content on its way to an origin.

mod kept;

use std::task::{Context, Poll};
use std::time::Duration;

use sluice_conn::{Downstream, Receiver, Relay, RelayFault, Upstream};
use sluice_message::{BodyLength, Fault, FaultKind, Fields, RequestHead, Side};

use crate::exchange::ReadAhead;
use crate::guarded::Guarded;
use kept::{Kept, Passed};

/// The request's content on its way up.
pub(super) struct Upload {
    state: UploadState,
    /// Some content left the client's input.
    begun: bool,
    limit: u64,
    /// Content that came so far, if it is kept.
    kept: Option<Box<Kept>>,
    /// Content up to this size is wanted for a copy of the request.
    copy_limit: usize,
    /// Why no more goes to the origin, if that is not its own doing.
    breach: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UploadState {
    Running,
    /// All content is in the output, part of which may not be written.
    Flushing,
    Done,
    /// No more goes to the origin: it takes none, or there is none it may be given. Its answer may be
    /// on its way all the same.
    Refused(FaultKind),
}

/// What of a request's content there is.
pub(super) enum Gathered {
    /// All of it.
    Whole(Vec<u8>, Option<Fields>),
    /// More may come.
    Part,
    /// It is not kept: there is too much of it.
    Nothing,
}

impl UploadState {
    /// Where every try begins.
    pub(super) const fn first(request: &RequestHead) -> Self {
        match request.body {
            BodyLength::Empty | BodyLength::Known(0) => Self::Flushing,
            _ => Self::Running,
        }
    }
}

/// What a proxied request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Client,
    OriginToTake,
    OriginToAnswer,
}

impl Waiting {
    /// How long it may take.
    pub(super) fn limit(
        self,
        settings: &sluice_upstream::ClusterSettings,
        downstream: &Downstream<'_>,
    ) -> Duration {
        match self {
            Self::Client => downstream.timeouts().body,
            Self::OriginToTake => settings.write_timeout,
            Self::OriginToAnswer => settings.read_timeout,
        }
    }

    /// What it is if it took longer.
    pub(super) fn fault(self, upstream: &Upstream<'_>) -> Fault {
        match self {
            Self::Client => Fault::downstream(FaultKind::TimedOut),
            Self::OriginToTake => upstream.lost(FaultKind::TimedOut),
            Self::OriginToAnswer => upstream.lost(FaultKind::ResponseTimedOut),
        }
    }
}

impl Upload {
    pub(super) fn new(request: &RequestHead, limit: u64) -> Self {
        Self {
            state: UploadState::first(request),
            begun: false,
            limit,
            kept: None,
            copy_limit: 0,
            breach: None,
        }
    }

    /// From now on content is kept while it goes up, as long as it is no more than `most` bytes, so that
    /// it can be sent again.
    #[cold]
    pub(super) fn keep(&mut self, length: BodyLength, most: usize) {
        let fits = match length {
            BodyLength::Known(length) => usize::try_from(length).is_ok_and(|it| it <= most),
            BodyLength::Framed => true,
            BodyLength::Empty | BodyLength::UntilClose => false,
        };
        if fits && self.state == UploadState::Running {
            self.kept.get_or_insert_with(|| Box::new(Kept::new(most, most))).allow_again(most);
        }
    }

    /// From now on content is kept while it goes up, as long as it is no more than `most` bytes, for a
    /// copy of the request. Whether the request itself can be repeated does not depend on it.
    pub(super) fn copy(&mut self, most: usize) {
        if self.state == UploadState::Running {
            self.copy_limit = most;
            self.kept.get_or_insert_with(|| Box::new(Kept::new(most, 0))).keep_more(most);
        }
    }

    /// The content goes up as this makes it.
    #[cold]
    pub(super) fn transform(&mut self, pipeline: Guarded) -> Result<(), Fault> {
        if self.state == UploadState::Running {
            let before = self.kept.take().map_or(Kept::new(0, 0), |kept| *kept);
            let kept = before.through(pipeline).map_err(client_fault)?;
            self.kept = Some(Box::new(kept));
        }
        Ok(())
    }

    /// The content begins with this, which was read already.
    #[cold]
    pub(super) fn begin_with(&mut self, gathered: ReadAhead) {
        if self.state == UploadState::Running {
            self.begun = true;
            self.kept = Some(Box::new(Kept::of_gathered(gathered)));
        }
    }

    /// The content for a copy, with its trailers that are still in the client's half.
    pub(super) fn copied(&self, client: &Receiver) -> Gathered {
        match &self.kept {
            None => Gathered::Nothing,
            Some(kept) if kept.exceeds(self.copy_limit) => Gathered::Nothing,
            Some(kept) => match kept.whole(self.copy_limit) {
                Some(content) => Gathered::Whole(content.to_vec(), client.trailers().cloned()),
                None => Gathered::Part,
            },
        }
    }

    /// A request without content was sent beside this.
    pub(super) const fn finish(&mut self) {
        self.state = UploadState::Done;
    }

    /// For another try, which happens only before any content is gone: the head waits in the output
    /// of a new connection, however far the try before had come.
    pub(super) fn restart(&mut self, request: &RequestHead) {
        self.state = UploadState::first(request);
        if let Some(kept) = &mut self.kept {
            kept.restart();
        }
    }

    /// No more goes to the origin.
    pub(super) const fn refuse(&mut self, fault: Fault) {
        self.state = UploadState::Refused(fault.kind);
        self.breach = Some(fault);
    }

    /// Some content left the client's input and was not kept: the request cannot be sent again.
    pub(super) fn is_gone(&self) -> bool {
        self.begun && !self.kept.as_ref().is_some_and(|kept| kept.is_repeatable())
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == UploadState::Done
    }

    /// Moves content up as far as it goes, and says what would have to happen next.
    // In line without the content, which most requests have none of: its frame costs them measurably.
    #[inline(always)]
    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        downstream: &mut Downstream<'_>,
        upstream: &mut Upstream<'_>,
    ) -> Result<Waiting, Fault> {
        if self.state == UploadState::Running
            && let Some(waiting) = self.poll_content(cx, downstream, upstream)?
        {
            return Ok(waiting);
        }
        if self.state == UploadState::Flushing {
            match upstream.sender.poll_flush(upstream.channel.lend(), cx) {
                Poll::Pending => return Ok(Waiting::OriginToTake),
                Poll::Ready(Ok(())) => self.state = UploadState::Done,
                Poll::Ready(Err(kind)) => self.state = UploadState::Refused(kind),
            }
        }
        Ok(Waiting::OriginToAnswer)
    }

    /// What content waits for, if it has not come to its end.
    #[inline(never)]
    fn poll_content(
        &mut self,
        cx: &Context<'_>,
        downstream: &mut Downstream<'_>,
        upstream: &mut Upstream<'_>,
    ) -> Result<Option<Waiting>, Fault> {
        let mut relay = Relay {
            source: downstream.channel,
            receiver: &mut *downstream.receiver,
            sink: upstream.channel.lend(),
            sender: &mut *upstream.sender,
        };
        let passed = match &mut self.kept {
            None => Passed::Moved(relay.poll_upload(cx)),
            Some(kept) => kept.poll(cx, &mut relay),
        };
        let moved = match passed {
            Passed::Moved(moved) => moved,
            Passed::Outgrown => {
                self.kept = None;
                relay.poll_upload(cx)
            }
        };
        self.begun |= !relay.receiver.is_untouched();
        if relay.receiver.content() > self.limit {
            return Err(Fault::downstream(FaultKind::BodyTooLarge));
        }
        match moved {
            Poll::Pending
                if relay.receiver.piece().is_empty()
                    && !self.kept.as_ref().is_some_and(|kept| kept.is_owing()) =>
            {
                return Ok(Some(Waiting::Client));
            }
            Poll::Pending => return Ok(Some(Waiting::OriginToTake)),
            Poll::Ready(Ok(())) => self.state = UploadState::Flushing,
            Poll::Ready(Err(RelayFault::Source(kind))) => return Err(client_fault(kind)),
            Poll::Ready(Err(RelayFault::Sink(kind))) => {
                self.state = UploadState::Refused(kind);
            }
        }
        Ok(None)
    }

    /// An origin that neither took the request nor answered: what it did first is what counts.
    pub(super) fn blame(&self, fault: Fault) -> Fault {
        match self.state {
            UploadState::Refused(kind) => Fault { kind, ..self.blame_client(fault) },
            _ => fault,
        }
    }

    /// An origin that was not given the whole request cannot be blamed for what it did with a part of it.
    pub(super) fn blame_client(&self, fault: Fault) -> Fault {
        match self.breach {
            Some(breach) if fault.side == Side::Upstream => breach,
            _ => fault,
        }
    }

    /// Changes whenever content moved.
    pub(super) fn position(&self, downstream: &Downstream<'_>, upstream: &Upstream<'_>) -> u64 {
        let waits = downstream.channel.waits();
        downstream.receiver.received().wrapping_add(upstream.progress()).wrapping_add(waits)
    }
}

/// What it means that no more content comes from the client's side, where filters are.
fn client_fault(kind: FaultKind) -> Fault {
    match kind {
        FaultKind::Broken => Fault::internal(kind),
        _ => Fault::downstream(kind),
    }
}
