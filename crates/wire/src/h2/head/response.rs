//! From header blocks to response heads (RFC 9113, 8.3.2).

use sluice_message::{
    BodyLength, FieldId, Method, Persistence, ResponseHead, Span, Syntax, Version,
};

use super::sheet::{Sheet, connection_specific};
use super::{End, Refusal};
use crate::h1::Limits;
use crate::h2::hpack::{Class, Decoder, Invalid, Line};

/// Reads a whole header block as the answer to a request with this method; it is read to its end even
/// if the response is refused, since it may change the table.
///
/// # Errors
/// What is wrong with the block itself, which ends the connection.
pub(in crate::h2) fn read_response(
    decoder: &mut Decoder,
    (block, end): (&[u8], End),
    (limits, request): (&Limits, Method),
    head: &mut ResponseHead,
) -> Result<Result<(), Refusal>, Invalid> {
    let ResponseHead { fields, status, .. } = head;
    *status = 0;
    let mut sheet = Sheet::new(fields.parts_mut(), limits);
    let mut refusal = Ok(());
    let outcome = decoder.decode(block, |line| {
        if refusal.is_ok() {
            refusal = take(&mut sheet, status, line);
        }
    });
    let length = sheet.length;
    outcome?;
    Ok(refusal.and_then(|()| finish(head, length, end, request)).inspect_err(|_| clear(head)))
}

/// Leaves nothing of a response that was refused.
#[cold]
fn clear(head: &mut ResponseHead) {
    let mut fields = std::mem::take(&mut head.fields);
    fields.clear();
    *head = ResponseHead { fields, ..ResponseHead::default() };
}

#[inline(always)]
fn take(sheet: &mut Sheet<'_>, status: &mut u16, line: &Line<'_>) -> Result<(), Refusal> {
    sheet.admit(line)?;
    match (line.mark().class, line.mark().id) {
        (Class::Status, _) => {
            // Once, and before every field (RFC 9113, 8.3).
            if *status != 0 || !sheet.lines.is_empty() {
                return Err(Syntax::StatusLine.into());
            }
            *status = read_status(line.value()).ok_or(Syntax::StatusLine)?;
            return Ok(());
        }
        (Class::Field, FieldId::Other) => {}
        (Class::Ambiguous, _) => *sheet.ambiguous = true,
        (Class::Field, FieldId::ContentLength) => sheet.note_length(line.value())?,
        (Class::Field, _) => connection_specific(line)?,
        _ => return Err(Syntax::FieldName.into()),
    }
    // A response begins with its status, which is what tells it from trailers.
    if *status == 0 {
        return Err(Syntax::StatusLine.into());
    }
    sheet.push(line)
}

/// Three digits, the first not zero, as in HTTP/1.1.
fn read_status(value: &[u8]) -> Option<u16> {
    let digits: &[u8; 3] = value.try_into().ok()?;
    let [hundreds, tens, ones] = digits.map(|digit| u16::from(digit.wrapping_sub(b'0')));
    let fits = (1..=9).contains(&hundreds) && tens <= 9 && ones <= 9;
    fits.then_some(hundreds * 100 + tens * 10 + ones)
}

fn finish(
    head: &mut ResponseHead,
    length: Option<u64>,
    end: End,
    request: Method,
) -> Result<(), Refusal> {
    // RFC 9113, 8.6: there is no 101; other interim responses do not end the stream (8.1).
    if head.status < 100 || head.status == 101 || (head.status < 200 && end == End::Stream) {
        return Err(Syntax::StatusLine.into());
    }
    let bodiless = request == Method::Head || matches!(head.status, 100..=199 | 204 | 304);
    head.body = match (end, length) {
        _ if bodiless => BodyLength::Empty,
        _ if request == Method::Connect && head.status < 300 => BodyLength::Framed,
        (End::Stream, None | Some(0)) => BodyLength::Empty,
        // RFC 9113, 8.1.1: a length other than that of the content is malformed.
        (End::Stream, Some(_)) => return Err(Syntax::ContentLength.into()),
        (End::More, Some(length)) => BodyLength::Known(length),
        (End::More, None) => BodyLength::Framed,
    };
    head.version = Version::Http2;
    head.persistence = Persistence::KeepAlive;
    head.reason = Span::default();
    Ok(())
}
