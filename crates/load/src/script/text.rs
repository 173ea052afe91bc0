//! Appends numbers and escaped bytes to a buffer without allocating.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Appends a number in decimal digits.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    push_padded(out, number, 1);
}

/// Appends a signed number in decimal digits.
pub(crate) fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_number(out, number.unsigned_abs());
}

/// Appends a number with at least `width` digits.
pub(crate) fn push_padded(out: &mut Vec<u8>, number: u64, width: usize) {
    let start = out.len();
    let mut rest = number;
    loop {
        out.push(b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0)));
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    while out.len().saturating_sub(start) < width {
        out.push(b'0');
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// Makes what was appended since `start` fit for a request target: bytes that may not stand there
/// (RFC 3986, 2 and 3.3) are percent-encoded, the rest is left as it is.
pub(crate) fn escape_target(out: &mut Vec<u8>, start: usize, scratch: &mut Vec<u8>) {
    let Some(tail) = out.get(start..) else { return };
    if tail.iter().all(|byte| may_stand(*byte)) {
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(tail);
    out.truncate(start);
    for byte in scratch.iter() {
        if may_stand(*byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 15)]);
        }
    }
}

/// Makes what was appended since `start` fit for a field value: a control character would end the
/// line and begin another one (RFC 9110, 5.5).
pub(crate) fn tame_field(out: &mut [u8], start: usize) {
    for byte in out.iter_mut().skip(start) {
        if byte.is_ascii_control() && *byte != b'\t' {
            *byte = b' ';
        }
    }
}

const fn may_stand(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#')
}

const fn hex(digit: u8) -> u8 {
    if digit < 10 { b'0'.saturating_add(digit) } else { b'A'.saturating_add(digit - 10) }
}

/// Appends bytes in base64 with padding (RFC 4648, section 4).
pub(crate) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start.saturating_add(bytes.len().div_ceil(3).saturating_mul(4)), 0);
    let room = out.get_mut(start..).unwrap_or_default();
    // The room is exactly what padded base64 takes, so that it cannot be too small.
    let written = STANDARD.encode_slice(bytes, room).unwrap_or(0);
    out.truncate(start.saturating_add(written));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (number, width, expected) in
            [(0, 1, "0"), (7, 2, "07"), (1234, 2, "1234"), (u64::MAX, 1, "18446744073709551615")]
        {
            let mut out = b"x".to_vec();
            push_padded(&mut out, number, width);
            assert_eq!(out, format!("x{expected}").as_bytes());
        }
        let mut out = Vec::new();
        push_signed(&mut out, i64::MIN);
        assert_eq!(out, i64::MIN.to_string().as_bytes());
    }

    #[test]
    fn bytes_that_would_break_a_request_do_not() {
        let mut out = b"/a b?q=".to_vec();
        out.extend_from_slice("x y\r\nü%41\"#".as_bytes());
        escape_target(&mut out, 7, &mut Vec::new());
        assert_eq!(String::from_utf8_lossy(&out), "/a b?q=x%20y%0D%0A%C3%BC%41%22%23");
        let mut out = b"a\r\nb\tc".to_vec();
        tame_field(&mut out, 0);
        assert_eq!(out, b"a  b\tc");
    }

    #[test]
    fn base64_of_the_rfc() {
        for (plain, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            push_base64(&mut out, plain.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
