//! The name of a field, made ready to be found in heads and written into them.

use super::{Field, Fields};
use crate::span::offset;
use crate::{FieldId, Span, may_be_read_as};

/// A valid field name (RFC 9110, 5.1), looked at once: finding its lines costs a few instructions for each
/// line of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    id: FieldId,
    /// What its lines begin with: the name, a colon and a space.
    start: Box<[u8]>,
    /// Of the name, as lines have it.
    length: u32,
}

impl FieldName {
    /// The name with these bytes. They must be valid.
    #[must_use]
    pub fn new(name: &[u8]) -> Self {
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        Self { id: FieldId::of(name), start: [name, b": "].concat().into(), length }
    }

    /// What it means to the gateway.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> FieldId {
        self.id
    }

    /// How it was written.
    #[must_use]
    #[inline]
    pub fn text(&self) -> &[u8] {
        self.start.strip_suffix(b": ").unwrap_or_default()
    }

    /// What its lines begin with.
    #[inline]
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Its length in bytes, as lines have it.
    #[must_use]
    #[inline]
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// Whether this line among the bytes of a head has the name. Names that mean something were recognised when
    /// the head was decoded; of others the lengths are compared before any byte is looked at.
    #[inline(always)]
    pub(crate) fn is_of(&self, bytes: &[u8], line: &Field) -> bool {
        line.id == self.id
            && (self.id != FieldId::Other
                || (line.name.len() == self.length && self.is(line.name.of(bytes))))
    }

    /// Called for few lines: kept apart, so that the loop over all of them stays small.
    #[inline(never)]
    fn is(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.text())
    }

    /// Whether an origin may take this line for one of the name; see [`may_be_read_as`]. No line from a client has a
    /// name that only looks like one that means something to the gateway: [`Fields::screen`].
    #[inline(always)]
    pub(crate) fn is_read_from(&self, bytes: &[u8], line: &Field) -> bool {
        line.id == self.id
            && (self.id != FieldId::Other
                || (line.name.len() == self.length && self.looks_like(line.name.of(bytes))))
    }

    /// Kept apart for the same reason as [`FieldName::is`].
    #[inline(never)]
    fn looks_like(&self, name: &[u8]) -> bool {
        may_be_read_as(name, self.text())
    }

    /// Whether there is a line that an origin may take for one of this name.
    #[must_use]
    #[inline]
    pub fn is_read_in(&self, fields: &Fields) -> bool {
        fields.lines().iter().any(|line| self.is_read_from(fields.bytes(), line))
    }

    /// The values of all lines of this name, in order.
    #[inline]
    pub fn values<'f>(&'f self, fields: &'f Fields) -> impl Iterator<Item = &'f [u8]> {
        let lines = fields.lines().iter().filter(move |line| self.is_of(fields.bytes(), line));
        lines.map(|line| fields.slice(line.value))
    }

    /// Whether there is a line of this name.
    #[must_use]
    #[inline]
    pub fn is_in(&self, fields: &Fields) -> bool {
        fields.lines().iter().any(|line| self.is_of(fields.bytes(), line))
    }

    /// Whether `holds` holds for the value of a line of this name.
    #[inline]
    pub fn any(&self, fields: &Fields, mut holds: impl FnMut(&[u8]) -> bool) -> bool {
        self.values(fields).any(&mut holds)
    }
}

/// A line that is always the same, encoded once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLine {
    bytes: Box<[u8]>,
    /// Where its parts are, from its beginning on.
    pub(crate) line: Field,
}

impl FieldLine {
    /// The line of this name with this value, which must be valid (RFC 9110, 5.5) and short enough for a head.
    #[must_use]
    pub fn new(name: &FieldName, value: &[u8]) -> Self {
        let bytes = [name.text(), b": ", value, b"\r\n"].concat();
        let value_start = name.text().len() + 2;
        let line = Field {
            id: name.id,
            name: Span::at(0, name.text().len()),
            value: Span::at(value_start, value_start + value.len()),
            line_end: offset(bytes.len()),
        };
        Self { bytes: bytes.into(), line }
    }

    /// `name: value CRLF`.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_whatever_their_case_and_taken_out() {
        let mut fields = Fields::new();
        let rows: [(&[u8], &[u8]); 5] = [
            (b"Host", b"a"),
            (b"X-One", b"1"),
            (b"x-one", b"2"),
            (b"x-two", b"3"),
            (b"COOKIE", b"c"),
        ];
        for (name, value) in rows {
            fields.push(name, value).unwrap();
        }
        for (name, values) in [
            ("x-ONE", &[&b"1"[..], b"2"][..]),
            ("cookie", &[b"c"]),
            ("x-on", &[]),
            ("via", &[]),
            ("x-abc", &[]),
        ] {
            let name = FieldName::new(name.as_bytes());
            assert_eq!(name.values(&fields).collect::<Vec<_>>(), values);
            assert_eq!(name.is_in(&fields), !values.is_empty());
            assert_eq!(name.any(&fields, |value| value == b"2"), values.len() == 2);
        }
        let one = FieldName::new(b"x-one");
        fields.push(b"X_One", b"4").unwrap();
        assert_eq!(one.values(&fields).count(), 2, "what is read has the name itself");
        fields.remove_name(&one);
        assert!(!one.is_in(&fields) && !one.is_read_in(&fields) && fields.iter().count() == 3);
        let host = FieldName::new(b"host");
        fields.remove_name(&host);
        assert!(!host.is_in(&fields) && fields.iter().count() == 2);
        fields.push_as(&host, b"b").unwrap();
        assert_eq!(fields.value(FieldId::Host), Some(&b"b"[..]));
        let last = fields.lines().last().unwrap();
        assert_eq!(fields.slice(last.line()), b"host: b\r\n");
        let same = *last;
        fields.push_ready(&FieldLine::new(&host, b"b")).unwrap();
        let ready = fields.lines().last().unwrap();
        assert_eq!(fields.slice(ready.line()), b"host: b\r\n");
        assert_eq!(fields.slice(ready.value), fields.slice(same.value));
        assert_eq!((ready.id, fields.slice(ready.name)), (FieldId::Host, &b"host"[..]));
    }
}
