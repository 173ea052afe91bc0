//! The text that is signed.

use sluice_message::pair::decoded;

/// How the query stands in the text that is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedQuery {
    /// As it was sent: no parameter can be moved, doubled or left out.
    AsSent,
    /// With its parameters sorted, for clients and proxies that change their order. Parameters of one name have to
    /// stand in that order already: some origins take the first of them, others the last.
    Sorted,
}

impl SignedQuery {
    /// The query as it is signed; `None` if what it means depends on an order that is not signed.
    #[must_use]
    pub fn of(self, query: &[u8]) -> Option<Vec<u8>> {
        if self == Self::AsSent {
            return Some(query.to_vec());
        }
        let parameters = query.split(|byte| *byte == b'&').filter(|one| !one.is_empty());
        let parameters: Vec<&[u8]> = parameters.collect();
        let mut sorted = parameters.clone();
        sorted.sort_unstable();
        let ordered = parameters.iter().enumerate().all(|(place, one)| {
            let mut behind = parameters.iter().skip(place + 1);
            behind.all(|other| one <= other || !is_same_name(one, other))
        });
        ordered.then(|| sorted.join(&b'&'))
    }
}

/// Whether two parameters have one name for an origin, which decodes it.
fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    let name = |pair: &'_ [u8]| -> Vec<u8> {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        decoded(pair.get(..end).unwrap_or_default()).collect()
    };
    name(one) == name(other)
}

/// What of a request is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The path as it was sent.
    pub path: &'a [u8],
    /// The query as it is signed ([`SignedQuery`]), without its question mark; empty if there is none.
    pub query: &'a [u8],
    /// The name of the key.
    pub key: &'a str,
    /// The value of the date's field.
    pub date: &'a [u8],
    /// Signed fields: the name in lower case, and the value, several joined by `, `.
    pub fields: &'a [(&'a str, &'a [u8])],
}

/// The text that is signed, as the module's documentation describes it. No part of it can hold a line feed, so
/// that two requests never have the same text.
#[must_use]
pub fn canonical(signed: &Signed<'_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    for line in [signed.method, signed.path, signed.query, signed.key.as_bytes(), signed.date] {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    for (name, value) in signed.fields {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Signed, SignedQuery, canonical};

    const SIGNED: Signed<'_> = Signed {
        method: b"POST",
        path: b"/a%20b",
        query: b"b=2&a=1&&a=0",
        key: "reports",
        date: b"784111777",
        fields: &[("host", b"shop.example"), ("x-a", b"1, 2")],
    };

    #[test]
    fn is_what_the_documentation_says() {
        let wanted =
            "POST\n/a%20b\nb=2&a=1&&a=0\nreports\n784111777\nhost: shop.example\nx-a: 1, 2\n";
        assert_eq!(String::from_utf8(canonical(&SIGNED)).unwrap(), wanted);
        let bare = Signed { query: b"", fields: &[], ..SIGNED };
        assert_eq!(canonical(&bare), b"POST\n/a%20b\n\nreports\n784111777\n");
    }

    #[test]
    fn no_order_that_means_something_is_left_unsigned() {
        let text = |query: SignedQuery, sent: &str| {
            query.of(sent.as_bytes()).map(|text| String::from_utf8(text).unwrap())
        };
        for sent in ["", "b=2&a=1", "a=1&&b", "a=1&a=0"] {
            assert_eq!(text(SignedQuery::AsSent, sent).as_deref(), Some(sent));
        }
        let rows = [
            ("", Some("")),
            ("b=2&a=1&&c", Some("a=1&b=2&c")),
            ("b=1&a=0&a=1", Some("a=0&a=1&b=1")),
            ("a=1&a=0", None),
            ("a=1&b=2&a=0", None),
            ("b=1&%61=2&a=1", Some("%61=2&a=1&b=1")),
            ("b=1&a=1&%61=2", None),
            ("a=1&a", None),
            ("a=1&a=1", Some("a=1&a=1")),
        ];
        for (sent, expected) in rows {
            assert_eq!(text(SignedQuery::Sorted, sent).as_deref(), expected, "{sent}");
        }
    }

    #[test]
    fn every_part_counts() {
        let table = [
            Signed { method: b"PUT", ..SIGNED },
            Signed { path: b"/a b", ..SIGNED },
            Signed { query: b"b=2&a=1", ..SIGNED },
            Signed { query: b"b=2&a=0&&a=1", ..SIGNED },
            Signed { query: b"a=1&&a=0&b=2", ..SIGNED },
            Signed { key: "report", ..SIGNED },
            Signed { date: b"784111778", ..SIGNED },
            Signed { fields: &[("host", b"shop.example")], ..SIGNED },
            Signed { fields: &[("x-a", b"1, 2"), ("host", b"shop.example")], ..SIGNED },
        ];
        for other in table {
            assert_ne!(canonical(&other), canonical(&SIGNED), "{other:?}");
        }
    }
}
