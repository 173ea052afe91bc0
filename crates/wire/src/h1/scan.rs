//! Sixteen bytes at a time: where a run of allowed bytes ends.
//!
//! Every scan reads a [`Block`] that is padded with NUL behind the end of the input. NUL ends every
//! run, so a scan that stops at or beyond the end has run out of input: no separate check per byte.

/// Bytes read at once.
pub(super) const WIDTH: usize = 16;

/// Bytes of the input, NUL where it has ended.
pub(super) type Block = [u8; WIDTH];

/// Binds the first block of a slice, without touching memory unless it has to be padded.
macro_rules! read_block {
    ($block:ident, $rest:expr) => {
        let rest: &[u8] = $rest;
        let space;
        let $block: &$crate::h1::scan::Block = match rest.first_chunk() {
            Some(block) => block,
            None => {
                space = $crate::h1::scan::padded(rest);
                &space
            }
        };
    };
}
pub(super) use read_block;

/// The at most fifteen bytes of `rest`, by two loads that overlap. Not inlined: it would crowd the
/// registers of every loop for the sake of the last line of a head.
#[inline(never)]
pub(super) fn padded(rest: &[u8]) -> Block {
    let missing = u32::try_from(WIDTH.saturating_sub(rest.len())).unwrap_or(0);
    let bits: u128 = if let (Some(head), Some(tail)) = (rest.first_chunk(), rest.last_chunk()) {
        let tail = u128::from(u64::from_le_bytes(*tail)) << 64;
        u128::from(u64::from_le_bytes(*head)) | tail >> (missing * 8)
    } else if let (Some(head), Some(tail)) = (rest.first_chunk(), rest.last_chunk()) {
        let tail = u64::from(u32::from_le_bytes(*tail)) << 32;
        u128::from(u64::from(u32::from_le_bytes(*head)) | tail >> ((missing - 8) * 8))
    } else {
        rest.iter().rev().fold(0, |bits, &byte| bits << 8 | u128::from(byte))
    };
    bits.to_le_bytes()
}

/// Sixteen bytes as two numbers, first byte lowest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Word {
    #[inline(always)]
    pub(super) const fn new(block: &Block) -> Self {
        match (block.first_chunk(), block.last_chunk()) {
            (Some(low), Some(high)) => {
                Self { low: u64::from_le_bytes(*low), high: u64::from_le_bytes(*high) }
            }
            // Sixteen bytes hold eight.
            _ => Self { low: 0, high: 0 },
        }
    }
}

/// One bit per byte of a [`Block`], the first byte's lowest.
pub(super) type Mask = u32;

/// The position of a mask's first set bit; 32 if there is none.
#[inline(always)]
pub(super) fn first(mask: Mask) -> usize {
    usize::try_from(mask.trailing_zeros()).unwrap_or(0)
}

/// Compares on the sixteen-byte registers every x86-64 processor has.
#[cfg(target_arch = "x86_64")]
mod lanes {
    use safe_arch::{
        add_i8_m128i, bitandnot_m128i, bitor_m128i, cmp_eq_mask_i8_m128i, cmp_gt_mask_i8_m128i,
        cmp_lt_mask_i8_m128i, load_unaligned_m128i, m128i, min_u8_m128i, move_mask_i8_m128i,
        set_splat_i8_m128i,
    };

    use super::{Block, Mask};

    /// Sixteen bytes in one register.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Lanes(m128i);

    #[inline(always)]
    fn all(byte: u8) -> m128i {
        set_splat_i8_m128i(byte.cast_signed())
    }

    #[inline(always)]
    fn bits(lanes: m128i) -> Mask {
        move_mask_i8_m128i(lanes).cast_unsigned()
    }

