//! What lines of a protocol end with.

use memchr::memchr;

/// Text that is searched byte by byte: for lines as short as this that is sooner done than a search in wide steps is
/// begun.
const BRIEF: usize = 32;

/// Bytes that end what is read, at least one; short ones, which nearly all are, without memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    One(u8),
    Two([u8; 2]),
    /// As many of these as the number says.
    Short([u8; 15], u8),
    /// More than that.
    Long(Box<[u8]>),
}

impl Delimiter {
    /// Absent if there are no bytes at all.
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [] => None,
            [byte] => Some(Self::One(byte)),
            [first, second] => Some(Self::Two([first, second])),
            _ => Some(Self::of_many(bytes)),
        }
    }

    /// Whether it is this.
    #[inline]
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        match (self, bytes) {
            (Self::One(one), [byte]) => one == byte,
            (Self::Two(two), [first, second]) => *two == [*first, *second],
            (Self::Short(short, length), _) => short.get(..usize::from(*length)) == Some(bytes),
            (Self::Long(long), _) => **long == *bytes,
            _ => false,
        }
    }

    #[cold]
    fn of_many(bytes: &[u8]) -> Self {
        let mut short = [0; 15];
        match (short.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(bytes);
                Self::Short(short, length)
            }
            _ => Self::Long(bytes.into()),
        }
    }

    /// Where the first delimiter ends, if it begins at `from` or later.
    // In line: what every line of a service is asked, and those of nearly all protocols end with two bytes.
    #[inline(always)]
    pub(crate) fn end_in(&self, text: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::Two(end) if text.len() <= BRIEF => {
                let mut pairs = text.get(from..)?.windows(2);
                let at = pairs.position(|it| matches!(it, [a, b] if [*a, *b] == *end))?;
                Some(from + at + 2)
            }
            _ => self.search(text, from),
        }
    }

    #[inline(never)]
    fn search(&self, text: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::One(byte) => Some(from + position(*byte, text.get(from..)?)? + 1),
            Self::Two([first, second]) => {
                let mut at = from;
                loop {
                    at += position(*first, text.get(at..)?)? + 1;
                    if text.get(at) == Some(second) {
                        return Some(at + 1);
                    }
                }
            }
            Self::Short(bytes, length) => {
                end_of_many(text, from, bytes.get(..usize::from(*length)).unwrap_or_default())
            }
            Self::Long(bytes) => end_of_many(text, from, bytes),
        }
    }

    /// Number of bytes.
    #[inline]
    fn length(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
            Self::Short(_, length) => usize::from(*length),
            Self::Long(bytes) => bytes.len(),
        }
    }

    /// Up to where text without a delimiter need not be looked at again when more follows.
    pub(crate) fn searched(&self, length: usize) -> usize {
        length.saturating_sub(self.length() - 1)
    }
}

fn end_of_many(text: &[u8], from: usize, bytes: &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_first()?;
    let mut at = from;
    loop {
        at += position(*first, text.get(at..)?)? + 1;
        if text.get(at..)?.starts_with(rest) {
            return Some(at + rest.len());
        }
    }
}

/// Where a byte is first found.
#[inline]
fn position(byte: u8, text: &[u8]) -> Option<usize> {
    if text.len() <= BRIEF { text.iter().position(|it| *it == byte) } else { memchr(byte, text) }
}

/// What a reader waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// So many bytes.
    Exactly(usize),
    /// Everything up to this, and this.
    Until(Delimiter),
}

impl Want {
    /// How many of these bytes satisfy it, where those before `from` hold no beginning of a delimiter; absent if more have
    /// to come.
    #[inline(always)]
    pub(crate) fn end_in(&self, bytes: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::Exactly(length) => (bytes.len() >= *length).then_some(*length),
            Self::Until(delimiter) => delimiter.end_in(bytes, from),
        }
    }
}

/// The same, as a script says it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'b> {
    /// So many bytes.
    Exactly(usize),
    /// Everything up to this, which is not empty, and this.
    Until(&'b [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_end() {
        let long = "0123456789abcdefghij";
        let rows: [(&str, &str, usize, Option<usize>); 14] = [
            ("\n", "a\nb\n", 0, Some(2)),
            ("\n", "a\nb\n", 2, Some(4)),
            ("\n", "ab", 0, None),
            ("\r\n", "a\rb\r\n", 0, Some(5)),
            ("\r\n", "a\r", 0, None),
            ("\r\n", "\r\r\n", 0, Some(3)),
            ("\r\n", "a\r\nb\r\n", 3, Some(6)),
            ("\r\n", "a\r\n", 2, None),
            ("\r\n", "a", 2, None),
            ("\r\n.\r\n", "x\r\n\r\n.\r\ny", 0, Some(8)),
            (long, "x0123456789abcdefghijy", 0, Some(21)),
            (long, "0123456789abcdefghi", 0, None),
            ("aab", "aaab", 0, Some(4)),
            ("\r\n", "\r\r\r 0123456789 0123456789 0123456789 \r\n\r\n", 0, Some(39)),
        ];
        for (delimiter, text, from, expected) in rows {
            let found = Delimiter::new(delimiter.as_bytes()).unwrap();
            assert_eq!(found.end_in(text.as_bytes(), from), expected, "{delimiter:?} in {text:?}");
        }
        assert_eq!(Delimiter::new(b""), None);
    }

    #[test]
    fn a_delimiter_that_comes_in_two_parts_is_found() {
        let delimiter = Delimiter::new(b"\r\n").unwrap();
        assert_eq!(delimiter.end_in(b"abc\r", 0), None);
        let from = delimiter.searched(4);
        assert_eq!((from, delimiter.end_in(b"abc\r\n", from)), (3, Some(5)));
        assert_eq!(delimiter.searched(0), 0);
    }
}
