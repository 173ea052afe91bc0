//! Functions: what they make of texts.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Takes base64 with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
/// The same in the alphabet for URLs (RFC 4648, 5).
const LENIENT_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);
const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// The names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> {
    MAPPINGS.iter().map(|(name, _)| *name).chain(["default", "len", "number", "address", "share"])
}

const MAPPINGS: &[(&str, Mapping)] = &[
    ("lower", Mapping::Lower),
    ("upper", Mapping::Upper),
    ("base64", Mapping::Base64),
    ("base64_decode", Mapping::Base64Decode),
    ("sha256", Mapping::Sha256),
    ("url_encode", Mapping::UrlEncode),
    ("url_decode", Mapping::UrlDecode),
];

/// A function from one text to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    Lower,
    Upper,
    Base64,
    Base64Decode,
    Sha256,
    UrlEncode,
    UrlDecode,
}

impl Mapping {
    pub(crate) fn of(name: &str) -> Option<Self> {
        MAPPINGS.iter().find(|(known, _)| *known == name).map(|(_, mapping)| *mapping)
    }

    /// The text it makes, if there is one: not every text can be decoded.
    pub(crate) fn apply(self, text: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
        Some(match self {
            Self::Lower if text.iter().any(u8::is_ascii_uppercase) => {
                Cow::Owned(text.to_ascii_lowercase())
            }
            Self::Upper if text.iter().any(u8::is_ascii_lowercase) => {
                Cow::Owned(text.to_ascii_uppercase())
            }
            Self::Lower | Self::Upper => text,
            Self::Base64 => Cow::Owned(STANDARD.encode(&text).into_bytes()),
            Self::Base64Decode => {
                let url = text.iter().any(|byte| matches!(byte, b'-' | b'_'));
                let engine = if url { LENIENT_URL } else { LENIENT };
                Cow::Owned(engine.decode(&text).ok()?)
            }
            Self::Sha256 => Cow::Owned(hexadecimal(digest(&SHA256, &text).as_ref())),
            Self::UrlEncode if text.iter().all(|byte| is_unreserved(*byte)) => text,
            Self::UrlEncode => Cow::Owned(url_encoded(&text)),
            Self::UrlDecode if text.contains(&b'%') => Cow::Owned(url_decoded(&text)),
            Self::UrlDecode => text,
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

const fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// RFC 3986, 2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn url_encoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    for &byte in text {
        if is_unreserved(byte) {
            out.push(byte);
        } else {
            let digits = [digit(byte >> 4), digit(byte & 15)];
            out.extend([b'%', digits[0].to_ascii_uppercase(), digits[1].to_ascii_uppercase()]);
        }
    }
    out
}

/// An escape that is none stands for itself; `+` is a plus (RFC 3986, 2.1).
fn url_decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let escaped = after.split_first_chunk::<2>().filter(|_| byte == b'%');
        let value = escaped.and_then(|([high, low], after)| {
            Some((hex_value(*high)? * 16 + hex_value(*low)?, after))
        });
        match value {
            Some((value, after)) => {
                out.push(value);
                rest = after;
            }
            None => out.push(byte),
        }
    }
    out
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

    /// Function, text, what it makes of it.
    type Row = (&'static str, &'static [u8], Option<&'static [u8]>);

    #[test]
    fn texts_are_mapped() {
        let rows: [Row; 22] = [
            ("lower", b"A\xc3\x84b", Some(b"a\xc3\x84b")),
            ("lower", b"ab", Some(b"ab")),
            ("upper", b"aB1", Some(b"AB1")),
            ("base64", b"", Some(b"")),
            ("base64", b"hello?", Some(b"aGVsbG8/")),
            ("base64", b"\xff\x00", Some(b"/wA=")),
            ("base64_decode", b"aGVsbG8/", Some(b"hello?")),
            ("base64_decode", b"aGVsbG8_", Some(b"hello?")),
            ("base64_decode", b"/wA=", Some(b"\xff\x00")),
            ("base64_decode", b"/wA", Some(b"\xff\x00")),
            ("base64_decode", b"_wA", Some(b"\xff\x00")),
            ("base64_decode", b"a", None),
            ("base64_decode", b"a b=", None),
            ("base64_decode", b"_+A=", None),
            (
                "sha256",
                b"abc",
                Some(b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ),
            ("url_encode", b"a-b.c_d~E9", Some(b"a-b.c_d~E9")),
            ("url_encode", b"a b/c%\xff+", Some(b"a%20b%2Fc%25%FF%2B")),
            ("url_decode", b"a%20b%2fc%25%FF%2B", Some(b"a b/c%\xff+")),
            ("url_decode", b"a+b", Some(b"a+b")),
            ("url_decode", b"%", Some(b"%")),
            ("url_decode", b"%4", Some(b"%4")),
            ("url_decode", b"%zz%41", Some(b"%zzA")),
        ];
        for (name, text, expected) in rows {
            let got = Mapping::of(name).unwrap().apply(Cow::Borrowed(text));
            assert_eq!(got.as_deref(), expected, "{name}({})", text.escape_ascii());
        }
    }

    #[test]
    fn names_are_told_apart() {
        let mut all: Vec<_> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
