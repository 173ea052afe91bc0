//! What requests and responses have in common: field lines and the framing they state.

use sluice_message::{BodyLength, Expectation, FaultKind, Field, FieldId, Persistence, Span};
use sluice_message::{Syntax, Version};

use super::name;
use super::number::content_length;
use super::scan::{
    Lanes, WIDTH, Word, control_at, control_but_tab_at, first, is_space, is_token, read_block,
};

/// Why a decoder cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
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
pub(crate) const HEAD_CEILING: usize = 128 * 1024;

/// The span `start..end` of a head.
#[inline(always)]
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "offsets stay below HEAD_CEILING, and this runs four times per line"
)]
pub(crate) const fn span(start: usize, end: usize) -> Span {
    debug_assert!(end <= HEAD_CEILING + 2, "heads are cut to their limit before they are read");
    Span::new(start as u32, end as u32)
}

/// A table of lines to fill, and whether a name among them may be taken for another one: see
/// [`sluice_message::may_be_read_as`].
pub(super) type Table<'t> = (&'t mut Vec<Field>, &'t mut bool);

/// Reads field lines from `at` on until the empty line, whose end is returned. Each line is added to
/// `table` and shown to `note` as its meaning, the input from its value on, and the value's length.
#[inline(always)]
pub(super) fn read_lines(
    bytes: &[u8],
    mut at: usize,
    limit: usize,
    (lines, ambiguous): Table<'_>,
    mut note: impl FnMut(FieldId, &[u8], usize) -> Result<(), Stop>,
) -> Result<usize, Stop> {
    loop {
        let rest = bytes.get(at..).ok_or(Stop::Partial)?;
        if rest.first() == Some(&b'\r') {
            return if starts_with_crlf(rest) { Ok(at + 2) } else { Err(no_line_end(rest)) };
        }
        if lines.len() >= limit && rest.first().is_some_and(|&byte| is_token(byte)) {
            return Err(too_many(rest));
        }
        at = read_line(rest, at, (lines, ambiguous), &mut note)?;
    }
}

/// A line beyond the limit is one too many once it is whole; a broken one is broken first.
#[cold]
#[inline(never)]
fn too_many(rest: &[u8]) -> Stop {
    match read_line(rest, 0, (&mut Vec::new(), &mut false), &mut |_, _, _| Ok(())) {
        Ok(_) => FaultKind::TooManyFields.into(),
        Err(stop) => stop,
    }
}

/// Reads the field line that `rest` starts with, which is at `at` of its head (RFC 9112, 5); says
/// where the next line is.
#[inline(always)]
pub(super) fn read_line(
    rest: &[u8],
    at: usize,
    (lines, ambiguous): Table<'_>,
    note: &mut impl FnMut(FieldId, &[u8], usize) -> Result<(), Stop>,
) -> Result<usize, Stop> {
    read_block!(block, rest);
    let lanes = Lanes::new(block);
    let mut colon = first(lanes.equal(b':'));
    let mut id = name::known(Word::new(block), colon);
    // A known name is valid; any other has to be looked at.
    if id == FieldId::Other && (first(!lanes.unambiguous()) != colon || colon == 0) {
        (colon, id) = rare_name(rest, ambiguous)?;
    }
    let blank = match rest.get(colon + 1..) {
        Some([b' ', byte, ..]) if *byte > b' ' => 1,
        behind => spaces(behind.unwrap_or_default()),
    };
    let start = colon + 1 + blank;
    let value = rest.get(start..).ok_or(Stop::Partial)?;
    let mut length = control_at(value);
    while !value.get(length..).is_some_and(starts_with_crlf) {
        length = behind_tab(value, length)?;
    }
    let line_end = start + length + 2;
    // Optional white space around the value is no part of it (RFC 9112, 5.1).
    if value.get(length.wrapping_sub(1)).is_none_or(|&byte| byte <= b' ') {
        length = trimmed(value, length);
    }
    lines.push(Field {
        id,
        name: span(at, at + colon),
        value: span(at + start, at + start + length),
        line_end: span(0, at + line_end).end,
    });
    note(id, value, length)?;
    Ok(at + line_end)
}

/// How many blanks `rest` starts with.
#[inline(never)]
fn spaces(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| !is_space(byte)).unwrap_or(rest.len())
}

/// The length of the value without the blanks it ends in.
#[inline(never)]
fn trimmed(value: &[u8], length: usize) -> usize {
    let value = value.get(..length).unwrap_or_default();
    value.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1)
}

