//! The Huffman code of RFC 7541, appendix B, made from the lengths of its codes: it is canonical.

/// Bits of the code of each byte.
pub(super) const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code; 30 ones are EOS, which never stands in a string (RFC 7541, 5.2).
const LONGEST: u32 = 30;

/// Bits that [`SHORT`] is looked up by: all codes of printable ASCII that are frequent.
pub(super) const SHORT_BITS: u32 = 8;

/// The code of one byte.
#[derive(Clone, Copy)]
pub(super) struct Code {
    /// Right-aligned.
    pub(super) bits: u32,
    pub(super) length: u8,
}

/// What a code stands for.
#[derive(Clone, Copy)]
pub(super) struct Symbol {
    pub(super) byte: u8,
    /// Bits of its code; 0 where there is no such code.
    pub(super) length: u8,
}

/// The codes of one length, left-aligned in 32 bits.
#[derive(Clone, Copy)]
struct Class {
    /// The first code.
    first: u32,
    /// One past the last.
    end: u32,
    /// Place of the first code's byte in [`SORTED`].
    place: u32,
}

/// Every byte's code.
pub(super) static CODES: [Code; 256] = codes();

/// By the first [`SHORT_BITS`] bits.
pub(super) static SHORT: [Symbol; 256] = short();

/// Bytes in the order of their codes.
static SORTED: [u8; 256] = sorted();

/// By length of code; lengths without codes are empty.
static CLASSES: [Class; 31] = classes();

/// The byte whose code the left-aligned `bits` start with, for codes of more than [`SHORT_BITS`] bits;
/// `None` for EOS.
#[cold]
pub(super) fn long_symbol(bits: u32) -> Option<Symbol> {
    let classes = CLASSES.iter().zip(0_u8..).skip(9);
    let (class, length) = classes.clone().find(|(class, _)| bits < class.end)?;
    let place = class.place + (bits.checked_sub(class.first)? >> (32 - u32::from(length)));
    let byte = *SORTED.get(usize::try_from(place).ok()?)?;
    Some(Symbol { byte, length })
}

#[expect(clippy::indexing_slicing, clippy::as_conversions, reason = "evaluated by the compiler")]
const fn sorted() -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut count = 0;
    let mut length = 1;
    while length <= LONGEST {
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as u32 == length {
                bytes[count] = byte as u8;
                count += 1;
            }
            byte += 1;
        }
        length += 1;
    }
    bytes
}

#[expect(clippy::indexing_slicing, clippy::as_conversions, reason = "evaluated by the compiler")]
const fn codes() -> [Code; 256] {
    let sorted = sorted();
    let mut codes = [Code { bits: 0, length: 0 }; 256];
    let mut next = 0_u32;
    let mut before = LENGTHS[sorted[0] as usize];
    let mut place = 0;
    while place < 256 {
        let byte = sorted[place] as usize;
        next <<= LENGTHS[byte] - before;
        before = LENGTHS[byte];
        codes[byte] = Code { bits: next, length: before };
        next += 1;
        place += 1;
    }
    codes
}

#[expect(clippy::indexing_slicing, clippy::as_conversions, reason = "evaluated by the compiler")]
const fn short() -> [Symbol; 256] {
    let codes = codes();
    let mut table = [Symbol { byte: 0, length: 0 }; 256];
    let mut byte = 0;
    while byte < 256 {
        let Code { bits, length } = codes[byte];
        if length as u32 <= SHORT_BITS {
            let spare = SHORT_BITS - length as u32;
            let mut index = (bits << spare) as usize;
            let end = index + (1 << spare);
            while index < end {
                table[index] = Symbol { byte: byte as u8, length };
                index += 1;
            }
        }
        byte += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, clippy::as_conversions, reason = "evaluated by the compiler")]
const fn classes() -> [Class; 31] {
    let (sorted, codes) = (sorted(), codes());
    let mut classes = [Class { first: 0, end: 0, place: 0 }; 31];
    let mut place = 256;
    // Backwards, so that the first code of each length is seen last.
    while place > 0 {
        place -= 1;
        let Code { bits, length } = codes[sorted[place] as usize];
        let class = &mut classes[length as usize];
        let spare = 32 - length as u32;
        class.first = bits << spare;
        class.place = place as u32;
        if class.end == 0 {
            class.end = (bits + 1) << spare;
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some rows of RFC 7541, appendix B, one of each kind of length.
    #[test]
    fn codes_are_those_of_the_appendix() {
        let rows: [(u8, u32, u8); 14] = [
            (0, 0x1ff8, 13),
            (10, 0x3fff_fffc, 30),
            (b' ', 0x14, 6),
            (b'!', 0x3f8, 10),
            (b'0', 0x0, 5),
            (b'?', 0x3fc, 10),
            (b'A', 0x21, 6),
            (b'Z', 0xfd, 8),
            (b'\\', 0x7_fff0, 19),
            (b'a', 0x3, 5),
            (b'z', 0x7b, 7),
            (127, 0xfff_fffc, 28),
            (249, 0xfff_fffe, 28),
            (255, 0x3ff_ffee, 26),
        ];
        for (byte, bits, length) in rows {
            let code = CODES[usize::from(byte)];
            assert_eq!((code.bits, code.length), (bits, length), "{byte}");
        }
    }

    #[test]
    fn every_code_is_found_again() {
        for byte in 0..=255_u8 {
            let Code { bits, length } = CODES[usize::from(byte)];
            let aligned = bits << (32 - u32::from(length));
            let short = SHORT[usize::try_from(aligned >> 24).unwrap()];
            let found = if short.length > 0 { short } else { long_symbol(aligned).unwrap() };
            assert_eq!((found.byte, found.length), (byte, length));
        }
        assert!(long_symbol(u32::MAX).is_none(), "EOS is no byte");
    }
}
