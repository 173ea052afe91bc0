//! Whom a limit counts by: a client's address, or whatever a template makes of a request.

use std::net::IpAddr;

use sluice_expression::Template;
use sluice_filter::View;

/// Whom to count by.
#[derive(Debug)]
pub enum KeySource {
    /// The client's address; of IPv6 so many leading bits, since whoever has one address has a network of
    /// them.
    Client {
        /// 1 to 128.
        ipv6_prefix: u8,
    },
    /// The values of this template, each told apart from the others ([`Template::lend_key`]). What is absent leaves
    /// nothing, so that all requests without it share one key.
    Values(Template),
    /// The text that the template becomes, for keys that users write down. Two different requests may become the
    /// same text, so nothing that protects anybody may depend on it.
    Text(Template),
}

/// The key of requests whose text is too long to be made. No text is this one.
const TOO_LONG: &[u8] = b"\xff\0too long";

impl KeySource {
    /// Lends the key of a request to `read`.
    #[inline]
    pub fn with<R>(&self, view: &View<'_>, read: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Client { ipv6_prefix } => {
                let (bytes, length) = address_key(view.client, *ipv6_prefix);
                read(bytes.get(..length).unwrap_or(&bytes))
            }
            Self::Values(template) => template.lend_key(view, |key| read(key.unwrap_or(TOO_LONG))),
            Self::Text(template) => template.lend(view, |text| read(text.unwrap_or(TOO_LONG))),
        }
    }

    /// Appends the key of a request.
    pub fn append(&self, view: &View<'_>, out: &mut Vec<u8>) {
        self.with(view, |key| out.extend_from_slice(key));
    }
}

/// What an address is counted by.
#[inline]
fn address_key(address: IpAddr, ipv6_prefix: u8) -> ([u8; 16], usize) {
    let mut key = [0; 16];
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (to, from) in key.iter_mut().zip(address.octets()) {
                *to = from;
            }
            (key, 4)
        }
        IpAddr::V6(address) => {
            let host = 128_u32.saturating_sub(u32::from(ipv6_prefix));
            let mask = u128::MAX.checked_shl(host).unwrap_or(0);
            ((address.to_bits() & mask).to_be_bytes(), 16)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_ipv6_count_as_one() {
        let key = |text: &str, prefix| {
            let (bytes, length) = address_key(text.parse().unwrap(), prefix);
            bytes[..length].to_vec()
        };
        assert_eq!(key("10.1.2.3", 64), [10, 1, 2, 3]);
        assert_eq!(key("::ffff:10.1.2.3", 64), [10, 1, 2, 3]);
        assert_eq!(key("2001:db8::1", 64), key("2001:db8::ffff:0:0:1", 64));
        assert_ne!(key("2001:db8::1", 64), key("2001:db8:0:1::1", 64));
        assert_ne!(key("2001:db8::1", 128), key("2001:db8::2", 128));
        assert_eq!(key("2001:db8::1", 1), key("3fff::", 1));
    }
}
