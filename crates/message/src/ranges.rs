//! Parts of a representation that a client asks for (RFC 9110, 14).

/// Bytes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Place of the first byte.
    pub first: u64,
    /// Place of the last one, not before `first`.
    pub last: u64,
}

/// What `Range` asks for of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// All of it: the field is absent, speaks of another unit, cannot be understood, or asks for so many or
    /// overlapping parts that all of it is less (RFC 9110, 14.2 and 17.15).
    Whole,
    /// These parts, in the order they were asked for; at least one.
    Parts(Vec<ByteRange>),
    /// Nothing that there is: 416 (RFC 9110, 15.5.17).
    Unsatisfiable,
}

/// No more parts than this are sent one by one.
const MOST_PARTS: usize = 64;

impl ByteRange {
    /// Number of bytes.
    #[must_use]
    pub const fn length(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// What the value of `Range` asks for of a representation of so many bytes.
#[must_use]
pub fn parse_ranges(value: &[u8], length: u64) -> Ranges {
    const UNIT: &[u8] = b"bytes=";
    let specs = match value.split_at_checked(UNIT.len()) {
        Some((unit, specs)) if unit.eq_ignore_ascii_case(UNIT) => specs,
        _ => return Ranges::Whole,
    };
    let (mut parts, mut asked) = (Vec::new(), 0_usize);
    for spec in specs.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if spec.is_empty() {
            continue;
        }
        asked += 1;
        match parse_one(spec, length) {
            None => return Ranges::Whole,
            Some(Some(part)) => parts.push(part),
            Some(None) => {}
        }
        if asked > MOST_PARTS {
            return Ranges::Whole;
        }
    }
    let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.length()));
    match parts.len() {
        0 if asked == 0 || length == 0 => Ranges::Whole,
        0 => Ranges::Unsatisfiable,
        // Parts that overlap as much cost more than they are worth.
        2.. if sum > length => Ranges::Whole,
        _ => Ranges::Parts(parts),
    }
}

/// One part; `Some(None)` if there is nothing of it, `None` if it cannot be understood.
#[expect(clippy::option_option, reason = "the two kinds of nothing have different consequences")]
fn parse_one(spec: &[u8], length: u64) -> Option<Option<ByteRange>> {
    let dash = spec.iter().position(|&byte| byte == b'-')?;
    let (from, to) = (spec.get(..dash)?, spec.get(dash + 1..)?);
    let end = length.checked_sub(1);
    if from.is_empty() {
        let suffix = position(to)?;
        let first = length.saturating_sub(suffix);
        return Some(end.filter(|_| suffix > 0).map(|last| ByteRange { first, last }));
    }
    let first = position(from)?;
    let last = if to.is_empty() { u64::MAX } else { position(to)? };
    if last < first {
        return None;
    }
    Some(end.filter(|end| first <= *end).map(|end| ByteRange { first, last: last.min(end) }))
}

/// A place; one that no number holds is beyond every representation.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |value: u64, digit: &u8| {
        value.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
    };
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_what_there_is() {
        let parts = |parts: &[(u64, u64)]| {
            let part = |(first, last): &(u64, u64)| ByteRange { first: *first, last: *last };
            Ranges::Parts(parts.iter().map(part).collect())
        };
        let table = [
            ("bytes=0-0", 10, parts(&[(0, 0)])),
            ("bytes=0-", 10, parts(&[(0, 9)])),
            ("Bytes=5-100", 10, parts(&[(5, 9)])),
            ("bytes=-3", 10, parts(&[(7, 9)])),
            ("bytes=-100", 10, parts(&[(0, 9)])),
            ("bytes=0-1, 4-5 ,, -1", 10, parts(&[(0, 1), (4, 5), (9, 9)])),
            ("bytes=8-9,0-1", 10, parts(&[(8, 9), (0, 1)])),
            ("bytes=0-1,50-60", 10, parts(&[(0, 1)])),
            ("bytes=9-18446744073709551999", 10, parts(&[(9, 9)])),
            ("bytes=10-", 10, Ranges::Unsatisfiable),
            ("bytes=-0", 10, Ranges::Unsatisfiable),
            ("bytes=99999999999999999999-", 10, Ranges::Unsatisfiable),
            ("bytes=20-30,40-50", 10, Ranges::Unsatisfiable),
            ("bytes=0-", 0, Ranges::Whole),
            ("bytes=-1", 0, Ranges::Whole),
            ("bytes=5-4", 10, Ranges::Whole),
            ("bytes=", 10, Ranges::Whole),
            ("bytes=,", 10, Ranges::Whole),
            ("bytes=a-b", 10, Ranges::Whole),
            ("bytes=1", 10, Ranges::Whole),
            ("bytes=0x1-2", 10, Ranges::Whole),
            ("bytes=-", 10, Ranges::Whole),
            ("lines=0-1", 10, Ranges::Whole),
            ("", 10, Ranges::Whole),
            ("bytes=0-,0-", 10, Ranges::Whole),
        ];
        for (value, length, expected) in table {
            assert_eq!(parse_ranges(value.as_bytes(), length), expected, "{value} of {length}");
        }
        let many = format!("bytes={}", "0-0,".repeat(MOST_PARTS + 1));
        assert_eq!(parse_ranges(many.as_bytes(), 1000), Ranges::Whole);
        assert_eq!(ByteRange { first: 0, last: u64::MAX }.length(), u64::MAX);
    }
}
