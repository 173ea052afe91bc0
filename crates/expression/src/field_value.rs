//! Texts made fit for field values.

/// Makes what stands in `out` from `start` on a field value: control characters become spaces (RFC 9110, 5.5),
/// and spaces around it go, for they are no part of a value (RFC 9110, 5.5; RFC 9113, 8.2.1).
///
/// Without this a line break in a query would end the field, and what follows would be read as another.
pub fn clean_field_value(out: &mut Vec<u8>, start: usize) {
    let Some(value) = out.get_mut(start..) else {
        return;
    };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    // Nearly all are what they should be.
    if !value.iter().any(u8::is_ascii_control)
        && !value.first().is_some_and(blank)
        && !value.last().is_some_and(blank)
    {
        return;
    }
    for byte in value.iter_mut().filter(|byte| byte.is_ascii_control() && **byte != b'\t') {
        *byte = b' ';
    }
    let leading = value.iter().take_while(|byte| blank(byte)).count();
    let trailing = value.iter().skip(leading).rev().take_while(|byte| blank(byte)).count();
    out.truncate(out.len() - trailing);
    out.drain(start..start + leading);
}

#[cfg(test)]
mod tests {
    use super::clean_field_value;

    #[test]
    fn nothing_that_ends_a_field_is_left() {
        let rows: [(&[u8], &[u8]); 8] = [
            (b"plain", b"plain"),
            (b"a\r\nset-cookie: b", b"a  set-cookie: b"),
            (b"a\0b\x7fc\x1bd", b"a b c d"),
            (b"a\tb", b"a\tb"),
            (b" \t a b \r\n", b"a b"),
            (b"\r\n", b""),
            (b"", b""),
            (b"caf\xc3\xa9\xff", b"caf\xc3\xa9\xff"),
        ];
        for (text, value) in rows {
            let mut out = b"x \n".to_vec();
            out.extend_from_slice(text);
            clean_field_value(&mut out, 3);
            assert_eq!(out, [b"x \n", value].concat(), "{}", text.escape_ascii());
        }
        let mut short = b"a".to_vec();
        clean_field_value(&mut short, 9);
        assert_eq!(short, b"a");
    }
}
