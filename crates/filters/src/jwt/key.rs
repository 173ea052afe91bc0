//! A key, with the algorithms it is for.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, VerificationAlgorithm,
};
use aws_lc_rs::{hmac, rsa};

use super::pem::{Block, first};
use super::{Algorithm, Refusal};
use crate::Secret;

/// A key that verifies tokens.
pub struct Key {
    id: Option<Box<str>>,
    /// One for each algorithm the key is for.
    verifiers: Vec<(Algorithm, Verifier)>,
}

enum Verifier {
    Secret(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

/// Why something is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFlaw {
    /// The text is no PEM of a public key; the text says what it is, or what is wrong.
    Pem(String),
    /// It is none of the keys that are supported, or broken.
    Unusable,
    /// An RSA key has fewer than 2048 bits or more than 8192.
    RsaSize,
    /// The secret of an HMAC has fewer bytes than this (RFC 7518, 3.2).
    ShortSecret(usize),
    /// It is not for this algorithm.
    NotFor(Algorithm),
}

impl fmt::Display for KeyFlaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pem(what) => formatter.write_str(what),
            Self::Unusable => {
                formatter.write_str("no key that is supported: RSA, P-256, P-384, P-521 or Ed25519")
            }
            Self::RsaSize => formatter.write_str("an RSA key needs 2048 to 8192 bits"),
            Self::ShortSecret(bytes) => {
                write!(formatter, "the secret needs at least {bytes} bytes for this algorithm")
            }
            Self::NotFor(algorithm) => {
                write!(formatter, "the key is not for the algorithm {}", algorithm.name())
            }
        }
    }
}

impl Key {
    /// A secret that both sides know, for the one algorithm `algorithm`.
    ///
    /// # Errors
    /// [`KeyFlaw`] if the algorithm is not one of HMAC or the secret too short for it.
    pub fn secret(secret: &Secret, algorithm: Algorithm) -> Result<Self, KeyFlaw> {
        let hash = match algorithm {
            Algorithm::Hs256 => hmac::HMAC_SHA256,
            Algorithm::Hs384 => hmac::HMAC_SHA384,
            Algorithm::Hs512 => hmac::HMAC_SHA512,
            other => return Err(KeyFlaw::NotFor(other)),
        };
        if secret.expose().len() < hash.tag_len() {
            return Err(KeyFlaw::ShortSecret(hash.tag_len()));
        }
        let key = hmac::Key::new(hash, secret.expose());
        Ok(Self { id: None, verifiers: vec![(algorithm, Verifier::Secret(Box::new(key)))] })
    }

    /// A public key in PEM, for every algorithm that fits its type.
    ///
    /// # Errors
    /// [`KeyFlaw`] if it is none.
    pub fn pem(text: &str) -> Result<Self, KeyFlaw> {
        match first(text) {
            Some(Block::PublicKey(der)) => Self::der(&der),
            Some(Block::Other(label)) if label.ends_with("PRIVATE KEY") => Err(KeyFlaw::Pem(
                "it is a private key; give the public one, which `openssl pkey -pubout` writes"
                    .to_owned(),
            )),
            Some(Block::Other(label)) => {
                Err(KeyFlaw::Pem(format!("it is a `{label}`, not a `PUBLIC KEY`")))
            }
            None => Err(KeyFlaw::Pem("it holds no whole block `PUBLIC KEY`".to_owned())),
        }
    }

