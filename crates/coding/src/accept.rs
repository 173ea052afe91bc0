//! Which coding a client wants (RFC 9110, 12.5.3).

use crate::Coding;

/// What a client wants to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Content in this coding.
    Coded(Coding),
    /// Content in this coding and in no case plain: the client has refused that.
    CodedOnly(Coding),
    /// Plain content, or there is nothing on offer that it accepts.
    Plain,
}

/// A weight between 0 and 1 in thousandths.
type Weight = u16;

const FULL: Weight = 1000;

/// The weights that matter.
#[derive(Debug, Default)]
struct Weights {
    /// Of the codings, in the order of [`Coding::ALL`].
    named: [Option<Weight>; 4],
    identity: Option<Weight>,
    /// Of `*`: whatever is not named.
    others: Option<Weight>,
}

/// What of `offered`, in the order of the server's preference, a client wants that sent these values of
/// `Accept-Encoding`. The greatest weight counts, and among equals the server's order. A client that has sent
/// none has not said that it understands any.
pub fn wish<'v>(values: impl Iterator<Item = &'v [u8]>, offered: &[Coding]) -> Wish {
    let mut weights = Weights::default();
    for member in values.flat_map(|value| value.split(|&byte| byte == b',')) {
        weights.take(member);
    }
    let mut best: Option<(Weight, Coding)> = None;
    for &coding in offered {
        let weight = weights.of(coding);
        if weight > best.map_or(0, |(weight, _)| weight) {
            best = Some((weight, coding));
        }
    }
    match (best, weights.identity.or(weights.others)) {
        (None, _) => Wish::Plain,
        (Some((_, coding)), Some(0)) => Wish::CodedOnly(coding),
        // A client that names a weight for plain content prefers it only if that is greater.
        (Some((weight, _)), Some(plain)) if weights.identity.is_some() && plain > weight => {
            Wish::Plain
        }
        (Some((_, coding)), _) => Wish::Coded(coding),
    }
}

impl Weights {
    /// One member of the list: `gzip;q=0.5`. What cannot be read says nothing.
    fn take(&mut self, member: &[u8]) {
        let mut parts = member.split(|&byte| byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let mut weight = Some(FULL);
        for part in parts {
            let part = part.trim_ascii();
            if let Some((b'q' | b'Q', rest)) = part.split_first()
                && let Some(number) = rest.trim_ascii_start().strip_prefix(b"=")
            {
                weight = read_weight(number.trim_ascii());
            }
        }
        let Some(weight) = weight else { return };
        if name == b"*" {
            self.others = Some(weight);
        } else if name.eq_ignore_ascii_case(b"identity") {
            self.identity = Some(weight);
        } else if let Some(coding) = Coding::of(name) {
            let place = Coding::ALL.iter().position(|known| *known == coding);
            if let Some(named) = place.and_then(|place| self.named.get_mut(place)) {
                *named = Some(weight);
            }
        }
    }

    fn of(&self, coding: Coding) -> Weight {
        let place = Coding::ALL.iter().position(|known| *known == coding);
        let named = place.and_then(|place| self.named.get(place).copied()).flatten();
        named.or(self.others).unwrap_or(0)
    }
}

/// `0`, `1`, `0.5`, `1.000`: at most three digits behind the point (RFC 9110, 12.4.2).
fn read_weight(text: &[u8]) -> Option<Weight> {
    let (whole, rest) = text.split_first()?;
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 => digits,
        _ => return None,
    };
    let mut weight = match whole {
        b'0' => 0,
        b'1' => FULL,
        _ => return None,
    };
    let mut unit = FULL;
    for digit in digits {
        unit /= 10;
        weight += Weight::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?) * unit;
    }
    (weight <= FULL).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    #[test]
    fn the_greatest_weight_counts_and_then_the_order_of_the_server() {
        use Coding::{Brotli, Gzip, Zstd};
        use Wish::{Coded, CodedOnly, Plain};
        let rows: [(&[&str], Wish); 33] = [
            (&[], Plain),
            (&[""], Plain),
            (&["gzip"], Coded(Gzip)),
            (&["GZIP"], Coded(Gzip)),
            (&["x-gzip"], Coded(Gzip)),
            (&["gzip, deflate, br, zstd"], Coded(Brotli)),
            (&["gzip, deflate", "zstd"], Coded(Zstd)),
            (&["gzip;q=1.0, br;q=0.5"], Coded(Gzip)),
            (&["gzip;q=0.5, br;q=0.5"], Coded(Brotli)),
            (&["gzip ; q=0.501 , br; q=0.5"], Coded(Gzip)),
            (&["gzip;Q=0.9,br;Q=0.95"], Coded(Brotli)),
            (&["*"], Coded(Brotli)),
            (&["*;q=0.1, gzip"], Coded(Gzip)),
            (&["br;q=0, *"], Coded(Zstd)),
            (&["br;q=0, zstd;q=0, *"], Coded(Gzip)),
            (&["deflate"], Plain),
            (&["compress, deflate"], Plain),
            (&["gzip;q=0"], Plain),
            (&["gzip;q=0.000, identity"], Plain),
            (&["*;q=0"], Plain),
            (&["identity;q=0"], Plain),
            (&["identity"], Plain),
            (&["identity, gzip;q=0.5"], Plain),
            (&["identity;q=0.5, gzip"], Coded(Gzip)),
            (&["identity;q=0.5, gzip;q=0.5"], Coded(Gzip)),
            (&["identity;q=0, gzip;q=0.1"], CodedOnly(Gzip)),
            (&["*;q=0, gzip"], CodedOnly(Gzip)),
            (&["*;q=0, identity;q=0.1, gzip;q=0.1"], Coded(Gzip)),
            (&["*;q=0.5, gzip;q=0.1"], Coded(Brotli)),
            // What cannot be read says nothing.
            (&["gzip;q=2"], Plain),
            (&["gzip;q=0.1234, br;q=x"], Plain),
            (&["gzip;level=9"], Coded(Gzip)),
            (&[",, ;q=1, gzip,"], Coded(Gzip)),
        ];
        for (values, expected) in rows {
            let found = wish(values.iter().map(|value| value.as_bytes()), &OFFERED);
            assert_eq!(found, expected, "{values:?}");
        }
    }

    #[test]
    fn what_is_not_offered_is_not_chosen() {
        let values = || std::iter::once(&b"br, gzip;q=0.2"[..]);
        assert_eq!(wish(values(), &[Coding::Gzip]), Wish::Coded(Coding::Gzip));
        assert_eq!(wish(values(), &[Coding::Zstd]), Wish::Plain);
        assert_eq!(wish(values(), &[]), Wish::Plain);
    }

    #[test]
    fn weights_have_three_digits() {
        let rows: [(&str, Option<Weight>); 14] = [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("0.", Some(0)),
            ("1.", Some(1000)),
            ("0.5", Some(500)),
            ("0.05", Some(50)),
            ("0.005", Some(5)),
            ("0.999", Some(999)),
            ("1.000", Some(1000)),
            ("1.001", None),
            ("0.0005", None),
            ("", None),
            ("-1", None),
            ("0.5x", None),
        ];
        for (text, expected) in rows {
            assert_eq!(read_weight(text.as_bytes()), expected, "{text}");
        }
    }
}
