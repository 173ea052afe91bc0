//! The signature algorithms of tokens (RFC 7518, 3.1; RFC 8037, 3.1).

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSA, PKCS #1 v1.5, SHA-256.
    Rs256,
    /// RSA, PKCS #1 v1.5, SHA-384.
    Rs384,
    /// RSA, PKCS #1 v1.5, SHA-512.
    Rs512,
    /// RSA-PSS, SHA-256.
    Ps256,
    /// RSA-PSS, SHA-384.
    Ps384,
    /// RSA-PSS, SHA-512.
    Ps512,
    /// ECDSA over P-256, SHA-256.
    Es256,
    /// ECDSA over P-384, SHA-384.
    Es384,
    /// ECDSA over P-521, SHA-512.
    Es512,
    /// Ed25519.
    EdDsa,
}

const NAMES: [(Algorithm, &str); 13] = [
    (Algorithm::Hs256, "HS256"),
    (Algorithm::Hs384, "HS384"),
    (Algorithm::Hs512, "HS512"),
    (Algorithm::Rs256, "RS256"),
    (Algorithm::Rs384, "RS384"),
    (Algorithm::Rs512, "RS512"),
    (Algorithm::Ps256, "PS256"),
    (Algorithm::Ps384, "PS384"),
    (Algorithm::Ps512, "PS512"),
    (Algorithm::Es256, "ES256"),
    (Algorithm::Es384, "ES384"),
    (Algorithm::Es512, "ES512"),
    (Algorithm::EdDsa, "EdDSA"),
];

impl Algorithm {
    /// Those of secrets that both sides know.
    pub const HMAC: &[Self] = &[Self::Hs256, Self::Hs384, Self::Hs512];
    /// Those of RSA keys.
    pub const RSA: &[Self] =
        &[Self::Rs256, Self::Rs384, Self::Rs512, Self::Ps256, Self::Ps384, Self::Ps512];

    /// The algorithm of this name; names are case-sensitive (RFC 7515, 4.1.1), and `none` is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(algorithm, _)| *algorithm)
    }

    /// Its name in tokens.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, NAMES};

    #[test]
    fn names_are_exact() {
        for (algorithm, name) in NAMES {
            assert_eq!((Algorithm::named(name), algorithm.name()), (Some(algorithm), name));
        }
        for unknown in ["none", "None", "NONE", "", "hs256", "HS256 ", "RS1", "ES256K", "A128KW"] {
            assert_eq!(Algorithm::named(unknown), None, "{unknown}");
        }
    }
}
