//! Texts that only this gateway can read and nobody can change: what cookies of a session hold.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::Secret;

/// The bytes of the moment at which a sealed text dies, in front of it.
const MOMENT: usize = 8;
/// Shorter secrets are guessed.
const MIN_SECRET: usize = 16;

/// Seals and opens, with keys made from secrets (AES-256-GCM, RFC 5116; HKDF, RFC 5869).
///
/// The first secret seals, every one of them opens: to change it, put the new one in front and take the
/// old one out when everything sealed by it has died.
pub struct Sealer {
    keys: Vec<LessSafeKey>,
    /// What the keys are bound to, framed; part of the associated data.
    binding: Vec<u8>,
}

/// Why there is no sealer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealerFlaw {
    /// There is no secret.
    None,
    /// A secret, counted from one, is shorter than 16 bytes.
    Short(usize),
    /// The library refused, which it does for no secret there is.
    Refused,
}

impl fmt::Display for SealerFlaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("there is no secret"),
            Self::Short(which) => write!(
                formatter,
                "secret {which} has fewer than {MIN_SECRET} bytes; `openssl rand -base64 32` makes a good one"
            ),
            Self::Refused => formatter.write_str("the secrets cannot be used"),
        }
    }
}

impl Sealer {
    /// With keys from these secrets. Sealers for different purposes do not open each other's texts, and
    /// neither do those with different bindings: what the text is for, such as an issuer and a client.
    ///
    /// # Errors
    /// [`SealerFlaw`] if there is no secret or a short one.
    pub fn new(secrets: &[Secret], purpose: &str, bindings: &[&str]) -> Result<Self, SealerFlaw> {
        if secrets.is_empty() {
            return Err(SealerFlaw::None);
        }
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"sluice sealed text 1");
        // Each part has its length in front, so that no two lists of parts read the same.
        let binding: Vec<u8> = bindings.iter().flat_map(|part| framed(part.as_bytes())).collect();
        let key = |(index, secret): (usize, &Secret)| {
            if secret.expose().len() < MIN_SECRET {
                return Err(SealerFlaw::Short(index + 1));
            }
            let info = [purpose.as_bytes(), &*binding];
            let material = salt.extract(secret.expose());
            let material = material.expand(&info, &AES_256_GCM).map_err(|_| SealerFlaw::Refused)?;
            Ok(LessSafeKey::new(UnboundKey::from(material)))
        };
        let keys = secrets.iter().enumerate().map(key).collect::<Result<_, _>>()?;
        Ok(Self { keys, binding })
    }

    /// What is authenticated beside the text: what it is for, and the name it is sealed under.
    fn associated_data(&self, name: &str) -> Aad<Vec<u8>> {
        Aad::from([&*self.binding, name.as_bytes()].concat())
    }

    /// Seals `plain` under a name (that of its cookie: it cannot be passed off as another), until
    /// `until`, Unix time in seconds. The text has letters, digits, `-` and `_` only.
    ///
    /// `None` if the system has no random bytes.
    #[must_use]
    pub fn seal(&self, name: &str, plain: &[u8], until: u64) -> Option<String> {
        let key = self.keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut body = [&until.to_be_bytes(), plain].concat();
        let aad = self.associated_data(name);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut body).ok()?;
        Some(BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &body].concat()))
    }

    /// Opens what was sealed under this name, unless it has died at `now`, Unix time in seconds.
    #[must_use]
    pub fn open(&self, name: &str, sealed: &[u8], now: u64) -> Option<Opened> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, body) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (which, plain) = self.keys.iter().enumerate().find_map(|(which, key)| {
            let mut body = body.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let aad = self.associated_data(name);
            let plain = key.open_in_place(nonce, aad, &mut body).ok()?;
            Some((which, plain.to_vec()))
        })?;
        let (until, plain) = plain.split_first_chunk::<MOMENT>()?;
        let until = u64::from_be_bytes(*until);
        let key = if which == 0 { SealedBy::Current } else { SealedBy::Former };
        (now < until).then(|| Opened { plain: plain.to_vec(), until, key })
    }
}

/// A part of a list with its length in front.
fn framed(part: &[u8]) -> Vec<u8> {
    let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
    [&length.to_be_bytes()[..], part].concat()
}

/// What was sealed.
#[derive(Clone, PartialEq, Eq)]
pub struct Opened {
    /// The bytes as they were given.
    pub plain: Vec<u8>,
    /// When they die, as Unix time in seconds.
    pub until: u64,
    /// Whether they ought to be sealed anew.
    pub key: SealedBy,
}

