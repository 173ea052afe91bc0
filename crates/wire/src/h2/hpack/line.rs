//! One field of a header block, in the form of a line of HTTP/1.1 and judged once.

use sluice_message::{FieldId, is_plain_name};

use crate::h1::scan::{control_but_tab_at, is_lower_token, is_space};

/// What kind of field a line is (RFC 9113, 8.2 and 8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An ordinary field with valid name and value.
    Field,
    /// The same with a name that origins may take for another one: see [`sluice_message::may_be_read_as`].
    Ambiguous,
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:status`
    Status,
    /// `:protocol` (RFC 8441)
    Protocol,
    /// A name that is no lower-case token, or a pseudo-header field nobody defined.
    BadName,
    /// A value with a control character or with white space around it.
    BadValue,
}

/// The judgement about a line, made when its bytes came in and kept with it in the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What kind it is.
    pub class: Class,
    /// What the name means to the gateway.
    pub id: FieldId,
}

impl Mark {
    /// Judges a field.
    #[cfg(test)]
    pub(super) fn of(name: &[u8], value: &[u8]) -> Self {
        Self::of_name(name).with_value(value)
    }

    /// Judges a name.
    pub(super) fn of_name(name: &[u8]) -> Self {
        let class = match name {
            b":method" => Class::Method,
            b":scheme" => Class::Scheme,
            b":authority" => Class::Authority,
            b":path" => Class::Path,
            b":status" => Class::Status,
            b":protocol" => Class::Protocol,
            // RFC 9113, 8.2: upper case is malformed.
            [_, ..] if name.iter().all(|&byte| is_lower_token(byte)) => {
                let class = if is_plain_name(name) { Class::Field } else { Class::Ambiguous };
                return Self { class, id: FieldId::of(name) };
            }
            _ => Class::BadName,
        };
        Self { class, id: FieldId::Other }
    }

    /// Judges the value beside a name that was judged (RFC 9113, 8.2.1; other control characters are
    /// refused as in HTTP/1.1).
    #[inline]
    pub(super) fn with_value(self, value: &[u8]) -> Self {
        let edge = |byte: Option<&u8>| byte.is_some_and(|&byte| is_space(byte));
        let bad =
            control_but_tab_at(value) < value.len() || edge(value.first()) || edge(value.last());
        if bad && self.class != Class::BadName {
            Self { class: Class::BadValue, ..self }
        } else {
            self
        }
    }
}

/// A decoded field: `name: value CRLF`.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    bytes: &'a [u8],
    name: usize,
    mark: Mark,
}

/// What a field counts beside name and value (RFC 7541, 4.1; RFC 9113, 6.5.2).
pub(super) const OVERHEAD: usize = 32;

/// Colon, blank, CR and LF.
pub(super) const PUNCTUATION: usize = 4;

impl<'a> Line<'a> {
    #[inline(always)]
    pub(super) const fn new(bytes: &'a [u8], name: usize, mark: Mark) -> Self {
        Self { bytes, name, mark }
    }

    /// The whole line.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length of the name.
    #[must_use]
    #[inline]
    pub const fn name_length(&self) -> usize {
        self.name
    }

    /// The name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        self.bytes.get(..self.name).unwrap_or_default()
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.bytes.get(self.name + 2..self.bytes.len().wrapping_sub(2)).unwrap_or_default()
    }

    /// What follows the name: colon, blank, value, CR and LF.
    #[must_use]
    #[inline]
    pub(in crate::h2) fn tail(&self) -> &'a [u8] {
        self.bytes.get(self.name..).unwrap_or_default()
    }

    /// What was judged about it.
    #[must_use]
    #[inline]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// Its size as `SETTINGS_MAX_HEADER_LIST_SIZE` counts it, in bytes.
    #[must_use]
    #[inline]
    pub const fn size(&self) -> usize {
        self.bytes.len() - PUNCTUATION + OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_judged() {
        let cases: [(&str, &str, Class); 23] = [
            ("accept", "x", Class::Field),
            ("accept", "", Class::Field),
            ("x-1_!#$%&'*+.^`|~", "\u{e4} \t b", Class::Ambiguous),
            ("x-1", "\u{e4} \t b", Class::Field),
            (":method", "GET", Class::Method),
            (":path", "/", Class::Path),
            (":status", "200", Class::Status),
            (":protocol", "websocket", Class::Protocol),
            (":path", "/\0", Class::BadValue),
            (":nonsense", "", Class::BadName),
            (":", "", Class::BadName),
            ("", "x", Class::BadName),
            ("Accept", "x", Class::BadName),
            ("a b", "x", Class::BadName),
            ("a:b", "x", Class::BadName),
            ("a\u{e4}", "x", Class::BadName),
            ("a", "x\r", Class::BadValue),
            ("a", "x\ny", Class::BadValue),
            ("a", "\0", Class::BadValue),
            ("a", " x", Class::BadValue),
            ("a", "x\t", Class::BadValue),
            ("a", "x\x7fy", Class::BadValue),
            ("A", "\0", Class::BadName),
        ];
        for (name, value, class) in cases {
            assert_eq!(
                Mark::of(name.as_bytes(), value.as_bytes()).class,
                class,
                "{name}: {value:?}"
            );
        }
        assert_eq!(Mark::of(b"content-length", b"1").id, FieldId::ContentLength);
        assert_eq!(Mark::of(b"proxy-authorization", b"1").id, FieldId::ProxyAuthorization);
    }

    #[test]
    fn a_line_knows_its_parts() {
        let line = Line::new(b"a-b: c d\r\n", 3, Mark::of(b"a-b", b"c d"));
        assert_eq!((line.name(), line.value(), line.size()), (&b"a-b"[..], &b"c d"[..], 38));
    }
}
