//! Public keys in PEM (RFC 7468).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// What a PEM text holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// The DER of a public key.
    PublicKey(Vec<u8>),
    /// Something else, by its label.
    Other(String),
}

/// The first block of a text; `None` if there is none that is whole.
pub(super) fn first(text: &str) -> Option<Block> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    if !matches!(label, "PUBLIC KEY" | "RSA PUBLIC KEY") {
        return Some(Block::Other(label.to_owned()));
    }
    let body: String = body.split_ascii_whitespace().collect();
    BASE64_STANDARD.decode(body).ok().map(Block::PublicKey)
}

#[cfg(test)]
mod tests {
    use super::{Block, first};

    #[test]
    fn reads_the_first_block() {
        let key = "text\n-----BEGIN PUBLIC KEY-----\nAQID\nBA==\n-----END PUBLIC KEY-----\n";
        assert_eq!(first(key), Some(Block::PublicKey(vec![1, 2, 3, 4])));
        let private = "-----BEGIN PRIVATE KEY-----\nAQID\n-----END PRIVATE KEY-----\n";
        assert_eq!(first(private), Some(Block::Other("PRIVATE KEY".to_owned())));
        for broken in [
            "",
            "AQID",
            "-----BEGIN PUBLIC KEY-----\nAQID\n",
            "-----BEGIN PUBLIC KEY-----\nA*ID\n-----END PUBLIC KEY-----\n",
            "-----BEGIN PUBLIC KEY-----\nAQID\n-----END PRIVATE KEY-----\n",
        ] {
            assert_eq!(first(broken), None, "{broken}");
        }
    }
}
