//! Field lines: their bytes in one piece and spans into them.

mod name;

pub use name::{FieldLine, FieldName};

use crate::span::offset;
use crate::{FieldId, Span, is_plain_name, may_be_read_as};

/// One field line inside the bytes of its [`Fields`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// What the name means to the gateway.
    pub id: FieldId,
    /// The name, as it was sent.
    pub name: Span,
    /// The value without surrounding white space.
    pub value: Span,
    /// One past the line's CRLF; the line starts where the name does.
    pub line_end: u32,
}

impl Field {
    /// The whole line, CRLF included.
    #[must_use]
    #[inline]
    pub const fn line(&self) -> Span {
        Span::new(self.name.start, self.line_end)
    }

    /// The same line so many bytes further on.
    #[inline]
    const fn shifted(self, by: u32) -> Self {
        Self {
            id: self.id,
            name: self.name.shifted(by),
            value: self.value.shifted(by),
            line_end: self.line_end.saturating_add(by),
        }
    }
}

/// What becomes of headers of clients whose names origins may take for other ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AmbiguousHeaders {
    /// They are dropped.
    #[default]
    Drop,
    /// The message is refused.
    Refuse,
    /// They are kept, but for those that look like a header the gateway itself acts on: framing, routing,
    /// forwarding.
    Keep,
}

/// A name that an origin may take for another one, where such names are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbiguousName;

/// The place for fields is used up: 64 KiB of lines, or more fields than a head may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceExhausted;

/// The field lines of one head or of one trailer section.
///
/// `bytes` holds whatever precedes the lines too (the request or status line of HTTP/1.1), so that a
/// decoder can hand over a head with one copy. Lines keep the form `name: value CRLF`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Vec<u8>,
    lines: Vec<Field>,
    /// Whether a decoder found a name in them that origins may take for another one.
    ambiguous: bool,
}

/// No head or trailer section grows beyond this many bytes, whoever adds to it.
const SPACE: usize = 256 * 1024;

