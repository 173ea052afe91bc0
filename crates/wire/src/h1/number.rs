//! Numbers as they stand in heads and chunk sizes.

/// The numbers below a hundred, with two digits each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let (mut rest, mut tens, mut ones) = (pairs.as_mut_slice(), b'0', b'0');
    while let Some((pair, others)) = rest.split_first_mut() {
        *pair = [tens, ones];
        (tens, ones) = if ones == b'9' { (tens + 1, b'0') } else { (tens, ones + 1) };
        rest = others;
    }
    pairs
};

/// Appends `value` in decimal digits, and `end`.
#[inline]
pub(super) fn write_decimal(out: &mut Vec<u8>, value: u64, end: [u8; 2]) {
    let [first, second] = end;
    // Lengths of most answers, in pieces whose size is known: no loop and no call to copy them.
    match value {
        0..10 => {
            let [_, ones] = pair(value);
            out.extend_from_slice(&[ones, first, second]);
        }
        10..100 => {
            let [tens, ones] = pair(value);
            out.extend_from_slice(&[tens, ones, first, second]);
        }
        100..1000 => {
            let ([_, hundreds], [tens, ones]) = (pair(value / 100), pair(value % 100));
            out.extend_from_slice(&[hundreds, tens, ones, first, second]);
        }
        1000..10_000 => {
            let ([thousands, hundreds], [tens, ones]) = (pair(value / 100), pair(value % 100));
            out.extend_from_slice(&[thousands, hundreds, tens, ones, first, second]);
        }
        _ => write_long_decimal(out, value, end),
    }
}

/// The two digits of a number below a hundred.
#[inline]
fn pair(value: u64) -> [u8; 2] {
    let pair = usize::try_from(value).ok().and_then(|number| PAIRS.get(number));
    pair.copied().unwrap_or([b'0'; 2])
}

/// The same for numbers of any length.
#[inline(never)]
fn write_long_decimal(out: &mut Vec<u8>, mut value: u64, end: [u8; 2]) {
    // 20 digits: u64::MAX.
    let mut text = [0_u8; 22];
    let mut start = 20;
    if let Some((digits, rest)) = text.split_last_chunk_mut() {
        *rest = end;
        for slot in digits.rchunks_exact_mut(2) {
            let pair = pair(value % 100);
            slot.copy_from_slice(&pair);
            start -= 2;
            value /= 100;
            if value == 0 {
                start += usize::from(pair.starts_with(b"0"));
                break;
            }
        }
    }
    out.extend_from_slice(text.get(start..).unwrap_or_default());
}

/// Appends `value` in lower-case hexadecimal digits (RFC 9112, 7.1), and `end`.
#[inline]
pub(super) fn write_hex(out: &mut Vec<u8>, mut value: u64, end: [u8; 2]) {
    // One copy for digits and end: it costs more than making them.
    let mut text = [0_u8; 18];
    let mut start = 16;
    if let Some((digits, rest)) = text.split_last_chunk_mut() {
        *rest = end;
        for slot in digits.iter_mut().rev() {
            let digit = u8::try_from(value % 16).unwrap_or(0);
            *slot = if digit < 10 { b'0' + digit } else { b'a' - 10 + digit };
            start -= 1;
            value /= 16;
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
        let large = [12_345, 65_535, 100_000, 1 << 32, u64::MAX - 1, u64::MAX];
        for value in (0..=10_010).chain(large) {
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
