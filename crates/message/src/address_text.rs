//! Addresses as texts, without memory of their own.

use std::io::Write as _;
use std::net::IpAddr;

/// The longest is an IPv6 address with an IPv4 address at its end.
const LONGEST: usize = 45;

/// An octet as decimal digits and a dot.
#[derive(Clone, Copy)]
struct Octet {
    text: [u8; 4],
    length: u8,
}

/// All of them, worked out beforehand.
#[expect(
    clippy::as_conversions,
    clippy::indexing_slicing,
    reason = "worked out when the program is built: what is wrong does not build"
)]
static OCTETS: [Octet; 256] = {
    let mut octets = [Octet { text: [0; 4], length: 0 }; 256];
    let mut octet = 0_u8;
    loop {
        let (hundreds, tens, ones) =
            (b'0' + octet / 100, b'0' + octet / 10 % 10, b'0' + octet % 10);
        let (text, length) = match octet {
            0..10 => ([ones, b'.', 0, 0], 2),
            10..100 => ([tens, ones, b'.', 0], 3),
            _ => ([hundreds, tens, ones, b'.'], 4),
        };
        octets[octet as usize] = Octet { text, length };
        if octet == u8::MAX {
            break octets;
        }
        octet += 1;
    }
};

/// An address in the form of RFC 5952.
#[derive(Clone, Copy, Debug)]
pub struct AddressText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl AddressText {
    /// The text of this address.
    #[must_use]
    #[inline]
    pub fn new(address: IpAddr) -> Self {
        let mut text = Self { bytes: [0; LONGEST], length: 0 };
        match address {
            // Most clients; formatting costs ten times as much.
            IpAddr::V4(address) => {
                for octet in address.octets() {
                    text.push(octet);
                }
                // Behind the last one stands no dot.
                text.length = text.length.saturating_sub(1);
            }
            IpAddr::V6(address) => {
                let mut rest = &mut text.bytes[..];
                // The longest fits.
                let _ = write!(rest, "{address}");
                text.length = LONGEST - rest.len();
            }
        }
        text
    }

    /// The text itself.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// An octet and a dot, always four bytes of which some do not count: that needs no loop.
    #[inline]
    fn push(&mut self, octet: u8) {
        let Some(Octet { text, length }) = OCTETS.get(usize::from(octet)) else { return };
        if let Some(place) = self.bytes.get_mut(self.length..self.length + text.len()) {
            place.copy_from_slice(text);
            self.length += usize::from(*length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AddressText;

    #[test]
    fn texts_are_those_of_the_standard_library() {
        let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        for address in ["0.0.0.0", "1.20.103.255", "10.0.100.9", "::", "2001:db8::1", all] {
            let text = AddressText::new(address.parse().unwrap());
            assert_eq!(text.as_bytes(), address.as_bytes());
        }
        let mapped = AddressText::new("::ffff:255.255.255.255".parse().unwrap());
        assert_eq!(mapped.as_bytes(), b"::ffff:255.255.255.255");
    }
}
