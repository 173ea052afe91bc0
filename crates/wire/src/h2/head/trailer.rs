//! From header blocks to trailers (RFC 9113, 8.1).

use sluice_message::{Fields, Syntax};

use super::Refusal;
use super::sheet::{Sheet, connection_specific};
use crate::h1::Limits;
use crate::h1::trailer::{TRAILER_BYTES, TRAILER_FIELDS, may_trail};
use crate::h2::hpack::{Class, Decoder, Invalid, Line};

/// As for HTTP/1.1; every line counts 32 bytes more here.
const LIMITS: Limits =
    Limits { head: TRAILER_BYTES + TRAILER_FIELDS * 32, fields: TRAILER_FIELDS, target: 0 };

/// Reads a whole header block; it is read to its end even if the trailers are refused.
///
/// # Errors
/// What is wrong with the block itself, which ends the connection.
pub(in crate::h2) fn read_trailers(
    decoder: &mut Decoder,
    block: &[u8],
    fields: &mut Fields,
) -> Result<Result<(), Refusal>, Invalid> {
    let mut sheet = Sheet::new(fields.parts_mut(), &LIMITS);
    let mut refusal = Ok(());
    let outcome = decoder.decode(block, |line| {
        if refusal.is_ok() {
            refusal = take(&mut sheet, line);
        }
    });
    outcome.map(|()| refusal.inspect_err(|_| fields.clear()))
}

fn take(sheet: &mut Sheet<'_>, line: &Line<'_>) -> Result<(), Refusal> {
    sheet.admit(line)?;
    // Pseudo-header fields are no trailers (RFC 9113, 8.3).
    match line.mark().class {
        Class::Field => {}
        Class::Ambiguous => *sheet.ambiguous = true,
        _ => return Err(Syntax::Trailer.into()),
    }
    connection_specific(line)?;
    if !may_trail(line.mark().id, line.name()) {
        return Err(Syntax::Trailer.into());
    }
    sheet.push(line)
}
