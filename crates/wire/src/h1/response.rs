//! From bytes to response heads: the status line and what follows from status, request and fields.

use sluice_message::{
    BodyLength, FaultKind, Method, Persistence, ResponseHead, Span, Syntax, Version,
};

use super::decode::{Decoded, Limits, cut, outcome, window};
use super::head::{
    Framing, Stop, VERSION_LENGTH, behind_tab, no_version, read_lines, span, starts_with_crlf,
    version,
};
use super::scan::{Word, control_at, read_block};

/// Decodes a response head (RFC 9112, 4 and 5), the answer to a request with method `request`.
///
/// `head` holds a response only after [`Decoded::Complete`].
///
/// # Errors
/// As for [`super::decode_request`]; what is ambiguous is refused, never relayed.
#[inline]
pub fn decode_response(
    input: &[u8],
    limits: &Limits,
    request: Method,
    head: &mut ResponseHead,
) -> Result<Decoded, FaultKind> {
    match read_response(window(input, limits), limits, request, head) {
        Ok(consumed) => Ok(Decoded::Complete { consumed }),
        Err(stop) => no_response(cut(stop, input, limits), head),
    }
}

#[cold]
#[inline(never)]
fn no_response(stop: Stop, head: &mut ResponseHead) -> Result<Decoded, FaultKind> {
    head.fields.clear();
    let fields = std::mem::take(&mut head.fields);
    *head = ResponseHead { fields, ..ResponseHead::default() };
    outcome(stop)
}

#[inline(always)]
fn read_response(
    bytes: &[u8],
    limits: &Limits,
    request: Method,
    head: &mut ResponseHead,
) -> Result<usize, Stop> {
    let line = status_line(bytes)?;
    let mut framing = Framing::default();
    let (lines, ambiguous) = head.fields.lines_mut();
    lines.clear();
    *ambiguous = false;
    let end =
        read_lines(bytes, line.end, limits.fields, (lines, ambiguous), |id, rest, length| {
            framing.note(id, rest, length)
        })?;
    let stated = framing.body(line.version)?;
    head.body = match (request, line.status) {
        // RFC 9112, 6.3, rules 1 and 2: these end with the empty line whatever they state.
        (Method::Head, _) | (_, 100..=199 | 204 | 304) | (Method::Connect, 200..=299) => {
            BodyLength::Empty
        }
        // Rule 8: else it lasts until the origin closes.
        _ => stated.unwrap_or(BodyLength::UntilClose),
    };
    head.persistence = match head.body {
        BodyLength::UntilClose => Persistence::Close,
        _ => framing.persistence(line.version),
    };
    head.version = line.version;
    head.status = line.status;
    head.reason = line.reason;
    head.fields.set_bytes(bytes.get(..end).unwrap_or_default());
    Ok(end)
}

struct StatusLine {
    version: Version,
    status: u16,
    reason: Span,
    /// One past the CRLF.
    end: usize,
}

/// `HTTP-version SP status-code SP [ reason-phrase ] CRLF` (RFC 9112, 4). The blank behind the code
/// may be missing if the phrase is, which some origins do and nobody misreads.
#[inline(always)]
fn status_line(bytes: &[u8]) -> Result<StatusLine, Stop> {
    read_block!(block, bytes);
    let word = Word::new(block);
    let Some(version) = version(word) else { return Err(no_version(bytes, Syntax::StatusLine)) };
    let [blank, hundreds, tens, ones, after, ..] = word.high.to_le_bytes();
    let digits = [hundreds, tens, ones].map(|digit| u16::from(digit.wrapping_sub(b'0')));
    let [hundreds, tens, ones] = digits;
    if blank != b' ' || !(1..=9).contains(&hundreds) || tens > 9 || ones > 9 {
        return Err(no_status(bytes));
    }
    let start = VERSION_LENGTH + 4 + usize::from(after == b' ');
    let rest = bytes.get(start..).unwrap_or_default();
    let mut length = match after {
        b' ' => control_at(rest),
        b'\0' | b'\r' | b'\n' => 0,
        _ => return Err(Syntax::StatusLine.into()),
    };
    while !rest.get(length..).is_some_and(starts_with_crlf) {
        length = behind_tab(rest, length).map_err(|stop| match stop {
            Stop::Fault(FaultKind::Malformed(Syntax::FieldValue)) => Syntax::StatusLine.into(),
            stop => stop,
        })?;
    }
    let stop = start + length;
    let status = hundreds * 100 + tens * 10 + ones;
    Ok(StatusLine { version, status, reason: span(start, stop), end: stop + 2 })
}

/// Partial if what there is of ` 3DIGIT` is right.
#[cold]
#[inline(never)]
fn no_status(bytes: &[u8]) -> Stop {
    let rest = bytes.get(VERSION_LENGTH..).unwrap_or_default();
    match rest {
        [] | [b' '] | [b' ', b'1'..=b'9'] | [b' ', b'1'..=b'9', b'0'..=b'9'] => Stop::Partial,
        [b'0'..=b'9' | b'.', ..] => Syntax::Version.into(),
        _ => Syntax::StatusLine.into(),
    }
}
