//! Addresses: where we listen, and where origins are.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

use crate::problem::Flaw;

/// The longest path a unix socket can be bound to (`sun_path` less its closing zero).
const UNIX_PATH: usize = 107;

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port of one address, or of all with `0.0.0.0` or `[::]`. Port 0 takes a free one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The place of one origin server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// An address that needs no name to be resolved.
    Ip(SocketAddr),
    /// A host name, lowercased, and a port.
    Name {
        /// The name to resolve.
        host: String,
        /// The TCP port.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
    /// The servers of a service as its SRV records say, by its whole name, lowercased.
    Service(String),
    /// The servers that a file lists.
    File(PathBuf),
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Service(name) => write!(f, "srv:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// "0.0.0.0:8080", "[::]:8080", ":8080" (all IPv4 addresses), "unix:/run/x.sock".
pub(crate) fn parse_address(text: &str) -> Result<Address, Flaw> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path).map(Address::Unix);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Address::Tcp(address));
    }
    if let Some(Ok(port)) = text.strip_prefix(':').map(port) {
        return Ok(Address::Tcp((Ipv4Addr::UNSPECIFIED, port).into()));
    }
    let flaw = Flaw::new(format!("\"{text}\" is not an address to listen at"));
    Err(match text.rsplit_once(':') {
        Some(("localhost", port)) => flaw.with_help(format!("write \"127.0.0.1:{port}\"")),
        Some(("*", port)) => flaw.with_help(format!("write \"0.0.0.0:{port}\"")),
        None if text.parse::<IpAddr>().is_ok() => {
            flaw.with_help(format!("add the port: \"{text}:8080\""))
        }
        None if text.parse::<u16>().is_ok() => flaw.with_help(format!("write \"0.0.0.0:{text}\"")),
        _ => flaw.with_help(
            "write an IP address and a port, \"0.0.0.0:8080\" or \"[::]:8080\", or \"unix:/path\"",
        ),
    })
}

/// "127.0.0.1:9001", "origin.example:80", "unix:/x.sock", "srv:_http._tcp.example", "file:x.toml";
/// "http://" or "https://" may stand in front of a host.
pub(crate) fn parse_server(text: &str) -> Result<ServerAddress, Flaw> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path).map(ServerAddress::Unix);
    }
    if let Some(name) = text.strip_prefix("srv:") {
        return service(name).map(ServerAddress::Service);
    }
    if let Some(path) = text.strip_prefix("file:") {
        return match path.is_empty() || path.contains('\0') {
            true => Err(Flaw::new("a list of servers needs the path of a file")
                .with_help("write \"file:/etc/sluice/servers.toml\"")),
            false => Ok(ServerAddress::File(PathBuf::from(path))),
        };
    }
    let (place, scheme_port) = match text.split_once("://") {
        Some(("http", place)) => (place.strip_suffix('/').unwrap_or(place), Some(80)),
        Some(("https", place)) => (place.strip_suffix('/').unwrap_or(place), Some(443)),
        Some((scheme, _)) => {
            return Err(Flaw::new(format!(
                "\"{scheme}://\" is not a scheme servers are reached by"
            ))
            .with_help("write \"http://host:port\", \"https://host:port\", \"host:port\" or \"unix:/path\""));
        }
        None => (text, None),
    };
    if let Ok(address) = place.parse::<SocketAddr>() {
        return match address.port() {
            0 => Err(Flaw::new("a server has no port 0")),
            _ => Ok(ServerAddress::Ip(address)),
        };
    }
    server_name(text, place, scheme_port)
}

fn server_name(text: &str, place: &str, scheme_port: Option<u16>) -> Result<ServerAddress, Flaw> {
    if place.contains('/') {
        return Err(Flaw::new(format!("\"{text}\" has a path: a server is a host and a port")));
    }
    if place.contains('@') {
        return Err(Flaw::new("a server address holds no user name or password"));
    }
    let bare = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(place);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        let written = SocketAddr::new(ip, scheme_port.unwrap_or(80));
        return match scheme_port {
            Some(_) => Ok(ServerAddress::Ip(written)),
            None => Err(Flaw::new(format!("\"{text}\" has no port"))
                .with_help(format!("write \"{written}\""))),
        };
    }
    let (host, port_text) = match place.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (place, None),
    };
    let host = parse_host(host)?;
    let port = match (port_text, scheme_port) {
        (Some(text), _) => port(text)?,
        (None, Some(port)) => port,
        (None, None) => {
            return Err(Flaw::new(format!("\"{text}\" has no port"))
                .with_help(format!("write \"{text}:80\"")));
        }
    };
    match port {
        0 => Err(Flaw::new("a server has no port 0")),
        port => Ok(ServerAddress::Name { host, port }),
    }
}

/// The name SRV records are asked for (RFC 2782): usually `_service._proto.domain`, but some that are
/// in use, such as those of Consul, look otherwise.
fn service(name: &str) -> Result<String, Flaw> {
    if let Some((name, _)) = name.rsplit_once(':') {
        return Err(Flaw::new("SRV records say the port themselves")
            .with_help(format!("write \"srv:{name}\"")));
    }
    parse_host(name)
}

/// A host name, lowercased (RFC 1123 section 2.1; `_` is allowed because names in use have it).
pub(crate) fn parse_host(text: &str) -> Result<String, Flaw> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let refused = || Flaw::new(format!("\"{text}\" is not a host name"));
    if !name.is_ascii() {
        return Err(refused().with_help("write an international name in its \"xn--\" form"));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(refused());
    }
    // A last label of digits is a mistyped IPv4 address (RFC 3696 section 2): no such name exists.
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Flaw::new(format!("\"{text}\" is neither an IP address nor a host name")));
    }
    Ok(name.to_ascii_lowercase())
}

/// "1.1.1.1" or "1.1.1.1:53": a name server.
pub(crate) fn parse_name_server(text: &str) -> Result<SocketAddr, Flaw> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53)).map_err(|_| {
        Flaw::new(format!("\"{text}\" is not the address of a name server"))
            .with_help("write an IP address, with a port if it is not 53: \"1.1.1.1\"")
    })
}

/// "10.0.0.0/8", "fd00::/8" or a single address.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, Flaw> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(ip));
    }
    let network: IpNet = text.parse().map_err(|_| {
        Flaw::new(format!("\"{text}\" is not a network"))
            .with_help("write an address and a prefix length, \"10.0.0.0/8\", or one address")
    })?;
    if network.trunc() != network {
        return Err(Flaw::new(format!("\"{text}\" has bits set beyond its prefix"))
            .with_help(format!("did you mean \"{}\"?", network.trunc())));
    }
    Ok(network)
}

fn port(text: &str) -> Result<u16, Flaw> {
    // `parse` alone would take "+80".
    match text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u16>()) {
        Some(Ok(port)) => Ok(port),
        _ => Err(Flaw::new(format!("\"{text}\" is not a port"))
            .with_help("a port is a number from 1 to 65535; an IPv6 address stands in brackets")),
    }
}

fn unix(path: &str) -> Result<PathBuf, Flaw> {
    if path.is_empty() {
        return Err(
            Flaw::new("a unix address needs a path").with_help("write \"unix:/run/x.sock\"")
        );
    }
    if path.contains('\0') || path.len() > UNIX_PATH {
        return Err(Flaw::new(format!(
            "the path of a unix socket has at most {UNIX_PATH} bytes and no NUL"
        )));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests;
