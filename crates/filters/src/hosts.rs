//! Patterns of host names, and the host that a reference (`Referer`, `Origin`) names.

use std::collections::HashSet;

/// Host names, asked for one at flat cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    exact: HashSet<Box<str>>,
    /// What stands behind `*.`; any name that ends with it and is longer.
    below: HashSet<Box<str>>,
}

impl Hosts {
    /// Reads patterns: `shop.example`, or `*.shop.example` for every name below it.
    ///
    /// # Errors
    /// The first pattern that is none, counted from zero.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, usize> {
        let mut hosts = Self::default();
        for (index, pattern) in patterns.into_iter().enumerate() {
            let pattern = pattern.to_ascii_lowercase();
            let (set, name) = match pattern.strip_prefix("*.") {
                Some(name) => (&mut hosts.below, name),
                None => (&mut hosts.exact, pattern.as_str()),
            };
            if !is_host(name.as_bytes()) {
                return Err(index);
            }
            set.insert(name.into());
        }
        Ok(hosts)
    }

    /// Whether a pattern fits `host`, whatever the case of its letters.
    #[must_use]
    pub fn matches(&self, host: &[u8]) -> bool {
        // What is no host cannot be one of them.
        if !is_host(host) {
            return false;
        }
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let host = host.to_ascii_lowercase();
        self.exact.contains(host.as_str())
            || host
                .match_indices('.')
                .any(|(at, _)| host.get(at + 1..).is_some_and(|end| self.below.contains(end)))
    }

    /// Whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.below.is_empty()
    }
}

/// A name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(text: &[u8]) -> bool {
    if let Some(inner) = text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
        return std::str::from_utf8(inner)
            .is_ok_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.len() <= 253
        && text
            .split(|byte| *byte == b'.')
            .all(|label| (1..=63).contains(&label.len()) && label.iter().all(|byte| letter(*byte)))
}

/// The host in an absolute URL (RFC 3986, 3.2), as it stands there; `None` if there is none.
#[must_use]
pub fn host_of(url: &[u8]) -> Option<&[u8]> {
    authority_of(url).and_then(without_port)
}

/// What stands between `//` and the path, if the scheme is one of the web and no user is named. A browser
/// sends no user, and `https://good.example@evil.example/` is there to be misread.
#[must_use]
pub fn authority_of(url: &[u8]) -> Option<&[u8]> {
    let scheme = [&b"https://"[..], b"http://"].into_iter().find(|scheme| {
        url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    })?;
    let rest = url.get(scheme.len()..)?;
    // Browsers take a backslash for a slash.
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#' | b'\\'));
    let authority = rest.get(..end.unwrap_or(rest.len()))?;
    (!authority.contains(&b'@')).then_some(authority)
}

/// Without the port, which has to be a number if there is one.
#[must_use]
pub fn without_port(authority: &[u8]) -> Option<&[u8]> {
    let behind = match authority.iter().position(|byte| *byte == b']') {
        Some(bracket) => bracket + 1,
        None => 0,
    };
    let colon = authority.get(behind..)?.iter().position(|byte| *byte == b':');
    let Some(colon) = colon else { return Some(authority) };
    let port = authority.get(behind + colon + 1..)?;
    let digits = port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    digits.then(|| authority.get(..behind + colon)).flatten()
}

#[cfg(test)]
mod tests {
    use super::{Hosts, host_of};

    #[test]
    fn patterns_fit_whole_names() {
        let hosts = Hosts::new(["shop.example", "*.Cdn.example", "127.0.0.1", "[::1]"]).unwrap();
        for host in [
            "shop.example",
            "SHOP.example",
            "a.cdn.example",
            "a.b.cdn.example",
            "127.0.0.1",
            "[::1]",
        ] {
            assert!(hosts.matches(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            "example",
            "xshop.example",
            "shop.example.evil",
            "a.shop.example",
            "cdn.example",
            "evilcdn.example",
            ".cdn.example",
            "shop.example.",
            "shop.example\0",
            "[::2]",
        ] {
            assert!(!hosts.matches(host.as_bytes()), "{host}");
        }
        assert_eq!(Hosts::new(["ok.example", "not ok"]).unwrap_err(), 1);
        for wrong in ["", "*", "*.", "a.*", "http://a", "a:80", "a/b", "*.*.a", "[::"] {
            assert!(Hosts::new([wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn finds_the_host_of_a_url() {
        let table: [(&str, Option<&str>); 16] = [
            ("https://shop.example/a?b#c", Some("shop.example")),
            ("HTTP://Shop.example", Some("Shop.example")),
            ("https://shop.example:8443/", Some("shop.example")),
            ("https://shop.example?x=/", Some("shop.example")),
            ("https://[::1]:80/", Some("[::1]")),
            ("https://[::1]", Some("[::1]")),
            ("https://good.example@evil.example/", None),
            ("https://evil.example\\@good.example/", Some("evil.example")),
            ("https://evil.example/https://good.example", Some("evil.example")),
            ("https://a:x/", None),
            ("//shop.example/", None),
            ("ftp://shop.example/", None),
            ("about:blank", None),
            ("null", None),
            ("https://", Some("")),
            ("", None),
        ];
        for (url, wanted) in table {
            assert_eq!(host_of(url.as_bytes()), wanted.map(str::as_bytes), "{url}");
        }
    }
}
