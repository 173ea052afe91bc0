//! Which part of all keys a key belongs to.

use twox_hash::XxHash64;

/// What makes one drawing of keys differ from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(u64);

impl Salt {
    /// The drawing that this text stands for.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self(XxHash64::oneshot(0, text))
    }
}

/// The place of `key` among a thousand, 0 to 999: the same for the same key and salt, on every machine and in
/// every version, so that what had `share < 100` is a part of what has `share < 200`.
///
/// It is the XXH64 of the key modulo 1000; the seed is the XXH64 of the salt with the seed 0. This is a hash
/// that spreads well and costs little, and that every language has: nothing has to be kept secret by it.
#[must_use]
#[inline]
pub fn share(key: &[u8], salt: Salt) -> u32 {
    u32::try_from(XxHash64::oneshot(salt.0, key) % 1000).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Salt, share};

    /// Worked out by another program, Python's xxhash:
    /// `xxh64(KEY, seed=xxh64(SALT).intdigest()).intdigest() % 1000`.
    #[test]
    fn shares_stay_what_they_are() {
        for (key, salt, expected) in VECTORS {
            assert_eq!(
                share(key.as_bytes(), Salt::new(salt.as_bytes())),
                *expected,
                "{key} {salt}"
            );
        }
    }

    const VECTORS: &[(&str, &str, u32)] = &[
        ("", "", 636),
        ("alice", "", 726),
        ("alice", "checkout", 327),
        ("bob", "checkout", 637),
        ("10.0.0.1", "canary", 533),
        (
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "long",
            876,
        ),
    ];

    #[test]
    fn long_keys_are_hashed_alike() {
        for (length, expected) in [(122, 691), (123, 116), (124, 262), (300, 573)] {
            assert_eq!(share(&vec![b'b'; length], Salt::new(b"long")), expected, "{length}");
        }
    }

    #[test]
    fn keys_spread_evenly_and_salts_mix_anew() {
        let (mut first, mut both) = (0, 0);
        let (one_salt, two_salt) = (Salt::new(b"one"), Salt::new(b"two"));
        for number in 0..10_000_u32 {
            let key = number.to_string();
            let one = share(key.as_bytes(), one_salt) < 100;
            first += u32::from(one);
            both += u32::from(one && share(key.as_bytes(), two_salt) < 100);
        }
        // 1000 and 100 are expected; the bounds are more than four standard deviations away.
        assert!((870..1130).contains(&first), "{first}");
        assert!((55..145).contains(&both), "{both}");
    }
}
