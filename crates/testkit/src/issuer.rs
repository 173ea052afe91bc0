//! An issuer of tokens: keys of every kind, what they sign, and how they are published.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RsaEncoding, RsaKeyPair,
};
use aws_lc_rs::{digest, hmac, rand};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

/// A key that signs tokens, made anew each time.
pub struct SigningKey {
    algorithm: String,
    id: String,
    kind: Kind,
}

enum Kind {
    Secret(Vec<u8>),
    Rsa(Box<RsaKeyPair>),
    Curve(Box<EcdsaKeyPair>),
    Edwards(Box<Ed25519KeyPair>),
}

impl SigningKey {
    /// A new key for the algorithm, under the name tokens call it by.
    pub fn generate(algorithm: &str, id: &str) -> Self {
        let kind = match algorithm.get(..2) {
            Some("HS") => {
                let mut secret = vec![0; 64];
                rand::fill(&mut secret).unwrap();
                Kind::Secret(secret)
            }
            Some("RS" | "PS") => {
                Kind::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
            }
            Some("ES") => Kind::Curve(Box::new(EcdsaKeyPair::generate(curve(algorithm)).unwrap())),
            _ => Kind::Edwards(Box::new(Ed25519KeyPair::generate().unwrap())),
        };
        Self { algorithm: algorithm.to_owned(), id: id.to_owned(), kind }
    }

    /// A key from a secret that the test chose.
    pub fn secret(algorithm: &str, id: &str, secret: &[u8]) -> Self {
        Self {
            algorithm: algorithm.to_owned(),
            id: id.to_owned(),
            kind: Kind::Secret(secret.into()),
        }
    }

    /// A signed token with these claims, a text of JSON.
    pub fn token(&self, claims: &str) -> String {
        let Self { algorithm, id, .. } = self;
        let header = format!(r#"{{"alg":"{algorithm}","typ":"JWT","kid":"{id}"}}"#);
        self.token_with(&header, claims)
    }

    /// The same with a header of the test's own, also a text of JSON.
    pub fn token_with(&self, header: &str, claims: &str) -> String {
        forged(header, claims, |signed| self.sign(signed))
    }

    /// The bytes of a signature.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.kind {
            Kind::Secret(secret) => {
                let hash = match self.algorithm.as_str() {
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::sign(&hmac::Key::new(hash, secret), message).as_ref().to_vec()
            }
            Kind::Rsa(key) => {
                let encoding: &'static dyn RsaEncoding = match self.algorithm.as_str() {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Kind::Curve(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Kind::Edwards(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// The public key (of a secret: the secret) as a member of a JWKS.
    pub fn jwk(&self) -> String {
        let Self { algorithm, id, .. } = self;
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let rest = match &self.kind {
            Kind::Secret(secret) => format!(r#""kty":"oct","k":"{}""#, encode(secret)),
            Kind::Rsa(key) => {
                let public = key.public_key();
                let n = encode(public.modulus().big_endian_without_leading_zero());
                let e = encode(public.exponent().big_endian_without_leading_zero());
                format!(r#""kty":"RSA","n":"{n}","e":"{e}""#)
            }
            Kind::Curve(key) => {
                let point = &key.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let (x, y, bits) = (encode(x), encode(y), curve_bits(algorithm));
                format!(r#""kty":"EC","crv":"P-{bits}","x":"{x}","y":"{y}""#)
            }
            Kind::Edwards(key) => {
                let x = encode(key.public_key().as_ref());
                format!(r#""kty":"OKP","crv":"Ed25519","x":"{x}""#)
            }
        };
        format!(r#"{{"kid":"{id}","use":"sig","alg":"{algorithm}",{rest}}}"#)
    }

    /// The public key in PEM.
    pub fn pem(&self) -> String {
        let der = match &self.kind {
            Kind::Secret(_) => panic!("a secret has no public key"),
            Kind::Rsa(key) => key.public_key().as_der().unwrap(),
            Kind::Curve(key) => key.public_key().as_der().unwrap(),
            Kind::Edwards(key) => key.public_key().as_der().unwrap(),
        };
        let text = BASE64_STANDARD.encode(der.as_ref());
        format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
    }
}

/// A token with a signature of the test's own making.
pub fn forged(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
    let signature = encode(&sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Bytes in base64, with padding.
pub fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The SHA-256 digest of bytes.
pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// The keys as a JWKS.
pub fn jwks(keys: &[&SigningKey]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| key.jwk()).collect();
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}

fn curve(algorithm: &str) -> &'static EcdsaSigningAlgorithm {
    match algorithm {
        "ES384" => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        "ES512" => &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
        _ => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
    }
}

fn curve_bits(algorithm: &str) -> u32 {
    match algorithm {
        "ES384" => 384,
        "ES512" => 521,
        _ => 256,
    }
}
