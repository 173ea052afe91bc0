//! Numbers as they stand in heads and chunk sizes.

/// Appends `value` in decimal digits, and `end`.
#[inline]
pub(super) fn write_decimal(out: &mut Vec<u8>, value: u64, end: [u8; 2]) {
    write_digits::<10>(out, value, end);
}

/// Appends `value` in lower-case hexadecimal digits (RFC 9112, 7.1), and `end`.
#[inline]
pub(super) fn write_hex(out: &mut Vec<u8>, value: u64, end: [u8; 2]) {
    write_digits::<16>(out, value, end);
}

/// One copy for digits and end: it costs more than making them.
#[inline(always)]
fn write_digits<const BASE: u64>(out: &mut Vec<u8>, mut value: u64, end: [u8; 2]) {
    // 20 digits: u64::MAX in decimal.
    let mut text = [0_u8; 22];
    let mut start = 20;
    if let Some((digits, rest)) = text.split_last_chunk_mut() {
        *rest = end;
        for slot in digits.iter_mut().rev() {
            let digit = u8::try_from(value % BASE).unwrap_or(0);
            *slot = if digit < 10 { b'0' + digit } else { b'a' - 10 + digit };
            start -= 1;
            value /= BASE;
            if value == 0 {
                break;
            }
        }
    }
    out.extend_from_slice(text.get(start..).unwrap_or_default());
}

/// The number a `Content-Length` states: digits alone, within 64 bits (RFC 9110, 8.6).
pub(crate) fn content_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read_back() {
        for value in [0, 1, 9, 10, 13, 15, 16, 255, 65535, 1 << 32, u64::MAX - 1, u64::MAX] {
            let (mut decimal, mut hex) = (Vec::new(), Vec::new());
            write_decimal(&mut decimal, value, *b"ab");
            write_hex(&mut hex, value, *b"\r\n");
            assert_eq!(decimal, format!("{value}ab").as_bytes());
            assert_eq!(hex, format!("{value:x}\r\n").as_bytes());
            assert_eq!(content_length(value.to_string().as_bytes()), Some(value));
        }
    }

    #[test]
    fn what_is_no_content_length() {
        for text in ["", "-1", "+1", "1 ", " 1", "0x1", "1a", "18446744073709551616", "1,1"] {
            assert_eq!(content_length(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(content_length(b"00000000000000000000000007"), Some(7));
    }
}
