//! Names and values inside a query and inside `Cookie`.

use crate::{FieldId, RequestHead};

/// The pairs of a query: split at `&` and the first `=`, still encoded.
#[inline]
pub fn query_pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        (name, pair.get(name.len() + 1..).unwrap_or_default())
    })
}

/// The pairs of a `Cookie` value (RFC 6265, 4.2.1).
#[inline]
pub fn cookie_pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|&byte| byte == b';').filter_map(|pair| {
        let pair = pair.trim_ascii();
        let name = pair.split(|&byte| byte == b'=').next()?;
        let value = pair.get(name.len() + 1..)?;
        Some((name.trim_ascii_end(), value.trim_ascii_start()))
    })
}

/// The values of the cookies of this name, without quotes.
#[inline]
pub fn cookies<'h>(
    head: &'h RequestHead,
    name: &'h [u8],
) -> impl Iterator<Item = &'h [u8]> + use<'h> {
    let pairs = head.fields.values(FieldId::Cookie).flat_map(cookie_pairs);
    pairs.filter(move |(have, _)| *have == name).map(|(_, value)| unquoted(value))
}

/// A cookie's value without the quotes it may stand in (RFC 6265, 4.1.1).
#[must_use]
#[inline]
pub fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    }
}

/// The parts of a text between separators that stand outside quotes (RFC 9110, 5.6.4).
pub fn split_unquoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |&byte| {
        let plain = !escaped;
        escaped = quoted && plain && byte == b'\\';
        if plain && byte == b'"' {
            quoted = !quoted;
        }
        byte == separator && !quoted
    })
}

/// Whether [`decoded`] would change anything.
#[must_use]
#[inline]
pub fn is_encoded(text: &[u8]) -> bool {
    text.iter().any(|&byte| byte == b'%' || byte == b'+')
}

/// The bytes that a name or value of a query stands for: `+` is a space, `%41` is `A`, an escape
/// that is none stands for itself, as in every browser and form library.
#[inline]
pub fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        Some(match byte {
            b'+' => b' ',
            b'%' => match escape(after) {
                Some((value, after)) => {
                    rest = after;
                    value
                }
                None => b'%',
            },
            plain => plain,
        })
    })
}

fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let (&[high, low], after) = text.split_first_chunk::<2>()?;
    Some((hex_value(high)? * 16 + hex_value(low)?, after))
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> String {
        pairs
            .map(|(name, value)| {
                format!("<{}|{}>", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
            })
            .collect()
    }

    #[test]
    fn queries_split() {
        let cases = [
            ("", ""),
            ("a=1&b=2", "<a|1><b|2>"),
            ("a", "<a|>"),
            ("a=", "<a|>"),
            ("=1", "<|1>"),
            ("a=b=c", "<a|b=c>"),
            ("&&a=1&", "<a|1>"),
        ];
        for (query, pairs) in cases {
            assert_eq!(text(query_pairs(query.as_bytes())), pairs, "{query}");
        }
    }

    #[test]
    fn cookies_split() {
        let cases = [
            ("", ""),
            ("a=1; b=2", "<a|1><b|2>"),
            ("a=1;b=2 ;", "<a|1><b|2>"),
            ("lonely; a=x=y", "<a|x=y>"),
            (" a = 1 ", "<a|1>"),
        ];
        for (value, pairs) in cases {
            assert_eq!(text(cookie_pairs(value.as_bytes())), pairs, "{value}");
        }
    }

    #[test]
    fn what_stands_in_quotes_is_not_split() {
        let split = |text: &str| {
            let parts = split_unquoted(text.as_bytes(), b',').map(String::from_utf8_lossy);
            parts.collect::<Vec<_>>().join("|")
        };
        for (text, parts) in [
            ("a,b", "a|b"),
            ("\"a,b\",c", "\"a,b\"|c"),
            ("\"a\\\",b\",c", "\"a\\\",b\"|c"),
            ("a\\\",b", "a\\\",b"),
            ("", ""),
        ] {
            assert_eq!(split(text), parts, "{text}");
        }
    }

    #[test]
    fn escapes_decode() {
        let cases = [("a+b", "a b"), ("%41%2b", "A+"), ("%", "%"), ("%4", "%4"), ("%zz", "%zz")];
        for (encoded, plain) in cases {
            assert_eq!(decoded(encoded.as_bytes()).collect::<Vec<_>>(), plain.as_bytes());
        }
    }
}
