//! Addresses as scripts write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_net::{Endpoint, PeerAddress};

/// Where to listen: `:8080` is every address of version 4, `[::]:8080` every one of version 6, `unix:/path` a socket of
/// the machine. Names other than `localhost` are none.
pub(crate) fn listen(text: &str) -> Option<Endpoint> {
    if let Some(path) = text.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| Endpoint::Unix(path.into()));
    }
    let (host, port) = split(text)?;
    let ip = match host {
        "" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        host => ip(host)?,
    };
    Some(Endpoint::Tcp(SocketAddr::new(ip, port)))
}

/// Whom to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An address.
    Known(Endpoint),
    /// A name that has to be looked up.
    Named(String, u16),
}

/// Where to connect to: as for listening, or a name and a port.
pub(crate) fn peer(text: &str) -> Option<Peer> {
    if let Some(endpoint) = listen(text) {
        return Some(Peer::Known(match endpoint {
            // Nobody is at an address that stands for all.
            Endpoint::Tcp(address) if address.ip().is_unspecified() => {
                let here: IpAddr = match address.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                };
                Endpoint::Tcp(SocketAddr::new(here, address.port()))
            }
            other => other,
        }));
    }
    let (host, port) = split(text)?;
    let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    (is_name && !host.is_empty()).then(|| Peer::Named(host.to_owned(), port))
}

fn split(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

fn ip(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None if host == "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// A peer in the words of a script.
pub(crate) fn show(peer: PeerAddress) -> String {
    match peer {
        PeerAddress::Tcp(address) => address.to_string(),
        PeerAddress::Unix => "unix".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let tcp = |text: &str| Some(Endpoint::Tcp(text.parse().unwrap()));
        let rows = [
            (":8080", tcp("0.0.0.0:8080")),
            ("127.0.0.1:0", tcp("127.0.0.1:0")),
            ("localhost:80", tcp("127.0.0.1:80")),
            ("[::]:1", tcp("[::]:1")),
            ("unix:/run/x", Some(Endpoint::Unix("/run/x".into()))),
            ("unix:", None),
            ("example.org:80", None),
            ("127.0.0.1", None),
            (":66000", None),
            ("::1:80", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(listen(text), expected, "{text}");
        }
    }

    #[test]
    fn peers_may_have_names() {
        let known = |text: &str| Some(Peer::Known(Endpoint::Tcp(text.parse().unwrap())));
        let rows = [
            (":80", known("127.0.0.1:80")),
            ("[::]:80", known("[::1]:80")),
            ("10.0.0.1:80", known("10.0.0.1:80")),
            ("example.org:80", Some(Peer::Named("example.org".to_owned(), 80))),
            ("exa mple:80", None),
            ("example.org", None),
        ];
        for (text, expected) in rows {
            assert_eq!(peer(text), expected, "{text}");
        }
    }
}
