//! Texts taken eight bytes at a time: hashed and searched without a call per byte.
//!
//! Every request pays for the host and the path it is looked up by; both are too short for the
//! set-up that general functions need.

/// The bytes behind the last whole eight, the first of them lowest, zero above.
#[inline]
pub(crate) fn tail(text: &[u8]) -> u64 {
    let rest = text.len() % 8;
    if rest == 0 {
        return 0;
    }
    if let Some(last) = text.last_chunk::<8>() {
        // Reads bytes again that were seen and shifts them out.
        return u64::from_le_bytes(*last) >> (64 - 8 * rest);
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // Where the halves overlap they agree.
        let (low, high) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(low) | u64::from(high) << (8 * (rest - 4));
    }
    let byte = |at: usize| u64::from(text.get(at).copied().unwrap_or_default()) << (8 * at);
    byte(0) | byte(rest / 2) | byte(rest - 1)
}

/// The whole words of a text.
#[inline]
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = u64> {
    text.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word))
}

/// A hash of `text` with the bits of `ignored` set everywhere; the seed keeps it from being guessed.
#[inline]
pub(crate) fn hash(text: &[u8], seed: u64, ignored: u64) -> u64 {
    // The length keeps texts apart that differ in trailing zeros.
    let mut hash = seed ^ u64::try_from(text.len()).unwrap_or_default();
    for word in words(text) {
        hash = folded(hash ^ (word | ignored));
    }
    folded(hash ^ (tail(text) | ignored))
}

/// Both halves of a product, so that every bit of `value` reaches every bit of the result (the step
/// of wyhash and foldhash; the factor is that of PCG).
#[inline]
fn folded(value: u64) -> u64 {
    let (low, high) = value.carrying_mul(0x5851_F42D_4C95_7F2D, 0);
    low ^ high
}

/// The highest bit of each byte of `word` that is `byte`, which is not 0. Behind the first hit there
/// may be bits too many.
#[inline]
fn hits(word: u64, byte: u8) -> u64 {
    let zeroed = word ^ u64::from_le_bytes([byte; 8]);
    zeroed.wrapping_sub(0x0101_0101_0101_0101) & !zeroed & 0x8080_8080_8080_8080
}

/// The place of the first `byte` in `text`.
#[inline]
pub(crate) fn position(text: &[u8], byte: u8) -> Option<usize> {
    let mut at = 0;
    for word in words(text) {
        let hits = hits(word, byte);
        if hits != 0 {
            return Some(at + place(hits));
        }
        at += 8;
    }
    let hits = hits(tail(text), byte);
    (hits != 0).then(|| at + place(hits))
}

#[inline]
fn place(hits: u64) -> usize {
    usize::try_from(hits.trailing_zeros() / 8).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TEXT: &[u8] = b"/a/long-path/of.many:bytes/0123456789";

    #[test]
    fn words_and_tail_hold_every_byte() {
        for len in 0..TEXT.len() {
            let text = &TEXT[..len];
            let mut bytes: Vec<u8> = words(text).flat_map(u64::to_le_bytes).collect();
            bytes.extend(tail(text).to_le_bytes());
            assert_eq!(&bytes[..len], text);
            assert!(bytes[len..].iter().all(|&byte| byte == 0), "{len}");
        }
    }

    #[test]
    fn hashes_differ() {
        let mut texts: Vec<Vec<u8>> = (0..30).map(|len| vec![0; len]).collect();
        texts.extend((0..10_000).map(|n| format!("/service/{n}").into_bytes()));
        let hashes: BTreeSet<u64> = texts.iter().map(|text| hash(text, 7, 0)).collect();
        assert_eq!(hashes.len(), texts.len());
        // Low bits choose the slot: ten thousand texts must fill most of as many slots.
        let slots: BTreeSet<u64> = hashes.iter().map(|hash| hash % 16_384).collect();
        assert!(slots.len() > 6_500, "{}", slots.len());
    }

    #[test]
    fn positions_are_exact() {
        for byte in [b'.', b':', b'/', b'9', b'x'] {
            for len in 0..TEXT.len() {
                let text = &TEXT[..len];
                let expected = text.iter().position(|&have| have == byte);
                assert_eq!(position(text, byte), expected, "{}", String::from_utf8_lossy(text));
            }
        }
        // Bytes next to the wanted one in value, and those with the highest bit set.
        for near in [b"-/-/-/-/", b"\xae\xaf\xad\xae\xae\xae\xae\xae", b"........"] {
            assert_eq!(position(near, b'.'), near.iter().position(|&have| have == b'.'));
        }
    }
}
