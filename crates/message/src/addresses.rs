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
        Self {
            v4: merged(v4, |last| last.checked_add(1)),
            v6: merged(v6, |last| last.checked_add(1)),
        }
    }

    /// Whether the address lies in one of the ranges.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => contains(&self.v4, address.to_bits(), || ()),
            IpAddr::V6(address) => contains(&self.v6, address.to_bits(), || ()),
        }
    }
}

/// Sorted, those joined that overlap or follow each other, which the binary search relies on.
fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>, next: impl Fn(T) -> Option<T>) -> Box<[(T, T)]> {
    ranges.sort_unstable();
    let mut out: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            // Nothing follows a range that goes to the end of the numbers, so it holds all the rest.
            Some((_, end)) if next(*end).is_none_or(|next| first <= next) => *end = last.max(*end),
            _ => out.push((first, last)),
        }
    }
    out.into_boxed_slice()
}

/// `looked` is called for each range that is looked at.
#[inline]
fn contains<T: Ord + Copy>(ranges: &[(T, T)], address: T, mut looked: impl FnMut()) -> bool {
    let behind = ranges.partition_point(|&(first, _)| {
        looked();
        first <= address
    });
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

    #[test]
    fn what_belongs_together_is_joined() {
        let count = |ranges: &[(&str, &str)]| set(ranges).v4.len();
        let (low, high) = (("10.0.0.0", "10.0.0.127"), ("10.0.0.128", "10.0.1.255"));
        assert_eq!(count(&[high, low]), 1);
        assert_eq!(count(&[low, ("10.0.0.129", "10.0.0.130")]), 2);
        let end = ("255.0.0.0", "255.255.255.255");
        assert_eq!(count(&[end, ("255.255.255.255", "255.255.255.255")]), 1);
        assert_eq!(count(&[]), 0);
    }

    #[test]
    fn a_hundred_thousand_ranges_cost_seventeen_looks() {
        use std::net::Ipv4Addr;

        // Every second block of 256: nothing can be joined.
        let address = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
        let blocks = (0..100_000_u32).map(|at| (address(at << 9), address((at << 9) + 255)));
        let large = AddressRanges::of(blocks);
        assert_eq!(large.v4.len(), 100_000);
        let mut most = 0;
        for at in (0..200_000_u32).step_by(997) {
            let mut looks = 0;
            let value = (at << 8) + 77;
            let inside = contains(&large.v4, value, || looks += 1);
            assert_eq!(inside, at % 2 == 0, "{at}");
            assert_eq!(inside, large.contain(address(value)));
            most = most.max(looks);
        }
        assert!(most <= 18, "{most} looks");
    }
}
