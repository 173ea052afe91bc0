//! Texts of URIs, forms and dates, as the functions of OpenResty write and read them.

use std::borrow::Cow;

use sluice_message::parse_http_date;
use sluice_net::unix_ms;

use super::query;
use crate::frame::{Frame, Kind, Reply, native};

native!(native_escape_uri, escape_uri);
native!(native_unescape_uri, unescape_uri);
native!(native_unescape_path, unescape_path);
native!(native_args, args);
native!(native_crc32, crc32);
native!(native_parse_http_time, parse_http_time);

/// The functions of this file.
pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 6] = [
    ("escape_uri", native_escape_uri),
    ("unescape_uri", native_unescape_uri),
    ("unescape_path", native_unescape_path),
    ("args", native_args),
    ("crc32", native_crc32),
    ("parse_http_time", native_parse_http_time),
];

#[cold]
fn no_text(frame: &Frame<'_>, function: &str) -> Reply {
    frame.raise(&format!("bad argument #1 to '{function}': a string is expected"))
}

/// What an escaped text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// A whole URI: what divides it stays.
    Uri,
    /// A part of one.
    Component,
}

/// Bytes that cannot stand where they are, as `%XX`.
fn escape(text: &[u8], scope: Scope) -> Vec<u8> {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let stays = |byte: u8| match scope {
        Scope::Uri => byte.is_ascii_graphic() && !b"#%?".contains(&byte),
        Scope::Component => byte.is_ascii_alphanumeric() || b"-._~".contains(&byte),
    };
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        if stays(byte) {
            escaped.push(byte);
        } else {
            escaped.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    escaped
}

/// `escape_uri(text, type)`: a part of a URI (2, which is what it is if nothing is said) or a whole one (0).
fn escape_uri(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.bytes(1) else { return no_text(frame, "escape_uri") };
    let scope = match (frame.kind(2), frame.integer(2)) {
        (Kind::Nil, _) | (_, Some(2)) => Scope::Component,
        (_, Some(0)) => Scope::Uri,
        _ => return frame.raise("bad argument #2 to 'escape_uri': 0 or 2 is expected"),
    };
    frame.push_bytes(&escape(text, scope));
    Reply::Values(1)
}

/// `unescape_uri(text)`: with spaces for plus signs.
fn unescape_uri(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.bytes(1) else { return no_text(frame, "unescape_uri") };
    frame.push_bytes(&query::decode(text));
    Reply::Values(1)
}

/// `unescape_path(text)`: where plus signs are what they are.
fn unescape_path(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.bytes(1) else { return no_text(frame, "unescape_path") };
    let mut plain = Vec::with_capacity(text.len());
    for (index, part) in text.split(|&byte| byte == b'+').enumerate() {
        if index > 0 {
            plain.push(b'+');
        }
        plain.extend_from_slice(&query::decode(part));
    }
    frame.push_bytes(&plain);
    Reply::Values(1)
}

/// A name with its value, if it has an equals sign.
type Argument<'a> = (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>);

fn arguments(text: &[u8]) -> impl Iterator<Item = Argument<'_>> {
    let parts = text.split(|&byte| byte == b'&').map(|part| {
        let name = part.split(|&byte| byte == b'=').next().unwrap_or_default();
        (query::decode(name), part.get(name.len() + 1..).map(query::decode))
    });
    parts.filter(|(name, _)| !name.is_empty())
}

/// `args(text, most)`: a list of names and values, where true stands for one without an equals sign, and whether there
/// were more than `most`.
fn args(frame: &Frame<'_>) -> Reply {
    let (Some(text), Some(most)) = (frame.bytes(1), frame.integer(2)) else {
        return frame.raise("bad argument to 'args': a string and a number are expected");
    };
    // Zero is no bound but that of the text.
    let most = usize::try_from(most).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
    let mut all = arguments(text);
    frame.push_table(8, 0);
    let mut place = 0;
    for (name, value) in all.by_ref().take(most) {
        place += 2;
        frame.push_bytes(&name);
        frame.set_element(place - 1);
        match value {
            Some(value) => frame.push_bytes(&value),
            None => frame.push_truth(true),
        }
        frame.set_element(place);
    }
    frame.push_truth(all.next().is_some());
    Reply::Values(2)
}

/// `crc32(text)`.
fn crc32(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.bytes(1) else { return no_text(frame, "crc32") };
    let mut sum = flate2::Crc::new();
    sum.update(text);
    frame.push_count(sum.sum().into());
    Reply::Values(1)
}

/// `parse_http_time(text)`: seconds since 1970, or nil.
fn parse_http_time(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.bytes(1) else { return no_text(frame, "parse_http_time") };
    match parse_http_date(text, unix_ms() / 1000) {
        Some(seconds) => frame.push_count(seconds),
        None => frame.push_nil(),
    }
    Reply::Values(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_escaped_as_the_place_wants_it() {
        let cases: [(&[u8], &str, &str); 4] = [
            (b"a b&c=d/\xfc", "a%20b&c=d/%FC", "a%20b%26c%3Dd%2F%FC"),
            (b"100%?#", "100%25%3F%23", "100%25%3F%23"),
            (b"\r\n", "%0D%0A", "%0D%0A"),
            (b"-._~!*'()", "-._~!*'()", "-._~%21%2A%27%28%29"),
        ];
        for (text, uri, component) in cases {
            assert_eq!(escape(text, Scope::Uri), uri.as_bytes());
            assert_eq!(escape(text, Scope::Component), component.as_bytes());
            assert_eq!(*query::decode(component.as_bytes()), *text);
        }
    }

    #[test]
    fn arguments_without_a_value_are_told_from_empty_ones() {
        let all: Vec<_> = arguments(b"a=1&b&c=&=d&&a=%20+").collect();
        let text = |value: &Cow<'_, [u8]>| String::from_utf8_lossy(value).into_owned();
        let all: Vec<_> =
            all.iter().map(|(name, value)| (text(name), value.as_ref().map(text))).collect();
        let some = |value: &str| Some(value.to_owned());
        assert_eq!(
            all,
            [
                ("a".to_owned(), some("1")),
                ("b".to_owned(), None),
                ("c".to_owned(), some("")),
                ("a".to_owned(), some("  ")),
            ]
        );
    }
}
