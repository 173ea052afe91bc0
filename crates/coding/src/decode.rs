//! Content made plain again.

use std::fmt;

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::Coding;

/// How much may come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes in all.
    pub most: u64,
    /// Bytes for each byte that goes in, once more than [`Bounds::FREE`] have come out.
    pub expansion: u64,
}

impl Bounds {
    /// Bytes that may come out of however little.
    pub const FREE: u64 = 1024 * 1024;
}

/// Why content is not decoded any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    /// It is not what it says it is, or it ends too early.
    Malformed,
    /// More comes out than is allowed.
    TooLarge,
}

/// Makes content plain again, piece by piece.
pub struct Decoder {
    state: State,
    bounds: Bounds,
    taken: u64,
    given: u64,
    /// Whether the content may end here.
    whole: bool,
}

enum State {
    /// The first bytes say in which of its meanings `deflate` is used.
    Deflate(Vec<u8>),
    Zlib(Decompress),
    Gzip(Box<Decompress>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(DCtx<'static>),
    Failed(Undecodable),
}

/// What comes out at a time.
const CHUNK: usize = 8 * 1024;

/// Binary logarithm of the bytes that zstd may look back at (RFC 9659, 3).
const ZSTD_WINDOW: u32 = 23;

impl Decoder {
    /// For the content of one message.
    #[must_use]
    pub fn new(coding: Coding, bounds: Bounds) -> Self {
        let state = match coding {
            Coding::Gzip => State::Gzip(Box::new(Decompress::new_gzip(15))),
            Coding::Deflate => State::Deflate(Vec::new()),
            // Windows of more than 16 MiB are no `br` (RFC 7932, 9.1).
            Coding::Brotli => State::Brotli(Box::new(BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
            Coding::Zstd => new_zstd(),
        };
        // No content at all is no content in every coding.
        Self { state, bounds, taken: 0, given: 0, whole: true }
    }

    /// The next piece; what it stands for is appended.
    ///
    /// # Errors
    /// [`Undecodable`]; it stays.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Undecodable> {
        let pushed = self.advance(piece, out);
        if let Err(why) = pushed {
            self.state = State::Failed(why);
        }
        pushed
    }

    /// There is no more.
    ///
    /// # Errors
    /// [`Undecodable`] if it must not end here.
    pub fn finish(&mut self) -> Result<(), Undecodable> {
        match self.state {
            State::Failed(why) => Err(why),
            _ if self.whole => Ok(()),
            _ => Err(Undecodable::Malformed),
        }
    }

    fn advance(&mut self, mut piece: &[u8], out: &mut Vec<u8>) -> Result<(), Undecodable> {
        if let State::Deflate(first) = &mut self.state {
            first.extend_from_slice(piece);
            let [one, two, ..] = **first else {
                self.whole = first.is_empty();
                return Ok(());
            };
            let header = u16::from_be_bytes([one, two]);
            // Some send the bare format (RFC 1951), which the header of zlib (RFC 1950, 2.2) tells apart.
            let zlib = one & 0x0f == 8 && header.is_multiple_of(31);
            let first = std::mem::take(first);
            self.state = State::Zlib(Decompress::new(zlib));
            return self.advance(&first, out);
        }
        let mut chunk = [0; CHUNK];
        loop {
            let step = self.state.step(piece, &mut chunk)?;
            piece = piece.get(step.taken..).unwrap_or_default();
            self.taken = self.taken.saturating_add(count(step.taken));
            self.given = self.given.saturating_add(count(step.given));
            if step.taken > 0 || step.given > 0 {
                self.whole = step.whole;
            }
            let lavish = self.given / self.bounds.expansion.max(1) > self.taken;
            if self.given > self.bounds.most || lavish && self.given > Bounds::FREE {
                return Err(Undecodable::TooLarge);
            }
            out.extend_from_slice(chunk.get(..step.given).unwrap_or_default());
            if step.idle || piece.is_empty() && step.given < CHUNK {
                return if piece.is_empty() { Ok(()) } else { Err(Undecodable::Malformed) };
            }
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.state {
            State::Deflate(_) | State::Zlib(_) => "deflate",
            State::Gzip(_) => "gzip",
            State::Brotli(_) => "br",
            State::Zstd(_) => "zstd",
            State::Failed(_) => "failed",
        };
        f.debug_struct("Decoder").field("of", &of).field("given", &self.given).finish()
    }
}

/// What one step has come to.
struct Step {
    taken: usize,
    given: usize,
    /// The content may end here.
    whole: bool,
    /// Another step with the same would do nothing.
    idle: bool,
}

impl State {
    fn step(&mut self, piece: &[u8], chunk: &mut [u8]) -> Result<Step, Undecodable> {
        match self {
            Self::Gzip(gzip) => {
                let step = inflate(gzip, piece, chunk)?;
                // Several members in a row are one content (RFC 1952, 2.2).
                if step.whole && step.taken < piece.len() {
                    **gzip = Decompress::new_gzip(15);
                    return Ok(Step { idle: false, ..step });
                }
                Ok(step)
            }
            Self::Zlib(zlib) => inflate(zlib, piece, chunk),
            Self::Brotli(brotli) => {
                let (mut left, mut taken, mut room, mut given) = (piece.len(), 0, chunk.len(), 0);
                let result = BrotliDecompressStream(
                    &mut left, &mut taken, piece, &mut room, &mut given, chunk, &mut 0, brotli,
                );
                let (whole, idle) = match result {
                    BrotliResult::ResultSuccess => (true, true),
                    BrotliResult::NeedsMoreInput => (false, taken == 0 && given == 0),
                    BrotliResult::NeedsMoreOutput => (false, false),
                    BrotliResult::ResultFailure => return Err(Undecodable::Malformed),
                };
                Ok(Step { taken, given, whole, idle })
            }
            Self::Zstd(zstd) => {
                let mut input = InBuffer::around(piece);
                let mut output = OutBuffer::around(chunk);
                let left = zstd.decompress_stream(&mut output, &mut input);
                let left = left.map_err(|_| Undecodable::Malformed)?;
                let (taken, given) = (input.pos(), output.pos());
                // Several frames in a row are one content (RFC 8878, 3).
                Ok(Step { taken, given, whole: left == 0, idle: taken == 0 && given == 0 })
            }
            Self::Deflate(_) => Err(Undecodable::Malformed),
            Self::Failed(why) => Err(*why),
        }
    }
}

fn inflate(state: &mut Decompress, piece: &[u8], chunk: &mut [u8]) -> Result<Step, Undecodable> {
    let (before_in, before_out) = (state.total_in(), state.total_out());
    let status = state.decompress(piece, chunk, FlushDecompress::None);
    let status = status.map_err(|_| Undecodable::Malformed)?;
    let moved = |after: u64, before| usize::try_from(after.wrapping_sub(before)).unwrap_or(0);
    let taken = moved(state.total_in(), before_in);
    let given = moved(state.total_out(), before_out);
    let whole = status == Status::StreamEnd;
    Ok(Step { taken, given, whole, idle: whole || taken == 0 && given == 0 })
}

fn new_zstd() -> State {
    let made = DCtx::try_create().and_then(|mut zstd| {
        zstd.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW)).ok()?;
        Some(zstd)
    });
    made.map_or(State::Failed(Undecodable::Malformed), State::Zstd)
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
