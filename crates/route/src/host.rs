//! Hosts of requests and the tables they are looked up in.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use sluice_message::RequestHead;

use crate::spec::HostSpec;

/// No host name is longer (RFC 1035, 2.3.4); a longer one matches routes for any host only.
const MAX_HOST: usize = 255;

/// Room for a host that has to be rewritten.
pub(crate) struct HostBuffer([u8; MAX_HOST]);

impl HostBuffer {
    pub(crate) const fn new() -> Self {
        Self([0; MAX_HOST])
    }
}

/// The host a request asks for, in lower case, without port and trailing dot.
#[inline]
pub(crate) fn host_of<'a>(head: &'a RequestHead, buffer: &'a mut HostBuffer) -> &'a [u8] {
    let authority = head.authority();
    match plain_host(authority) {
        Some(host) => without_dot(host),
        None => folded(head.host(), buffer),
    }
}

/// The host of an authority that holds no capital letter. Eight bytes at a time, because this is
/// asked of every request.
#[inline]
fn plain_host(authority: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    let (words, tail) = authority.as_chunks::<8>();
    for &word in words {
        let word = u64::from_le_bytes(word);
        if may_need_folding(word) {
            return None;
        }
        if let Some(colon) = colon(word) {
            return authority.get(..at + colon);
        }
        at += 8;
    }
    for &byte in tail {
        if may_need_folding(u64::from(byte)) {
            return None;
        }
        if byte == b':' {
            return authority.get(..at);
        }
        at += 1;
    }
    Some(authority)
}

/// Whether a byte is one of `@A-Z[\]^_` (bit 6 set, bit 5 clear): capitals, and the bracket of IPv6.
#[inline]
const fn may_need_folding(word: u64) -> bool {
    word & !(word << 1) & 0x4040_4040_4040_4040 != 0
}

/// The place of the first colon among eight bytes.
#[inline]
fn colon(word: u64) -> Option<usize> {
    let zeroed = word ^ 0x3a3a_3a3a_3a3a_3a3a;
    let hits = zeroed.wrapping_sub(0x0101_0101_0101_0101) & !zeroed & 0x8080_8080_8080_8080;
    (hits != 0).then(|| usize::try_from(hits.trailing_zeros() / 8).unwrap_or_default())
}

#[inline]
const fn without_dot(host: &[u8]) -> &[u8] {
    match host {
        [name @ .., b'.'] => name,
        _ => host,
    }
}

#[cold]
fn folded<'a>(host: &[u8], buffer: &'a mut HostBuffer) -> &'a [u8] {
    let host = without_dot(host);
    let Some(out) = buffer.0.get_mut(..host.len()) else { return b"" };
    for (lower, byte) in out.iter_mut().zip(host) {
        *lower = byte.to_ascii_lowercase();
    }
    out
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
    } else if host.len() > MAX_HOST - 1 {
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

/// Hosts with routes of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    exact: HashMap<Box<[u8]>, u32, RandomState>,
    wildcards: HashMap<Box<[u8]>, u32, RandomState>,
    /// Bit `n` stands for a wildcard of `n` bytes: spares the look-up of the other suffixes.
    lengths: [u64; 4],
}

impl Hosts {
    pub(crate) fn insert(&mut self, key: HostKey, site: u32) {
        match key {
            HostKey::Exact(host) => {
                self.exact.insert(host.into(), site);
            }
            HostKey::Wildcard(suffix) => {
                if let Some(word) = self.lengths.get_mut(suffix.len() / 64) {
                    *word |= 1 << (suffix.len() % 64);
                }
                self.wildcards.insert(suffix.into(), site);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty()
    }

    #[inline]
    pub(crate) fn exact(&self, host: &[u8]) -> Option<u32> {
        self.exact.get(host).copied()
    }

    pub(crate) fn has_wildcards(&self) -> bool {
        !self.wildcards.is_empty()
    }

    /// The wildcards that match `host`, the longest first.
    pub(crate) fn wildcards<'a>(&'a self, host: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        // At least one byte stands before the dot: `.example.com` is below nothing.
        let dots = host.iter().enumerate().skip(1).filter(|&(_, &byte)| byte == b'.');
        dots.filter_map(|(at, _)| host.get(at..)).filter_map(|suffix| {
            let word = self.lengths.get(suffix.len() / 64)?;
            let known = word & (1 << (suffix.len() % 64)) != 0;
            known.then(|| self.wildcards.get(suffix).copied()).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_lose_case_port_and_dot() {
        let long = "a".repeat(256);
        let cases = [
            ("", ""),
            ("a", "a"),
            ("a.example", "a.example"),
            ("A.Example", "a.example"),
            ("a.example.", "a.example"),
            ("A.EXAMPLE.:8080", "a.example"),
            ("a.example.:8080", "a.example"),
            ("a.example:8080", "a.example"),
            ("abcdefgh:80", "abcdefgh"),
            ("abcdefg:80", "abcdefg"),
            ("under_score.example:1", "under_score.example"),
            ("[::1]:80", "[::1]"),
            ("[FE80::1]", "[fe80::1]"),
            ("127.0.0.1:8080", "127.0.0.1"),
            (&format!("{}B", "a".repeat(255)), ""),
            (&long, &long),
        ];
        for (authority, host) in cases {
            let mut head = RequestHead::new();
            head.authority = head.fields.append(authority.as_bytes()).unwrap();
            let mut buffer = HostBuffer::new();
            let got = host_of(&head, &mut buffer);
            assert_eq!(String::from_utf8_lossy(got), host, "{authority}");
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
