//! Content as it comes in: where its data is, and where it ends (RFC 9112, 6 and 7).

use std::ops::Range;

use sluice_message::{BodyLength, FaultKind, Fields, Syntax};

use super::chunk::{Chunks, Stage};
use super::trailer::Trailers;

/// Reads the content of one message.
#[derive(Debug)]
pub struct BodyDecoder {
    progress: Progress,
    /// Boxed, because hardly any message has trailers.
    trailers: Option<Box<Trailers>>,
}

#[derive(Debug)]
enum Progress {
    Done,
    /// So many bytes are left, never 0.
    Known(u64),
    UntilClose,
    Chunks(Chunks),
    /// At the start of a trailer line or of the empty line.
    TrailerStart,
    TrailerLine,
    /// The LF of the last empty line.
    TrailerEnd,
}

/// What a call of [`BodyDecoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the input that are done with, framing and data.
    pub consumed: usize,
    /// Where in the input data of the content is; empty if there is none.
    pub data: Range<usize>,
    /// Whether more is to come.
    pub state: BodyState,
}

/// Whether a content is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyState {
    /// It is not.
    More,
    /// It is, trailers included.
    Done,
}

impl BodyDecoder {
    /// A decoder for content of this length.
    #[must_use]
    pub const fn new(length: BodyLength) -> Self {
        let progress = match length {
            BodyLength::Empty | BodyLength::Known(0) => Progress::Done,
            BodyLength::Known(left) => Progress::Known(left),
            BodyLength::Framed => Progress::Chunks(Chunks::new()),
            BodyLength::UntilClose => Progress::UntilClose,
        };
        Self { progress, trailers: None }
    }

    /// How much is left of content whose length was stated; `None` of other content, and at the end.
    #[must_use]
    #[inline]
    pub const fn left(&self) -> Option<u64> {
        match self.progress {
            Progress::Known(left) => Some(left),
            _ => None,
        }
    }

    /// Takes note that all that was left of it has been taken.
    #[inline]
    pub fn finish(&mut self) {
        self.progress = Progress::Done;
    }

    /// Takes what has come in. One run of data is found per call at most; a call that finds none has
    /// consumed the whole input or reached the end.
    ///
    /// # Errors
    /// [`Syntax::Chunk`] and the rules of field lines for trailers; [`FaultKind::TooManyFields`] and
    /// [`FaultKind::HeadTooLarge`] for more than 64 trailers or 8 KiB of them. Data found by the same
    /// call is lost with it; the decoder must not be used any more.
    #[inline]
    pub fn decode(&mut self, input: &[u8]) -> Result<Piece, FaultKind> {
        let data = match &mut self.progress {
            Progress::Done => 0..0,
            Progress::UntilClose => 0..input.len(),
            Progress::Known(left) => {
                let length = run(input.len(), left);
                if *left == 0 {
                    self.progress = Progress::Done;
                }
                0..length
            }
            _ => return self.decode_chunked(input),
        };
        Ok(self.piece(data.end, data))
    }

    const fn piece(&self, consumed: usize, data: Range<usize>) -> Piece {
        let state = if self.is_done() { BodyState::Done } else { BodyState::More };
        Piece { consumed, data, state }
    }

    fn decode_chunked(&mut self, input: &[u8]) -> Result<Piece, FaultKind> {
        let mut at = 0;
        let mut data = 0..0;
        while let Some(&byte) = input.get(at) {
            match &mut self.progress {
                Progress::Chunks(chunks) if chunks.stage == Stage::Data => {
                    // A second run is for the next call.
                    if !data.is_empty() {
                        break;
                    }
                    let length = run(input.len() - at, &mut chunks.left);
                    data = at..at + length;
                    at += length;
                    if chunks.left == 0 {
                        chunks.stage = Stage::DataCr;
                    }
                }
                Progress::Chunks(chunks) => {
                    chunks.step(byte)?;
                    at += 1;
                    if chunks.stage == Stage::Last {
                        self.progress = Progress::TrailerStart;
                    }
                }
                Progress::Done => break,
                _ => at += self.decode_trailers(byte, input.get(at..).unwrap_or_default())?,
            }
        }
        Ok(self.piece(at, data))
    }

    /// Says how many bytes of `input`, which starts with `byte`, were trailers.
    fn decode_trailers(&mut self, byte: u8, input: &[u8]) -> Result<usize, FaultKind> {
        match (&self.progress, byte) {
            (Progress::TrailerStart, b'\r') => {
                self.progress = Progress::TrailerEnd;
                Ok(1)
            }
            (Progress::TrailerEnd, b'\n') => {
                self.progress = Progress::Done;
                Ok(1)
            }
            (Progress::TrailerEnd, _) => Err(FaultKind::Malformed(Syntax::LineEnd)),
            _ => {
                let (length, ended) = self.trailers.get_or_insert_default().take(input)?;
                self.progress = if ended { Progress::TrailerStart } else { Progress::TrailerLine };
                Ok(length)
            }
        }
    }

    /// Whether the content is complete.
    #[must_use]
    #[inline]
    pub const fn is_done(&self) -> bool {
        matches!(self.progress, Progress::Done)
    }

    /// The trailers, once the content is complete; `None` if there are none.
    #[must_use]
    pub fn trailers(&self) -> Option<&Fields> {
        self.trailers.as_ref().filter(|_| self.is_done()).map(|trailers| &trailers.fields)
    }

    /// The trailers, to be changed before they are sent on.
    pub fn trailers_mut(&mut self) -> Option<&mut Fields> {
        self.trailers.as_mut().map(|trailers| &mut trailers.fields)
    }

    /// The peer has closed its side: the end of content that lasts until then.
    ///
    /// # Errors
    /// [`FaultKind::Closed`] if content is missing (RFC 9112, 8).
    pub fn on_eof(&mut self) -> Result<(), FaultKind> {
        match self.progress {
            Progress::Done | Progress::UntilClose => {
                self.progress = Progress::Done;
                Ok(())
            }
            _ => Err(FaultKind::Closed),
        }
    }

    /// Bytes of data still to come, if the message said how many.
    #[must_use]
    pub const fn remaining_hint(&self) -> Option<u64> {
        match self.progress {
            Progress::Done => Some(0),
            Progress::Known(left) => Some(left),
            _ => None,
        }
    }
}

/// Takes the next run of at most `available` bytes off `left`; says its length.
#[inline]
fn run(available: usize, left: &mut u64) -> usize {
    // A rest that does not fit `usize` is larger than any buffer.
    let length = usize::try_from(*left).map_or(available, |left| left.min(available));
    *left = left.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
    length
}
