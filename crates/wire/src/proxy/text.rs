//! Version 1: a line of text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Ends, Header, HeaderError, Owner, Version, begins, matched};

/// The longest line, with its end (PROXY protocol, 2.1).
const LINE: usize = 107;

const BEGIN: &[u8] = b"PROXY ";

pub(super) fn decode(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if !begins(bytes, BEGIN) {
        return Err(HeaderError::Missing);
    }
    let line = bytes.get(..LINE).unwrap_or(bytes);
    let Some(end) = line.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if line.len() < LINE { Ok(None) } else { Err(HeaderError::TooLong) };
    };
    // A line feed without a carriage return ends nothing, and is in no address; nor is one skipped with
    // what is ignored, or the verdict would depend on how much came at once.
    if line.get(end) == Some(&b'\n') {
        return Err(HeaderError::Line);
    }
    match line.get(end + 1) {
        None if line.len() < LINE => return Ok(None),
        None => return Err(HeaderError::TooLong),
        Some(b'\n') => {}
        Some(_) => return Err(HeaderError::Line),
    }
    let said = line.get(BEGIN.len()..end).ok_or(HeaderError::Line)?;
    let owner = owner(said).ok_or(HeaderError::Line)?;
    Ok(Some(Header { version: Version::V1, owner, length: end + 2 }))
}

fn owner(said: &[u8]) -> Option<Owner> {
    let mut words = said.split(|byte| *byte == b' ');
    let family = words.next()?;
    if family == b"UNKNOWN" {
        // Whatever follows is to be ignored.
        return Some(Owner::Unknown);
    }
    let address: fn(&str) -> Option<IpAddr> = match family {
        b"TCP4" => |text| text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        b"TCP6" => |text| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => return None,
    };
    let mut next = || std::str::from_utf8(words.next()?).ok();
    let (source, destination) = (address(next()?)?, address(next()?)?);
    let (from, to) = (port(next()?)?, port(next()?)?);
    if words.next().is_some() {
        return None;
    }
    let (source, destination) = (SocketAddr::new(source, from), SocketAddr::new(destination, to));
    Some(Owner::Client(Ends { source, destination }))
}

/// Digits without a leading zero.
fn port(text: &str) -> Option<u16> {
    let plain = text == "0" || !text.starts_with('0');
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain && digits)
}

pub(super) fn encode(output: &mut Vec<u8>, owner: Owner) {
    let line = match owner {
        Owner::Sender | Owner::Unknown => "PROXY UNKNOWN\r\n".to_owned(),
        Owner::Client(ends) => {
            let Ends { source, destination } = matched(ends);
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (source.port(), destination.port());
            format!("PROXY {family} {} {} {from} {to}\r\n", source.ip(), destination.ip())
        }
    };
    output.extend_from_slice(line.as_bytes());
}
