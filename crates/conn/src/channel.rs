//! What a message travels over: a connection that is its own for the time, or a stream of a shared one.

use std::net::Shutdown;
use std::task::{Context, Poll};

use sluice_net::Stream;

use crate::h2::{ClientStream, ServerStream};

/// What a message travels over.
#[derive(Clone, Copy, Debug)]
pub enum Channel<'c> {
    /// A connection that carries one message at a time.
    Own(&'c Stream),
    /// One of the streams of a client's connection.
    Shared(&'c ServerStream),
    /// One of the streams of a connection to an origin.
    Asked(&'c ClientStream),
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

impl Channel<'_> {
    /// Ready once the peer sends no more, or is gone.
    #[inline(always)]
    pub fn poll_closed(self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Self::Own(stream) => stream.poll_closed(cx),
            Self::Shared(stream) => stream.poll_reset(cx),
            Self::Asked(stream) => stream.poll_reset(cx),
        }
    }

    /// What was sent so far must not look like the whole of it.
    pub fn abort(self) {
        match self {
            Self::Own(stream) => stream.abort_on_close(),
            Self::Shared(stream) => stream.abort(),
            Self::Asked(stream) => stream.abort(),
        }
    }

    /// The other end of a tunnel broke: this one is to notice (RFC 8441, 5).
    pub(crate) fn cut(self) {
        match self {
            Self::Own(stream) => stream.abort_on_close(),
            Self::Shared(stream) => stream.cancel(),
            Self::Asked(stream) => stream.cancel(),
        }
    }

    /// Closes the sending direction, as far as nothing else ended it.
    pub(crate) fn end(self) {
        match self {
            Self::Own(stream) => stream.shut_down(Shutdown::Write),
            Self::Shared(stream) => stream.end(),
            Self::Asked(stream) => stream.end(),
        }
    }
}
