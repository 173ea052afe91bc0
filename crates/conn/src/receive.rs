//! The receiving half of a connection: bytes in, content out piece by piece.

use std::io;
use std::task::{Context, Poll, ready};

use crate::channel::{Channel, Paced};
use sluice_message::{AmbiguousHeaders, BodyLength, FaultKind, Fields, Syntax};
use sluice_wire::h1::{BodyDecoder, BodyState, Piece};

use crate::buffer::{Buffer, Pressure};

/// What a receiver has for its taker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A piece: [`Receiver::piece`] is not empty.
    Piece,
    /// Nothing more; trailers, if any, are there.
    End,
}

/// Input of a connection and the content that is being taken from it.
#[derive(Debug)]
pub struct Receiver {
    input: Buffer,
    pressure: Pressure,
    decoder: BodyDecoder,
    /// Length of the decoded piece at the front of the input.
    piece: usize,
    /// Decoded framing right behind the piece; it goes when the piece does.
    behind: usize,
    received: u64,
    /// Bytes of content decoded since the head.
    content: u64,
    untouched: bool,
    /// Those of a stream, which come beside its content.
    trailers: Option<Box<Fields>>,
    /// What becomes of trailers whose names may be taken for other ones.
    ambiguous: AmbiguousHeaders,
    /// Trailers that were dropped because of their names.
    dropped: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// Without input.
    #[must_use]
    pub fn new() -> Self {
        Self {
            input: Buffer::new(),
            pressure: Pressure::Low,
            decoder: BodyDecoder::new(BodyLength::Empty),
            piece: 0,
            behind: 0,
            received: 0,
            content: 0,
            untouched: true,
            trailers: None,
            ambiguous: AmbiguousHeaders::Keep,
            dropped: 0,
        }
    }

    /// Bytes that arrived and are not decoded yet.
    #[inline]
    pub(crate) fn input(&self) -> &[u8] {
        self.input.content()
    }

    #[inline]
    pub(crate) fn consume_head(&mut self, length: usize) {
        self.received += u64::try_from(length).unwrap_or(u64::MAX);
        self.input.consume(length);
    }

    /// From now on the input is content of this length.
    #[inline]
    pub(crate) fn expect(&mut self, length: BodyLength) {
        self.decoder = BodyDecoder::new(length);
        self.piece = 0;
        self.behind = 0;
        self.content = 0;
        self.untouched = true;
    }

    /// From now on the input is content of a stream, which ends with it.
    pub(crate) fn expect_stream(&mut self, length: BodyLength) {
        self.expect(match length {
            BodyLength::Empty => BodyLength::Empty,
            _ => BodyLength::UntilClose,
        });
        self.trailers = None;
    }

    /// Bytes of content decoded since the head, without what frames them.
    #[must_use]
    pub const fn content(&self) -> u64 {
        self.content
    }

    /// Bytes taken from the connection since [`Receiver::restart_count`].
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    pub(crate) const fn restart_count(&mut self) {
        self.received = 0;
    }

