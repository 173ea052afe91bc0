//! Credentials that were verified, remembered without the credentials.

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::rand;

/// Makes a fingerprint of user and password that means nothing to anybody else: a hash with a key that
/// this process drew and keeps to itself. What was verified is remembered by it.
pub struct Fingerprints(hmac::Key);

impl Fingerprints {
    /// With a new key; `None` if the system has no random bytes.
    #[must_use]
    pub fn new() -> Option<Self> {
        let mut key = [0; 32];
        rand::fill(&mut key).ok()?;
        Some(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// The fingerprint of these credentials.
    #[must_use]
    pub fn of(&self, user: &str, password: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        // The length in front: ("a", "bc") is not ("ab", "c").
        context.update(&user.len().to_be_bytes());
        context.update(user.as_bytes());
        context.update(password);
        context.sign()
    }
}

impl fmt::Debug for Fingerprints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fingerprints(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprints;
    use crate::Recent;

    #[test]
    fn tells_credentials_apart_and_processes_too() {
        let (one, other) = (Fingerprints::new().unwrap(), Fingerprints::new().unwrap());
        let print = one.of("eva", b"pw");
        assert_eq!(one.of("eva", b"pw").as_ref(), print.as_ref());
        for (user, password) in [("eva", "pW"), ("evap", "w"), ("ev", "apw"), ("", "evapw")] {
            assert_ne!(one.of(user, password.as_bytes()).as_ref(), print.as_ref());
        }
        assert_ne!(other.of("eva", b"pw").as_ref(), print.as_ref());
        let mut recent = Recent::new(16, 32);
        recent.put(print.as_ref(), 100, ());
        assert!(recent.get(one.of("eva", b"pw").as_ref(), 50).is_some());
        assert!(recent.get(one.of("eva", b"pw2").as_ref(), 50).is_none());
    }
}