impl Fields {
    /// Without any line.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), lines: Vec::new(), ambiguous: false }
    }

    /// Without any line, with room for so many bytes of so many lines.
    #[must_use]
    pub fn with_capacity(bytes: usize, lines: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            lines: Vec::with_capacity(lines),
            ambiguous: false,
        }
    }

    /// Forgets all lines and bytes, keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.ambiguous = false;
    }

    /// Gives memory back that a rare large head needed, so that a recycled one stays small.
    pub fn shrink(&mut self, bytes: usize) {
        if self.bytes.capacity() > bytes {
            self.clear();
            self.bytes.shrink_to(bytes);
        }
    }

    /// For decoders: replaces everything by a head's bytes; lines follow with [`Fields::push_line`].
    #[inline]
    pub fn start(&mut self, bytes: &[u8]) {
        self.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// For decoders: adds raw bytes behind the present ones and says where they are.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if the bytes do not fit any more.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Span, SpaceExhausted> {
        let start = self.bytes.len();
        if start + bytes.len() > SPACE {
            return Err(SpaceExhausted);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(Span::at(start, self.bytes.len()))
    }

    /// For decoders: adds a line whose bytes are already there.
    #[inline]
    pub fn push_line(&mut self, line: Field) {
        self.lines.push(line);
    }

    /// For decoders: the table of lines, to fill while parsing the bytes that [`Fields::start`] will
    /// be given, and whether a name among them may be taken for another one.
    #[inline]
    pub fn lines_mut(&mut self) -> (&mut Vec<Field>, &mut bool) {
        (&mut self.lines, &mut self.ambiguous)
    }

    /// For decoders that write lines themselves: the bytes and the table of lines, in this order, and whether a name
    /// among them may be taken for another one.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut Vec<u8>, &mut Vec<Field>, &mut bool) {
        (&mut self.bytes, &mut self.lines, &mut self.ambiguous)
    }

    /// Becomes a copy of `other` within the memory there is.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        self.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.lines.extend_from_slice(&other.lines);
        self.ambiguous = other.ambiguous;
    }

    /// A copy with room for so many bytes and a few lines more, made at once.
    #[must_use]
    #[inline]
    pub fn with_room(&self, bytes: usize) -> Self {
        let mut copy = Self {
            bytes: Vec::with_capacity(self.bytes.len() + bytes),
            lines: Vec::with_capacity(self.lines.len() + 4),
            ambiguous: false,
        };
        copy.copy_from(self);
        copy
    }

    /// A copy without the bytes of lines that were taken out, and of what stood before the lines.
    ///
    /// # Errors
    /// [`SpaceExhausted`], which cannot be where all of this fits.
    pub fn compact(&self) -> Result<Self, SpaceExhausted> {
        let mut copy = Self::new();
        for (name, value) in self.iter() {
            copy.push(name, value)?;
        }
        copy.ambiguous = self.ambiguous;
        Ok(copy)
    }

    /// For decoders: sets the bytes that the lines already in the table point into.
    #[inline]
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a line. Name and value must be valid (RFC 9110, 5.1 and 5.5): callers pass constants,
    /// configuration that was checked, or what a decoder let through.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if the line does not fit any more.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), SpaceExhausted> {
        self.write(FieldId::of(name), name, value)
    }

    /// Adds a line of a name whose meaning is known. The value must be valid, as for [`Fields::push`].
    ///
    /// # Errors
    /// [`SpaceExhausted`] if the line does not fit any more.
    // In line: a call of its own would cost as much as the copies.
    #[inline(always)]
    pub fn push_as(&mut self, name: &FieldName, value: &[u8]) -> Result<(), SpaceExhausted> {
        let place = self.make_room(name.start().len() + value.len() + 2)?;
        self.bytes.extend_from_slice(name.start());
        self.end_line(name.id(), (place, name.length()), value);
        Ok(())
    }

    /// Adds a line that was encoded before.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if the line does not fit any more.
    #[inline]
    pub fn push_ready(&mut self, ready: &FieldLine) -> Result<(), SpaceExhausted> {
        let start = self.bytes.len();
        if start + ready.bytes().len() > SPACE {
            return Err(SpaceExhausted);
        }
        self.bytes.extend_from_slice(ready.bytes());
        self.lines.push(ready.line.shifted(offset(start)));
        Ok(())
    }

    fn write(&mut self, id: FieldId, name: &[u8], value: &[u8]) -> Result<(), SpaceExhausted> {
        let place = self.make_room(name.len() + 4 + value.len())?;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        self.end_line(id, (place, offset(name.len())), value);
        Ok(())
    }

    /// Room for so many bytes at once, so that copies do not ask for it one by one; where they begin.
    #[inline(always)]
    fn make_room(&mut self, length: usize) -> Result<u32, SpaceExhausted> {
        if self.bytes.len() + length > SPACE {
            return Err(SpaceExhausted);
        }
        self.bytes.reserve(length);
        Ok(offset(self.bytes.len()))
    }

    /// Ends a line whose name was written to this place, with this length. All of it is within [`SPACE`].
    #[inline(always)]
    fn end_line(&mut self, id: FieldId, (place, length): (u32, u32), value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        let name_end = place + length;
        let value_end = name_end + 2 + offset(value.len());
        self.lines.push(Field {
            id,
            name: Span::new(place, name_end),
            value: Span::new(name_end + 2, value_end),
            line_end: value_end + 2,
        });
    }

    /// Adds all lines of `other`, removed ones included.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if they do not fit any more.
    pub fn push_all(&mut self, other: &Self) -> Result<(), SpaceExhausted> {
        if self.bytes.len() + other.bytes.len() > SPACE {
            return Err(SpaceExhausted);
        }
        let shift = offset(self.bytes.len());
        self.bytes.extend_from_slice(&other.bytes);
        self.lines.extend(other.lines.iter().map(|line| line.shifted(shift)));
        self.ambiguous |= other.ambiguous;
        Ok(())
    }

    /// Takes every line with this meaning out.
    pub fn remove(&mut self, id: FieldId) {
        self.remove_all(|line| line == id);
    }

    /// Takes every line out whose meaning `unwanted` names.
    #[inline]
    pub fn remove_all(&mut self, unwanted: impl Fn(FieldId) -> bool) {
        for line in self.lines.iter_mut().filter(|line| unwanted(line.id)) {
            line.id = FieldId::Removed;
        }
    }

    /// Takes every line out that an origin may take for one of this name: see [`may_be_read_as`].
    #[inline]
    pub fn remove_name(&mut self, name: &FieldName) {
        let Self { bytes, lines, .. } = self;
        for line in lines.iter_mut().filter(|line| name.is_read_from(bytes, line)) {
            line.id = FieldId::Removed;
        }
    }

    /// The same for a name that was not made ready.
    pub fn remove_read_as(&mut self, name: &[u8]) {
        let Self { bytes, lines, .. } = self;
        let length = offset(name.len());
        let meant = |line: &&mut Field| {
            line.name.len() == length && may_be_read_as(line.name.of(bytes), name)
        };
        for line in lines.iter_mut().filter(meant) {
            line.id = FieldId::Removed;
        }
    }

    /// Takes every line out that an origin may take for one of this name, although it is none.
    pub fn remove_lookalikes(&mut self, name: &[u8]) {
        if self.ambiguous {
            self.remove_named(|have| {
                may_be_read_as(have, name) && !have.eq_ignore_ascii_case(name)
            });
        }
    }

    /// Whether there is a line that an origin may take for one of this name.
    #[must_use]
    pub fn has_read_as(&self, name: &[u8]) -> bool {
        self.iter().any(|(have, _)| may_be_read_as(have, name))
    }

    /// Whether a line that came from outside has a name with other bytes than letters, digits and hyphens, which
    /// origins may take for another name.
    #[must_use]
    #[inline]
    pub const fn is_ambiguous(&self) -> bool {
        self.ambiguous
    }

    /// Takes lines out that have such a name and are not kept; how many.
    ///
    /// # Errors
    /// [`AmbiguousName`] if there is one, where they are refused.
    #[cold]
    pub fn screen(&mut self, rule: AmbiguousHeaders) -> Result<u64, AmbiguousName> {
        let Self { bytes, lines, ambiguous } = self;
        if rule == AmbiguousHeaders::Refuse && *ambiguous {
            return Err(AmbiguousName);
        }
        let mut dropped = 0;
        *ambiguous = false;
        for line in lines.iter_mut().filter(|line| line.id == FieldId::Other) {
            let name = line.name.of(bytes);
            if is_plain_name(name) {
                continue;
            }
            if rule == AmbiguousHeaders::Drop || FieldId::may_be_read(name) {
                line.id = FieldId::Removed;
                dropped += 1;
            } else {
                *ambiguous = true;
            }
        }
        Ok(dropped)
    }

    /// Takes every line out whose name is `unwanted`.
    pub fn remove_named(&mut self, unwanted: impl Fn(&[u8]) -> bool) {
        let Self { bytes, lines, .. } = self;
        for line in lines.iter_mut().filter(|line| unwanted(line.name.of(bytes))) {
            line.id = FieldId::Removed;
        }
    }

    /// The lines in the order they came, removed ones included (see [`FieldId::Removed`]).
    #[must_use]
    #[inline]
    pub fn lines(&self) -> &[Field] {
        &self.lines
    }

    /// All bytes that spans of this head point into.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of a span, empty if it does not lie within.
    #[must_use]
    #[inline]
    pub fn slice(&self, span: Span) -> &[u8] {
        span.of(&self.bytes)
    }

    /// Name and value of each line that was not removed.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines
            .iter()
            .filter(|line| line.id != FieldId::Removed)
            .map(|line| (self.slice(line.name), self.slice(line.value)))
    }

    /// The value of the first line with this meaning.
    #[must_use]
    pub fn value(&self, id: FieldId) -> Option<&[u8]> {
        self.values(id).next()
    }

    /// The values of all lines with this meaning, in order.
    pub fn values(&self, id: FieldId) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(move |line| line.id == id).map(|line| self.slice(line.value))
    }

    /// The values of all lines of this name, compared without case.
    pub fn values_of<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Whether a comma-separated list field (RFC 9110, 5.6.1) holds `token`, compared without case.
    #[must_use]
    pub fn lists(&self, id: FieldId, token: &[u8]) -> bool {
        self.values(id)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_lines_are_found_by_meaning_and_name() {
        let mut fields = Fields::new();
        fields.start(b"GET / HTTP/1.1\r\n");
        fields.push(b"Host", b"a.example").unwrap();
        fields.push(b"X-One", b"1").unwrap();
        fields.push(b"x-one", b"2").unwrap();
        assert_eq!(fields.value(FieldId::Host), Some(&b"a.example"[..]));
        assert_eq!(fields.values_of(b"X-ONE").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(fields.slice(fields.lines()[1].line()), b"X-One: 1\r\n");
        fields.remove(FieldId::Host);
        assert_eq!(fields.value(FieldId::Host), None);
        assert_eq!(fields.iter().count(), 2);
    }

    #[test]
    fn lines_of_another_are_added_at_the_end() {
        let mut fields = Fields::new();
        fields.push(b"host", b"a").unwrap();
        let mut more = Fields::new();
        more.push(b"via", b"1.1 b").unwrap();
        more.push(b"x-c", b"d").unwrap();
        fields.push_all(&more).unwrap();
        let all: Vec<_> = fields.iter().collect();
        assert_eq!(all, [(&b"host"[..], &b"a"[..]), (b"via", b"1.1 b"), (b"x-c", b"d")]);
        assert_eq!(fields.slice(fields.lines()[2].line()), b"x-c: d\r\n");
    }

    #[test]
    fn list_members_compare_without_case_and_space() {
        let mut fields = Fields::new();
        fields.push(b"Connection", b"keep-alive , Upgrade").unwrap();
        fields.push(b"Connection", b"x-hop").unwrap();
        for (token, found) in [("upgrade", true), ("X-Hop", true), ("keep", false)] {
            assert_eq!(fields.lists(FieldId::Connection, token.as_bytes()), found, "{token}");
        }
    }

    #[test]
    fn ambiguous_names_go() {
        let names = ["X_User", "content_length", "X-User", "a.b", "host", "X_Forwarded_For"];
        let filled = || {
            let mut fields = Fields::new();
            names.iter().for_each(|name| fields.push(name.as_bytes(), b"1").unwrap());
            *fields.lines_mut().1 = true;
            fields
        };
        let left = |fields: &Fields| -> Vec<String> {
            fields.iter().map(|(name, _)| String::from_utf8_lossy(name).into()).collect()
        };
        assert_eq!(filled().screen(AmbiguousHeaders::Refuse), Err(AmbiguousName));
        let mut fields = filled();
        assert_eq!(fields.screen(AmbiguousHeaders::Drop), Ok(4));
        assert_eq!(fields.screen(AmbiguousHeaders::Refuse), Ok(0), "none is left");
        assert_eq!(left(&fields), ["X-User", "host"]);
        let mut fields = filled();
        assert_eq!(fields.screen(AmbiguousHeaders::Keep), Ok(2));
        assert_eq!(left(&fields), ["X_User", "X-User", "a.b", "host"]);
        assert!(fields.is_ambiguous() && fields.clone().is_ambiguous());
        let mut other = Fields::new();
        other.push_all(&fields).unwrap();
        assert!(other.is_ambiguous() && fields.with_room(8).is_ambiguous());
        assert!(fields.compact().unwrap().is_ambiguous());
        assert!(fields.has_read_as(b"x.user"));
        let mut signed = fields.clone();
        signed.remove_lookalikes(b"x-user");
        assert_eq!(left(&signed), ["X-User", "a.b", "host"]);
        fields.remove_read_as(b"x-user");
        assert_eq!(left(&fields), ["a.b", "host"]);
        assert!(!fields.has_read_as(b"x-user"));
        fields.clear();
        assert!(!fields.is_ambiguous());
    }

    #[test]
    fn space_is_bounded() {
        let mut fields = Fields::new();
        let large = vec![b'x'; SPACE];
        assert_eq!(fields.push(b"a", &large), Err(SpaceExhausted));
        assert_eq!(fields.append(&large), Ok(Span::at(0, SPACE)));
        assert_eq!(fields.append(b"y"), Err(SpaceExhausted));
    }
}
