//! Numbers as decimal digits, without the machinery of formatting.

/// Appends the digits of `value`, at least `width` of them.
pub(crate) fn push_decimal(out: &mut Vec<u8>, value: u64, width: usize) {
    let start = out.len();
    let mut rest = value;
    while rest > 0 || out.len() - start < width.max(1) {
        let digit = u8::try_from(rest % 10).unwrap_or_default();
        out.push(b'0' + digit);
        rest /= 10;
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// The number that a text of digits alone stands for, if it fits.
pub(crate) fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read() {
        for (value, width, text) in
            [(0, 0, "0"), (7, 2, "07"), (1234, 2, "1234"), (u64::MAX, 0, "18446744073709551615")]
        {
            let mut out = b"x".to_vec();
            push_decimal(&mut out, value, width);
            assert_eq!(out, format!("x{text}").as_bytes());
            assert_eq!(parse_decimal(text.as_bytes()), Some(value));
        }
        for text in ["", "-1", "+1", " 1", "1.5", "0x1", "18446744073709551616", "1a"] {
            assert_eq!(parse_decimal(text.as_bytes()), None, "{text}");
        }
    }
}
