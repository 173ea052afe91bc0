//! The trailer section behind the last chunk (RFC 9112, 7.1.2; RFC 9110, 6.5).

use sluice_message::{FaultKind, FieldId, Fields, Syntax, is_plain_name, may_be_read_as};

use super::head::{Stop, read_line};

/// Lines of a trailer section.
pub(crate) const TRAILER_FIELDS: usize = 64;

/// Bytes of a trailer section.
pub(crate) const TRAILER_BYTES: usize = 8 * 1024;

/// A trailer section as it comes in.
#[derive(Debug, Default)]
pub(super) struct Trailers {
    pub(super) fields: Fields,
    /// Where the unfinished line starts.
    line: usize,
}

impl Trailers {
    /// Takes bytes of lines, up to the end of one; says how many it took and whether a line ended.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<(usize, bool), FaultKind> {
        let line_feed = input.iter().position(|&byte| byte == b'\n');
        let length = line_feed.map_or(input.len(), |at| at + 1);
        let part = input.get(..length).unwrap_or_default();
        if self.fields.bytes().len() + length > TRAILER_BYTES {
            return Err(FaultKind::HeadTooLarge);
        }
        self.fields.append(part).map_err(|_| FaultKind::HeadTooLarge)?;
        if line_feed.is_some() {
            self.end_line()?;
        }
        Ok((length, line_feed.is_some()))
    }

    fn end_line(&mut self) -> Result<(), FaultKind> {
        let mut lines = Vec::new();
        let line = self.fields.bytes().get(self.line..).unwrap_or_default();
        let mut ambiguous = false;
        match read_line(line, self.line, (&mut lines, &mut ambiguous), &mut |_, _, _| Ok(())) {
            Ok(_) => {}
            Err(Stop::Fault(kind)) => return Err(kind),
            Err(Stop::Partial) => return Err(FaultKind::Malformed(Syntax::LineEnd)),
        }
        if self.fields.lines().len() >= TRAILER_FIELDS {
            return Err(FaultKind::TooManyFields);
        }
        for field in lines {
            if !may_trail(field.id, self.fields.slice(field.name)) {
                return Err(FaultKind::Malformed(Syntax::Trailer));
            }
            self.fields.push_line(field);
        }
        *self.fields.lines_mut().1 |= ambiguous;
        self.line = self.fields.bytes().len();
        Ok(())
    }
}

/// Names that RFC 9110, 6.5.1 keeps out of trailers and the gateway does not know otherwise: they
/// frame, route, modify or authenticate a message, or say how its content is to be read.
const FORBIDDEN: &[&[u8]] = &[
    b"age",
    b"authorization",
    b"cache-control",
    b"content-encoding",
    b"content-range",
    b"expires",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"location",
    b"max-forwards",
    b"pragma",
    b"range",
    b"retry-after",
    b"set-cookie",
    b"vary",
    b"www-authenticate",
    b"x-real-ip",
];

/// Whether a field may stand in a trailer section. What origins may take for one that may not is none either.
pub(crate) fn may_trail(id: FieldId, name: &[u8]) -> bool {
    match id {
        FieldId::Other => {
            !FORBIDDEN.iter().any(|known| may_be_read_as(name, known))
                && (is_plain_name(name) || !FieldId::may_be_read(name))
        }
        // Harmless where a recipient reads them as they are meant.
        FieldId::Server | FieldId::UserAgent | FieldId::Referer => true,
        _ => false,
    }
}
