//! What clients write in lists of names and values: queries and cookies.

use std::borrow::Cow;

use sluice_message::{FieldId, Fields};

/// A name and its value.
type Pair<'q> = (Cow<'q, [u8]>, Cow<'q, [u8]>);

/// The parameters of a query or a form, decoded.
pub(crate) fn pairs(query: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let parts = query.split(|&byte| byte == b'&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let (name, value) = split(part, b'=');
        (decode(name), decode(value))
    })
}

/// The cookies of a request (RFC 6265, 5.4).
pub(crate) fn cookies(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    let parts = fields.values(FieldId::Cookie).flat_map(|line| line.split(|&byte| byte == b';'));
    parts.map(|part| split(part.trim_ascii(), b'=')).filter(|(name, _)| !name.is_empty())
}

fn split(part: &[u8], at: u8) -> (&[u8], &[u8]) {
    match part.iter().position(|&byte| byte == at) {
        Some(place) => {
            let behind = part.get(place + 1..).unwrap_or_default();
            (part.get(..place).unwrap_or_default(), behind)
        }
        None => (part, b""),
    }
}

/// Escapes and plus signs, as forms write them; what is no escape stays.
pub(crate) fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return text.into();
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        plain.push(match (byte, behind) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = after;
                    high << 4 | low
                }
                _ => b'%',
            },
            (byte, _) => byte,
        });
    }
    plain.into()
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let all: Vec<_> = pairs(b"a=1&b=x%20y+z&&c&d=%zz%4&=e").collect();
        let text: Vec<_> = all
            .iter()
            .map(|(name, value)| {
                format!("{}:{}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
            })
            .collect();
        assert_eq!(text, ["a:1", "b:x y z", "c:", "d:%zz%4", ":e"]);
    }

    #[test]
    fn cookies_are_found_in_all_lines() {
        let mut fields = Fields::new();
        fields.push(b"cookie", b"a=1; b=2=3;;c").unwrap();
        fields.push(b"Cookie", b" d = 4").unwrap();
        let all: Vec<_> = cookies(&fields).collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"a", b"1"), (b"b", b"2=3"), (b"c", b""), (b"d ", b" 4")];
        assert_eq!(all, expected);
    }
}
