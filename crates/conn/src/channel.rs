//! What a message travels over: a connection that is its own for the time, or a stream of a shared one.

mod pace;

use std::net::Shutdown;
use std::task::{Context, Poll};

use sluice_message::Fields;
use sluice_net::Stream;

use crate::h2::{ClientStream, ServerStream};

pub use pace::{Bucket, Line, Paced, Pacing};

/// What a message travels over.
#[derive(Clone, Copy, Debug)]
pub enum Channel<'c> {
    /// A connection that carries one message at a time.
    Own(&'c Stream),
    /// One of the streams of a client's connection.
    Shared(&'c ServerStream),
    /// One of the streams of a connection to an origin.
    Asked(&'c ClientStream),
    /// One of these, held to a bandwidth.
    Paced(&'c Paced<'c>),
}

/// What a message to an origin travels over.
#[derive(Debug)]
pub enum OriginChannel {
    /// A connection that carries one message at a time.
    Own(Stream),
    /// One of the streams of a connection.
    Shared(ClientStream),
}

impl OriginChannel {
    /// The same, lent.
    #[inline(always)]
    pub const fn lend(&self) -> Channel<'_> {
        match self {
            Self::Own(stream) => Channel::Own(stream),
            Self::Shared(stream) => Channel::Asked(stream),
        }
    }
}

impl<'c> Channel<'c> {
    /// Ready once the peer sends no more, or is gone.
    #[inline(always)]
    pub fn poll_closed(self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Self::Own(stream) => stream.poll_closed(cx),
            Self::Shared(stream) => stream.poll_reset(cx),
            Self::Asked(stream) => stream.poll_reset(cx),
            Self::Paced(paced) => paced.below().poll_closed_below(cx),
        }
    }

    /// What was sent so far must not look like the whole of it.
    pub fn abort(self) {
        match self {
            Self::Own(stream) => stream.abort_on_close(),
            Self::Shared(stream) => stream.abort(),
            Self::Asked(stream) => stream.abort(),
            Self::Paced(paced) => paced.below().abort(),
        }
    }

    /// The other end of a tunnel broke: this one is to notice (RFC 8441, 5).
    pub(crate) fn cut(self) {
        match self {
            Self::Own(stream) => stream.abort_on_close(),
            Self::Shared(stream) => stream.cancel(),
            Self::Asked(stream) => stream.cancel(),
            Self::Paced(paced) => paced.below().cut(),
        }
    }

    /// Closes the sending direction, as far as nothing else ended it.
    pub(crate) fn end(self) {
        match self {
            Self::Own(stream) => stream.shut_down(Shutdown::Write),
            Self::Shared(stream) => stream.end(),
            Self::Asked(stream) => stream.end(),
            Self::Paced(paced) => paced.below().end(),
        }
    }

    #[cold]
    #[inline(never)]
    fn poll_closed_below(self, cx: &Context<'_>) -> Poll<()> {
        self.poll_closed(cx)
    }

    /// Whether it carries one message at a time.
    pub(crate) const fn is_own(self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared(_) | Self::Asked(_) => false,
            Self::Paced(paced) => matches!(paced.below(), Self::Own(_)),
        }
    }

    /// The stream of a client's connection that it is.
    pub(crate) const fn client_stream(self) -> Option<&'c ServerStream> {
        match self {
            Self::Own(_) | Self::Asked(_) => None,
            Self::Shared(stream) => Some(stream),
            Self::Paced(paced) => match paced.below() {
                Self::Shared(stream) => Some(stream),
                _ => None,
            },
        }
    }

    /// Trailers that came beside the content, behind its end.
    pub(crate) fn take_trailers(self) -> Option<Box<Fields>> {
        match self {
            Self::Own(_) => None,
            Self::Shared(stream) => stream.take_trailers(),
            Self::Asked(stream) => stream.take_trailers(),
            Self::Paced(paced) => paced.below().take_trailers(),
        }
    }

    /// Changes whenever something has to wait because of the bandwidth it is held to: then nobody who is waited
    /// for is to blame.
    #[must_use]
    pub const fn waits(self) -> u64 {
        match self {
            Self::Paced(paced) => paced.waits(),
            _ => 0,
        }
    }
}
