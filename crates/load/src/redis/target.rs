//! Where a Redis server is: its URL, taken apart.

use std::path::PathBuf;

use sluice_net::Endpoint;
use sluice_net::resolve::look_up;

use super::command::array;

/// The port of a URL that names none.
const PORT: u16 = 6379;

/// Whether a target is a Redis server.
#[must_use]
pub(crate) fn is_redis(target: &str) -> bool {
    SCHEMES.iter().any(|scheme| target.starts_with(scheme))
}

const SCHEMES: [&str; 4] = ["redis://", "rediss://", "redis+unix://", "unix://"];

/// A server to put load on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) place: Location,
    /// What each connection says first: AUTH, SELECT.
    pub(crate) greeting: Vec<u8>,
    /// How many replies that makes.
    pub(crate) greetings: u32,
}

/// How it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Host(String, u16),
    Socket(PathBuf),
}

impl Server {
    /// Takes a URL apart: `redis://[[user:]password@]host[:port][/database]` or
    /// `redis+unix:///path/of/socket`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("\"{text}\" is no Redis server: {why}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        match scheme {
            "redis" => {}
            "rediss" => return Err(wrong("TLS to Redis is not supported")),
            _ if rest.starts_with('/') => {
                return Ok(Self::plain(Location::Socket(PathBuf::from(rest))));
            }
            _ => return Err(wrong("a socket has an absolute path: redis+unix:///run/redis.sock")),
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, address) = match authority.rsplit_once('@') {
            Some((credentials, address)) => (Some(credentials), address),
            None => (None, authority),
        };
        let (host, port) = host_and_port(address).ok_or_else(|| wrong("host or port is wrong"))?;
        let mut server = Self::plain(Location::Host(host, port));
        if let Some(credentials) = credentials {
            let (user, password) = credentials.split_once(':').unwrap_or(("", credentials));
            let words = [&b"AUTH"[..], user.as_bytes(), password.as_bytes()];
            server.greet(words.into_iter().filter(|word| !word.is_empty()));
        }
        if !database.is_empty() {
            database.parse::<u32>().map_err(|_| wrong("a database is a number"))?;
            server.greet([&b"SELECT"[..], database.as_bytes()].into_iter());
        }
        Ok(server)
    }

    const fn plain(place: Location) -> Self {
        Self { place, greeting: Vec::new(), greetings: 0 }
    }

    fn greet<'w>(&mut self, words: impl Iterator<Item = &'w [u8]>) {
        let words: Vec<&[u8]> = words.collect();
        array(&mut self.greeting, &words);
        self.greetings += 1;
    }

    /// Its addresses; at least one.
    ///
    /// # Errors
    /// A name without an address.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>, String> {
        match &self.place {
            Location::Socket(path) => Ok(vec![Endpoint::Unix(path.clone())]),
            Location::Host(host, port) => {
                let found = look_up(host, *port);
                let found = found.map_err(|error| format!("cannot find {host}: {error}"))?;
                match found.is_empty() {
                    true => Err(format!("cannot find {host}: the name has no address")),
                    false => Ok(found.into_iter().map(Endpoint::Tcp).collect()),
                }
            }
        }
    }
}

fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let port = if port.is_empty() { PORT } else { port.parse().ok().filter(|port| *port > 0)? };
    (!host.is_empty() && host.bytes().all(allowed)).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_servers() {
        let host = |host: &str, port| Location::Host(host.to_owned(), port);
        let auth = "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$2\r\npw\r\n";
        let rows = [
            ("redis://127.0.0.1", host("127.0.0.1", 6379), "", 0),
            ("redis://h:7000/", host("h", 7000), "", 0),
            ("redis://[::1]:1", host("::1", 1), "", 0),
            ("redis://u:pw@h", host("h", 6379), auth, 1),
            ("redis://pw@h", host("h", 6379), "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n", 1),
            ("redis://h/3", host("h", 6379), "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n", 1),
            ("redis+unix:///a/b", Location::Socket("/a/b".into()), "", 0),
            ("unix:///a/b", Location::Socket("/a/b".into()), "", 0),
        ];
        for (text, place, greeting, greetings) in rows {
            let greeting = greeting.as_bytes().to_vec();
            assert_eq!(Server::parse(text), Ok(Server { place, greeting, greetings }), "{text}");
            assert!(is_redis(text));
        }
        for text in [
            "redis://",
            "redis://h:0",
            "redis://h:x",
            "rediss://h",
            "redis://h/x",
            "unix://a",
            "redis://[x]",
        ] {
            assert!(Server::parse(text).is_err(), "{text}");
        }
        assert!(!is_redis("http://h/"));
    }
}
