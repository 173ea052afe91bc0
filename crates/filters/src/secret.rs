//! Bytes that must not show: no `Debug`, no comparison that tells how much of a guess is right.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;

/// A password, key or token of the configuration.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes the bytes as they are.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into_boxed_slice())
    }

    /// Takes the content of a file: one line break at its end is the editor's, not the secret's.
    #[must_use]
    pub fn from_file(content: &[u8]) -> Self {
        let line = content.strip_suffix(b"\n").unwrap_or(content);
        Self::new(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The bytes, for whoever computes with them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is nothing in it: a secret that anybody guesses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `offered` is the secret. How long it takes depends on the lengths alone.
    #[must_use]
    pub fn matches(&self, offered: &[u8]) -> bool {
        verify_slices_are_equal(&self.0, offered).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn shows_nothing_and_matches_itself_only() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "*** Some(\n    ***,\n)");
        assert!(secret.matches(b"s3cret"));
        for wrong in [&b""[..], b"s3cre", b"s3cret ", b"S3cret", b"s3creu"] {
            assert!(!secret.matches(wrong), "{wrong:?}");
        }
        assert!(!secret.is_empty());
    }

    #[test]
    fn a_file_ends_with_a_line_break_that_does_not_count() {
        for content in ["key", "key\n", "key\r\n"] {
            assert_eq!(Secret::from_file(content.as_bytes()).expose(), b"key");
        }
        assert_eq!(Secret::from_file(b"key\n\n").expose(), b"key\n");
        assert!(Secret::from_file(b"\n").is_empty());
    }
}
