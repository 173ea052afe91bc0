//! Integers (RFC 7541, 5.1), bounded: no honest peer needs more than 28 bits.

use super::Invalid;

/// Reads an integer whose first byte `first` holds it in the low bits of `mask`; `rest` follows.
///
/// # Errors
/// [`Invalid::Truncated`], or [`Invalid::Integer`] for more than four bytes behind the first.
#[inline(always)]
pub(super) fn read(first: u8, mask: u8, rest: &mut &[u8]) -> Result<usize, Invalid> {
    let value = first & mask;
    if value < mask { Ok(usize::from(value)) } else { read_on(mask, rest) }
}

#[inline(never)]
fn read_on(mask: u8, rest: &mut &[u8]) -> Result<usize, Invalid> {
    let mut value = usize::from(mask);
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first().ok_or(Invalid::Truncated)?;
        *rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Invalid::Integer)
}

/// Appends `value` with `flags` above the bits of `mask` in the first byte.
#[inline(always)]
pub(super) fn write(out: &mut Vec<u8>, flags: u8, mask: u8, value: usize) {
    match u8::try_from(value) {
        Ok(small) if small < mask => out.push(flags | small),
        _ => write_on(out, flags | mask, value - usize::from(mask)),
    }
}

#[inline(never)]
fn write_on(out: &mut Vec<u8>, first: u8, mut value: usize) {
    out.push(first);
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, C.1.
    #[test]
    fn examples_of_the_appendix() {
        let cases: [(usize, u8, &[u8]); 3] =
            [(10, 0x1f, &[0x0a]), (1337, 0x1f, &[0x1f, 0x9a, 0x0a]), (42, 0xff, &[0x2a])];
        for (value, mask, bytes) in cases {
            let mut out = Vec::new();
            write(&mut out, 0, mask, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn integers_go_round() {
        for mask in [0x7f, 0x3f, 0x1f, 0x0f] {
            for value in (0..600).chain([16383, 16384, 65535, 1 << 20, (1 << 28) - 1]) {
                let mut out = Vec::new();
                write(&mut out, 0x80, mask, value);
                out.push(0xee);
                let (&first, mut rest) = out.split_first().unwrap();
                assert_eq!(read(first, mask, &mut rest), Ok(value));
                assert_eq!(rest, [0xee]);
            }
        }
    }

    #[test]
    fn endless_and_cut_ones_are_refused() {
        let mut rest: &[u8] = &[0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(read(0xff, 0x7f, &mut rest), Err(Invalid::Integer));
        let mut rest: &[u8] = &[0xff, 0xff];
        assert_eq!(read(0xff, 0x7f, &mut rest), Err(Invalid::Truncated));
    }
}
