//! Header blocks as they come in: whose they are, and what becomes of them (RFC 9113, 4.3 and 8.1).

use sluice_message::{BodyLength, FaultKind, Method, Syntax};

use super::peer::{Final, Peer};
use super::receive::Target;
use super::{Connection, Drain};
use crate::h2::error::{Error, ErrorCode, Reason};
use crate::h2::event::{About, Event, NO_TAG, StreamId};
use crate::h2::flood::Flood;
use crate::h2::flow::{ReceiveWindow, SendWindow};
use crate::h2::frame::{END_HEADERS, END_STREAM, Header, Kind, MAX_PAYLOAD, header_fragment};
use crate::h2::head::{End, Refusal, read_trailers};
use crate::h2::hpack::Invalid;
use crate::h2::settings::FromServer;
use crate::h2::streams::{Closed, Half, Stream};

/// A header block that goes on in the next frame.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) stream: u32,
    end: End,
    /// CONTINUATION frames so far.
    frames: u32,
}

/// A header block in one piece.
#[derive(Clone, Copy)]
struct Block<'b> {
    stream: u32,
    bytes: &'b [u8],
    end: End,
}

const CLOSED: Error = Error::new(ErrorCode::STREAM_CLOSED, Reason::StreamState);
const MALFORMED: Error = Error::protocol(Reason::Malformed);

impl From<Invalid> for Error {
    fn from(_: Invalid) -> Self {
        Self::new(ErrorCode::COMPRESSION_ERROR, Reason::Compression)
    }
}

impl<H: Peer> Connection<H> {
    /// RFC 9113, 6.2.
    #[inline(always)]
    pub(super) fn take_headers(
        &mut self,
        header: &Header,
        payload: &[u8],
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        let (bytes, depends) = header_fragment(header, payload)?;
        if depends == Some(header.stream) {
            return Err(Error::protocol(Reason::Dependency));
        }
        let end = if header.has(END_STREAM) { End::Stream } else { End::More };
        if header.has(END_HEADERS) {
            return self.take_block(Block { stream: header.stream, bytes, end }, target);
        }
        if bytes.is_empty() {
            self.floods.count(Flood::Empty, target.now)?;
        }
        self.block = Some(Open { stream: header.stream, end, frames: 0 });
        self.fragments.clear();
        self.fragments.extend_from_slice(bytes);
        Ok(None)
    }

    /// RFC 9113, 6.10. The whole block is bounded: what is much larger than any head may be is not read
    /// for the sake of the table, but ends the connection.
    #[cold]
    pub(super) fn take_continuation(
        &mut self,
        header: &Header,
        payload: &[u8],
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        let Some(mut open) = self.block.take() else {
            return Err(Error::protocol(Reason::Continuation));
        };
        open.frames += 1;
        let most = self.config.limits.head.saturating_mul(2).saturating_add(MAX_PAYLOAD);
        if open.frames > self.config.floods.continuations
            || self.fragments.len() + payload.len() > most
        {
            return Err(Flood::Continuations.into());
        }
        if payload.is_empty() {
            self.floods.count(Flood::Empty, target.now)?;
        }
        self.fragments.extend_from_slice(payload);
        if !header.has(END_HEADERS) {
            self.block = Some(open);
            return Ok(None);
        }
        let fragments = std::mem::take(&mut self.fragments);
        let block = Block { stream: open.stream, bytes: &fragments, end: open.end };
        self.take_block(block, target)
    }

    #[inline(always)]
    fn take_block(
        &mut self,
        block: Block<'_>,
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        match self.streams.get(block.stream) {
            None if H::FROM == FromServer::No && block.stream > self.last => {
                self.take_request(block, target)
            }
            None => self.take_late(block, target),
            Some(stream) => match stream.remote {
                Half::Head => self.take_response(block, target),
                Half::Body => self.take_trailers(block, target),
                Half::Done => {
                    self.skip(block.bytes)?;
                    self.fail_stream(block.stream, CLOSED, target.now)
                }
            },
        }
    }

    /// Reads a block nobody wants, since it may change the table (RFC 9113, 4.3).
    #[cold]
    fn skip(&mut self, block: &[u8]) -> Result<(), Error> {
        Ok(self.decoder.decode(block, |_| {})?)
    }

    /// A block for a stream that is not open any more.
    #[cold]
    fn take_late(
        &mut self,
        block: Block<'_>,
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        self.judge_missing(block.stream, Kind::Headers)?;
        self.skip(block.bytes)?;
        match self.streams.closed(block.stream) {
            Some(Closed::ByReset) => self.stray(target.now),
            None if H::FROM == FromServer::Yes => Ok(None),
            _ => self.fail_stream(block.stream, CLOSED, target.now),
        }
    }

