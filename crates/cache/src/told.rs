//! `Cache-Status` (RFC 9211): what the cache did, told to whoever looks for it.

use sluice_message::{Fields, SpaceExhausted};

/// Why a request went to the origin (RFC 9211, 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    /// The configuration, or the request as a whole: it is none that is answered from what is kept.
    Bypass,
    /// Its method.
    Method,
    /// Nothing is kept for the URL, or nothing for what else the key is made of.
    Miss,
    /// What is kept for the URL was given to requests that said something else, by the fields that `Vary` names.
    VaryMiss,
    /// What is kept is too old.
    Stale,
    /// The request wants its origin to be asked.
    Request,
    /// It asks for a part of something that is not kept.
    Partial,
}

impl Forward {
    const ALL: [Self; 7] = [
        Self::Bypass,
        Self::Method,
        Self::Miss,
        Self::VaryMiss,
        Self::Stale,
        Self::Request,
        Self::Partial,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::Miss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Stale => "stale",
            Self::Request => "request",
            Self::Partial => "partial",
        }
    }

    /// A number to keep it by.
    pub(crate) fn number(self) -> u32 {
        let place = Self::ALL.iter().position(|one| *one == self);
        place.and_then(|place| u32::try_from(place).ok()).unwrap_or(0)
    }

    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It was answered from what is kept, which is fresh for so many seconds.
    Hit(i64),
    /// It was answered from what another request brought.
    Collapsed(Forward),
    /// It went to the origin, and the answer is kept.
    Stored(Forward),
    /// The origin said with this status that what is kept is right, or failed.
    Asked(Forward, u16),
    /// It went to the origin.
    Forwarded(Forward, Option<&'static str>),
    /// Nothing is kept, and the origin is not to be asked.
    Unasked,
}

/// Adds it to what other caches said.
pub(crate) fn tell(fields: &mut Fields, told: Told) -> Result<(), SpaceExhausted> {
    const NAME: &[u8] = b"cache-status";
    let mut text = Text::default();
    match told {
        Told::Hit(left) => {
            text.push(b"sluice; hit; ttl=");
            if left < 0 {
                text.push(b"-");
            }
            text.number(left.unsigned_abs());
        }
        Told::Collapsed(why) => {
            text.push(b"sluice; fwd=");
            text.push(why.word().as_bytes());
            text.push(b"; collapsed");
        }
        Told::Stored(why) => {
            text.push(b"sluice; fwd=");
            text.push(why.word().as_bytes());
            text.push(b"; stored");
        }
        Told::Asked(why, status) => {
            text.push(b"sluice; fwd=");
            text.push(why.word().as_bytes());
            text.push(b"; fwd-status=");
            text.number(u64::from(status));
        }
        Told::Forwarded(why, detail) => {
            text.push(b"sluice; fwd=");
            text.push(why.word().as_bytes());
            if let Some(detail) = detail {
                text.push(b"; detail=");
                text.push(detail.as_bytes());
            }
        }
        Told::Unasked => text.push(b"sluice; detail=only-if-cached"),
    }
    fields.push(NAME, text.bytes())
}

/// Adds `Age` (RFC 9111, 5.1).
#[inline]
pub(crate) fn tell_age(fields: &mut Fields, seconds: u64) -> Result<(), SpaceExhausted> {
    let mut text = Text::default();
    text.number(seconds);
    fields.push(b"age", text.bytes())
}

/// A short text that needs no memory of its own.
struct Text {
    bytes: [u8; 96],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; 96], length: 0 }
    }
}

impl Text {
    #[inline]
    fn push(&mut self, part: &[u8]) {
        let end = self.length + part.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(part);
            self.length = end;
        }
    }

    #[inline]
    fn number(&mut self, mut number: u64) {
        let mut digits = [0_u8; 20];
        let mut from = digits.len();
        loop {
            from -= 1;
            if let Some(digit) = digits.get_mut(from) {
                *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
            }
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(from..).unwrap_or_default());
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_rfc_9211() {
        let table = [
            (Told::Hit(30), "sluice; hit; ttl=30"),
            (Told::Hit(0), "sluice; hit; ttl=0"),
            (Told::Hit(-412), "sluice; hit; ttl=-412"),
            (Told::Hit(i64::MIN), "sluice; hit; ttl=-9223372036854775808"),
            (Told::Collapsed(Forward::Miss), "sluice; fwd=uri-miss; collapsed"),
            (Told::Stored(Forward::Stale), "sluice; fwd=stale; stored"),
            (Told::Stored(Forward::VaryMiss), "sluice; fwd=vary-miss; stored"),
            (Told::Asked(Forward::Stale, 304), "sluice; fwd=stale; fwd-status=304"),
            (Told::Forwarded(Forward::Method, None), "sluice; fwd=method"),
            (
                Told::Forwarded(Forward::Miss, Some("no-store")),
                "sluice; fwd=uri-miss; detail=no-store",
            ),
            (Told::Unasked, "sluice; detail=only-if-cached"),
        ];
        for (told, expected) in table {
            let mut fields = Fields::new();
            fields.push(b"cache-status", b"origin; hit").unwrap();
            tell(&mut fields, told).unwrap();
            let lines = fields.values_of(b"cache-status").collect::<Vec<_>>();
            assert_eq!(lines, [b"origin; hit", expected.as_bytes()], "{told:?}");
        }
        for one in Forward::ALL {
            assert_eq!(Forward::of_number(one.number()), Some(one));
        }
        let mut fields = Fields::new();
        tell_age(&mut fields, u64::MAX).unwrap();
        assert_eq!(fields.values_of(b"age").next(), Some(&b"18446744073709551615"[..]));
    }
}
