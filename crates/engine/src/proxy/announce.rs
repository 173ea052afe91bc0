//! The header that says in front of a connection to an origin for which client it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_wire::proxy::{Ends, Owner, Version, encode};

use crate::exchange::Exchange;

impl Exchange<'_, '_> {
    /// What a connection opened for this exchange begins with; nothing where no header is wanted.
    #[inline]
    pub(super) fn announce(&self, version: Option<Version>) -> Vec<u8> {
        match version {
            None => Vec::new(),
            Some(version) => self.write_header(version),
        }
    }

    #[cold]
    fn write_header(&self, version: Version) -> Vec<u8> {
        let mut header = Vec::new();
        encode(&mut header, version, self.owner());
        header
    }

    fn owner(&self) -> Owner {
        let connection = self.connection;
        named(connection.ends(), (connection.peer, self.client))
    }
}

/// Whom an exchange is for, of which these ends of a connection are known, and the client that proxies
/// in front name instead of the `peer`. Of such a client nobody knows the port.
fn named(known: Option<Ends>, (peer, client): (IpAddr, IpAddr)) -> Owner {
    match known {
        Some(ends) if ends.source.ip() == client => Owner::Client(ends),
        Some(ends) => Owner::Client(Ends { source: SocketAddr::new(client, 0), ..ends }),
        // Somebody on this machine.
        None if client == peer => Owner::Unknown,
        None => {
            let nowhere = match client {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            let (source, destination) = (SocketAddr::new(client, 0), SocketAddr::new(nowhere, 0));
            Owner::Client(Ends { source, destination })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_the_client_is_told() {
        let ends = |source: &str, destination: &str| Ends {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        };
        let own = ends("10.0.0.1:4000", "10.0.0.2:443");
        let cases = [
            (Some(own), "10.0.0.1", "10.0.0.1", Owner::Client(own)),
            (
                Some(own),
                "10.0.0.1",
                "192.0.2.7",
                Owner::Client(ends("192.0.2.7:0", "10.0.0.2:443")),
            ),
            (None, "127.0.0.1", "127.0.0.1", Owner::Unknown),
            (None, "127.0.0.1", "192.0.2.7", Owner::Client(ends("192.0.2.7:0", "0.0.0.0:0"))),
            (None, "127.0.0.1", "2001:db8::1", Owner::Client(ends("[2001:db8::1]:0", "[::]:0"))),
        ];
        for (known, peer, client, owner) in cases {
            let who = (peer.parse().unwrap(), client.parse().unwrap());
            assert_eq!(named(known, who), owner, "{known:?} {client}");
        }
    }
}
