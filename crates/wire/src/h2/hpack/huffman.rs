//! Strings in the Huffman code of RFC 7541, 5.2 and appendix B.

use super::Invalid;
use super::code::{CODES, SHORT, Symbol, long_symbol};

/// Bits of the longest code: with so many at hand a whole symbol is there.
const ENOUGH: u32 = 30;

/// Appends what `input` stands for.
///
/// # Errors
/// [`Invalid::Huffman`] for EOS, or for padding of more than seven bits or of anything but ones.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    // No code is shorter than five bits.
    out.reserve(input.len() * 8 / 5 + 1);
    let mut rest = input;
    // Left-aligned; bits below the `count` first ones may hold what `rest` begins with.
    let mut bits = 0_u64;
    let mut count = 0_u32;
    loop {
        if let Some(chunk) = rest.first_chunk() {
            bits |= u64::from_be_bytes(*chunk) >> count;
            let bytes = (63 - count) / 8;
            rest = rest.get(usize::try_from(bytes).unwrap_or(0)..).unwrap_or_default();
            count += bytes * 8;
        } else {
            while count <= 56
                && let Some((&byte, after)) = rest.split_first()
            {
                // What a chunk left there of this byte is written over by itself.
                bits |= u64::from(byte) << (56 - count);
                count += 8;
                rest = after;
            }
            if count < ENOUGH {
                return finish(bits, count, out);
            }
        }
        while count >= ENOUGH {
            let symbol = symbol(bits).ok_or(Invalid::Huffman)?;
            out.push(symbol.byte);
            bits <<= symbol.length;
            count -= u32::from(symbol.length);
        }
    }
}

/// The symbol that left-aligned bits start with.
#[inline(always)]
fn symbol(bits: u64) -> Option<Symbol> {
    let [first, ..] = bits.to_be_bytes();
    match SHORT.get(usize::from(first)) {
        Some(&symbol) if symbol.length > 0 => Some(symbol),
        _ => long_symbol(u32::try_from(bits >> 32).unwrap_or(u32::MAX)),
    }
}

/// The last symbols, and the padding: the first bits of EOS, which are ones (RFC 7541, 5.2).
fn finish(bits: u64, mut count: u32, out: &mut Vec<u8>) -> Result<(), Invalid> {
    let mut bits = bits | u64::MAX >> count;
    while let Some(symbol) = symbol(bits).filter(|symbol| u32::from(symbol.length) <= count) {
        out.push(symbol.byte);
        bits <<= symbol.length;
        count -= u32::from(symbol.length);
    }
    let padded = count < 8 && bits.leading_ones() >= count;
    if padded { Ok(()) } else { Err(Invalid::Huffman) }
}

/// Bytes that [`encode`] will append.
pub(super) fn encoded_length(input: &[u8]) -> usize {
    let bits = input.iter().fold(0, |bits, &byte| bits + usize::from(code(byte).length));
    bits.div_ceil(8)
}

#[inline(always)]
fn code(byte: u8) -> super::code::Code {
    const NONE: super::code::Code = super::code::Code { bits: 0, length: 0 };
    CODES.get(usize::from(byte)).copied().unwrap_or(NONE)
}

/// Appends `input` encoded and padded.
pub(super) fn encode(input: &[u8], out: &mut Vec<u8>) {
    // The low `count` bits are not written yet; fewer than 32 between two symbols.
    let mut bits = 0_u64;
    let mut count = 0_u32;
    for &byte in input {
        let code = code(byte);
        bits = bits << code.length | u64::from(code.bits);
        count += u32::from(code.length);
        if count >= 32 {
            count -= 32;
            let [.., a, b, c, d] = (bits >> count).to_be_bytes();
            out.extend_from_slice(&[a, b, c, d]);
        }
    }
    let padding = count.wrapping_neg() % 8;
    bits = bits << padding | ((1 << padding) - 1);
    let bytes = usize::try_from((count + padding) / 8).unwrap_or(0);
    out.extend_from_slice(bits.to_be_bytes().get(8 - bytes..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Invalid> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    /// Strings of RFC 7541, C.4 and C.6.
    #[test]
    fn examples_of_the_appendix() {
        let cases: [(&[u8], &str); 5] = [
            (b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (b"\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3", "https://www.example.com"),
        ];
        for (bytes, text) in cases {
            assert_eq!(decoded(bytes).unwrap(), text.as_bytes());
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!(out, bytes);
            assert_eq!(encoded_length(text.as_bytes()), bytes.len());
        }
    }

    #[test]
    fn all_bytes_at_all_offsets_go_round() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for start in 0..40 {
            for end in [start, start + 1, start + 7, 200, 300, 512] {
                let text = &all[start..end];
                let mut out = Vec::new();
                encode(text, &mut out);
                assert_eq!(out.len(), encoded_length(text));
                assert_eq!(decoded(&out).unwrap(), text);
            }
        }
    }

    #[test]
    fn bad_padding_and_eos_are_refused() {
        let bad: [&[u8]; 7] = [
            // '0' and three zeros.
            b"\x00",
            // '0' and then eleven ones: longer than seven bits.
            b"\x07\xff",
            b"\xff",
            b"\xff\xff\xff\xff",
            // EOS, then more.
            b"\xff\xff\xff\xfc\x00\x00\x00\x00\x00",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            // 'a' and a padding with a zero in it.
            b"\x1d",
        ];
        for input in bad {
            assert_eq!(decoded(input), Err(Invalid::Huffman), "{input:x?}");
        }
        assert_eq!(decoded(b""), Ok(Vec::new()));
        assert_eq!(decoded(b"\x1f"), Ok(b"a".to_vec()));
    }
}
