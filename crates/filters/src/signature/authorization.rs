//! The field that carries a signature.

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// More fields than anybody signs.
const MAX_FIELDS: usize = 32;
/// A longer value is nobody's, in bytes.
const MAX_VALUE: usize = 4096;

/// The hash of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// `hmac-sha256`
    Sha256,
    /// `hmac-sha384`
    Sha384,
    /// `hmac-sha512`
    Sha512,
}

impl Hash {
    /// The hash of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "hmac-sha256" => Self::Sha256,
            "hmac-sha384" => Self::Sha384,
            "hmac-sha512" => Self::Sha512,
            _ => return None,
        })
    }

    /// The key of an HMAC with this hash.
    #[must_use]
    pub fn key(self, secret: &[u8]) -> hmac::Key {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::Key::new(algorithm, secret)
    }
}

/// What a request says about its signature:
/// `HMAC key="reports", algorithm="hmac-sha256", headers="host content-digest", signature="…"`.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization {
    /// The name of the key.
    pub key: String,
    /// How it was signed; `hmac-sha256` unless it says otherwise.
    pub hash: Hash,
    /// Names of the signed fields, in lower case, in their order.
    pub fields: Vec<String>,
    /// The signature.
    pub signature: Vec<u8>,
}

impl Authorization {
    /// Reads the field's value; `None` if it is another scheme or malformed.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        if value.len() > MAX_VALUE {
            return None;
        }
        let value = std::str::from_utf8(value).ok()?;
        let (scheme, mut rest) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("hmac") {
            return None;
        }
        let (mut key, mut hash, mut fields, mut signature) = (None, None, None, None);
        loop {
            let (name, text, behind) = parameter(rest.trim_start())?;
            // Said twice, nothing is said.
            let place = match name {
                "key" => &mut key,
                "algorithm" => &mut hash,
                "headers" => &mut fields,
                "signature" => &mut signature,
                _ => return None,
            };
            if place.replace(text).is_some() {
                return None;
            }
            match behind.trim_start() {
                "" => break,
                behind => rest = behind.strip_prefix(',')?,
            }
        }
        let fields: Vec<String> = fields
            .unwrap_or_default()
            .split_ascii_whitespace()
            .map(str::to_ascii_lowercase)
            .collect();
        if fields.len() > MAX_FIELDS {
            return None;
        }
        Some(Self {
            key: key.filter(|key| !key.is_empty())?.to_owned(),
            hash: Hash::named(hash.unwrap_or("hmac-sha256"))?,
            fields,
            signature: BASE64_STANDARD.decode(signature?).ok()?,
        })
    }

    /// Whether the signature is that of `text` under `secret`. Takes the same time for every guess.
    #[must_use]
    pub fn fits(&self, secret: &[u8], text: &[u8]) -> bool {
        hmac::verify(&self.hash.key(secret), text, &self.signature).is_ok()
    }
}

/// `name="text"` in front of the rest. Texts have no escapes: nothing in them needs one.
fn parameter(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let (text, rest) = rest.strip_prefix('"')?.split_once('"')?;
    (!text.contains(['\\', '\n', '\r'])).then_some((name, text, rest))
}

/// Without the signature.
impl fmt::Debug for Authorization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, hash, fields, .. } = self;
        write!(formatter, "Authorization({key:?}, {hash:?}, {fields:?})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Authorization, Hash};

    #[test]
    fn reads_what_a_request_says() {
        let text = r#"HMAC key="a", algorithm="hmac-sha512",headers="Host x-a" , signature="AQID""#;
        let wanted = Authorization {
            key: "a".to_owned(),
            hash: Hash::Sha512,
            fields: vec!["host".to_owned(), "x-a".to_owned()],
            signature: vec![1, 2, 3],
        };
        assert_eq!(Authorization::parse(text.as_bytes()), Some(wanted));
        let short = Authorization::parse(br#"hmac signature="AQID",key="a""#).unwrap();
        assert_eq!((short.hash, short.fields.len()), (Hash::Sha256, 0));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let fields = "x ".repeat(33);
        for wrong in [
            "",
            "HMAC",
            "HMAC ",
            r#"Basic key="a", signature="AQID""#,
            r#"HMAC key="a""#,
            r#"HMAC signature="AQID""#,
            r#"HMAC key="", signature="AQID""#,
            r#"HMAC key="a", signature="*""#,
            r#"HMAC key=a, signature="AQID""#,
            r#"HMAC key="a" signature="AQID""#,
            r#"HMAC key="a", signature="AQID","#,
            r#"HMAC key="a", key="b", signature="AQID""#,
            r#"HMAC key="a", other="b", signature="AQID""#,
            r#"HMAC key="a", algorithm="none", signature="AQID""#,
            r#"HMAC key="a", algorithm="md5", signature="AQID""#,
            r#"HMAC key="a\", signature="AQID""#,
            &format!(r#"HMAC key="a", headers="{fields}", signature="AQID""#),
            &format!(r#"HMAC key="{}", signature="AQID""#, "a".repeat(5000)),
        ] {
            assert_eq!(Authorization::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(Authorization::parse(b"HMAC key=\"\xff\", signature=\"AQID\"").is_none());
    }
}
