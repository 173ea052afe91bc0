//! Sets of networks, asked for one address at flat cost however many there are.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Networks of both families, as sorted ranges that neither touch nor overlap.
///
/// An IPv4 address inside IPv6 (`::ffff:a.b.c.d`, RFC 4291, 2.5.5.2) is the IPv4 address it holds, in
/// the set as well as when asking: which of the two a socket reports depends on how it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSet {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

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

/// The bits in front of an IPv4 address inside IPv6.
const MAPPED_BITS: u8 = 96;

impl NetworkSet {
    /// Makes the set of all addresses in any of `networks`.
    #[must_use]
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match unmapped(network) {
                IpNet::V4(network) => {
                    v4.push((network.network().to_bits(), network.broadcast().to_bits()));
                }
                IpNet::V6(network) => {
                    v6.push((network.network().to_bits(), network.broadcast().to_bits()));
                }
            }
        }
        Self {
            v4: merge(v4, |last| last.checked_add(1)),
            v6: merge(v6, |last| last.checked_add(1)),
        }
    }

    /// Reads a list: an address or a network a line, empty lines and what follows a `#` left out.
    ///
    /// # Errors
    /// The first line that is neither.
    pub fn lines(text: &str) -> Result<Vec<IpNet>, ListFlaw> {
        let mut networks = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let word = line.split('#').next().unwrap_or_default().trim();
            if word.is_empty() {
                continue;
            }
            let network = network(word).ok_or_else(|| ListFlaw {
                line: index + 1,
                text: word.chars().take(64).collect(),
            })?;
            networks.push(network);
        }
        Ok(networks)
    }

    /// Whether `address` is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => holds(&self.v4, address.to_bits(), || ()),
            IpAddr::V6(address) => holds(&self.v6, address.to_bits(), || ()),
        }
    }

    /// Whether no address is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// How many ranges are left of the networks.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

/// Reads an address or a network; bits behind the prefix do not matter.
fn network(word: &str) -> Option<IpNet> {
    word.parse().ok().or_else(|| word.parse::<IpAddr>().ok().map(IpNet::from))
}

/// A network of IPv4 addresses inside IPv6 becomes one of IPv4.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let inner = v6.network().to_ipv4_mapped();
    match (inner, v6.prefix_len().checked_sub(MAPPED_BITS)) {
        (Some(inner), Some(length)) => Ipv4Net::new(inner, length).map_or(network, IpNet::from),
        _ => network,
    }
}

/// Sorts ranges and joins those that overlap or follow each other.
fn merge<T: Ord + Copy>(mut ranges: Vec<(T, T)>, next: impl Fn(T) -> Option<T>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    let mut merged: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            // Nothing follows a range that goes to the end of the numbers, so it holds all the rest.
            Some((_, end)) if next(*end).is_none_or(|next| first <= next) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    merged.into_boxed_slice()
}

/// Binary search; `looked` is called for each range looked at.
#[inline]
fn holds<T: Ord + Copy>(ranges: &[(T, T)], value: T, mut looked: impl FnMut()) -> bool {
    let behind = ranges.partition_point(|(first, _)| {
        looked();
        *first <= value
    });
    behind.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| value <= *last)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{NetworkSet, holds};

    fn set(lines: &str) -> NetworkSet {
        NetworkSet::new(NetworkSet::lines(lines).unwrap())
    }

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
            let set = set(lines);
            for address in inside {
                assert!(set.contains(address.parse().unwrap()), "{address} in {lines}");
            }
            for address in outside {
                assert!(!set.contains(address.parse().unwrap()), "{address} in {lines}");
            }
        }
    }

    #[test]
    fn joins_what_belongs_together() {
        assert_eq!(set("10.0.0.0/25\n10.0.0.128/25\n10.0.1.0/24").ranges(), 1);
        assert_eq!(set("255.0.0.0/8\n255.255.255.255\n255.1.0.0/16").ranges(), 1);
        assert_eq!(set("10.0.0.0/25\n10.0.1.0/24").ranges(), 2);
        assert!(set("# nothing").is_empty());
    }

    #[test]
    fn says_which_line_is_wrong() {
        let flaw = NetworkSet::lines("10.0.0.0/8\n\n10.0.0.0/33\n").unwrap_err();
        assert_eq!((flaw.line, flaw.text.as_str()), (3, "10.0.0.0/33"));
        assert!(flaw.to_string().starts_with("line 3: `10.0.0.0/33` is no address"));
        for wrong in ["localhost", "10.0.0", "10.0.0.0/", "10.0.0.0 10.0.0.1", "2001:db8::/129"] {
            assert!(NetworkSet::lines(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hundred_thousand_entries_cost_seventeen_looks() {
        // Every second /24: nothing can be joined.
        let lines: String =
            (0..100_000_u32).map(|at| format!("{}/24\n", Ipv4Addr::from_bits(at << 9))).collect();
        let large = set(&lines);
        assert_eq!(large.ranges(), 100_000);
        let mut most = 0;
        for at in (0..200_000_u32).step_by(997) {
            let mut looks = 0;
            let value = (at << 8) + 77;
            let inside = holds(&large.v4, value, || looks += 1);
            assert_eq!(inside, at % 2 == 0, "{at}");
            assert_eq!(inside, large.contains(IpAddr::V4(Ipv4Addr::from_bits(value))));
            most = most.max(looks);
        }
        assert!(most <= 18, "{most} looks");
    }
}
