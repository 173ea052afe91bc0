//! Sets of addresses as sorted ranges.

use std::net::IpAddr;

/// A set of addresses, asked by a binary search. IPv4 addresses mapped into IPv6 (RFC 4291, 2.5.5.2) count as IPv4: a listener
/// on `[::]` reports them so, and a rule for `10.0.0.0/8` must not depend on how the socket was bound.
#[derive(Clone, Debug, Default)]
pub struct AddressRanges {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl AddressRanges {
    /// The addresses from each first to its last; a range of two families holds nothing.
    #[must_use]
    pub fn of(ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for range in ranges {
            match range {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.push((first.to_bits(), last.to_bits())),
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    match (first.to_ipv4_mapped(), last.to_ipv4_mapped()) {
                        (Some(first), Some(last)) => v4.push((first.to_bits(), last.to_bits())),
                        _ => v6.push((first.to_bits(), last.to_bits())),
                    }
                }
                _ => {}
            }
        }
        Self { v4: merged(v4), v6: merged(v6) }
    }

    /// Whether the address lies in one of the ranges.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => contains(&self.v4, address.to_bits()),
            IpAddr::V6(address) => contains(&self.v6, address.to_bits()),
        }
    }
}

/// Sorted and without overlaps, which the binary search relies on.
fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    let mut out: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out.into_boxed_slice()
}

fn contains<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let behind = ranges.partition_point(|&(first, _)| first <= address);
    let range = behind.checked_sub(1).and_then(|at| ranges.get(at));
    range.is_some_and(|&(_, last)| address <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(&str, &str)]) -> AddressRanges {
        let parsed = ranges.iter().map(|(first, last)| (first.parse(), last.parse()));
        AddressRanges::of(parsed.map(|(first, last)| (first.unwrap(), last.unwrap())))
    }

    #[test]
    fn addresses_are_in_their_ranges() {
        let ranges = [
            ("10.0.0.0", "10.255.255.255"),
            ("10.1.0.0", "10.1.255.255"),
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("::ffff:198.51.100.0", "::ffff:198.51.100.255"),
            ("192.0.2.9", "2001:db8::9"),
        ];
        let set = set(&ranges);
        let cases = [
            ("10.0.0.0", true),
            ("10.1.2.3", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("9.255.255.255", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("::ffff:10.0.0.1", true),
            ("::ffff:11.0.0.1", false),
            ("198.51.100.7", true),
            ("2001:db8::1", true),
            ("2001:db9::1", false),
            ("::1", false),
        ];
        for (address, inside) in cases {
            assert_eq!(set.contain(address.parse().unwrap()), inside, "{address}");
        }
        assert!(!AddressRanges::default().contain("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn the_widest_ranges_hold_their_family_only() {
        let v4 = set(&[("0.0.0.0", "255.255.255.255")]);
        let v6 = set(&[("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]);
        assert!(
            v4.contain("255.255.255.255".parse().unwrap()) && !v4.contain("::1".parse().unwrap())
        );
        assert!(v6.contain("::1".parse().unwrap()) && !v6.contain("0.0.0.0".parse().unwrap()));
    }
}
