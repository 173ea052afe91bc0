//! The chunked transfer coding (RFC 9112, 7.1), byte by byte over the framing.

use sluice_message::{FaultKind, Syntax};

use super::scan::{is_space, is_text, is_token};

/// Digits of a chunk size: as many as fill 64 bits.
const SIZE_DIGITS: u8 = 16;

/// Bytes of the extensions of one chunk.
const EXTENSION_BYTES: u16 = 256;

/// Framing a body may have beyond what honest chunking needs (16 bytes a chunk and its size twice
/// over). Without this bound a peer makes us read 250 bytes of extensions for every byte of data.
const EXCESS_BYTES: u64 = 16 * 1024;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A digit of the size or what may follow it.
    Size,
    /// White space before `;`.
    Blank,
    /// The name of an extension, or white space before it.
    NameStart,
    /// More of the name, or what may follow it.
    Name,
    /// White space before `=` or `;`.
    NameBlank,
    /// The value of an extension, or white space before it.
    ValueStart,
    /// More of a value that is a token.
    Token,
    /// More of a value in quotes.
    Quoted,
    /// The character behind a backslash in quotes.
    QuotedPair,
    /// What may follow a value in quotes.
    ValueEnd,
    /// The LF of the line with the size.
    SizeLf,
    /// Data, `left` bytes of it.
    Data,
    /// The CR behind the data.
    DataCr,
    /// The LF behind the data.
    DataLf,
    /// Everything up to the trailer section has come.
    Last,
}

/// How far the framing of a chunked body was read.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) stage: Stage,
    digits: u8,
    extension: u16,
    /// Data left of the chunk, in bytes.
    pub(super) left: u64,
    excess: u64,
}

const BAD: FaultKind = FaultKind::Malformed(Syntax::Chunk);

impl Chunks {
    pub(super) const fn new() -> Self {
        Self { stage: Stage::Size, digits: 0, extension: 0, left: 0, excess: 0 }
    }

    /// Takes one byte of framing; never called in [`Stage::Data`] and [`Stage::Last`].
    #[inline]
    pub(super) fn step(&mut self, byte: u8) -> Result<(), FaultKind> {
        self.stage = match (self.stage, byte) {
            (Stage::Size, b'0'..=b'9') => self.digit(byte - b'0')?,
            (Stage::Size, b'a'..=b'f') => self.digit(byte - b'a' + 10)?,
            (Stage::Size, b'A'..=b'F') => self.digit(byte - b'A' + 10)?,
            (Stage::Size, b'\r') if self.digits > 0 => Stage::SizeLf,
            (Stage::SizeLf, b'\n') => self.size_end()?,
            (Stage::DataCr, b'\r') => Stage::DataLf,
            (Stage::DataLf, b'\n') => Stage::Size,
            (Stage::SizeLf | Stage::DataCr | Stage::DataLf, _) => return Err(BAD),
            (Stage::Size, _) if self.digits == 0 => return Err(BAD),
            _ => self.extension(byte)?,
        };
        Ok(())
    }

    #[inline]
    fn digit(&mut self, value: u8) -> Result<Stage, FaultKind> {
        if self.digits == SIZE_DIGITS {
            return Err(BAD);
        }
        self.digits += 1;
        self.left = self.left << 4 | u64::from(value);
        Ok(Stage::Size)
    }

    #[inline]
    fn size_end(&mut self) -> Result<Stage, FaultKind> {
        let framing = u64::from(self.digits) + u64::from(self.extension) + 4;
        let allowed = self.left.saturating_mul(2).saturating_add(16);
        self.excess = (self.excess + framing).saturating_sub(allowed);
        if self.excess > EXCESS_BYTES {
            return Err(BAD);
        }
        self.digits = 0;
        self.extension = 0;
        Ok(if self.left == 0 { Stage::Last } else { Stage::Data })
    }

    /// `*( BWS ";" BWS name [ BWS "=" BWS value ] )` (RFC 9112, 7.1.1), checked and thrown away.
    #[cold]
    fn extension(&mut self, byte: u8) -> Result<Stage, FaultKind> {
        let next = match (self.stage, byte) {
            (Stage::NameStart, _) if is_space(byte) => Stage::NameStart,
            (Stage::NameStart | Stage::Name, _) if is_token(byte) => Stage::Name,
            (Stage::ValueStart, _) if is_space(byte) => Stage::ValueStart,
            (Stage::ValueStart | Stage::Token, _) if is_token(byte) => Stage::Token,
            (Stage::ValueStart, b'"') => Stage::Quoted,
            (Stage::Quoted, b'"') => Stage::ValueEnd,
            (Stage::Quoted, b'\\') => Stage::QuotedPair,
            (Stage::Quoted | Stage::QuotedPair, _) if is_text(byte) => Stage::Quoted,
            (Stage::Name | Stage::NameBlank, b'=') => Stage::ValueStart,
            (Stage::Name | Stage::NameBlank, _) if is_space(byte) => Stage::NameBlank,
            (Stage::Size | Stage::Blank | Stage::Token | Stage::ValueEnd, _) if is_space(byte) => {
                Stage::Blank
            }
            (Stage::Name | Stage::Token | Stage::ValueEnd, b'\r') => Stage::SizeLf,
            (
                Stage::Size
                | Stage::Blank
                | Stage::Name
                | Stage::NameBlank
                | Stage::Token
                | Stage::ValueEnd,
                b';',
            ) => Stage::NameStart,
            _ => return Err(BAD),
        };
        if next != Stage::SizeLf {
            if self.extension == EXTENSION_BYTES {
                return Err(BAD);
            }
            self.extension += 1;
        }
        Ok(next)
    }
}
