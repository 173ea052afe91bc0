//! The digest of content in a field (RFC 9530), and whether content has it.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// What a request says its content's digest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    strength: Strength,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Sha256,
    Sha512,
}

impl ContentDigest {
    /// Reads `Content-Digest`, whose strongest member counts; others than `sha-256` and `sha-512` say
    /// nothing.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = std::str::from_utf8(value).ok()?;
        value.split(',').filter_map(member).max_by_key(|member| member.strength)
    }

    /// Begins to look at content.
    #[must_use]
    pub fn check(&self) -> DigestCheck {
        let algorithm = match self.strength {
            Strength::Sha256 => &SHA256,
            Strength::Sha512 => &SHA512,
        };
        DigestCheck { wanted: self.bytes.clone(), context: Context::new(algorithm) }
    }
}

fn member(text: &str) -> Option<ContentDigest> {
    let (name, rest) = text.trim().split_once('=')?;
    let (strength, size) = match name {
        "sha-256" => (Strength::Sha256, 32),
        "sha-512" => (Strength::Sha512, 64),
        _ => return None,
    };
    let encoded = rest.strip_prefix(':')?.strip_suffix(':')?;
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    (bytes.len() == size).then_some(ContentDigest { strength, bytes })
}

/// Content on its way, looked at piece by piece.
pub struct DigestCheck {
    wanted: Vec<u8>,
    context: Context,
}

impl DigestCheck {
    /// Takes a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.context.update(piece);
    }

    /// Whether all of it has the digest.
    #[must_use]
    pub fn fits(self) -> bool {
        self.context.finish().as_ref() == self.wanted
    }
}

impl fmt::Debug for DigestCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DigestCheck")
    }
}

#[cfg(test)]
mod tests {
    use super::ContentDigest;

    // RFC 9530, appendix D: {"hello": "world"} with a line feed behind it.
    const CONTENT: &[u8] = b"{\"hello\": \"world\"}\n";
    const SHA256: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";

    #[test]
    fn content_has_its_digest_and_no_other() {
        let digest = ContentDigest::parse(SHA256.as_bytes()).unwrap();
        let mut check = digest.check();
        for piece in CONTENT.chunks(5) {
            check.update(piece);
        }
        assert!(check.fits());
        assert!(!digest.check().fits());
        let both = format!("unixsum=:AA==:, {SHA256}, sha-512=:{}==:", "A".repeat(86));
        let strongest = ContentDigest::parse(both.as_bytes()).unwrap();
        let mut check = strongest.check();
        check.update(CONTENT);
        assert!(!check.fits(), "the stronger one counts");
    }

    #[test]
    fn what_is_no_digest_is_none() {
        for wrong in
            ["", "sha-256", "sha-256=", "sha-256=::", "sha-256=:AAAA:", "md5=:AAAA:", "sha-256=RK"]
        {
            assert_eq!(ContentDigest::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
