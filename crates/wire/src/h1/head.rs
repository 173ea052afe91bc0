//! What requests and responses have in common: field lines and the framing they state.

use sluice_message::{BodyLength, Expectation, FaultKind, Field, FieldId, Persistence, Span};
use sluice_message::{Syntax, Version};

use super::name;
use super::number::content_length;
use super::scan::{Lanes, WIDTH, Word, first, is_space, is_token, text_end};

/// Why a decoder cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The input ends before the head does.
    Partial,
    /// The input is refused.
    Fault(FaultKind),
}

impl From<Syntax> for Stop {
    #[inline]
    fn from(syntax: Syntax) -> Self {
        Self::Fault(FaultKind::Malformed(syntax))
    }
}

impl From<FaultKind> for Stop {
    #[inline]
    fn from(kind: FaultKind) -> Self {
        Self::Fault(kind)
    }
}

/// Heads end here whatever the configured limit is, so that offsets always fit a [`Span`].
pub(super) const HEAD_CEILING: usize = 128 * 1024;

/// The span `start..end` of a head.
#[inline(always)]
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "offsets stay below HEAD_CEILING, and this runs four times per line"
)]
pub(super) const fn span(start: usize, end: usize) -> Span {
    debug_assert!(end <= HEAD_CEILING + 2, "heads are cut to their limit before they are read");
    Span::new(start as u32, end as u32)
}

/// Reads field lines from `at` on until the empty line, whose end is returned. Each line is added to
/// `lines` and shown to `note` together with its value's place.
#[inline(always)]
pub(super) fn read_lines(
    bytes: &[u8],
    mut at: usize,
    limit: usize,
    lines: &mut Vec<Field>,
    mut note: impl FnMut(FieldId, usize, usize) -> Result<(), Stop>,
) -> Result<usize, Stop> {
    loop {
        if bytes.get(at) == Some(&b'\r') {
            return line_end(bytes, at);
        }
        let (field, start, end) = read_line(bytes, at)?;
        if lines.len() >= limit {
            return Err(FaultKind::TooManyFields.into());
        }
        lines.push(field);
        note(field.id, start, end)?;
        at = field.line().range().end;
    }
}

/// Reads the field line at `at` (RFC 9112, 5); says where its value starts and ends, too.
#[inline(always)]
pub(super) fn read_line(bytes: &[u8], at: usize) -> Result<(Field, usize, usize), Stop> {
    let word = Word::at(bytes, at);
    let lanes = Lanes::new(word);
    let length = first(lanes.equal(b':'));
    let (colon, id) = match name::known(word, length) {
        // A known name is valid; any other has to be looked at.
        FieldId::Other if first(!lanes.plain()) == length && length > 0 => {
            (at + length, FieldId::Other)
        }
        FieldId::Other => rare_name(bytes, at)?,
        id => (at + length, id),
    };
    let mut start = colon + 1;
    if bytes.get(start) == Some(&b' ') {
        start += 1;
    }
    while bytes.get(start).copied().is_some_and(is_space) {
        start += 1;
    }
    let stop = text_end(bytes, start);
    let line_end = line_end(bytes, stop)?;
    // Optional white space around the value is no part of it (RFC 9112, 5.1).
    let mut end = stop;
    while end > start && bytes.get(end - 1).copied().is_some_and(is_space) {
        end -= 1;
    }
    let field = Field {
        id,
        name: span(at, colon),
        value: span(start, end),
        line_end: span(0, line_end).end,
    };
    Ok((field, start, end))
}

/// A name with rare characters, of more than sixteen bytes, cut off, or none at all.
#[cold]
#[inline(never)]
fn rare_name(bytes: &[u8], at: usize) -> Result<(usize, FieldId), Stop> {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest.iter().position(|&byte| !is_token(byte)).unwrap_or(rest.len());
    match rest.get(length) {
        None => Err(Stop::Partial),
        Some(b':') if length > 0 => {
            Ok((at + length, FieldId::of(rest.get(..length).unwrap_or_default())))
        }
        // A line that starts with white space continues the one before it: deprecated, and read
        // differently by different recipients (RFC 9112, 5.2 and 2.2).
        Some(b' ' | b'\t') if length == 0 => Err(Syntax::FoldedLine.into()),
        Some(b'\n') if length == 0 => Err(Syntax::LineEnd.into()),
        // White space before the colon above all (RFC 9112, 5.1).
        Some(_) => Err(Syntax::FieldName.into()),
    }
}

/// The position behind the CRLF that has to be at `at`. Neither a bare CR nor a bare LF ends a line
/// here: RFC 9112, 2.2 permits to refuse both.
#[inline(always)]
pub(super) fn line_end(bytes: &[u8], at: usize) -> Result<usize, Stop> {
    match bytes.get(at..) {
        Some([b'\r', b'\n', ..]) => Ok(at + 2),
        rest => Err(no_line_end(rest.unwrap_or_default())),
    }
}

