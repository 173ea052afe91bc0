//! Numbers as decimal text, appended without the machinery of formatting.

/// Appends `value`.
pub(crate) fn push(out: &mut Vec<u8>, value: u64) {
    push_padded(out, value, 1);
}

/// Appends `value` with leading zeros up to `width` digits.
pub(crate) fn push_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut rest = value;
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        if rest == 0 && used >= width {
            break;
        }
        *digit = b'0' + low_digit(rest);
        rest /= 10;
        used += 1;
    }
    let start = digits.len().saturating_sub(used);
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// The last decimal digit.
#[inline]
pub(crate) fn low_digit(value: u64) -> u8 {
    u8::try_from(value % 10).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_formatting_makes() {
        for value in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX - 1, u64::MAX] {
            for width in [1, 2, 3, 19, 20] {
                let mut out = b"x".to_vec();
                push_padded(&mut out, value, width);
                assert_eq!(String::from_utf8(out).unwrap(), format!("x{value:0width$}"));
            }
        }
    }
}
