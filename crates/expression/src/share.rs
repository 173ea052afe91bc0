//! Which part of all keys a key belongs to.

use aws_lc_rs::digest::{SHA256, digest};

/// Salt and key of most are shorter together.
const SHORT: usize = 128;

/// The place of `key` among a thousand, 0 to 999: the same for the same key and salt, on every machine and in
/// every version, so that what had `share < 100` is a part of what has `share < 200`.
///
/// It is the SHA-256 of the salt, a zero byte and the key: the first eight bytes of that, as a big-endian
/// number, modulo 1000.
#[must_use]
pub fn share(key: &[u8], salt: &[u8]) -> u32 {
    // One piece on the stack: a hash that is fed in pieces costs an allocation.
    let mut short = [0; SHORT];
    let text = [salt, &[0], key];
    let length = salt.len() + 1 + key.len();
    let digest = match short.get_mut(..length) {
        Some(whole) => {
            for (to, from) in whole.iter_mut().zip(text.into_iter().flatten()) {
                *to = *from;
            }
            digest(&SHA256, whole)
        }
        None => digest(&SHA256, &text.concat()),
    };
    let first = digest.as_ref().first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    u32::try_from(first % 1000).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::share;

    /// Worked out by another program:
    /// `printf 'SALT\0KEY' | sha256sum`, the first 16 digits, modulo 1000.
    #[test]
    fn shares_stay_what_they_are() {
        for (key, salt, expected) in VECTORS {
            assert_eq!(share(key.as_bytes(), salt.as_bytes()), *expected, "{key} {salt}");
        }
    }

    const VECTORS: &[(&str, &str, u32)] = &[
        ("", "", 192),
        ("alice", "", 148),
        ("alice", "checkout", 410),
        ("bob", "checkout", 30),
        ("10.0.0.1", "canary", 524),
        (
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "long",
            36,
        ),
    ];

    #[test]
    fn long_keys_are_hashed_alike() {
        for (length, expected) in [(122, 576), (123, 67), (124, 513), (300, 461)] {
            assert_eq!(share(&vec![b'b'; length], b"long"), expected, "{length}");
        }
    }

    #[test]
    fn keys_spread_evenly_and_salts_mix_anew() {
        let (mut first, mut both) = (0, 0);
        for number in 0..10_000_u32 {
            let key = number.to_string();
            let one = share(key.as_bytes(), b"one") < 100;
            first += u32::from(one);
            both += u32::from(one && share(key.as_bytes(), b"two") < 100);
        }
        // 1000 and 100 are expected; the bounds are more than four standard deviations away.
        assert!((870..1130).contains(&first), "{first}");
        assert!((55..145).contains(&both), "{both}");
    }
}
