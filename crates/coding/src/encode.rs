//! Content made smaller.

mod brotli;
mod tables;

use std::fmt;

use ::brotli::enc::encode::BrotliEncoderOperation;
use flate2::{Compress, Compression, FlushCompress, Status};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use self::brotli::Brotli;
use crate::Coding;

/// How much content there is, as far as is known when it begins: what an encoder remembers of it, and so its
/// memory, follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many bytes.
    Known(u64),
    /// Nobody knows.
    Unknown,
    /// It may go on for hours, beside thousands of others, and say little.
    Endless,
}

impl Extent {
    /// Binary logarithm of the bytes that are looked back at.
    fn window(self, least: u32, most: u32) -> u32 {
        let wanted = match self {
            Self::Known(bytes) => u64::BITS - bytes.leading_zeros(),
            Self::Unknown => 19,
            Self::Endless => 16,
        };
        wanted.clamp(least, most)
    }
}

/// Makes content smaller, piece by piece.
pub struct Encoder {
    state: State,
}

enum State {
    Gzip(Compress),
    Brotli(Box<Brotli>),
    Zstd(CCtx<'static>),
    /// It has failed before.
    Failed,
}

/// Content could not be encoded: memory is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unencodable;

impl Encoder {
    /// The levels a coding has, the fastest first.
    #[must_use]
    pub const fn levels(coding: Coding) -> std::ops::RangeInclusive<u32> {
        match coding {
            Coding::Gzip | Coding::Deflate => 1..=9,
            Coding::Brotli => 0..=11,
            Coding::Zstd => 1..=22,
        }
    }

    /// For the content of one message. A level that the coding does not have is the nearest it has. `deflate` is
    /// not made: what comes out is `gzip`.
    #[must_use]
    pub fn new(coding: Coding, level: u32, extent: Extent) -> Self {
        let levels = Self::levels(coding);
        let level = level.clamp(*levels.start(), *levels.end());
        let state = match coding {
            Coding::Gzip | Coding::Deflate => {
                State::Gzip(Compress::new_gzip(Compression::new(level), 15))
            }
            Coding::Brotli => State::Brotli(Box::new(Brotli::new(level, extent))),
            Coding::Zstd => new_zstd(level, extent).map_or(State::Failed, State::Zstd),
        };
        Self { state }
    }

    /// The next piece; what is settled is appended.
    ///
    /// # Errors
    /// [`Unencodable`]
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Unencodable> {
        match &mut self.state {
            State::Gzip(gzip) => deflate(gzip, piece, FlushCompress::None, out),
            State::Brotli(brotli) => {
                brotli.advance(piece, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, out)
            }
            State::Zstd(zstd) => advance_zstd(zstd, piece, ZSTD_EndDirective::ZSTD_e_continue, out),
            State::Failed => Err(Unencodable),
        }
    }

    /// Appends all that can be decoded of what was pushed.
    ///
    /// # Errors
    /// [`Unencodable`]
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        match &mut self.state {
            State::Gzip(gzip) => deflate(gzip, b"", FlushCompress::Sync, out),
            State::Brotli(brotli) => {
                brotli.advance(b"", BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, out)
            }
            State::Zstd(zstd) => advance_zstd(zstd, b"", ZSTD_EndDirective::ZSTD_e_flush, out),
            State::Failed => Err(Unencodable),
        }
    }

    /// There is no more: appends the rest. No more is pushed then.
    ///
    /// # Errors
    /// [`Unencodable`]
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        match &mut self.state {
            State::Gzip(gzip) => deflate(gzip, b"", FlushCompress::Finish, out),
            State::Brotli(brotli) => {
                brotli.advance(b"", BrotliEncoderOperation::BROTLI_OPERATION_FINISH, out)
            }
            State::Zstd(zstd) => advance_zstd(zstd, b"", ZSTD_EndDirective::ZSTD_e_end, out),
            State::Failed => Err(Unencodable),
        }
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Gzip(_) => "gzip",
            State::Brotli(_) => "br",
            State::Zstd(_) => "zstd",
            State::Failed => "failed",
        })
    }
}

/// Room that is made for what comes out at a time.
const ROOM: usize = 4096;

fn deflate(
    gzip: &mut Compress,
    mut piece: &[u8],
    flush: FlushCompress,
    out: &mut Vec<u8>,
) -> Result<(), Unencodable> {
    loop {
        out.reserve(ROOM);
        let before = gzip.total_in();
        let status = gzip.compress_vec(piece, out, flush).map_err(|_| Unencodable)?;
        let taken = usize::try_from(gzip.total_in().wrapping_sub(before)).unwrap_or(usize::MAX);
        piece = piece.get(taken..).unwrap_or_default();
        let full = out.len() == out.capacity();
        let done = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            _ => piece.is_empty() && !full,
        };
        if done {
            return Ok(());
        }
        // Nothing moves although there is room: it never will.
        if taken == 0 && !full && status == Status::BufError {
            return Err(Unencodable);
        }
    }
}

fn new_zstd(level: u32, extent: Extent) -> Option<CCtx<'static>> {
    let mut zstd = CCtx::try_create()?;
    let level = i32::try_from(level).unwrap_or(3);
    zstd.set_parameter(CParameter::CompressionLevel(level)).ok()?;
    // No more than 8 MiB: other decoders may refuse more (RFC 9659, 3).
    let window = extent.window(10, 23);
    zstd.set_parameter(CParameter::WindowLog(window)).ok()?;
    // Its tables would be as large as for gigabytes otherwise: hundreds of MiB at the slowest levels.
    zstd.set_parameter(CParameter::SrcSizeHint(1 << window)).ok()?;
    Some(zstd)
}

fn advance_zstd(
    zstd: &mut CCtx<'_>,
    piece: &[u8],
    directive: ZSTD_EndDirective,
    out: &mut Vec<u8>,
) -> Result<(), Unencodable> {
    let mut input = InBuffer::around(piece);
    loop {
        out.reserve(ROOM);
        let at = out.len();
        let mut output = OutBuffer::around_pos(out, at);
        let left =
            zstd.compress_stream2(&mut output, &mut input, directive).map_err(|_| Unencodable)?;
        let done = match directive {
            ZSTD_EndDirective::ZSTD_e_continue => input.pos() == piece.len(),
            _ => left == 0,
        };
        if done {
            return Ok(());
        }
    }
}
