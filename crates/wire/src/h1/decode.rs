//! From bytes to request heads: the request line and what follows from the fields.
//!
//! A head is read in one pass from its first byte on, each time more of it has come. That is cheapest
//! for the one read that nearly every head arrives by. A peer that sends single bytes has its head of
//! n bytes read n times; the limits bound that. With 32 KiB and 100 lines such a byte costs a
//! microsecond on average; at worst, in names of rare characters and targets full of escapes, some
//! thirty, a few times what receiving its packet costs.

use sluice_message::{
    BodyLength, Expectation, FaultKind, FieldId, Method, RequestHead, Span, Syntax, TargetForm,
    Version,
};

use super::authority::is_authority;
use super::head::{
    CRLF, Framing, HEAD_CEILING, Stop, VERSION_LENGTH, expectation, no_line_end, no_version,
    read_lines, span, starts_with_crlf, value, version,
};
use super::scan::{Word, is_token, read_block};
use super::target::{Made, extent, judge};

/// What a head may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The whole head in bytes, the empty line included; values above 128 KiB count as 128 KiB.
    pub head: usize,
    /// Field lines.
    pub fields: usize,
    /// The request target in bytes.
    pub target: usize,
}

/// How far a decoder came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The head is not complete; call again with more of the same bytes.
    Partial,
    /// The head is filled.
    Complete {
        /// Bytes of the input that belong to the head: the empty line, and empty lines before the
        /// request that were tolerated.
        consumed: usize,
    },
}

/// Decodes a request head (RFC 9112, 3 and 5) from the start of `input`.
///
/// `head` holds a request only after [`Decoded::Complete`]; its memory is used again, nothing is
/// allocated once it is large enough. If the target is in absolute form and names another authority
/// than `Host`, the `Host` line is replaced (RFC 9112, 3.2.2).
///
/// # Errors
/// The rule that was broken, as early as the bytes show it: also when the head is not complete.
pub fn decode_request(
    input: &[u8],
    limits: &Limits,
    head: &mut RequestHead,
) -> Result<Decoded, FaultKind> {
    match read_request(window(input, limits), limits, head) {
        Ok(consumed) => Ok(Decoded::Complete { consumed }),
        Err(_) if matches!(input, [b'\r' | b'\n', ..]) => decode_late_request(input, limits, head),
        Err(stop) => no_request(cut(stop, input, limits), head),
    }
}

/// Decodes a request behind empty lines.
#[cold]
#[inline(never)]
fn decode_late_request(
    input: &[u8],
    limits: &Limits,
    head: &mut RequestHead,
) -> Result<Decoded, FaultKind> {
    let skipped = match empty_lines(input) {
        Ok(skipped) => skipped,
        Err(stop) => return no_request(stop, head),
    };
    // What is left starts with neither CR nor LF: this does not come here again.
    match decode_request(input.get(skipped..).unwrap_or_default(), limits, head)? {
        Decoded::Partial => Ok(Decoded::Partial),
        Decoded::Complete { consumed } => Ok(Decoded::Complete { consumed: skipped + consumed }),
    }
}

/// The part of the input that a head may take up.
#[inline(always)]
pub(super) fn window<'a>(input: &'a [u8], limits: &Limits) -> &'a [u8] {
    input.get(..limits.head.min(HEAD_CEILING)).unwrap_or(input)
}

/// A head that is not complete within its limit never will be.
pub(super) fn cut(stop: Stop, input: &[u8], limits: &Limits) -> Stop {
    match stop {
        Stop::Partial if input.len() > limits.head.min(HEAD_CEILING) => {
            FaultKind::HeadTooLarge.into()
        }
        stop => stop,
    }
}

/// Leaves nothing of the request before in a head that was not filled.
#[cold]
#[inline(never)]
fn no_request(stop: Stop, head: &mut RequestHead) -> Result<Decoded, FaultKind> {
    head.fields.clear();
    let fields = std::mem::take(&mut head.fields);
    *head = RequestHead { fields, ..RequestHead::default() };
    outcome(stop)
}

pub(super) const fn outcome(stop: Stop) -> Result<Decoded, FaultKind> {
    match stop {
        Stop::Partial => Ok(Decoded::Partial),
        Stop::Fault(kind) => Err(kind),
    }
}

/// The length of the empty lines before a request: RFC 9112, 2.2 asks to ignore at least one, which
/// old clients sent behind their content. More than two are no mistake any more.
#[cold]
#[inline(never)]
fn empty_lines(input: &[u8]) -> Result<usize, Stop> {
    let mut at = 0;
    while at < 4 && input.get(at) == Some(&b'\r') {
        let rest = input.get(at..).unwrap_or_default();
        if !starts_with_crlf(rest) {
            return Err(no_line_end(rest));
        }
        at += 2;
    }
    match input.get(at) {
        None => Err(Stop::Partial),
        Some(b'\n') => Err(Syntax::LineEnd.into()),
        Some(b'\r') => Err(Syntax::RequestLine.into()),
        Some(_) => Ok(at),
    }
}

