//! What is asked: a URL, taken apart and checked.

use sluice_net::Endpoint;
use sluice_net::resolve::look_up;

#[cfg(test)]
mod tests;

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// `http://`
    Plain,
    /// `https://`
    Tls,
}

/// A URL to send requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The URL as given.
    pub text: String,
    /// Whether the connection is encrypted.
    pub security: Security,
    /// Name or address, without the brackets of an IPv6 address.
    pub host: String,
    /// Port; that of the scheme if none is given.
    pub port: u16,
    /// Host and port as `Host` wants them (RFC 9110, 7.2): without the scheme's own port.
    pub authority: String,
    /// Path and query, at least `/` (RFC 9112, 3.2.1).
    pub path: String,
    /// `user:password`, if the URL holds one.
    pub credentials: Option<String>,
}

impl Target {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// What is wrong with it, in words for whoever typed it.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text).map_err(|why| format!("\"{text}\" is no URL to send requests to: {why}"))
    }

    /// Where to connect to; several addresses if the name has several. It asks the name servers and
    /// waits for them.
    ///
    /// # Errors
    /// The name has no address, in words.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, String> {
        let found = look_up(&self.host, self.port);
        let found = found.map_err(|error| format!("cannot find {}: {error}", self.host))?;
        match found.is_empty() {
            true => Err(format!("cannot find {}: the name has no address", self.host)),
            false => Ok(found.into_iter().map(Endpoint::Tcp).collect()),
        }
    }
}

fn parse(text: &str) -> Result<Target, String> {
    if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic()) {
        let shown = bad.escape_debug();
        return Err(format!("'{shown}' may not stand in it; write it percent-encoded, like %20"));
    }
    let (security, rest) = scheme(text)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let (credentials, host_port) = match authority.rsplit_once('@') {
        Some((credentials, rest)) => (Some(decoded(credentials)?), rest),
        None => (None, authority),
    };
    let own_port = match security {
        Security::Plain => 80,
        Security::Tls => 443,
    };
    let (host, port) = host_and_port(host_port)?;
    let port = port.unwrap_or(own_port);
    let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let authority = if port == own_port { shown } else { format!("{shown}:{port}") };
    // A fragment is the browser's own business (RFC 9110, 7.1).
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let (text, host) = (text.to_owned(), host.to_owned());
    Ok(Target { text, security, host, port, authority, path, credentials })
}

fn scheme(text: &str) -> Result<(Security, &str), String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("it has no scheme; write \"http://{text}\""));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((Security::Plain, rest)),
        "https" => Ok((Security::Tls, rest)),
        _ => Err(format!("the scheme \"{scheme}\" is none of http, https, redis")),
    }
}

fn host_and_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("the bracket is not closed")?;
            host.parse::<std::net::Ipv6Addr>()
                .map_err(|_| format!("\"{host}\" is no IPv6 address"))?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err("only a port may follow the bracket".to_owned()),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("it names no host".to_owned());
    }
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:%".contains(&byte);
    if !host.bytes().all(good) {
        return Err(format!("\"{host}\" is no host"));
    }
    match port {
        // An empty port is the scheme's own (RFC 3986, 3.2.3).
        None | Some("") => Ok((host, None)),
        Some(digits) => match digits.parse::<u16>() {
            Ok(number @ 1..) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Ok((host, Some(number)))
            }
            _ => Err(format!("\"{digits}\" is no port; ports are 1 to 65535")),
        },
    }
}

/// Text without its percent-encoding.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.ok_or("a % is not followed by two hexadecimal digits")?);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| "the user name is not UTF-8".to_owned())
}