/// Which secret something was sealed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedBy {
    /// The first one.
    Current,
    /// One that is on its way out.
    Former,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealer({} keys)", self.keys.len())
    }
}

/// Without what was sealed.
impl fmt::Debug for Opened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Opened({} bytes until {})", self.plain.len(), self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::{SealedBy, Sealer, SealerFlaw};
    use crate::Secret;

    fn sealer(secrets: &[&str], purpose: &str) -> Sealer {
        let secrets: Vec<Secret> = secrets.iter().map(|secret| Secret::new(*secret)).collect();
        Sealer::new(&secrets, purpose, &[]).unwrap()
    }

    #[test]
    fn what_was_sealed_for_one_is_nothing_to_another() {
        let bound = |parts: &[&str]| Sealer::new(&[Secret::new(OLD)], "session", parts).unwrap();
        let rows: [&[&str]; 6] =
            [&[], &["a", "bc"], &["ab", "c"], &["abc"], &["bc", "a"], &["a", "bc", ""]];
        for sealing in rows {
            let sealed = bound(sealing).seal("sid", b"eva", 100).unwrap();
            for opening in rows {
                let opened = bound(opening).open("sid", sealed.as_bytes(), 1);
                assert_eq!(opened.is_some(), opening == sealing, "{sealing:?} by {opening:?}");
            }
        }
    }

    const OLD: &str = "an old secret of some length";
    const NEW: &str = "a new secret of some length";

    #[test]
    fn opens_what_it_sealed_until_it_dies() {
        let sealer = sealer(&[OLD], "session");
        for plain in [&b""[..], b"x", &[0; 5000]] {
            let sealed = sealer.seal("sid", plain, 100).unwrap();
            assert!(
                sealed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            );
            let opened = sealer.open("sid", sealed.as_bytes(), 99).unwrap();
            assert_eq!((&*opened.plain, opened.until, opened.key), (plain, 100, SealedBy::Current));
            assert!(sealer.open("sid", sealed.as_bytes(), 100).is_none(), "it has died");
            assert!(sealer.open("sie", sealed.as_bytes(), 99).is_none(), "another cookie");
        }
        let twice = (sealer.seal("sid", b"x", 1), sealer.seal("sid", b"x", 1));
        assert_ne!(twice.0, twice.1);
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let sealer = sealer(&[OLD], "session");
        let sealed = sealer.seal("sid", b"eva", 100).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(sealer.open("sid", &changed, 50).is_none(), "byte {at}");
            assert!(sealer.open("sid", &sealed.as_bytes()[..at], 50).is_none(), "cut at {at}");
        }
        for wrong in ["", "=", "AAAA", "\0", "ä"] {
            assert!(sealer.open("sid", wrong.as_bytes(), 50).is_none());
        }
        assert!(sealer.open("sid", &vec![b'A'; 100_000], 50).is_none());
    }

    #[test]
    fn secrets_are_changed_one_after_the_other() {
        let (before, both) = (sealer(&[OLD], "session"), sealer(&[NEW, OLD], "session"));
        let sealed = before.seal("sid", b"eva", 100).unwrap();
        assert_eq!(both.open("sid", sealed.as_bytes(), 1).unwrap().key, SealedBy::Former);
        let anew = both.seal("sid", b"eva", 100).unwrap();
        assert_eq!(both.open("sid", anew.as_bytes(), 1).unwrap().key, SealedBy::Current);
        assert!(before.open("sid", anew.as_bytes(), 1).is_none());
        assert!(sealer(&[NEW], "session").open("sid", sealed.as_bytes(), 1).is_none());
        // The same secret for something else.
        assert!(sealer(&[OLD], "csrf").open("sid", sealed.as_bytes(), 1).is_none());
    }

    #[test]
    fn secrets_have_a_length_and_do_not_show() {
        let short = Sealer::new(&[Secret::new(OLD), Secret::new("short")], "x", &[]).unwrap_err();
        assert_eq!(short, SealerFlaw::Short(2));
        assert_eq!(Sealer::new(&[], "x", &[]).unwrap_err(), SealerFlaw::None);
        let sealer = sealer(&[OLD], "x");
        let opened = sealer.open("a", sealer.seal("a", b"eva", 9).unwrap().as_bytes(), 1);
        assert_eq!(
            format!("{sealer:?} {opened:?}"),
            "Sealer(1 keys) Some(Opened(3 bytes until 9))"
        );
    }
}
