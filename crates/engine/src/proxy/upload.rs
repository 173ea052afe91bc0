//! A request's content on its way to an origin.

use std::task::{Context, Poll};
use std::time::Duration;

use sluice_conn::{Downstream, Relay, RelayFault, Upstream};
use sluice_message::{BodyLength, Fault, FaultKind, RequestHead, Retry};

/// The request's content on its way up.
pub(super) struct Upload {
    state: UploadState,
    /// Some content left the client's input: the request cannot be sent again.
    begun: bool,
    limit: u64,
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
    pub(super) fn limit(
        self,
        settings: &sluice_upstream::ClusterSettings,
        downstream: &Downstream<'_>,
    ) -> (Duration, Fault) {
        match self {
            Self::Client => (downstream.timeouts().body, Fault::downstream(FaultKind::TimedOut)),
            Self::OriginToTake => {
                (settings.write_timeout, Fault::upstream(FaultKind::TimedOut, Retry::Never))
            }
            Self::OriginToAnswer => {
                let fault = Fault::upstream(FaultKind::ResponseTimedOut, Retry::Never);
                (settings.read_timeout, fault)
            }
        }
    }
}

impl Upload {
    pub(super) fn new(request: &RequestHead, limit: u64) -> Self {
        Self { state: UploadState::first(request), begun: false, limit }
    }

    /// For another try, which happens only before any content has left: the head waits in the output
    /// of a new connection, however far the try before had come.
    pub(super) fn restart(&mut self, request: &RequestHead) {
        self.state = UploadState::first(request);
    }

    /// No more goes to the origin.
    pub(super) const fn refuse(&mut self, kind: FaultKind) {
        self.state = UploadState::Refused(kind);
    }

    /// Some content left the client's input: the request cannot be sent again.
    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == UploadState::Done
    }

    /// Moves content up as far as it goes, and says what would have to happen next.
    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        downstream: &mut Downstream<'_>,
        upstream: &mut Upstream<'_>,
    ) -> Result<Waiting, Fault> {
        if self.state == UploadState::Running {
            let mut relay = Relay {
                source: downstream.stream,
                receiver: &mut *downstream.receiver,
                sink: &upstream.stream,
                sender: &mut *upstream.sender,
            };
            let moved = relay.poll(cx);
            self.begun |= !relay.receiver.is_untouched();
            if relay.receiver.content() > self.limit {
                return Err(Fault::downstream(FaultKind::BodyTooLarge));
            }
            match moved {
                Poll::Pending if relay.receiver.piece().is_empty() => return Ok(Waiting::Client),
                Poll::Pending => return Ok(Waiting::OriginToTake),
                Poll::Ready(Ok(())) => self.state = UploadState::Flushing,
                Poll::Ready(Err(RelayFault::Source(kind))) => return Err(Fault::downstream(kind)),
                Poll::Ready(Err(RelayFault::Sink(kind))) => {
                    self.state = UploadState::Refused(kind);
                }
            }
        }
        if self.state == UploadState::Flushing {
            match upstream.sender.poll_flush(&upstream.stream, cx) {
                Poll::Pending => return Ok(Waiting::OriginToTake),
                Poll::Ready(Ok(())) => self.state = UploadState::Done,
                Poll::Ready(Err(kind)) => self.state = UploadState::Refused(kind),
            }
        }
        Ok(Waiting::OriginToAnswer)
    }

    /// An origin that neither took the request nor answered: what it did first is what counts.
    pub(super) fn blame(&self, fault: Fault) -> Fault {
        match self.state {
            UploadState::Refused(kind) => Fault { kind, ..fault },
            _ => fault,
        }
    }

    /// Changes whenever content moved.
    pub(super) fn position(&self, downstream: &Downstream<'_>, upstream: &Upstream<'_>) -> u64 {
        downstream.receiver.received().wrapping_add(upstream.progress())
    }
}
