//! Spreading what is alike over all numbers, the same way everywhere and for ever.

/// Odd, and without a pattern in its bits: 2^64 divided by the golden ratio.
pub(crate) const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads each bit over all bits: neighbours become strangers.
#[inline]
pub(crate) const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// FNV-1a, its bits spread once more. Where a key leads must not depend on the process, the version or
/// the machine: a fleet has to agree.
#[inline]
pub(crate) fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    mix(bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_same_for_ever() {
        assert_eq!(hash("sluice".bytes()), 0xD830_E37C_2835_70C1);
    }
}