    fn der(der: &[u8]) -> Result<Self, KeyFlaw> {
        if let Ok(key) = rsa::PublicKey::from_der(der) {
            return Self::rsa(
                key.modulus().big_endian_without_leading_zero(),
                key.exponent().big_endian_without_leading_zero(),
            );
        }
        let others: [(Algorithm, &'static dyn VerificationAlgorithm); 4] = [
            (Algorithm::Es256, &ECDSA_P256_SHA256_FIXED),
            (Algorithm::Es384, &ECDSA_P384_SHA384_FIXED),
            (Algorithm::Es512, &ECDSA_P521_SHA512_FIXED),
            (Algorithm::EdDsa, &ED25519),
        ];
        others
            .into_iter()
            .find_map(|(algorithm, with)| {
                let key = ParsedPublicKey::new(with, der).ok()?;
                Some(Self { id: None, verifiers: vec![(algorithm, Verifier::Public(key))] })
            })
            .ok_or(KeyFlaw::Unusable)
    }

    /// An RSA key by its numbers, without leading zeros.
    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyFlaw> {
        let bits = modulus.first().map_or(0, |first| modulus.len() * 8 - leading_zeros(*first));
        if !(2048..=8192).contains(&bits) {
            return Err(KeyFlaw::RsaSize);
        }
        let components = RsaPublicKeyComponents { n: modulus, e: exponent };
        let with: [(Algorithm, &'static RsaParameters); 6] = [
            (Algorithm::Rs256, &RSA_PKCS1_2048_8192_SHA256),
            (Algorithm::Rs384, &RSA_PKCS1_2048_8192_SHA384),
            (Algorithm::Rs512, &RSA_PKCS1_2048_8192_SHA512),
            (Algorithm::Ps256, &RSA_PSS_2048_8192_SHA256),
            (Algorithm::Ps384, &RSA_PSS_2048_8192_SHA384),
            (Algorithm::Ps512, &RSA_PSS_2048_8192_SHA512),
        ];
        let verifiers = with
            .into_iter()
            .map(|(algorithm, parameters)| {
                let key =
                    components.to_parsed_public_key(parameters).map_err(|_| KeyFlaw::Unusable)?;
                Ok((algorithm, Verifier::Public(key)))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { id: None, verifiers })
    }

    /// A point on a curve, uncompressed, or the 32 bytes of Ed25519.
    pub(super) fn curve(algorithm: Algorithm, point: &[u8]) -> Result<Self, KeyFlaw> {
        let with: &'static dyn VerificationAlgorithm = match algorithm {
            Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
            Algorithm::Es512 => &ECDSA_P521_SHA512_FIXED,
            Algorithm::EdDsa => &ED25519,
            other => return Err(KeyFlaw::NotFor(other)),
        };
        let key = ParsedPublicKey::new(with, point).map_err(|_| KeyFlaw::Unusable)?;
        Ok(Self { id: None, verifiers: vec![(algorithm, Verifier::Public(key))] })
    }

    /// With the name that tokens call it by.
    #[must_use]
    pub fn with_id(mut self, id: Option<&str>) -> Self {
        self.id = id.map(Box::from);
        self
    }

    /// For these of its algorithms only.
    ///
    /// # Errors
    /// [`KeyFlaw::NotFor`] if it is for none of them.
    pub fn only(mut self, algorithms: &[Algorithm]) -> Result<Self, KeyFlaw> {
        self.verifiers.retain(|(algorithm, _)| algorithms.contains(algorithm));
        match (self.verifiers.is_empty(), algorithms.first()) {
            (true, Some(first)) => Err(KeyFlaw::NotFor(*first)),
            (true, None) => Err(KeyFlaw::Unusable),
            (false, _) => Ok(self),
        }
    }

    /// The name that tokens call it by.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// What it is for.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.verifiers.iter().map(|(algorithm, _)| *algorithm)
    }

    /// Checks a signature.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Refusal> {
        let (_, verifier) = self
            .verifiers
            .iter()
            .find(|(known, _)| *known == algorithm)
            .ok_or(Refusal::WrongAlgorithm)?;
        let outcome = match verifier {
            Verifier::Secret(key) => hmac::verify(key, message, signature),
            Verifier::Public(key) => key.verify_sig(message, signature),
        };
        outcome.map_err(|_| Refusal::Signature)
    }
}

fn leading_zeros(byte: u8) -> usize {
    usize::try_from(byte.leading_zeros()).unwrap_or(8)
}

/// Without the key: of a secret nothing may show.
impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Key")
            .field("id", &self.id)
            .field("algorithms", &self.algorithms().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
