//! From heads and content to frames, as far as windows allow.

use sluice_message::{Fields, RequestHead, ResponseHead};

use super::{Connection, Drain, Stage};
use crate::h2::event::{NO_TAG, StreamId};
use crate::h2::flow::{ReceiveWindow, SendWindow};
use crate::h2::frame::{self, END_HEADERS, END_STREAM, HEADER, Kind, LOW_31};
use crate::h2::head::{End, RequestOptions, ResponseOptions, write_request, write_trailers};
use crate::h2::streams::{Half, Stream};

/// The stream was reset or has ended; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Why a client cannot open a stream now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// As many are open as the peer allows; one that ends makes room.
    Full,
    /// The connection takes no more: GOAWAY, an error, or all identifiers are used up.
    Closing,
}

impl Connection<ResponseHead> {
    /// How many streams may be opened now.
    #[must_use]
    pub fn can_open(&self) -> usize {
        let closing = self.peer_last.is_some()
            || self.drain != Drain::No
            || matches!(self.stage, Stage::Failed(_))
            || self.next > LOW_31;
        let most = usize::try_from(self.peer.streams).unwrap_or(usize::MAX);
        if closing { 0 } else { most.saturating_sub(self.streams.len()) }
    }

    /// Opens a stream with a request.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was written.
    pub fn request(
        &mut self,
        out: &mut Vec<u8>,
        head: &RequestHead,
        options: &RequestOptions,
    ) -> Result<StreamId, OpenError> {
        if self.can_open() == 0 {
            let most = usize::try_from(self.peer.streams).unwrap_or(usize::MAX);
            let full = self.peer_last.is_none()
                && self.drain == Drain::No
                && self.stage == Stage::Open
                && self.streams.len() >= most;
            return Err(if full { OpenError::Full } else { OpenError::Closing });
        }
        let id = self.next;
        self.next += 2;
        self.streams.insert(Stream {
            id,
            tag: NO_TAG,
            remote: Half::Head,
            local: if options.end == End::Stream { Half::Done } else { Half::Body },
            request: head.method,
            send: SendWindow::new(self.peer.window),
            receive: ReceiveWindow::new(self.config.stream_window),
            left: None,
        });
        let start = self.begin_block(out);
        write_request(&mut self.encoder, out, head, options);
        self.end_block(out, start, (id, options.end));
        Ok(StreamId(id))
    }
}

impl Connection<RequestHead> {
    /// Answers on a stream; interim responses may go before the final one.
    ///
    /// # Errors
    /// [`Gone`].
    #[inline]
    pub fn respond(
        &mut self,
        out: &mut Vec<u8>,
        stream: StreamId,
        head: &ResponseHead,
        options: &ResponseOptions<'_>,
    ) -> Result<(), Gone> {
        let found = self.streams.get_mut(stream.0).ok_or(Gone)?;
        if found.local != Half::Head {
            return Err(Gone);
        }
        let end = if head.is_interim() { End::More } else { options.end };
        if !head.is_interim() {
            found.local = Half::Body;
        }
        let start = self.begin_block(out);
        self.writer.write(&mut self.encoder, out, head, options);
        self.end_block(out, start, (stream.0, end));
        if end == End::Stream {
            self.end_local(stream.0);
        }
        Ok(())
    }
}

impl<H> Connection<H> {
    /// Bytes of content that may be sent on a stream now.
    #[must_use]
    #[inline]
    pub fn room(&self, stream: StreamId) -> usize {
        self.streams.get(stream.0).map_or(0, |stream| stream.send.room().min(self.send.room()))
    }

