//! The head of a response, whatever protocol it came by.

use std::ops::Deref;

use crate::{BodyLength, FieldId, Fields, Persistence, Span, Version};

/// The head of a response. All spans point into `fields.bytes()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code, 100 to 599 (999 is let through, RFC 9110, section 15).
    pub status: u16,
    /// Reason phrase as it was sent; empty in protocols without one.
    pub reason: Span,
    /// Received version.
    pub version: Version,
    /// Length of the content that follows.
    pub body: BodyLength,
    /// Whether the origin means to go on after this response.
    pub persistence: Persistence,
    /// Field lines.
    pub fields: Fields,
}

impl ResponseHead {
    /// An empty head, to be filled by a decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Becomes a copy of `other` within the memory there is.
    pub fn copy_from(&mut self, other: &Self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.copy_from(&other.fields);
        *self = Self {
            status: other.status,
            reason: other.reason,
            version: other.version,
            body: other.body,
            persistence: other.persistence,
            fields,
        };
    }

    /// Whether this is an interim response (RFC 9110, 15.2); 101 is final for its connection.
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        self.status >= 100 && self.status < 200 && self.status != 101
    }
}

/// What is known of the field lines of a head before they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Nothing: each has to be looked at.
    #[default]
    Unknown,
    /// All are for the client, in one piece and without anything before them. None is `Date`.
    Plain,
    /// The same, with `Date` among them.
    Dated,
}

impl Lines {
    /// Looks at each, so that nobody has to do that again as long as they stay as they are.
    #[must_use]
    pub fn of(fields: &Fields) -> Self {
        let (mut end, mut known) = (0, Self::Plain);
        for line in fields.lines() {
            match line.id {
                FieldId::Date => known = Self::Dated,
                FieldId::Removed | FieldId::ContentLength | FieldId::Upgrade => {
                    return Self::Unknown;
                }
                id if id.is_hop_by_hop() => return Self::Unknown,
                _ => {}
            }
            if line.name.start != end {
                return Self::Unknown;
            }
            end = line.line_end;
        }
        let all = usize::try_from(end) == Ok(fields.bytes().len());
        if all { known } else { Self::Unknown }
    }
}

/// A response head that is sent often and changed seldom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettledHead {
    head: ResponseHead,
    lines: Lines,
}

impl SettledHead {
    /// What is known of its lines.
    #[must_use]
    #[inline]
    pub const fn known(&self) -> Lines {
        self.lines
    }

    /// Changes it.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut ResponseHead) -> T) -> T {
        let done = change(&mut self.head);
        self.lines = Lines::of(&self.head.fields);
        done
    }
}

impl From<ResponseHead> for SettledHead {
    fn from(head: ResponseHead) -> Self {
        let lines = Lines::of(&head.fields);
        Self { head, lines }
    }
}

impl Deref for SettledHead {
    type Target = ResponseHead;

    #[inline]
    fn deref(&self) -> &ResponseHead {
        &self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_need_no_look_are_known() {
        let table: &[(&[(&str, &str)], Lines)] = &[
            (&[], Lines::Plain),
            (&[("content-type", "text/plain"), ("age", "1")], Lines::Plain),
            (&[("x-a", "1"), ("Date", "x"), ("x-b", "2")], Lines::Dated),
            (&[("content-length", "1")], Lines::Unknown),
            (&[("x-a", "1"), ("connection", "x-a")], Lines::Unknown),
            (&[("upgrade", "x")], Lines::Unknown),
            (&[("server", "a"), ("via", "1.1 b")], Lines::Plain),
            (&[("proxy-authenticate", "Basic")], Lines::Unknown),
        ];
        for (lines, expected) in table {
            let mut fields = Fields::new();
            for (name, value) in *lines {
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            assert_eq!(Lines::of(&fields), *expected, "{lines:?}");
        }
    }

    #[test]
    fn lines_with_something_between_or_before_them_are_not() {
        let mut fields = Fields::new();
        for name in ["x-a", "x-b", "x-c"] {
            fields.push(name.as_bytes(), b"1").unwrap();
        }
        for name in [&b"x-a"[..], b"x-b", b"x-c"] {
            let mut less = fields.clone();
            less.remove_named(|known| known == name);
            assert_eq!(Lines::of(&less), Lines::Unknown);
        }
        let mut late = Fields::new();
        late.start(b"HTTP/1.1 200 OK\r\n");
        late.push(b"x-a", b"1").unwrap();
        assert_eq!(Lines::of(&late), Lines::Unknown);
    }

    #[test]
    fn a_change_is_looked_at() {
        let mut settled = SettledHead::from(ResponseHead::default());
        assert_eq!(settled.known(), Lines::Plain);
        settled.change(|head| head.fields.push(b"date", b"x")).unwrap();
        assert_eq!(settled.known(), Lines::Dated);
        settled.change(|head| head.fields.push(b"content-length", b"1")).unwrap();
        assert_eq!((settled.known(), settled.fields.lines().len()), (Lines::Unknown, 2));
    }
}
