//! Lists of networks, as text.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_message::AddressRanges;

/// A line of a list that is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFlaw {
    /// Counted from one.
    pub line: usize,
    /// What stands there, at most 64 characters of it.
    pub text: String,
}

impl fmt::Display for ListFlaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, text } = self;
        write!(
            formatter,
            "line {line}: `{text}` is no address and no network like 10.0.0.0/8 or 2001:db8::/32"
        )
    }
}

/// Reads a list: an address or a network a line, empty lines and what follows a `#` left out.
///
/// # Errors
/// The first line that is neither.
pub fn read_networks(text: &str) -> Result<Vec<IpNet>, ListFlaw> {
    let mut networks = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let word = line.split('#').next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        let network = network(word)
            .ok_or_else(|| ListFlaw { line: index + 1, text: word.chars().take(64).collect() })?;
        networks.push(network);
    }
    Ok(networks)
}

/// The addresses in any of these networks.
#[must_use]
pub fn addresses(networks: &[IpNet]) -> AddressRanges {
    AddressRanges::of(networks.iter().map(|network| (network.network(), network.broadcast())))
}

/// Reads an address or a network; bits behind the prefix do not matter.
fn network(word: &str) -> Option<IpNet> {
    word.parse().ok().or_else(|| word.parse::<IpAddr>().ok().map(IpNet::from))
}

#[cfg(test)]
mod tests {
    use super::{addresses, read_networks};

    #[test]
    fn holds_what_its_networks_hold() {
        let table: [(&str, &[&str], &[&str]); 9] = [
            ("", &[], &["0.0.0.0", "::", "255.255.255.255"]),
            ("10.0.0.0/8", &["10.0.0.0", "10.255.255.255"], &["9.255.255.255", "11.0.0.0"]),
            ("10.1.2.3/8", &["10.0.0.0"], &["11.0.0.0"]),
            ("192.0.2.7", &["192.0.2.7", "::ffff:192.0.2.7"], &["192.0.2.6", "192.0.2.8"]),
            (
                "0.0.0.0/0",
                &["0.0.0.0", "255.255.255.255", "::ffff:1.2.3.4"],
                &["::1", "2001:db8::"],
            ),
            ("::/0", &["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], &["1.2.3.4"]),
            ("::ffff:10.0.0.0/104", &["10.9.9.9", "::ffff:10.0.0.1"], &["11.0.0.0", "::1"]),
            ("2001:db8::/32", &["2001:db8:ffff::1"], &["2001:db9::"]),
            // Neighbours, overlaps and repetitions.
            (
                "10.0.0.0/25 # half\n10.0.0.128/25\n10.0.0.7\n\n# and\n10.0.1.0/24\n10.0.0.0/23",
                &["10.0.0.0", "10.0.1.255"],
                &["10.0.2.0", "9.255.255.255"],
            ),
        ];
        for (lines, inside, outside) in table {
            let set = addresses(&read_networks(lines).unwrap());
            for address in inside {
                assert!(set.contain(address.parse().unwrap()), "{address} in {lines}");
            }
            for address in outside {
                assert!(!set.contain(address.parse().unwrap()), "{address} in {lines}");
            }
        }
    }

    #[test]
    fn says_which_line_is_wrong() {
        let flaw = read_networks("10.0.0.0/8\n\n10.0.0.0/33\n").unwrap_err();
        assert_eq!((flaw.line, flaw.text.as_str()), (3, "10.0.0.0/33"));
        assert!(flaw.to_string().starts_with("line 3: `10.0.0.0/33` is no address"));
        for wrong in ["localhost", "10.0.0", "10.0.0.0/", "10.0.0.0 10.0.0.1", "2001:db8::/129"] {
            assert!(read_networks(wrong).is_err(), "{wrong}");
        }
    }
}