    /// Lanes within `low..=high`: moved so that the range starts at the least signed number.
    #[inline(always)]
    fn within(lanes: m128i, low: u8, high: u8) -> m128i {
        let moved = add_i8_m128i(lanes, all(0x80_u8.wrapping_sub(low)));
        cmp_lt_mask_i8_m128i(moved, all(0x80_u8.wrapping_add(high - low + 1)))
    }

    impl Lanes {
        #[inline(always)]
        pub(in super::super) fn new(block: &Block) -> Self {
            Self(load_unaligned_m128i(block))
        }

        /// Bytes equal to `byte`.
        #[inline(always)]
        pub(in super::super) fn equal(self, byte: u8) -> Mask {
            bits(cmp_eq_mask_i8_m128i(self.0, all(byte)))
        }

        /// Bytes equal to one of two.
        #[inline(always)]
        pub(in super::super) fn either(self, one: u8, other: u8) -> Mask {
            let one = cmp_eq_mask_i8_m128i(self.0, all(one));
            bits(bitor_m128i(one, cmp_eq_mask_i8_m128i(self.0, all(other))))
        }

        /// Bytes that need a look in a target: `#`, `%`, `;`, `?` and the backslash, with `!` and `'`, since those
        /// cost nothing: 0x06 maps nothing but these two onto 0x27 with `#` and `%`, 0x04 maps nothing but `;`
        /// onto `?`.
        #[inline(always)]
        pub(in super::super) fn special(self) -> Mask {
            let escape = cmp_eq_mask_i8_m128i(bitor_m128i(self.0, all(0x06)), all(b'\''));
            let query = cmp_eq_mask_i8_m128i(bitor_m128i(self.0, all(0x04)), all(b'?'));
            let backslash = cmp_eq_mask_i8_m128i(self.0, all(b'\\'));
            bits(bitor_m128i(bitor_m128i(escape, query), backslash))
        }

        /// Decimal digits.
        #[inline(always)]
        pub(in super::super) fn digits(self) -> Mask {
            bits(within(self.0, b'0', b'9'))
        }

        /// Control characters: 0x00 to 0x1f and 0x7f.
        #[inline(always)]
        pub(in super::super) fn control(self) -> Mask {
            let low = cmp_eq_mask_i8_m128i(min_u8_m128i(self.0, all(0x1f)), self.0);
            bits(bitor_m128i(low, cmp_eq_mask_i8_m128i(self.0, all(0x7f))))
        }

        /// All but the visible ASCII characters 0x21 to 0x7e; bytes from 0x80 are negative here.
        #[inline(always)]
        pub(in super::super) fn invisible(self) -> Mask {
            let delete = cmp_eq_mask_i8_m128i(self.0, all(0x7f));
            let visible = bitandnot_m128i(delete, cmp_gt_mask_i8_m128i(self.0, all(0x20)));
            bits(visible) ^ 0xffff
        }

        /// Letters, digits and `-`: nearly all field names hold nothing else, and no origin takes one of these names
        /// for another.
        #[inline(always)]
        pub(in super::super) fn unambiguous(self) -> Mask {
            let letter = within(bitor_m128i(self.0, all(0x20)), b'a', b'z');
            let digit = within(self.0, b'0', b'9');
            let hyphen = cmp_eq_mask_i8_m128i(self.0, all(b'-'));
            bits(bitor_m128i(letter, bitor_m128i(digit, hyphen)))
        }

        /// Letters, digits, `-` and `.`: nearly all hosts hold nothing else.
        #[inline(always)]
        pub(in super::super) fn plain(self) -> Mask {
            // 0x20 maps nothing but letters onto letters.
            let letter = within(bitor_m128i(self.0, all(0x20)), b'a', b'z');
            let slash = cmp_eq_mask_i8_m128i(self.0, all(b'/'));
            let digit = bitandnot_m128i(slash, within(self.0, b'-', b'9'));
            bits(bitor_m128i(letter, digit))
        }
    }
}

