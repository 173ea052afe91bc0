//! Client networks as sorted ranges of addresses.

use std::net::IpAddr;

use ipnet::IpNet;

/// A set of addresses. IPv4 addresses mapped into IPv6 (RFC 4291, 2.5.5.2) count as IPv4: a listener
/// on `[::]` reports them so, and a rule for `10.0.0.0/8` must not depend on how the socket was bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

impl Clients {
    pub(crate) fn of(networks: &[IpNet]) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match (network.network(), network.broadcast()) {
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

    pub(crate) fn contain(&self, client: IpAddr) -> bool {
        match client.to_canonical() {
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

    #[test]
    fn addresses_are_in_their_networks() {
        let networks = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "192.0.2.1/32",
            "2001:db8::/32",
            "::ffff:198.51.100.0/120",
        ];
        let clients = Clients::of(&networks.map(|network| network.parse().unwrap()));
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
            assert_eq!(clients.contain(address.parse().unwrap()), inside, "{address}");
        }
        assert!(!Clients::default().contain("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn the_widest_networks_hold_their_family_only() {
        let v4 = Clients::of(&["0.0.0.0/0".parse().unwrap()]);
        let v6 = Clients::of(&["::/0".parse().unwrap()]);
        assert!(
            v4.contain("255.255.255.255".parse().unwrap()) && !v4.contain("::1".parse().unwrap())
        );
        assert!(v6.contain("::1".parse().unwrap()) && !v6.contain("0.0.0.0".parse().unwrap()));
    }
}