    /// A client opens a stream (RFC 9113, 5.1.1 and 5.1.2).
    #[inline(always)]
    fn take_request(
        &mut self,
        block: Block<'_>,
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        if block.stream.is_multiple_of(2) {
            return Err(Error::protocol(Reason::StreamId));
        }
        self.last = block.stream;
        let most = usize::try_from(self.config.streams).unwrap_or(usize::MAX);
        if self.streams.len() >= most || matches!(self.drain, Drain::Final(_)) {
            return self.refuse(block, target);
        }
        let outcome = H::read(self, (block.bytes, block.end), Method::Get, target.head)?;
        let about = About { stream: StreamId(block.stream), tag: NO_TAG };
        let left = match outcome {
            Ok(()) => expected(target.head.content()),
            Err(Refusal::Refused(_)) => None,
            Err(Refusal::Malformed(syntax)) => {
                return self.fail_message(block.stream, syntax, target.now);
            }
        };
        self.streams.insert(Stream {
            id: block.stream,
            tag: NO_TAG,
            remote: if block.end == End::Stream { Half::Done } else { Half::Body },
            local: Half::Head,
            request: Method::Get,
            send: SendWindow::new(self.peer.window),
            receive: ReceiveWindow::new(self.config.stream_window),
            left,
        });
        Ok(Some(match outcome {
            Err(Refusal::Refused(kind)) => Event::Unacceptable { about, end: block.end, kind },
            _ => Event::Head { about, end: block.end },
        }))
    }

    #[cold]
    fn refuse(
        &mut self,
        block: Block<'_>,
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        self.skip(block.bytes)?;
        let error = Error::new(ErrorCode::REFUSED_STREAM, Reason::TooManyStreams);
        self.fail_stream(block.stream, error, target.now)
    }

    /// A server answers.
    #[inline]
    fn take_response(
        &mut self,
        block: Block<'_>,
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        let request = self.streams.get(block.stream).map_or(Method::Get, |stream| stream.request);
        let outcome = H::read(self, (block.bytes, block.end), request, target.head)?;
        let about = self.about(block.stream);
        match outcome {
            Ok(()) => {}
            Err(Refusal::Malformed(syntax)) => {
                return self.fail_message(block.stream, syntax, target.now);
            }
            Err(Refusal::Refused(kind)) => {
                self.reset(about.stream, ErrorCode::CANCEL);
                return Ok(Some(Event::Unacceptable { about, end: block.end, kind }));
            }
        }
        if target.head.is_final() == Final::Yes
            && let Some(stream) = self.streams.get_mut(block.stream)
        {
            stream.remote = Half::Body;
            stream.left = expected(target.head.content());
            if block.end == End::Stream {
                self.end_remote(block.stream);
            }
        }
        Ok(Some(Event::Head { about, end: block.end }))
    }

    /// RFC 9113, 8.1: trailers end the stream.
    #[cold]
    fn take_trailers(
        &mut self,
        block: Block<'_>,
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        let outcome = read_trailers(&mut self.decoder, block.bytes, target.trailers)?;
        let about = self.about(block.stream);
        let missing = self.streams.get(block.stream).is_some_and(|s| s.left.is_some_and(|n| n > 0));
        let refusal = match outcome {
            Err(Refusal::Malformed(syntax)) => FaultKind::Malformed(syntax),
            Err(Refusal::Refused(kind)) => kind,
            Ok(()) if block.end == End::More => FaultKind::Malformed(Syntax::Trailer),
            Ok(()) if missing => FaultKind::Malformed(Syntax::ContentLength),
            Ok(()) => {
                self.end_remote(block.stream);
                return Ok(Some(Event::Trailers { about }));
            }
        };
        self.fail_kind(block.stream, refusal, target.now)
    }

    /// Resets a stream because of a malformed message (RFC 9113, 8.1.1).
    #[cold]
    fn fail_message(&mut self, id: u32, syntax: Syntax, now: u64) -> Result<Option<Event>, Error> {
        self.fail_kind(id, FaultKind::Malformed(syntax), now)
    }

    #[cold]
    fn fail_kind(&mut self, id: u32, kind: FaultKind, now: u64) -> Result<Option<Event>, Error> {
        let event = self.fail_stream(id, MALFORMED, now)?;
        Ok(event.map(|event| match event {
            Event::Failed { about, error, .. } => Event::Failed { about, error, kind: Some(kind) },
            other => other,
        }))
    }
}

/// Bytes that have to follow a head.
#[inline(always)]
const fn expected(content: BodyLength) -> Option<u64> {
    match content {
        BodyLength::Empty => Some(0),
        BodyLength::Known(length) => Some(length),
        BodyLength::Framed | BodyLength::UntilClose => None,
    }
}
