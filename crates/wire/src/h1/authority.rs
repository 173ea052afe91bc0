//! Host and port as they stand in `Host` and in request targets (RFC 3986, 3.2).

use super::scan::{Lanes, first, is_reg_name, read_block};

/// Whether the first `length` bytes of `rest` are `uri-host [ ":" port ]` with a host that is not
/// empty.
///
/// RFC 9110, 4.2.1 and 4.2.2 reject an `http` or `https` URI with an empty host, and a request in
/// origin form takes its authority from `Host`; so an empty `Host` names nothing here either.
/// User information is refused as RFC 9110, 4.2.4 asks: `@` is no character of a host.
#[inline(always)]
pub(crate) fn is_authority(rest: &[u8], length: usize) -> bool {
    // The bytes behind the authority take part in the comparisons and are cut off after them.
    read_block!(block, rest);
    let lanes = Lanes::new(block);
    let host = first(!lanes.plain());
    if host >= length {
        return length > 0;
    }
    // A port of at most four digits needs no arithmetic, one of five compares as text.
    let behind = length - host;
    let digits = first(!lanes.digits() >> 1 >> host);
    if lanes.equal(b':') >> host & 1 == 1 && digits + 1 >= behind && behind <= 6 && host > 0 {
        return behind < 6 || rest.get(host + 1..length).is_some_and(|port| port <= b"65535");
    }
    rest.get(..length).is_some_and(is_rare_authority)
}

/// Whether `authority` ends in a port that is not empty; CONNECT has no default port
/// (RFC 9110, 9.3.6).
pub(crate) fn has_port(authority: &[u8]) -> bool {
    match authority.iter().rposition(|byte| !byte.is_ascii_digit()) {
        Some(colon) => {
            authority.get(colon) == Some(&b':') && colon > 0 && colon + 1 < authority.len()
        }
        None => false,
    }
}

/// Whether two authorities are one: letters compare without case, and the port of the scheme may be left out
/// (RFC 3986, 6.2.2.1 and 6.2.3).
#[cold]
pub(crate) fn is_same_authority(one: &[u8], other: &[u8], default_port: &[u8]) -> bool {
    let plain = |authority: &'_ [u8]| -> usize {
        let Some(colon) = authority.iter().rposition(|byte| !byte.is_ascii_digit()) else {
            return authority.len();
        };
        let digits = authority.get(colon + 1..).unwrap_or_default();
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        let port = digits.get(zeros..).unwrap_or_default();
        let usual = digits.is_empty() || port == default_port;
        if authority.get(colon) == Some(&b':') && usual { colon } else { authority.len() }
    };
    let (one, other) = (one.get(..plain(one)), other.get(..plain(other)));
    one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
}

/// Digits of a number that fits 16 bits; none at all is allowed (RFC 3986, 3.2.3).
#[inline]
fn is_port(digits: &[u8]) -> bool {
    let mut port = 0_u32;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return false;
        }
        port = port * 10 + u32::from(value);
        if port > u32::from(u16::MAX) {
            return false;
        }
    }
    true
}

#[cold]
fn is_rare_authority(authority: &[u8]) -> bool {
    if let Some(rest) = authority.strip_prefix(b"[") {
        let Some(close) = rest.iter().position(|&byte| byte == b']') else { return false };
        let (address, after) = rest.split_at_checked(close).unwrap_or_default();
        return is_ipv6(address)
            && match after.strip_prefix(b"]") {
                Some([]) => true,
                Some([b':', port @ ..]) => is_port(port),
                _ => false,
            };
    }
    let host_end = authority.iter().position(|&byte| byte == b':').unwrap_or(authority.len());
    let (host, after) = authority.split_at_checked(host_end).unwrap_or_default();
    !host.is_empty() && is_host_name(host) && is_port(after.strip_prefix(b":").unwrap_or_default())
}

/// `reg-name` (RFC 3986, 3.2.2): its characters and escapes. An escaped NUL is no part of a name.
fn is_host_name(mut host: &[u8]) -> bool {
    while let Some((&byte, rest)) = host.split_first() {
        host = match (byte, rest) {
            (b'%', [b'0', b'0', ..]) => return false,
            (b'%', [high, low, rest @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                rest
            }
            _ if is_reg_name(byte) => rest,
            _ => return false,
        };
    }
    true
}

/// An IPv6 address without zone; IPvFuture is in no use and refused.
fn is_ipv6(address: &[u8]) -> bool {
    str::from_utf8(address).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let cases = [
            ("a", true),
            ("a.example", true),
            ("a.example:80", true),
            ("a.example:", true),
            ("a.example:65535", true),
            ("a.example:00080", true),
            ("a.example:65536", false),
            ("a.example:99999999999999999999", false),
            ("a.example:8a", false),
            ("a.example:80:80", false),
            ("a.example:-1", false),
            ("", false),
            (":80", false),
            ("127.0.0.1:8080", true),
            ("[::1]", true),
            ("[::1]:8080", true),
            ("[::1]:", true),
            ("[::ffff:1.2.3.4]", true),
            ("[::1", false),
            ("[]", false),
            ("[::1]x", false),
            ("[::1]8080", false),
            ("[v1.a]", false),
            ("[fe80::1%25eth0]", false),
            ("::1", false),
            ("user@a.example", false),
            ("user:pw@a.example", false),
            ("a/b", false),
            ("a b", false),
            ("a,b", true),
            ("a_b.example", true),
            ("a%41", true),
            ("a%4", false),
            ("a%zz", false),
            ("a%00", false),
            ("a\u{e4}.example", false),
            ("a\\b", false),
            ("a?b", false),
            ("a-name-longer-than-sixteen.letters.example", true),
            ("a-name-longer-than-sixteen.letters.example:8080", true),
            ("a-name-longer-than-sixteen.letters.example:x", false),
            ("sixteen.letters.:80", true),
            ("sixteen.letters.", true),
            ("sixteen.letters.x", true),
        ];
        for (authority, valid) in cases {
            for around in ["", "x", "/", ":1", "\r\n then sixteen bytes and more"] {
                let text = format!("{around}{authority}{around}");
                let rest = &text.as_bytes()[around.len()..];
                assert_eq!(is_authority(rest, authority.len()), valid, "{text:?}");
            }
        }
    }

    #[test]
    fn authorities_are_compared_in_their_normal_form() {
        for (one, other, same) in [
            ("a.example", "A.Example", true),
            ("a.example:443", "a.example", true),
            ("a.example:", "a.example:0443", true),
            ("a.example:80", "a.example", false),
            ("a.example:8443", "a.example:8443", true),
            ("a.example:8443", "a.example", false),
            ("[::1]:443", "[::1]", true),
            ("[::443]", "[::]", false),
            ("a.example.", "a.example", false),
            ("443", "", false),
            ("1.2.3.4", "1.2.3.4:443", true),
            ("1.2.3.443", "1.2.3.", false),
        ] {
            let (one, other) = (one.as_bytes(), other.as_bytes());
            assert_eq!(is_same_authority(one, other, b"443"), same, "{}", one.escape_ascii());
            assert_eq!(is_same_authority(other, one, b"443"), same, "{}", one.escape_ascii());
        }
    }

    #[test]
    fn ports_of_connect() {
        let cases =
            [("a:80", true), ("[::1]:1", true), ("a", false), ("a:", false), ("[::1]", false)];
        for (authority, has) in cases {
            assert_eq!(has_port(authority.as_bytes()), has, "{authority}");
        }
        assert!(!has_port(b"80"));
    }
}
