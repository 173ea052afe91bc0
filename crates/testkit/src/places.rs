//! A writer of MaxMind database files, small enough to know what is in them.

use std::net::{IpAddr, Ipv6Addr};

/// What a file says about a network.
pub struct PlaceOf<'a> {
    /// A network like `192.0.2.0/24`.
    pub network: &'a str,
    /// ISO code of the country; empty for none.
    pub country: &'a str,
    /// Two letters; empty for none.
    pub continent: &'a str,
    /// The number of the autonomous system; 0 for none.
    pub asn: u32,
}

/// The file's bytes: MaxMind DB format 2.0, records of 32 bits, a tree of IPv6 with IPv4 under `::/96`.
/// Networks must not overlap.
pub fn place_file(places: &[PlaceOf<'_>]) -> Vec<u8> {
    let mut nodes: Vec<[Link; 2]> = vec![[Link::Nothing; 2]];
    let mut data = Vec::new();
    for place in places {
        let at = data.len();
        data.extend(record(place));
        insert(&mut nodes, place.network, at);
    }
    let count = u32::try_from(nodes.len()).unwrap();
    let mut file = Vec::new();
    for link in nodes.iter().flatten() {
        let value = match link {
            Link::Nothing => count,
            Link::Node(node) => u32::try_from(*node).unwrap(),
            // Data begins 16 bytes behind the tree.
            Link::Data(at) => count + 16 + u32::try_from(*at).unwrap(),
        };
        file.extend(value.to_be_bytes());
    }
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    file.extend(map(&[
        ("node_count", number(6, count)),
        ("record_size", number(5, 32)),
        ("ip_version", number(5, 6)),
        ("database_type", text("Sluice-Test")),
        ("languages", vec![0, 4]),
        ("binary_format_major_version", number(5, 2)),
        ("binary_format_minor_version", number(5, 0)),
        // A number of 64 bits is an extended type.
        ("build_epoch", vec![4, 2, 0x65, 0, 0, 0]),
        ("description", map(&[("en", text("for tests"))])),
    ]));
    file
}

#[derive(Clone, Copy)]
enum Link {
    Nothing,
    Node(usize),
    Data(usize),
}

fn insert(nodes: &mut Vec<[Link; 2]>, network: &str, data: usize) {
    let (address, length) = network.split_once('/').unwrap();
    let length: usize = length.parse().unwrap();
    let (bits, length) = match address.parse().unwrap() {
        IpAddr::V4(address) => (u128::from(address.to_bits()), length + 96),
        IpAddr::V6(address) => (Ipv6Addr::to_bits(address), length),
    };
    let mut node = 0;
    for depth in 0..length {
        let side = usize::from((bits >> (127 - depth)) & 1 == 1);
        if depth + 1 == length {
            nodes[node][side] = Link::Data(data);
            return;
        }
        node = match nodes[node][side] {
            Link::Node(next) => next,
            _ => {
                nodes.push([Link::Nothing; 2]);
                let next = nodes.len() - 1;
                nodes[node][side] = Link::Node(next);
                next
            }
        };
    }
}

fn record(place: &PlaceOf<'_>) -> Vec<u8> {
    let mut members = Vec::new();
    if !place.country.is_empty() {
        members.push(("country", map(&[("iso_code", text(place.country))])));
    }
    if !place.continent.is_empty() {
        members.push(("continent", map(&[("code", text(place.continent))])));
    }
    if place.asn != 0 {
        members.push(("autonomous_system_number", number(6, place.asn)));
        members.push(("autonomous_system_organization", text("An operator")));
    }
    map(&members)
}

fn map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![7 << 5 | u8::try_from(members.len()).unwrap()];
    for (name, value) in members {
        bytes.extend(text(name));
        bytes.extend(value);
    }
    bytes
}

fn text(text: &str) -> Vec<u8> {
    let size = text.len();
    // From 29 on the size is in a byte of its own.
    let mut bytes = match u8::try_from(size).unwrap() {
        size @ 0..29 => vec![2 << 5 | size],
        size => vec![2 << 5 | 29, size - 29],
    };
    bytes.extend(text.as_bytes());
    bytes
}

fn number(kind: u8, value: u32) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let used = if kind == 5 { &bytes[2..] } else { &bytes[..] };
    let mut all = vec![kind << 5 | u8::try_from(used.len()).unwrap()];
    all.extend(used);
    all
}