    /// Appends content in as many frames as it takes, as far as windows allow; says how many bytes were
    /// taken. With [`End::Stream`] the stream ends if all were.
    ///
    /// # Errors
    /// [`Gone`].
    #[inline]
    pub fn data(
        &mut self,
        out: &mut Vec<u8>,
        stream: StreamId,
        content: &[u8],
        end: End,
    ) -> Result<usize, Gone> {
        let mut taken = 0;
        loop {
            let rest = content.get(taken..).unwrap_or_default();
            let length = self.data_header(out, stream, rest.len(), end)?;
            out.extend_from_slice(rest.get(..length).unwrap_or_default());
            taken += length;
            if length == 0 || taken == content.len() {
                return Ok(taken);
            }
        }
    }

    /// Appends the header of one DATA frame for at most `length` bytes of content, which the caller has
    /// to send right behind it; says for how many. Nothing is appended if there is content and no
    /// window for it. With [`End::Stream`] the stream ends if all bytes are in this frame.
    ///
    /// # Errors
    /// [`Gone`].
    #[inline]
    pub fn data_header(
        &mut self,
        out: &mut Vec<u8>,
        stream: StreamId,
        length: usize,
        end: End,
    ) -> Result<usize, Gone> {
        self.flush(out);
        let found = self.streams.get_mut(stream.0).ok_or(Gone)?;
        if found.local != Half::Body {
            return Err(Gone);
        }
        let frame = usize::try_from(self.peer.frame).unwrap_or(usize::MAX);
        let taken = length.min(found.send.room()).min(self.send.room()).min(frame);
        let ends = end == End::Stream && taken == length;
        if taken == 0 && !ends {
            return Ok(0);
        }
        found.send.take(taken);
        self.send.take(taken);
        self.floods.content();
        let flags = if ends { END_STREAM } else { 0 };
        out.extend_from_slice(&frame::header(Kind::Data, flags, stream.0, taken));
        if ends {
            self.end_local(stream.0);
        }
        Ok(taken)
    }

    /// Appends trailers, which end the stream; an empty DATA frame if there are none to send.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn trailers(
        &mut self,
        out: &mut Vec<u8>,
        stream: StreamId,
        fields: &Fields,
    ) -> Result<(), Gone> {
        let found = self.streams.get_mut(stream.0).ok_or(Gone)?;
        if found.local != Half::Body {
            return Err(Gone);
        }
        let start = self.begin_block(out);
        let before = out.len();
        write_trailers(&mut self.encoder, out, fields);
        if out.len() == before {
            out.truncate(start);
            return self.data_header(out, stream, 0, End::Stream).map(|_| ());
        }
        self.end_block(out, start, (stream.0, End::Stream));
        self.end_local(stream.0);
        Ok(())
    }

    /// Leaves room for the header of a HEADERS frame; says where.
    #[inline(always)]
    fn begin_block(&mut self, out: &mut Vec<u8>) -> usize {
        // Acknowledged settings first: they may have changed the table this block is for.
        self.flush(out);
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        start
    }

    /// Fills the header in, and cuts the block up if the peer takes no frame as large (RFC 9113, 4.3).
    #[inline(always)]
    fn end_block(&self, out: &mut Vec<u8>, start: usize, (stream, end): (u32, End)) {
        let flags = if end == End::Stream { END_STREAM } else { 0 };
        let length = out.len() - start - HEADER;
        let frame = usize::try_from(self.peer.frame).unwrap_or(usize::MAX);
        if length > frame {
            return split_block(out, start, frame, (stream, flags));
        }
        let header = frame::header(Kind::Headers, flags | END_HEADERS, stream, length);
        if let Some(place) = out.get_mut(start..start + HEADER) {
            place.copy_from_slice(&header);
        }
    }
}

#[cold]
fn split_block(out: &mut Vec<u8>, start: usize, frame: usize, (stream, flags): (u32, u8)) {
    let block = out.split_off(start + HEADER);
    out.truncate(start);
    let mut kind = (Kind::Headers, flags);
    let mut pieces = block.chunks(frame).peekable();
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        frame::write(out, (kind.0, kind.1 | last), stream, piece);
        kind = (Kind::Continuation, 0);
    }
}