#[cold]
#[inline(never)]
fn no_line_end(rest: &[u8]) -> Stop {
    match rest {
        [] | [b'\r'] => Stop::Partial,
        [b'\r' | b'\n', ..] => Syntax::LineEnd.into(),
        // NUL and the other control characters are dangerous in a value (RFC 9110, 5.5).
        _ => Syntax::FieldValue.into(),
    }
}

/// What the field lines of a head say about its message's framing and connection.
#[derive(Debug, Default)]
pub(super) struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Framing {
    /// Takes a field line into account.
    #[inline(always)]
    pub(super) fn note(&mut self, id: FieldId, value: &[u8]) -> Result<(), Stop> {
        match id {
            FieldId::ContentLength => self.note_length(value),
            FieldId::TransferEncoding => self.note_coding(value),
            FieldId::Connection => {
                self.note_connection(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// RFC 9112, 6.3: a second line, equal or not, may be refused, and a list is no number. With
    /// `Transfer-Encoding` beside it somebody tries to smuggle a request.
    #[inline(never)]
    fn note_length(&mut self, value: &[u8]) -> Result<(), Stop> {
        if self.length.is_some() || self.chunked {
            return Err(Syntax::ContentLength.into());
        }
        self.length = Some(content_length(value).ok_or(Syntax::ContentLength)?);
        Ok(())
    }

    /// RFC 9112, 6.1: `chunked` is the only coding known here; it must be the last one and be
    /// applied once.
    #[inline(never)]
    fn note_coding(&mut self, value: &[u8]) -> Result<(), Stop> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Syntax::TransferEncoding.into());
        }
        if self.length.is_some() {
            return Err(Syntax::ContentLength.into());
        }
        self.chunked = true;
        Ok(())
    }

    #[inline(never)]
    fn note_connection(&mut self, value: &[u8]) {
        for token in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// The length the lines state; `None` if they state none.
    ///
    /// # Errors
    /// RFC 9112, 6.1: `Transfer-Encoding` in an HTTP/1.0 message has a faulty framing.
    #[inline(always)]
    pub(super) fn body(&self, version: Version) -> Result<Option<BodyLength>, Stop> {
        match (self.chunked, version) {
            (false, _) => Ok(self.length.map(BodyLength::Known)),
            (true, Version::Http11) => Ok(Some(BodyLength::Framed)),
            (true, Version::Http10) => Err(Syntax::TransferEncoding.into()),
        }
    }

    /// RFC 9112, 9.3.
    #[inline(always)]
    pub(super) const fn persistence(&self, version: Version) -> Persistence {
        match (self.close, version, self.keep_alive) {
            (false, Version::Http11, _) | (false, Version::Http10, true) => Persistence::KeepAlive,
            _ => Persistence::Close,
        }
    }
}

/// What an `Expect` line adds to what was expected before (RFC 9110, 10.1.1).
#[inline(never)]
pub(super) fn expectation(before: Expectation, value: &[u8]) -> Expectation {
    match before {
        Expectation::Unknown => Expectation::Unknown,
        _ if value.eq_ignore_ascii_case(b"100-continue") => Expectation::Continue,
        _ => Expectation::Unknown,
    }
}

/// Whether the first word of a head is `HTTP/1.0` or `HTTP/1.1`.
#[inline(always)]
pub(super) const fn version(word: Word) -> Option<Version> {
    const HTTP11: u64 = u64::from_le_bytes(*b"HTTP/1.1");
    const HTTP10: u64 = u64::from_le_bytes(*b"HTTP/1.0");
    match word.low {
        HTTP11 => Some(Version::Http11),
        HTTP10 => Some(Version::Http10),
        _ => None,
    }
}

/// Length of `HTTP/1.x`.
pub(super) const VERSION_LENGTH: usize = WIDTH / 2;

/// Why `rest` does not start with a version, `line` being the rule broken if it is none at all.
#[cold]
#[inline(never)]
pub(super) fn no_version(rest: &[u8], line: Syntax) -> Stop {
    const PREFIX: &[u8] = b"HTTP/";
    if let Some(number) = rest.strip_prefix(PREFIX) {
        return match number {
            [] | [b'1'] | [b'1', b'.'] | [b'1', b'.', b'0' | b'1'] => Stop::Partial,
            // RFC 9112, 2.3: a later version has another syntax.
            _ => Syntax::Version.into(),
        };
    }
    if PREFIX.starts_with(rest) { Stop::Partial } else { line.into() }
}