/// Where the value, whose byte at `length` is no visible character and starts no line end, goes on to.
#[cold]
#[inline(never)]
pub(super) fn behind_tab(value: &[u8], length: usize) -> Result<usize, Stop> {
    match value.get(length..) {
        Some([b'\t', rest @ ..]) => Ok(length + 1 + control_but_tab_at(rest)),
        rest => Err(no_line_end(rest.unwrap_or_default())),
    }
}

/// A name of more than sixteen bytes, with rare characters, cut off, or none at all. Rare characters are those that
/// origins may take for others, which is noted in `ambiguous`.
#[inline(never)]
fn rare_name(rest: &[u8], ambiguous: &mut bool) -> Result<(usize, FieldId), Stop> {
    let mut end = 0;
    loop {
        read_block!(block, rest.get(end..).unwrap_or_default());
        let plain = first(!Lanes::new(block).unambiguous());
        end += plain;
        if plain < WIDTH {
            break;
        }
    }
    let left = rest.get(end..).unwrap_or_default();
    let rare = left.iter().position(|&byte| !is_token(byte)).unwrap_or(left.len());
    *ambiguous |= rare > 0;
    end += rare;
    if rest.get(end) != Some(&b':') || end == 0 {
        return Err(bad_name(rest.get(..end + 1), end == 0));
    }
    let id = match end {
        // The longest names known have 19 letters.
        ..20 => FieldId::of(rest.get(..end).unwrap_or_default()),
        _ => FieldId::Other,
    };
    Ok((end, id))
}

/// Why `name`, its end included, is no name; `None` if it is cut off.
#[cold]
fn bad_name(name: Option<&[u8]>, empty: bool) -> Stop {
    match name.and_then(<[u8]>::last) {
        None => Stop::Partial,
        // A line that starts with white space continues the one before it: deprecated, and read
        // differently by different recipients (RFC 9112, 5.2 and 2.2).
        Some(b' ' | b'\t') if empty => Syntax::FoldedLine.into(),
        Some(b'\n') if empty => Syntax::LineEnd.into(),
        // White space before the colon above all (RFC 9112, 5.1).
        Some(_) => Syntax::FieldName.into(),
    }
}

/// Whether a line ends here. Neither a bare CR nor a bare LF ends one: RFC 9112, 2.2 permits to refuse
/// both.
#[inline(always)]
pub(super) fn starts_with_crlf(rest: &[u8]) -> bool {
    rest.first_chunk() == Some(b"\r\n")
}

/// Why `rest` starts with no line end.
#[cold]
#[inline(never)]
pub(super) fn no_line_end(rest: &[u8]) -> Stop {
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
    /// Takes a field line into account, whose value is the first `length` bytes of `rest`.
    #[inline(always)]
    pub(super) fn note(&mut self, id: FieldId, rest: &[u8], length: usize) -> Result<(), Stop> {
        match id {
            FieldId::ContentLength => self.note_length(value(rest, length)),
            FieldId::TransferEncoding => self.note_coding(value(rest, length)),
            FieldId::Connection => {
                self.note_connection(value(rest, length));
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
        match value {
            // As nearly everybody writes it.
            b"keep-alive" | b"Keep-Alive" => self.keep_alive = true,
            b"close" => self.close = true,
            _ => self.note_connection_options(value),
        }
    }

    #[cold]
    fn note_connection_options(&mut self, value: &[u8]) {
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
            (true, Version::Http11 | Version::Http2) => Ok(Some(BodyLength::Framed)),
            (true, Version::Http10) => Err(Syntax::TransferEncoding.into()),
        }
    }

    /// RFC 9112, 9.3.
    #[inline(always)]
    pub(super) const fn persistence(&self, version: Version) -> Persistence {
        match (self.close, version, self.keep_alive) {
            (false, Version::Http11 | Version::Http2, _) | (false, Version::Http10, true) => {
                Persistence::KeepAlive
            }
            _ => Persistence::Close,
        }
    }
}

/// The value that [`read_lines`] shows.
#[inline(always)]
pub(super) fn value(rest: &[u8], length: usize) -> &[u8] {
    rest.get(..length).unwrap_or_default()
}

/// What an `Expect` line adds to what was expected before (RFC 9110, 10.1.1).
#[inline(never)]
pub(crate) fn expectation(before: Expectation, value: &[u8]) -> Expectation {
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

/// CR and LF as the first two bytes of a word.
pub(super) const CRLF: u64 = u64::from_le_bytes(*b"\r\n\0\0\0\0\0\0");

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
