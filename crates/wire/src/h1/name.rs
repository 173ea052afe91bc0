//! Field names the gateway acts on, recognised by comparing words instead of letters.

use sluice_message::FieldId;

use super::scan::Word;

/// A name of at most sixteen letters and hyphens, as a [`Word`] compares with it.
struct Known {
    low: Half,
    high: Half,
}

/// Eight bytes of a name: `mask` cuts off what follows it, `fold` lowers the case of its letters
/// (and of nothing else: a CR folded the same way would pass for a hyphen).
struct Half {
    text: u64,
    mask: u64,
    fold: u64,
}

impl Half {
    const fn of(mut name: &[u8]) -> Self {
        let mut half = Self { text: 0, mask: 0, fold: 0 };
        let mut factor: u64 = 1;
        let mut left = 8;
        while let (Some((&letter, rest)), 1..) = (name.split_first(), left) {
            half.text |= factor * widened(letter);
            half.mask |= factor * 0xff;
            if letter.is_ascii_alphabetic() {
                half.fold |= factor * 0x20;
            }
            factor = factor.wrapping_mul(256);
            left -= 1;
            name = rest;
        }
        half
    }

    #[inline(always)]
    const fn matches(&self, bytes: u64) -> bool {
        bytes & self.mask | self.fold == self.text
    }
}

const fn widened(byte: u8) -> u64 {
    u64::from_le_bytes([byte, 0, 0, 0, 0, 0, 0, 0])
}

impl Known {
    const fn of(name: &[u8]) -> Self {
        let rest = match name.split_at_checked(8) {
            Some((_, rest)) => rest,
            None => &[],
        };
        Self { low: Half::of(name), high: Half::of(rest) }
    }

    #[inline(always)]
    const fn matches(&self, word: Word) -> bool {
        self.low.matches(word.low) && self.high.matches(word.high)
    }
}

/// The first of the names `word` begins with; all of them have the length the word was cut to.
macro_rules! choose {
    ($word:ident, $($name:literal => $id:ident),+) => {{
        $(
            const { assert!($name.len() <= 16) };
            if const { Known::of($name) }.matches($word) {
                return FieldId::$id;
            }
        )+
        FieldId::Other
    }};
}

/// What the name in the first `length` bytes of `word` means; names longer than sixteen bytes are
/// left to [`FieldId::of`].
#[inline(always)]
pub(super) fn known(word: Word, length: usize) -> FieldId {
    match length {
        2 => choose!(word, b"te" => Te),
        3 => choose!(word, b"via" => Via),
        4 => choose!(word, b"host" => Host, b"date" => Date),
        6 => choose!(word, b"cookie" => Cookie, b"server" => Server, b"expect" => Expect),
        7 => choose!(word, b"referer" => Referer, b"upgrade" => Upgrade, b"trailer" => Trailer),
        9 => choose!(word, b"forwarded" => Forwarded),
        10 => choose!(
            word,
            b"user-agent" => UserAgent,
            b"connection" => Connection,
            b"keep-alive" => KeepAlive
        ),
        12 => choose!(word, b"content-type" => ContentType),
        14 => choose!(word, b"content-length" => ContentLength),
        15 => choose!(word, b"x-forwarded-for" => XForwardedFor),
        16 => choose!(
            word,
            b"x-forwarded-host" => XForwardedHost,
            b"proxy-connection" => ProxyConnection
        ),
        _ => FieldId::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &[
        "te",
        "via",
        "host",
        "date",
        "cookie",
        "server",
        "expect",
        "referer",
        "upgrade",
        "trailer",
        "forwarded",
        "user-agent",
        "connection",
        "keep-alive",
        "content-type",
        "content-length",
        "x-forwarded-for",
        "x-forwarded-host",
        "proxy-connection",
        "accept",
        "x",
        "x-y",
        "accept-encoding",
        "accept-language1",
        "hosts",
    ];

    /// The message crate's list is the authority: with every byte in every place the answers agree.
    #[test]
    fn agrees_with_the_list_of_the_message_crate() {
        for name in NAMES {
            for place in 0..name.len() {
                for byte in 0..=255_u8 {
                    let mut changed = name.to_ascii_uppercase().into_bytes();
                    changed[place] = byte;
                    let mut line = changed.clone();
                    line.extend_from_slice(b": and then a value");
                    let got = known(Word::new(line.first_chunk().unwrap()), name.len());
                    assert_eq!(got, FieldId::of(&changed), "{}", changed.escape_ascii());
                }
            }
        }
    }
}
