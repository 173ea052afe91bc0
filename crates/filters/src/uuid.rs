//! Identifiers that grow with time: UUIDs of version 7 (RFC 9562, 5.7).

/// Bytes of an identifier as text.
pub const UUID_LENGTH: usize = 36;

/// An identifier of this millisecond since 1970, with 74 of these random bits.
#[must_use]
pub fn uuid_v7(unix_ms: u64, random: [u64; 2]) -> [u8; UUID_LENGTH] {
    const VERSION: u64 = 7 << 12;
    const VARIANT: u64 = 0b10 << 62;
    let [first, second] = random;
    let high = unix_ms << 16 | VERSION | first & 0xfff;
    let low = VARIANT | second & (u64::MAX >> 2);
    let mut text = [b'-'; UUID_LENGTH];
    let digits = [high, low]
        .into_iter()
        .flat_map(|half| (0..16).rev().map(move |place| hexadecimal(half >> (4 * place))));
    let places = text.iter_mut().enumerate().filter(|(at, _)| !matches!(at, 8 | 13 | 18 | 23));
    for ((_, place), digit) in places.zip(digits) {
        *place = digit;
    }
    text
}

/// The lowest four bits as a digit.
fn hexadecimal(value: u64) -> u8 {
    let digit = u8::try_from(value & 15).unwrap_or_default();
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_is_made() {
        // RFC 9562, A.6.
        let made = uuid_v7(0x017f_22e2_79b0, [0xcc3, 0x18c4_dc0c_0c07_398f]);
        assert_eq!(made, *b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    }

    #[test]
    fn bits_beyond_their_place_are_left_out() {
        assert_eq!(uuid_v7(u64::MAX, [u64::MAX; 2]), *b"ffffffff-ffff-7fff-bfff-ffffffffffff");
        assert_eq!(uuid_v7(0, [0; 2]), *b"00000000-0000-7000-8000-000000000000");
    }

    #[test]
    fn later_ones_are_greater() {
        let made: Vec<_> = (1..100).map(|ms| uuid_v7(ms, [u64::MAX - ms, ms])).collect();
        assert!(made.is_sorted());
    }
}
