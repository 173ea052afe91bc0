//! Texts inside URLs and forms.

/// As a part of a query or a form: everything but unreserved characters is escaped (RFC 3986, 2.3).
pub(super) fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Pairs as a query or a form.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    pairs.join("&")
}

/// A URL with more parameters.
pub(super) fn with_query(url: &str, query: &str) -> String {
    let join = if url.contains('?') { '&' } else { '?' };
    format!("{url}{join}{query}")
}

/// Where somebody may be sent after signing in: a path of ours and nothing that a browser takes for another
/// host.
pub(super) fn is_local(target: &str) -> bool {
    let plain = target.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b'\\');
    plain && target.starts_with('/') && !target.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::{escaped, form, is_local, with_query};

    #[test]
    fn nothing_ends_a_parameter() {
        assert_eq!(escaped("a b&c=d%\r\n/ä~"), "a%20b%26c%3Dd%25%0D%0A%2F%C3%A4~");
        assert_eq!(form(&[("a", "1&2"), ("b", "")]), "a=1%262&b=");
        assert_eq!(with_query("https://x/y", "a=1"), "https://x/y?a=1");
        assert_eq!(with_query("https://x/y?z=0", "a=1"), "https://x/y?z=0&a=1");
    }

    #[test]
    fn nobody_is_sent_elsewhere() {
        for good in ["/", "/a?b=//c", "/a%20b"] {
            assert!(is_local(good), "{good}");
        }
        for bad in
            ["", "a", "//evil.example", "/\\evil.example", "https://x", "/a\r\nb", "/a b", "/ä"]
        {
            assert!(!is_local(bad), "{bad}");
        }
    }
}
