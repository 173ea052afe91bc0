//! The PROXY protocol: a header in front of a connection that says for whom it was opened.
//!
//! Version 1 is a line of text, version 2 is binary. Nothing here is a guess: whoever calls [`decode`]
//! knows that a header has to come, and what is none is an error.

mod binary;
mod checksum;
mod text;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The longest header that is read, in bytes: of version 2, with whatever it carries beside addresses.
pub const LONGEST: usize = 4096;

/// How a header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The two ends of the connection that a header speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Who opened it.
    pub source: SocketAddr,
    /// Where it was opened to.
    pub destination: SocketAddr,
}

/// For whom a connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// For the sender itself, as in checks of health.
    Sender,
    /// For somebody whose address cannot be told.
    Unknown,
    /// For the client at the other end of this connection.
    Client(Ends),
}

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How it was written.
    pub version: Version,
    /// For whom the connection is.
    pub owner: Owner,
    /// Its length in bytes; what follows belongs to the connection itself.
    pub length: usize,
}

/// Why something is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It begins like none.
    Missing,
    /// It is longer than a header may be.
    TooLong,
    /// A line that breaks the rules of version 1.
    Line,
    /// A version or a command that does not exist.
    Command,
    /// A family or a transport that does not exist.
    Family,
    /// It is shorter than its addresses.
    Addresses,
    /// What stands behind the addresses does not fill the rest.
    Extension,
    /// The checksum is not that of the header.
    Checksum,
}

impl HeaderError {
    /// What is wrong, in words.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Missing => "there is none",
            Self::TooLong => "too long",
            Self::Line => "malformed line",
            Self::Command => "unknown version or command",
            Self::Family => "unknown address family",
            Self::Addresses => "too short for its addresses",
            Self::Extension => "malformed extension",
            Self::Checksum => "wrong checksum",
        }
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phrase())
    }
}

impl std::error::Error for HeaderError {}

/// The header at the beginning of `bytes`; `None` while it is not there as a whole.
///
/// # Errors
/// What is there is no header, or can become none.
pub fn decode(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => text::decode(bytes),
        Some(_) => binary::decode(bytes),
    }
}

/// Appends a header.
pub fn encode(output: &mut Vec<u8>, version: Version, owner: Owner) {
    match version {
        Version::V1 => text::encode(output, owner),
        Version::V2 => binary::encode(output, owner),
    }
}

/// Whether `bytes` begin with `wanted`, as far as they go.
fn begins(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.iter().zip(wanted).all(|(byte, wanted)| byte == wanted)
}

/// Both ends in one family: a header has room for no more.
fn matched(ends: Ends) -> Ends {
    let Ends { source, destination } = ends;
    if source.is_ipv4() == destination.is_ipv4() {
        return ends;
    }
    let mapped = |address: SocketAddr| {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv6Addr::UNSPECIFIED,
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        SocketAddr::new(ip.into(), address.port())
    };
    Ends { source: mapped(source), destination: mapped(destination) }
}

#[cfg(test)]
mod tests;
