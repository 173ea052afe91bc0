//! Hosts of requests and the tables they are looked up in.

use sluice_message::RequestHead;

use crate::name::{ANY_CASE, Names};
use crate::spec::HostSpec;
use crate::word::position;

/// No host name is longer (RFC 1035, 2.3.4).
const MAX_HOST: usize = 254;

/// The host a request asks for, without port and trailing dot, in whatever case.
#[inline]
pub(crate) fn host_of(head: &RequestHead) -> &[u8] {
    let authority = head.authority();
    // As `RequestHead::host` does, but without a step per byte.
    let host = if authority.first() == Some(&b'[') {
        head.host()
    } else {
        let end = position(authority, b':').unwrap_or(authority.len());
        authority.get(..end).unwrap_or_default()
    };
    without_dot(host)
}

#[inline]
const fn without_dot(host: &[u8]) -> &[u8] {
    match host {
        [name @ .., b'.'] => name,
        _ => host,
    }
}

/// A host of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostKey {
    Exact(Vec<u8>),
    /// With its leading dot.
    Wildcard(Vec<u8>),
}

impl HostKey {
    pub(crate) fn parse(spec: &HostSpec) -> Result<Self, String> {
        match spec {
            HostSpec::Exact(text) => name(text, text).map(Self::Exact),
            HostSpec::Wildcard(text) => {
                let Some(domain) = text.strip_prefix('.') else {
                    return Err(format!("the host wildcard '{text}' does not start with a dot"));
                };
                let mut key = vec![b'.'];
                key.extend(name(domain, text)?);
                Ok(Self::Wildcard(key))
            }
        }
    }
}

fn name(host: &str, text: &str) -> Result<Vec<u8>, String> {
    let host = without_dot(host.as_bytes()).to_ascii_lowercase();
    let address = host.first() == Some(&b'[') && host.last() == Some(&b']');
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()+,;=%".contains(byte);
    let problem = if host.is_empty() {
        "is empty"
    } else if host.len() > MAX_HOST {
        "is longer than a host name can be"
    } else if !host.is_ascii() {
        "is not ASCII: write an international name in its 'xn--' form"
    } else if host.contains(&b'*') {
        "has a '*' in a place other than its start"
    } else if !address && host.contains(&b':') {
        "has a port: routes go by the name alone; an IPv6 address stands in brackets"
    } else if !address && (!host.iter().all(allowed) || host.starts_with(b".")) {
        "is no host name"
    } else {
        return Ok(host);
    };
    Err(format!("the host '{text}' {problem}"))
}

/// Hosts with routes of their own, and the site of each.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    exact: Names<u32, ANY_CASE>,
    wildcards: Names<u32, ANY_CASE>,
    /// Bit `n` stands for a wildcard of `n` bytes: spares the look-up of the other suffixes.
    lengths: [u64; 4],
    /// Length of the shortest wildcard; the largest number if there is none.
    shortest: usize,
}

impl Hosts {
    pub(crate) fn new(hosts: Vec<(HostKey, u32)>) -> Self {
        let (mut exact, mut wildcards, mut lengths) = (Vec::new(), Vec::new(), [0_u64; 4]);
        for (host, site) in hosts {
            match host {
                HostKey::Exact(host) => exact.push((host, site)),
                HostKey::Wildcard(suffix) => {
                    if let Some(word) = lengths.get_mut(suffix.len() / 64) {
                        *word |= 1 << (suffix.len() % 64);
                    }
                    wildcards.push((suffix, site));
                }
            }
        }
        let shortest = wildcards.iter().map(|(suffix, _)| suffix.len()).min().unwrap_or(usize::MAX);
        Self { exact: Names::new(exact), shortest, wildcards: Names::new(wildcards), lengths }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty()
    }

    #[inline]
    pub(crate) fn exact(&self, host: &[u8]) -> Option<u32> {
        self.exact.find(host)
    }

    /// Whether a wildcard may match `host`: spares most tables the search.
    #[inline]
    pub(crate) const fn may_be_below(&self, host: &[u8]) -> bool {
        host.len() > self.shortest
    }

    /// The wildcards that match `host`, the longest first.
    pub(crate) fn wildcards<'a>(&'a self, host: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let mut rest = host;
        std::iter::from_fn(move || {
            loop {
                if !self.may_be_below(rest) {
                    return None;
                }
                // At least one byte stands before the dot: `.example.com` is below nothing.
                let at = position(rest.get(1..)?, b'.')? + 1;
                rest = rest.get(at..)?;
                if self.has_length(rest.len())
                    && let Some(site) = self.wildcards.find(rest)
                {
                    return Some(site);
                }
            }
        })
    }

    #[inline]
    fn has_length(&self, length: usize) -> bool {
        self.lengths.get(length / 64).is_some_and(|word| word & (1 << (length % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_lose_port_and_dot() {
        let cases = [
            ("", ""),
            (".", ""),
            (":80", ""),
            ("a", "a"),
            ("a.example", "a.example"),
            ("a.example.", "a.example"),
            ("A.EXAMPLE.:8080", "A.EXAMPLE"),
            ("a.example:8080", "a.example"),
            ("abcdefgh:80", "abcdefgh"),
            ("abcdefg:80", "abcdefg"),
            ("[::1]:80", "[::1]"),
            ("[FE80::1]", "[FE80::1]"),
            ("127.0.0.1:8080", "127.0.0.1"),
        ];
        for (authority, host) in cases {
            let mut head = RequestHead::new();
            head.authority = head.fields.append(authority.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(host_of(&head)), host, "{authority}");
            assert_eq!(host_of(&head), without_dot(head.host()), "{authority}");
        }
    }

    #[test]
    fn configured_hosts_are_checked() {
        for bad in ["", ".", ".a", "a:80", "a b", "*.a", "a*", "ä.example", "::1", "a/b"] {
            assert!(HostKey::parse(&HostSpec::Exact(bad.to_owned())).is_err(), "{bad}");
        }
        for bad in ["", ".", "a.example", "..a", "*.a"] {
            assert!(HostKey::parse(&HostSpec::Wildcard(bad.to_owned())).is_err(), "{bad}");
        }
        let key = HostKey::parse(&HostSpec::Wildcard(".A.Example.".to_owned())).unwrap();
        assert_eq!(key, HostKey::Wildcard(b".a.example".to_vec()));
    }
}