    /// Whether all content of the message was decoded and taken.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        self.piece == 0 && self.decoder.is_done()
    }

    /// Whether the message is complete and nothing came behind it.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_done() && self.input.is_empty()
    }

    /// Whether no content was decoded since the head.
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        self.untouched
    }

    /// The piece at hand.
    #[must_use]
    #[inline]
    pub fn piece(&self) -> &[u8] {
        self.input.content().get(..self.piece).unwrap_or_default()
    }

    /// Takes the first bytes of the piece at hand away.
    #[inline]
    pub fn advance(&mut self, length: usize) {
        let length = length.min(self.piece);
        self.piece -= length;
        self.input.consume(length);
        if self.piece == 0 && self.behind > 0 {
            self.input.consume(std::mem::take(&mut self.behind));
        }
    }

    /// Takes all that is left of content whose length is known, if it is here already and less than
    /// `most` bytes: most answers are small and come together with their head.
    #[inline]
    pub(crate) fn take_rest(&mut self, most: usize, take: impl FnOnce(&[u8])) -> bool {
        let Some(left) = self.decoder.left() else { return false };
        let length = usize::try_from(left).unwrap_or(usize::MAX);
        let Some(rest) = self.input.content().get(..length).filter(|_| length < most) else {
            return false;
        };
        if self.piece > 0 {
            return false;
        }
        take(rest);
        self.decoder.finish();
        self.input.consume(length);
        self.received += left;
        self.content += left;
        self.untouched = false;
        true
    }

    /// Trailers, once [`Content::End`] was seen.
    #[must_use]
    pub fn trailers(&self) -> Option<&Fields> {
        self.decoder.trailers().or(self.trailers.as_deref())
    }

    /// Sets what becomes of trailers of the present message whose names may be taken for other ones. All are kept
    /// unless this is called.
    #[inline]
    pub const fn set_ambiguous_trailers(&mut self, rule: AmbiguousHeaders) {
        self.ambiguous = rule;
        self.dropped = 0;
    }

    /// Number of trailers that were dropped because of their names.
    #[must_use]
    #[inline]
    pub const fn dropped_trailers(&self) -> u64 {
        self.dropped
    }

    /// Looks at the names of trailers, once all of them are there.
    #[inline]
    fn end(&mut self) -> Result<Content, FaultKind> {
        if self.ambiguous != AmbiguousHeaders::Keep && self.trailers().is_some() {
            self.screen_trailers()?;
        }
        Ok(Content::End)
    }

    #[cold]
    fn screen_trailers(&mut self) -> Result<(), FaultKind> {
        let Self { decoder, trailers, ambiguous, dropped, .. } = self;
        for trailers in decoder.trailers_mut().into_iter().chain(trailers.as_deref_mut()) {
            let screened = trailers.screen(*ambiguous);
            *dropped += screened.map_err(|_| FaultKind::Malformed(Syntax::Trailer))?;
        }
        Ok(())
    }

    /// Bytes of content that are still to come, if that is known.
    #[must_use]
    pub fn announced(&self) -> Option<u64> {
        self.decoder.remaining_hint()
    }

    /// Reads more input; 0 is the end of the stream.
    #[inline]
    pub(crate) fn poll_input(
        &mut self,
        channel: Channel<'_>,
        cx: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let stream = match channel {
            Channel::Own(stream) => stream,
            Channel::Shared(stream) => return stream.poll_read(cx, &mut self.input),
            Channel::Asked(stream) => return stream.poll_read(cx, &mut self.input),
            Channel::Paced(paced) => return self.poll_input_below(paced, cx),
        };
        // Most calls come when there is nothing to read: they must not touch the buffer.
        ready!(stream.poll_readable(cx));
        let tail = self.input.tail_with_room(self.pressure);
        let read = stream.poll_read(cx, tail);
        let filled = tail.len() == tail.capacity();
        match read {
            Poll::Pending => {
                self.input.rest();
                Poll::Pending
            }
            Poll::Ready(result) => {
                self.pressure = if filled { Pressure::High } else { Pressure::Low };
                Poll::Ready(result)
            }
        }
    }

    /// Waits until there is a piece or the end.
    ///
    /// # Errors
    /// Malformed framing, or a connection that ended or broke in the middle.
    pub fn poll_content(
        &mut self,
        channel: Channel<'_>,
        cx: &Context<'_>,
    ) -> Poll<Result<Content, FaultKind>> {
        loop {
            let found = match channel {
                Channel::Paced(paced) => ready!(self.poll_decode(paced, cx))?,
                _ => self.decode()?,
            };
            if let Some(content) = found {
                return Poll::Ready(Ok(content));
            }
            match ready!(self.poll_input(channel, cx)) {
                Ok(0) => {
                    self.decoder.on_eof()?;
                    self.trailers = channel.take_trailers();
                    return Poll::Ready(self.end());
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(broken(&error))),
            }
        }
    }

    /// What the input at hand holds; `None` if more is needed.
    ///
    /// # Errors
    /// Malformed framing.
    pub fn decode(&mut self) -> Result<Option<Content>, FaultKind> {
        while self.piece == 0 {
            if self.decoder.is_done() {
                return self.end().map(Some);
            }
            if self.input.is_empty() {
                return Ok(None);
            }
            self.untouched = false;
            let piece = self.decoder.decode(self.input.content())?;
            if !self.take(&piece) {
                return Ok(None);
            }
        }
        Ok(Some(Content::Piece))
    }

    /// Takes note of what was decoded. Says whether there may be more in the input at hand.
    #[inline(always)]
    fn take(&mut self, piece: &Piece) -> bool {
        self.received += u64::try_from(piece.consumed).unwrap_or(u64::MAX);
        self.piece = piece.data.len();
        self.content += u64::try_from(self.piece).unwrap_or(u64::MAX);
        if self.piece > 0 {
            self.behind = piece.consumed.saturating_sub(piece.data.end);
            self.input.consume(piece.data.start);
            return true;
        }
        self.input.consume(piece.consumed);
        piece.consumed > 0 || piece.state == BodyState::Done
    }

    #[cold]
    fn poll_input_below(&mut self, paced: &Paced<'_>, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        self.poll_input(paced.below(), cx)
    }

    /// What the input at hand holds, no faster than the bandwidth allows; `None` if more is needed. What came
    /// together with a head waits here: no more is read before it was taken.
    #[cold]
    fn poll_decode(
        &mut self,
        paced: &Paced<'_>,
        cx: &Context<'_>,
    ) -> Poll<Result<Option<Content>, FaultKind>> {
        while self.piece == 0 {
            if self.decoder.is_done() {
                return Poll::Ready(self.end().map(Some));
            }
            if self.input.is_empty() {
                return Poll::Ready(Ok(None));
            }
            let left = self.decoder.left().and_then(|left| usize::try_from(left).ok());
            let wanted = self.input.len().min(left.unwrap_or(usize::MAX));
            let most = ready!(paced.poll_upload(cx, wanted))?;
            self.untouched = false;
            let input = self.input.content();
            let piece = self.decoder.decode(input.get(..most).unwrap_or(input))?;
            paced.on_upload(piece.consumed);
            self.take(&piece);
        }
        Poll::Ready(Ok(Some(Content::Piece)))
    }

    /// Gives memory back before a wait that may be long.
    pub fn rest(&mut self) {
        self.input.rest();
    }

    /// For the next connection: whatever is left is forgotten.
    #[inline]
    pub fn reset(&mut self) {
        let left = self.input.len();
        self.input.consume(left);
        self.input.shrink();
        self.pressure = Pressure::Low;
        self.expect(BodyLength::Empty);
        self.received = 0;
        // They may be another client's.
        self.trailers = None;
    }
}

/// What a failed system call means for the message.
pub(crate) fn broken(error: &io::Error) -> FaultKind {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => FaultKind::Reset,
        _ => FaultKind::Closed,
    }
}
