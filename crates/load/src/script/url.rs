//! The URL of a request, taken apart: where it goes and what it asks for there.

use super::environment::place;
use super::problem::{Report, Span};

/// A URL in the parts a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// Scheme and authority, without credentials: `http://host:port`.
    pub(crate) origin: String,
    /// What the Host field says.
    pub(crate) authority: String,
    /// Path and query, perhaps with templates; begins with a slash.
    pub(crate) target: String,
    /// A user's name and password, if the URL has them.
    pub(crate) credentials: Option<(String, String)>,
}

impl Url {
    /// Takes a URL apart; one that begins with a slash goes to `endpoint`.
    pub(crate) fn read(
        (text, span): (&str, Span),
        endpoint: Option<&(String, Span)>,
        report: &mut Report<'_>,
    ) -> Option<Self> {
        if !text.starts_with('/') {
            return split(text, span, report);
        }
        let Some((endpoint, at)) = endpoint else {
            report.error(span, "this URL begins with a path, and `runner` has no default_endpoint");
            return None;
        };
        let base = split(endpoint, *at, report)?;
        let prefix = base.target.trim_end_matches('/');
        Some(Self { target: format!("{prefix}{text}"), ..base })
    }
}

fn split(text: &str, span: Span, report: &mut Report<'_>) -> Option<Url> {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let scheme = ["http://", "https://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let Some(scheme) = scheme else {
        report.error(span, "a URL begins with http:// or https://, or with a slash");
        return None;
    };
    let rest = text.get(scheme.len()..).unwrap_or_default();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    if authority.contains("$[[") {
        let at = place(report.text(), span, authority);
        report.error(at, "the host cannot change from request to request; use `env` for it");
        return None;
    }
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if !is_host(host) {
        report.error(span, format!("`{host}` is no host with an optional port"));
        return None;
    }
    let credentials = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        (unescaped(name), unescaped(password))
    });
    let target = match target.as_bytes().first() {
        Some(b'/') => target.to_owned(),
        // RFC 9112, 3.2.1: an empty path is sent as a slash.
        Some(b'?') => format!("/{target}"),
        _ => "/".to_owned(),
    };
    let origin = format!("{scheme}{host}");
    Some(Url { origin, authority: host.to_owned(), target, credentials })
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if name.parse::<std::net::Ipv6Addr>().is_ok() => (name, port),
            _ => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let good_port = match port.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok_and(|port| port > 0),
        None => port.is_empty(),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    good_port && !name.is_empty() && name.bytes().all(allowed)
}

/// Percent-decodes what a URL has of a user.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = match first {
            b'%' => after
                .get(..2)
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        out.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(origin: &str, target: &str, credentials: Option<(&str, &str)>) -> Option<Url> {
        let authority = origin.split_once("://").unwrap_or_default().1.to_owned();
        let credentials = credentials.map(|(a, b)| (a.to_owned(), b.to_owned()));
        Some(Url { origin: origin.to_owned(), authority, target: target.to_owned(), credentials })
    }

    #[test]
    fn urls_in_parts() {
        let rows = [
            ("http://a", url("http://a", "/", None)),
            ("HTTP://a:80/x?y", url("http://a:80", "/x?y", None)),
            ("https://[::1]:9200?q=$[[x]]", url("https://[::1]:9200", "/?q=$[[x]]", None)),
            ("http://u:p%40@h/", url("http://h", "/", Some(("u", "p@")))),
            ("/b", url("http://base:1", "/a/b", Some(("e", "")))),
            ("http://", None),
            ("http://a:0/", None),
            ("http://a:x/", None),
            ("http://[::1/", None),
            ("http://$[[h]]/", None),
            ("ftp://a", None),
            ("a", None),
            ("ü", None),
            ("http://é/", None),
        ];
        let endpoint = ("http://e@base:1/a/".to_owned(), Span::default());
        for (text, expected) in rows {
            let mut report = Report::new("f", text);
            let span = Span::new(0, text.len());
            let read = Url::read((text, span), Some(&endpoint), &mut report);
            assert_eq!(read, expected, "{text}");
            assert_eq!(report.finish().is_ok(), expected.is_some(), "{text}");
        }
    }
}
