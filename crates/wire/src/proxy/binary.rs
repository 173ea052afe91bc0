//! Version 2: binary, with room for extensions.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::checksum::crc32c;
use super::{Ends, Header, HeaderError, LONGEST, Owner, Version, begins, matched};

/// What every header begins with: nothing that anybody else sends (PROXY protocol, 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length of the rest.
const FIXED: usize = 16;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// The extension that holds the checksum of the header.
const CHECKSUM: u8 = 0x03;

pub(super) fn decode(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if !begins(bytes, SIGNATURE) {
        return Err(HeaderError::Missing);
    }
    // What is wrong already does not get better by waiting for the rest.
    if bytes.get(12).is_some_and(|command| !matches!(*command, LOCAL | PROXY)) {
        return Err(HeaderError::Command);
    }
    let Some([command, kind, high, low]) = bytes.get(12..FIXED) else { return Ok(None) };
    let length = FIXED + usize::from(u16::from_be_bytes([*high, *low]));
    if length > LONGEST {
        return Err(HeaderError::TooLong);
    }
    let header = |owner| Header { version: Version::V2, owner, length };
    let Some(whole) = bytes.get(..length) else { return Ok(None) };
    if *command == LOCAL {
        // The rest is to be discarded, whatever it is.
        return Ok(Some(header(Owner::Sender)));
    }
    let addresses = match kind {
        // Family and transport are a digit each; there are no others (PROXY protocol, 2.2).
        0x00..=0x02 | 0x10 | 0x20 | 0x30 => return Ok(Some(header(Owner::Unknown))),
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        _ => return Err(HeaderError::Family),
    };
    let rest = whole.get(FIXED..).unwrap_or_default();
    let Some((addresses, extensions)) = rest.split_at_checked(addresses) else {
        return Err(HeaderError::Addresses);
    };
    check(whole, length - extensions.len())?;
    Ok(Some(header(owner(*kind, addresses))))
}

/// Datagrams and sockets of a machine name nobody a connection could be for.
fn owner(kind: u8, addresses: &[u8]) -> Owner {
    let ends = match kind {
        TCP4 => ends(addresses, |ip: [u8; 4]| Ipv4Addr::from(ip)),
        TCP6 => ends(addresses, |ip: [u8; 16]| Ipv6Addr::from(ip)),
        _ => None,
    };
    ends.map_or(Owner::Unknown, Owner::Client)
}

/// Two addresses and then two ports.
fn ends<const N: usize, A: Into<std::net::IpAddr>>(
    bytes: &[u8],
    address: impl Fn([u8; N]) -> A,
) -> Option<Ends> {
    let (source, rest) = bytes.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (from, to) = rest.split_first_chunk::<2>()?;
    let (to, _) = to.split_first_chunk::<2>()?;
    let end =
        |ip: [u8; N], port: [u8; 2]| SocketAddr::new(address(ip).into(), u16::from_be_bytes(port));
    Some(Ends { source: end(*source, *from), destination: end(*destination, *to) })
}

/// The extensions from this place on: each has its length, together they fill the header.
fn check(whole: &[u8], begin: usize) -> Result<(), HeaderError> {
    let mut at = begin;
    let mut summed = false;
    while at < whole.len() {
        let rest = whole.get(at..).unwrap_or_default();
        let Some(([kind, high, low], rest)) = rest.split_first_chunk::<3>() else {
            return Err(HeaderError::Extension);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let value = rest.get(..length).ok_or(HeaderError::Extension)?;
        at += 3 + length;
        if *kind == CHECKSUM {
            let sum: [u8; 4] = value.try_into().map_err(|_| HeaderError::Extension)?;
            if std::mem::replace(&mut summed, true) {
                return Err(HeaderError::Extension);
            }
            // The sum is over a header in which it is zero (PROXY protocol, 2.2.3).
            let place = at - sum.len()..at;
            let byte = |(at, byte): (usize, &u8)| if place.contains(&at) { 0 } else { *byte };
            if crc32c(whole.iter().enumerate().map(byte)) != u32::from_be_bytes(sum) {
                return Err(HeaderError::Checksum);
            }
        }
    }
    Ok(())
}

pub(super) fn encode(output: &mut Vec<u8>, owner: Owner) {
    output.extend_from_slice(SIGNATURE);
    let ends = match owner {
        Owner::Sender => return output.extend_from_slice(&[LOCAL, UNSPECIFIED, 0, 0]),
        Owner::Unknown => return output.extend_from_slice(&[PROXY, UNSPECIFIED, 0, 0]),
        Owner::Client(ends) => matched(ends),
    };
    match (ends.source, ends.destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            output.extend_from_slice(&[PROXY, TCP4, 0, 12]);
            output.extend_from_slice(&source.ip().octets());
            output.extend_from_slice(&destination.ip().octets());
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            output.extend_from_slice(&[PROXY, TCP6, 0, 36]);
            output.extend_from_slice(&source.ip().octets());
            output.extend_from_slice(&destination.ip().octets());
        }
        // They were brought into one family.
        _ => return output.extend_from_slice(&[PROXY, UNSPECIFIED, 0, 0]),
    }
    output.extend_from_slice(&ends.source.port().to_be_bytes());
    output.extend_from_slice(&ends.destination.port().to_be_bytes());
}
