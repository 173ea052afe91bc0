//! The text that is signed.

/// What of a request is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The path as it was sent.
    pub path: &'a [u8],
    /// The query as it was sent, without its question mark; empty if there is none.
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
    let mut parameters: Vec<&[u8]> =
        signed.query.split(|byte| *byte == b'&').filter(|one| !one.is_empty()).collect();
    parameters.sort_unstable();
    let query = parameters.join(&b'&');
    let mut text = Vec::with_capacity(256);
    for line in [signed.method, signed.path, &query, signed.key.as_bytes(), signed.date] {
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
    use super::{Signed, canonical};

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
            "POST\n/a%20b\na=0&a=1&b=2\nreports\n784111777\nhost: shop.example\nx-a: 1, 2\n";
        assert_eq!(String::from_utf8(canonical(&SIGNED)).unwrap(), wanted);
        let bare = Signed { query: b"", fields: &[], ..SIGNED };
        assert_eq!(canonical(&bare), b"POST\n/a%20b\n\nreports\n784111777\n");
    }

    #[test]
    fn every_part_counts() {
        let table = [
            Signed { method: b"PUT", ..SIGNED },
            Signed { path: b"/a b", ..SIGNED },
            Signed { query: b"b=2&a=1", ..SIGNED },
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