/// The same answers for every other processor, in a form compilers turn into vector code.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::{Block, Mask};

    #[derive(Clone, Copy)]
    pub(in super::super) struct Lanes(Block);

    impl Lanes {
        #[inline]
        pub(in super::super) fn new(block: &Block) -> Self {
            Self(*block)
        }

        #[inline]
        fn select(self, wanted: impl Fn(u8) -> bool) -> Mask {
            self.0.iter().rev().fold(0, |mask, &byte| mask << 1 | Mask::from(wanted(byte)))
        }

        #[inline]
        pub(in super::super) fn equal(self, byte: u8) -> Mask {
            self.select(|lane| lane == byte)
        }

        #[inline]
        pub(in super::super) fn either(self, one: u8, other: u8) -> Mask {
            self.select(|lane| lane == one || lane == other)
        }

        #[inline]
        pub(in super::super) fn special(self) -> Mask {
            self.select(|lane| matches!(lane, b'!' | b'#' | b'%' | b'\'' | b';' | b'?' | b'\\'))
        }

        #[inline]
        pub(in super::super) fn digits(self) -> Mask {
            self.select(|lane| lane.is_ascii_digit())
        }

        #[inline]
        pub(in super::super) fn control(self) -> Mask {
            self.select(|lane| lane.is_ascii_control())
        }

        #[inline]
        pub(in super::super) fn invisible(self) -> Mask {
            self.select(|lane| !lane.is_ascii_graphic())
        }

        #[inline]
        pub(in super::super) fn unambiguous(self) -> Mask {
            self.select(|lane| lane.is_ascii_alphanumeric() || lane == b'-')
        }

        #[inline]
        pub(in super::super) fn plain(self) -> Mask {
            self.select(|lane| lane.is_ascii_alphanumeric() || lane == b'-' || lane == b'.')
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use lanes::Lanes;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::Lanes;

/// What a byte may be part of.
const TOKEN: u8 = 1;
const REG_NAME: u8 = 2;
const SPACE: u8 = 4;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut rest = table.as_mut_slice();
    let mut byte = 0_u8;
    while let Some((slot, after)) = rest.split_first_mut() {
        let token = byte.is_ascii_alphanumeric() || is_one_of(byte, b"!#$%&'*+-.^_`|~");
        // unreserved and sub-delims (RFC 3986, 2.2 and 2.3); escapes are looked at elsewhere.
        let name = byte.is_ascii_alphanumeric() || is_one_of(byte, b"-._~!$&'()*+,;=");
        let space = is_one_of(byte, b" \t");
        *slot = if token { TOKEN } else { 0 }
            | if name { REG_NAME } else { 0 }
            | if space { SPACE } else { 0 };
        rest = after;
        byte = byte.wrapping_add(1);
    }
    table
}

const fn is_one_of(byte: u8, mut set: &[u8]) -> bool {
    while let Some((&member, rest)) = set.split_first() {
        if member == byte {
            return true;
        }
        set = rest;
    }
    false
}

#[inline(always)]
fn class(byte: u8) -> u8 {
    CLASS.get(usize::from(byte)).copied().unwrap_or(0)
}

/// A character of a token (RFC 9110, 5.6.2).
#[inline(always)]
pub(crate) fn is_token(byte: u8) -> bool {
    class(byte) & TOKEN != 0
}

/// A character of a token in lower case: what field names are made of in HTTP/2 (RFC 9113, 8.2).
#[inline(always)]
pub(crate) fn is_lower_token(byte: u8) -> bool {
    is_token(byte) && !byte.is_ascii_uppercase()
}

/// A character of a registered name, escapes excluded (RFC 3986, 3.2.2).
#[inline(always)]
pub(super) fn is_reg_name(byte: u8) -> bool {
    class(byte) & REG_NAME != 0
}

/// SP or HTAB: white space that may stand around values (RFC 9110, 5.6.3).
#[inline(always)]
pub(crate) fn is_space(byte: u8) -> bool {
    class(byte) & SPACE != 0
}

/// A byte that may stand in a field value or a reason phrase: HTAB, SP, visible, obs-text
/// (RFC 9110, 5.5).
#[inline(always)]
pub(crate) const fn is_text(byte: u8) -> bool {
    byte >= 0x20 && byte != 0x7f || byte == b'\t'
}

/// How many bytes precede the first control character of `rest`, HTAB included; its length if there
/// is none.
#[inline(always)]
pub(super) fn control_at(rest: &[u8]) -> usize {
    find(rest, Lanes::control)
}

/// How many bytes precede the first control character of `rest` but HTAB; its length if there is
/// none. Apart from the other, because a compare more per block is too much for what hardly a value
/// holds, and in blocks, because a head full of tabs must not cost a hundredfold.
#[inline(never)]
pub(crate) fn control_but_tab_at(rest: &[u8]) -> usize {
    find(rest, |lanes| lanes.control() & !lanes.equal(b'\t'))
}

/// The first byte that `stop` marks; it has to mark NUL.
#[inline(always)]
fn find(rest: &[u8], stop: impl Fn(Lanes) -> Mask) -> usize {
    let Some(block) = rest.first_chunk::<WIDTH>() else {
        return first(stop(Lanes::new(&padded(rest))));
    };
    let mask = stop(Lanes::new(block));
    if mask != 0 {
        return first(mask);
    }
    let (blocks, tail) = rest.as_chunks::<WIDTH>();
    for (index, block) in blocks.iter().enumerate().skip(1) {
        let mask = stop(Lanes::new(block));
        if mask != 0 {
            return index * WIDTH + first(mask);
        }
    }
    // The last block overlaps the one before it, in which nothing is marked.
    let mask = rest.last_chunk().map_or(0, |block| stop(Lanes::new(block)));
    if tail.is_empty() || mask == 0 { rest.len() } else { rest.len() - WIDTH + first(mask) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_lanes_agree_on_every_byte_in_every_place() {
        for byte in 0..=255_u8 {
            for place in 0..WIDTH {
                let mut bytes = *b"abcDEF-./0189:@[";
                bytes[place] = byte;
                let (fast, plain) = (Lanes::new(&bytes), portable::Lanes::new(&bytes));
                assert_eq!(fast.equal(b':'), plain.equal(b':'), "{byte}");
                assert_eq!(fast.either(b'/', b'%'), plain.either(b'/', b'%'), "{byte}");
                assert_eq!(fast.special(), plain.special(), "{byte}");
                assert_eq!(fast.digits(), plain.digits(), "{byte}");
                assert_eq!(fast.control(), plain.control(), "{byte}");
                assert_eq!(fast.invisible(), plain.invisible(), "{byte}");
                assert_eq!(fast.plain(), plain.plain(), "{byte}");
                assert_eq!(fast.unambiguous(), plain.unambiguous(), "{byte}");
            }
        }
    }

    #[test]
    fn blocks_are_padded_with_nul() {
        let bytes: Vec<u8> = (1..=40).collect();
        for length in 0..bytes.len() {
            for at in 0..=length {
                let mut want = [0; WIDTH];
                for (to, from) in want.iter_mut().zip(&bytes[at..length]) {
                    *to = *from;
                }
                read_block!(got, &bytes[at..length]);
                assert_eq!(*got, want, "{at} of {length}");
            }
        }
    }

    #[test]
    fn control_characters_are_found() {
        for byte in 0..=255_u8 {
            for length in [1, 5, 15, 16, 17, 31, 32, 48] {
                for place in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[place] = byte;
                    let want = if is_text(byte) && byte != b'\t' { length } else { place };
                    assert_eq!(control_at(&bytes), want, "{byte} at {place} of {length}");
                    let want = if is_text(byte) { length } else { place };
                    assert_eq!(control_but_tab_at(&bytes), want, "{byte} at {place} of {length}");
                }
            }
        }
    }
}
