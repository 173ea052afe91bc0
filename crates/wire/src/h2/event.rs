//! What a connection tells its caller, and the input it reads.

use std::ops::Range;

use sluice_message::FaultKind;

use super::error::{Error, ErrorCode};
use super::head::End;

/// A stream of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The number that no stream has (RFC 9113, 5.1.1): whatever is asked of it is gone.
    pub const NONE: Self = Self(0);

    /// The number it has on the wire.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The tag of a stream that was given none.
pub const NO_TAG: u32 = u32::MAX;

/// The stream an event is about, as far as the caller has to find its own part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The stream.
    pub stream: StreamId,
    /// What the caller gave it with [`super::Connection::set_tag`]; [`NO_TAG`] if nothing.
    pub tag: u32,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The head is filled: of a new request, or of a response, interim ones included.
    Head {
        /// Its stream; a request's has no tag yet.
        about: About,
        /// Whether no content follows.
        end: End,
    },
    /// A request that is understood but not acceptable; its stream is open and waits for an answer
    /// (431, 414, 400). For a client: a response that is too large, whose stream was reset.
    Unacceptable {
        /// Its stream.
        about: About,
        /// Whether no content follows.
        end: End,
        /// Why.
        kind: FaultKind,
    },
    /// Content.
    Data {
        /// Its stream.
        about: About,
        /// Where it is in the input.
        data: Range<usize>,
        /// Whether it was the last; it may be empty then.
        end: End,
    },
    /// The trailers are filled; the stream's content has ended.
    Trailers {
        /// Their stream.
        about: About,
    },
    /// The peer reset a stream, or will not process it (`REFUSED_STREAM`, behind GOAWAY).
    Reset {
        /// The stream, which is gone.
        about: About,
        /// Why.
        code: ErrorCode,
    },
    /// This side reset a stream because the peer broke a rule. A request whose head was wrong has had no
    /// other event before.
    Failed {
        /// The stream, which is gone.
        about: About,
        /// The rule.
        error: Error,
        /// What was wrong with the message, if it was the message.
        kind: Option<FaultKind>,
    },
    /// A window was shut and has opened; of the whole connection if no stream is named.
    Window {
        /// The stream.
        about: Option<About>,
    },
    /// The peer's settings came in: windows and the number of streams may have changed.
    Settings,
    /// The peer answered a ping.
    Pong {
        /// What was in it.
        data: [u8; 8],
    },
    /// The peer takes no streams above this one. Streams of this side above it are reported as
    /// [`Event::Reset`] after this.
    GoAway {
        /// The last stream that was or may be processed.
        last: StreamId,
        /// Why.
        code: ErrorCode,
    },
}

/// Bytes received, and how many of them are done with.
#[derive(Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// Around bytes of which none is done with.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes done with; the caller drops them before it reads more.
    #[must_use]
    #[inline]
    pub const fn consumed(&self) -> usize {
        self.at
    }

    /// All bytes; ranges of [`Event::Data`] point into them.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Takes so many bytes, which are there; says where they are.
    #[inline(always)]
    pub(super) const fn take(&mut self, length: usize) -> Range<usize> {
        let start = self.at;
        self.at += length;
        start..self.at
    }
}
