//! Paths and queries that are put together: nothing in a value ends the part it stands in.

/// Appends a value to a path: what is no part of one is escaped, escapes stay (RFC 3986, 3.3). A slash stays a
/// slash.
pub(crate) fn push_path_value(value: &[u8], out: &mut Vec<u8>) {
    for (at, &byte) in value.iter().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
        if plain || (byte == b'%' && is_escape(value.get(at + 1..))) {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// Appends a value to a reference to another place: what no URL has is escaped (RFC 3986, 2), and nothing else, since a
/// value may be a part of any kind.
pub(crate) fn push_reference_value(value: &[u8], out: &mut Vec<u8>) {
    for (at, &byte) in value.iter().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte);
        if plain || (byte == b'%' && is_escape(value.get(at + 1..))) {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// Appends a name or value to a query: everything but letters, digits, `-`, `.`, `_` and `~` is escaped.
pub(crate) fn push_query_value(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// Appends a text of path and query as it stands, but for what no target can hold.
pub(crate) fn push_target(text: &[u8], out: &mut Vec<u8>) {
    for (at, &byte) in text.iter().enumerate() {
        let broken = byte == b'%' && !is_escape(text.get(at + 1..));
        if byte.is_ascii_graphic() && byte != b'#' && !broken {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// Whether this can be a host with or without a port (RFC 3986, 3.2).
pub(crate) fn is_authority(text: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(byte);
    (1..=255).contains(&text.len()) && text.iter().all(legal)
}

fn is_escape(digits: Option<&[u8]>) -> bool {
    matches!(digits, Some([high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'A' + value - 10 };
    out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_part() {
        type Push = fn(&[u8], &mut Vec<u8>);
        let rows: [(Push, &[u8], &str); 9] = [
            (push_path_value, b"a/b c?d#e", "a/b%20c%3Fd%23e"),
            (push_path_value, b"%2f%zz%", "%2f%25zz%25"),
            (push_path_value, b"\xff\r\n", "%FF%0D%0A"),
            (push_query_value, b"a=b&c d+e", "a%3Db%26c%20d%2Be"),
            (push_query_value, b"%2f", "%252f"),
            (push_target, b"/a?b=c&d", "/a?b=c&d"),
            (push_target, b"/a b#c\n", "/a%20b%23c%0A"),
            (push_target, b"/%zz%41", "/%25zz%41"),
            (push_target, b"/\xc3\xa9", "/%C3%A9"),
        ];
        for (push, text, expected) in rows {
            let mut out = Vec::new();
            push(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn authorities_are_known() {
        for text in ["a.example", "a.example:80", "[::1]:80"] {
            assert!(is_authority(text.as_bytes()), "{text}");
        }
        for text in ["", "a/b", "a b", "a@b", "a\r\nb", "caf\u{e9}"] {
            assert!(!is_authority(text.as_bytes()), "{text}");
        }
        assert!(!is_authority(&[b'a'; 256]));
    }
}