#[inline(always)]
fn read_request(bytes: &[u8], limits: &Limits, head: &mut RequestHead) -> Result<usize, Stop> {
    let mut made = Made::Nothing;
    let line_end = read_request_line(bytes, limits, &mut made, head)?;
    let version = head.version;
    let mut host = Span::default();
    let mut expected = Expectation::None;
    let mut framing = Framing::default();
    let (lines, ambiguous) = head.fields.lines_mut();
    lines.clear();
    *ambiguous = false;
    let table = (lines, ambiguous);
    let end = read_lines(bytes, line_end, limits.fields, table, |id, rest, length| match id {
        FieldId::Other => Ok(()),
        FieldId::Host => {
            // RFC 9112, 3.2: more than one, or no valid host: 400. A host is never empty, so an
            // empty span means that there was none before.
            if !host.is_empty() || !is_authority(rest, length) {
                return Err(Syntax::Host.into());
            }
            let start = bytes.len() - rest.len();
            host = span(start, start + length);
            Ok(())
        }
        FieldId::Expect => {
            expected = expectation(expected, value(rest, length));
            Ok(())
        }
        id => framing.note(id, rest, length),
    })?;
    // RFC 9112, 3.2: HTTP/1.1 without Host: 400.
    if host.is_empty() && version == Version::Http11 {
        return Err(Syntax::Host.into());
    }
    head.body = framing.body(version)?.unwrap_or(BodyLength::Empty);
    head.persistence = framing.persistence(version);
    // RFC 9110, 10.1.1: an expectation in an HTTP/1.0 request is ignored.
    head.expectation = if version == Version::Http11 { expected } else { Expectation::None };
    head.fields.set_bytes(bytes.get(..end).unwrap_or_default());
    made.append_to(head)?;
    if head.authority.is_empty() {
        head.authority = host;
    } else {
        prefer_authority(head)?;
    }
    Ok(end)
}

/// RFC 9112, 3.2.2: the authority of the target replaces what `Host` says.
#[cold]
#[inline(never)]
fn prefer_authority(head: &mut RequestHead) -> Result<(), Stop> {
    let named = head.authority();
    let same = head.fields.value(FieldId::Host).is_some_and(|host| host == named);
    if head.form != TargetForm::Authority && !same {
        let named = named.to_vec();
        head.fields.remove(FieldId::Host);
        head.fields.push(b"host", &named).map_err(|_| FaultKind::HeadTooLarge)?;
    }
    Ok(())
}

/// Reads `method SP request-target SP HTTP-version CRLF` (RFC 9112, 3), not a blank more; says where
/// it ends.
#[inline(always)]
fn read_request_line(
    bytes: &[u8],
    limits: &Limits,
    made: &mut Made,
    head: &mut RequestHead,
) -> Result<usize, Stop> {
    let (method, method_end) = method(bytes)?;
    head.method = method;
    head.method_text = span(0, method_end);
    let extent = extent(bytes, method_end + 1)?;
    if extent.end - extent.start > limits.target {
        return Err(FaultKind::TargetTooLong.into());
    }
    if bytes.get(extent.end) != Some(&b' ') || extent.end == extent.start {
        return Err(no_target(bytes, extent.start, extent.end));
    }
    judge(bytes, extent, made, head)?;
    let at = extent.end + 1;
    read_block!(block, bytes.get(at..).ok_or(Stop::Partial)?);
    let word = Word::new(block);
    if let Some(version) = version(word)
        && word.high & 0xffff == CRLF
    {
        head.version = version;
        return Ok(at + VERSION_LENGTH + 2);
    }
    Err(bad_version(bytes, at))
}

#[inline(always)]
fn method(bytes: &[u8]) -> Result<(Method, usize), Stop> {
    if bytes.starts_with(b"GET ") {
        return Ok((Method::Get, 3));
    }
    other_method(bytes)
}

#[inline(never)]
fn other_method(bytes: &[u8]) -> Result<(Method, usize), Stop> {
    let end = bytes.iter().position(|&byte| !is_token(byte)).unwrap_or(bytes.len());
    match bytes.get(end) {
        None => Err(Stop::Partial),
        Some(b' ') if end > 0 => Ok((Method::of(bytes.get(..end).unwrap_or_default()), end)),
        Some(_) => Err(Syntax::RequestLine.into()),
    }
}

#[cold]
#[inline(never)]
fn no_target(bytes: &[u8], start: usize, end: usize) -> Stop {
    match bytes.get(end) {
        None => Stop::Partial,
        Some(_) if end == start => Syntax::RequestLine.into(),
        // HTTP/0.9, which has no version in its request line, is spoken by nobody.
        Some(b'\r' | b'\n') => Syntax::RequestLine.into(),
        Some(_) => Syntax::Target.into(),
    }
}

/// Why there is no version and CRLF at `at`.
#[cold]
#[inline(never)]
fn bad_version(bytes: &[u8], at: usize) -> Stop {
    let rest = bytes.get(at..).unwrap_or_default();
    read_block!(block, rest);
    if version(Word::new(block)).is_none() {
        return no_version(rest, Syntax::RequestLine);
    }
    match rest.get(VERSION_LENGTH..).unwrap_or_default() {
        [] | [b'\r'] => Stop::Partial,
        [b'0'..=b'9' | b'.', ..] => Syntax::Version.into(),
        [b'\r' | b'\n', ..] => Syntax::LineEnd.into(),
        _ => Syntax::RequestLine.into(),
    }
}
