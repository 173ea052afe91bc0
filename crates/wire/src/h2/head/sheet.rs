//! The lines of a head as they are decoded: sizes counted, framing noted.

use sluice_message::{FaultKind, Field, FieldId, Syntax};

use super::Refusal;
use crate::h1::Limits;
use crate::h1::head::{HEAD_CEILING, span};
use crate::h1::number::content_length;
use crate::h2::hpack::{Class, Line};

/// Takes lines until one is refused.
pub(super) struct Sheet<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    pub(super) lines: &'a mut Vec<Field>,
    /// Whether a name among them may be taken for another one.
    pub(super) ambiguous: &'a mut bool,
    limits: Limits,
    /// As `SETTINGS_MAX_HEADER_LIST_SIZE` counts (RFC 9113, 6.5.2).
    size: usize,
    pub(super) length: Option<u64>,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(
        (bytes, lines, ambiguous): (&'a mut Vec<u8>, &'a mut Vec<Field>, &'a mut bool),
        limits: &Limits,
    ) -> Self {
        bytes.clear();
        lines.clear();
        *ambiguous = false;
        let limits = Limits { head: limits.head.min(HEAD_CEILING), ..*limits };
        Self { bytes, lines, ambiguous, limits, size: 0, length: None }
    }

    /// Counts a line, before anything of it is copied: a block of few bytes may stand for a great many.
    #[inline(always)]
    pub(super) fn admit(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        self.size += line.size();
        if self.size > self.limits.head {
            return Err(Refusal::Refused(FaultKind::HeadTooLarge));
        }
        match line.mark().class {
            Class::BadName => Err(Syntax::FieldName.into()),
            Class::BadValue => Err(Syntax::FieldValue.into()),
            _ => Ok(()),
        }
    }

    /// Adds a line as it is.
    #[inline(always)]
    pub(super) fn push(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        if self.lines.len() >= self.limits.fields {
            return Err(Refusal::Refused(FaultKind::TooManyFields));
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(line.bytes());
        self.note(line.mark().id, start, line.name_length());
        Ok(())
    }

    /// Adds a line made here.
    #[inline(always)]
    pub(super) fn write(&mut self, id: FieldId, name: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.reserve(name.len() + value.len() + 4);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self.note(id, start, name.len());
    }

    /// Adds the line that goes from `start` to the end of the bytes.
    #[inline(always)]
    pub(super) fn note(&mut self, id: FieldId, start: usize, name: usize) {
        let end = self.bytes.len();
        self.lines.push(Field {
            id,
            name: span(start, start + name),
            value: span(start + name + 2, end - 2),
            line_end: span(start, end).end,
        });
    }

    /// Takes `Content-Length` into account: one line, a number (RFC 9110, 8.6).
    pub(super) fn note_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.length.is_some() {
            return Err(Syntax::ContentLength.into());
        }
        self.length = Some(content_length(value).ok_or(Syntax::ContentLength)?);
        Ok(())
    }
}

/// The rule a connection-specific field breaks (RFC 9113, 8.2.2), if it is one. `TE` may say
/// `trailers` and nothing else.
#[inline(always)]
pub(super) fn connection_specific(line: &Line<'_>) -> Result<(), Refusal> {
    match line.mark().id {
        FieldId::Connection
        | FieldId::ProxyConnection
        | FieldId::KeepAlive
        | FieldId::TransferEncoding
        | FieldId::Upgrade => Err(Syntax::FieldName.into()),
        FieldId::Te if !line.value().eq_ignore_ascii_case(b"trailers") => {
            Err(Syntax::FieldValue.into())
        }
        _ => Ok(()),
    }
}
