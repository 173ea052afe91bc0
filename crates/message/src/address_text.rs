//! Addresses as texts, without memory of their own.

use std::io::Write as _;
use std::net::IpAddr;

/// The longest is an IPv6 address with an IPv4 address at its end.
const LONGEST: usize = 45;

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
        let [hundreds, tens, ones] =
            [b'0' + octet / 100, b'0' + octet / 10 % 10, b'0' + octet % 10];
        let (digits, count) = match octet {
            0..10 => ([ones, b'.', 0, 0], 2),
            10..100 => ([tens, ones, b'.', 0], 3),
            _ => ([hundreds, tens, ones, b'.'], 4),
        };
        if let Some(place) = self.bytes.get_mut(self.length..self.length + digits.len()) {
            place.copy_from_slice(&digits);
            self.length += count;
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
