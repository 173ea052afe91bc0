//! `silly.crypto.pkey`: keys in two parts, one of which may be known.

use std::rc::Rc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384, OAEP_SHA512_MGF1SHA512,
    OaepAlgorithm, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, Pkcs1PrivateDecryptingKey,
    Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, ParsedPublicKey,
    RsaEncoding, RsaKeyPair, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::frame::{Frame, Reply, native};

native!(native_new, new);
native!(native_sign, sign);
native!(native_verify, verify);
native!(native_encrypt, encrypt);
native!(native_decrypt, decrypt);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 5] = [
    ("pkey_new", native_new),
    ("pkey_sign", native_sign),
    ("pkey_verify", native_verify),
    ("pkey_encrypt", native_encrypt),
    ("pkey_decrypt", native_decrypt),
];

/// Longest text of a key.
const LONGEST: usize = 64 << 10;

/// `RSA_PKCS1_OAEP` as scripts know it; what is not this is PKCS #1 v1.5.
const OAEP: i64 = 4;

/// How a signature of a curve is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// X9.62, as everywhere but in tokens.
    Asn1,
    /// Two numbers of fixed length (RFC 7518, 3.4).
    Fixed,
}

/// What a curve signs with.
struct Curve {
    name: &'static str,
    digest: &'static str,
    signing: (&'static EcdsaSigningAlgorithm, &'static EcdsaSigningAlgorithm),
    verifying: (&'static dyn VerificationAlgorithm, &'static dyn VerificationAlgorithm),
}

static CURVES: [Curve; 4] = [
    Curve {
        name: "P-256",
        digest: "sha256",
        signing: (
            &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
            &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        ),
        verifying: (&signature::ECDSA_P256_SHA256_ASN1, &signature::ECDSA_P256_SHA256_FIXED),
    },
    Curve {
        name: "P-384",
        digest: "sha384",
        signing: (
            &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
            &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        ),
        verifying: (&signature::ECDSA_P384_SHA384_ASN1, &signature::ECDSA_P384_SHA384_FIXED),
    },
    Curve {
        name: "P-521",
        digest: "sha512",
        signing: (
            &signature::ECDSA_P521_SHA512_ASN1_SIGNING,
            &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
        ),
        verifying: (&signature::ECDSA_P521_SHA512_ASN1, &signature::ECDSA_P521_SHA512_FIXED),
    },
    Curve {
        name: "secp256k1",
        digest: "sha256",
        signing: (
            &signature::ECDSA_P256K1_SHA256_ASN1_SIGNING,
            &signature::ECDSA_P256K1_SHA256_FIXED_SIGNING,
        ),
        verifying: (&signature::ECDSA_P256K1_SHA256_ASN1, &signature::ECDSA_P256K1_SHA256_FIXED),
    },
];

enum Secret {
    Rsa(Box<RsaKeyPair>, Option<Box<PrivateDecryptingKey>>),
    /// The same key for both forms of a signature.
    Curve(Box<(EcdsaKeyPair, EcdsaKeyPair)>),
    Edwards(Box<Ed25519KeyPair>),
}

enum Kind {
    Rsa { public: Option<Box<PublicEncryptingKey>> },
    Curve(&'static Curve),
    Edwards,
}

/// A key; without its secret it is a public one.
struct Key {
    kind: Kind,
    secret: Option<Secret>,
    /// In DER, of whatever form the library reads.
    public: Vec<u8>,
}

/// The first block of a PEM text (RFC 7468): its label and what is in it.
fn unwrap(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (content, _) = rest.split_once("-----END ")?;
    let content: Vec<u8> = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    Some((label, STANDARD.decode(content).ok()?))
}

fn private(der: &[u8]) -> Option<Key> {
    let rsa = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
    if let Ok(pair) = rsa {
        // Keys that are not in PKCS #8 sign, and do not decrypt.
        let decrypting = PrivateDecryptingKey::from_pkcs8(der).ok();
        let encrypting = decrypting.as_ref().map(|key| Box::new(key.public_key()));
        let public = pair.public_key().as_ref().to_vec();
        let kind = Kind::Rsa { public: encrypting };
        let secret = Secret::Rsa(Box::new(pair), decrypting.map(Box::new));
        return Some(Key { kind, secret: Some(secret), public });
    }
    for curve in &CURVES {
        let read = |algorithm| {
            EcdsaKeyPair::from_pkcs8(algorithm, der)
                .or_else(|_| EcdsaKeyPair::from_private_key_der(algorithm, der))
        };
        if let (Ok(asn1), Ok(fixed)) = (read(curve.signing.0), read(curve.signing.1)) {
            let public = asn1.public_key().as_ref().to_vec();
            let secret = Some(Secret::Curve(Box::new((asn1, fixed))));
            return Some(Key { kind: Kind::Curve(curve), secret, public });
        }
    }
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
    let public = pair.public_key().as_ref().to_vec();
    Some(Key { kind: Kind::Edwards, secret: Some(Secret::Edwards(Box::new(pair))), public })
}

fn public(der: &[u8]) -> Option<Key> {
    let public = der.to_vec();
    let reads = |algorithm| ParsedPublicKey::new(algorithm, der).is_ok();
    if let Some(curve) = CURVES.iter().find(|curve| reads(curve.verifying.0)) {
        return Some(Key { kind: Kind::Curve(curve), secret: None, public });
    }
    if reads(&signature::ED25519) {
        return Some(Key { kind: Kind::Edwards, secret: None, public });
    }
    if reads(&signature::RSA_PKCS1_2048_8192_SHA256) {
        let encrypting = PublicEncryptingKey::from_der(der).ok().map(Box::new);
        return Some(Key { kind: Kind::Rsa { public: encrypting }, secret: None, public });
    }
    None
}

/// `new(pem)`: a key, or nil and an error.
fn new(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.text(1) else {
        return frame.raise("bad argument #1 to 'new': a PEM text is expected");
    };
    if text.len() > LONGEST {
        return frame.fail(b"the text is too long for a key");
    }
    let Some((label, der)) = unwrap(&text) else {
        return frame.fail(b"it is no PEM text");
    };
    let key = match label {
        "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => private(&der),
        "PUBLIC KEY" | "RSA PUBLIC KEY" => public(&der),
        "ENCRYPTED PRIVATE KEY" => {
            return frame
                .fail(b"encrypted keys are not supported: use `openssl pkcs8 -in key -nodes`");
        }
        _ => return frame.fail(format!("'{label}' is no key").as_bytes()),
    };
    match key {
        Some(key) => frame.push_object(Rc::new(key), 4096),
        None => {
            return frame.fail(
                b"it is none of RSA (2048 bits and more), P-256, P-384, P-521, secp256k1, Ed25519",
            );
        }
    }
    Reply::Values(1)
}

#[cold]
fn no_key(frame: &Frame<'_>) -> Reply {
    frame.raise("bad argument #1: a key is expected")
}

fn form(frame: &Frame<'_>, index: i32) -> Form {
    if frame.bytes(index) == Some(b"fixed") { Form::Fixed } else { Form::Asn1 }
}

fn rsa_encoding(digest: &str) -> Option<&'static dyn RsaEncoding> {
    Some(match digest {
        "sha256" => &signature::RSA_PKCS1_SHA256,
        "sha384" => &signature::RSA_PKCS1_SHA384,
        "sha512" => &signature::RSA_PKCS1_SHA512,
        _ => return None,
    })
}

fn rsa_verification(digest: &str) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match digest {
        "sha1" => &signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "sha384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "sha512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        _ => return None,
    })
}

/// A key and a digest that do not go together.
fn mismatch(kind: &Kind, digest: &str) -> String {
    match kind {
        Kind::Rsa { .. } => format!("RSA keys sign sha256, sha384 and sha512, not '{digest}'"),
        Kind::Curve(curve) => {
            format!("keys of {} sign {}, not '{digest}'", curve.name, curve.digest)
        }
        Kind::Edwards => "the key cannot be used so".to_owned(),
    }
}

/// `sign(key, message, digest, form)`.
fn sign(frame: &Frame<'_>) -> Reply {
    let Some(key) = frame.object::<Key>(1) else { return no_key(frame) };
    let Some(message) = frame.bytes(2) else {
        return frame.raise("bad argument #1 to 'sign': a string is expected");
    };
    let digest = frame.text(3).unwrap_or_default().to_ascii_lowercase();
    let signed = match (&key.secret, &key.kind) {
        (None, _) => Err("a public key cannot sign".to_owned()),
        (Some(Secret::Rsa(pair, _)), _) => rsa_encoding(&digest)
            .and_then(|encoding| {
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &SystemRandom::new(), message, &mut signed).ok()?;
                Some(signed)
            })
            .ok_or_else(|| mismatch(&key.kind, &digest)),
        (Some(Secret::Curve(pairs)), Kind::Curve(curve)) if curve.digest == digest => {
            let pair = if form(frame, 4) == Form::Fixed { &pairs.1 } else { &pairs.0 };
            let signed = pair.sign(&SystemRandom::new(), message);
            signed.map(|it| it.as_ref().to_vec()).map_err(|_| "it cannot be signed".to_owned())
        }
        (Some(Secret::Edwards(pair)), _) => Ok(pair.sign(message).as_ref().to_vec()),
        _ => Err(mismatch(&key.kind, &digest)),
    };
    match signed {
        Ok(signed) => frame.push_bytes(&signed),
        Err(said) => return frame.raise(&said),
    }
    Reply::Values(1)
}

/// `verify(key, message, signature, digest, form)`.
fn verify(frame: &Frame<'_>) -> Reply {
    let Some(key) = frame.object::<Key>(1) else { return no_key(frame) };
    let (Some(message), Some(signed)) = (frame.bytes(2), frame.bytes(3)) else {
        return frame.raise("bad argument to 'verify': a message and a signature are expected");
    };
    let digest = frame.text(4).unwrap_or_default().to_ascii_lowercase();
    let algorithm: Option<&'static dyn VerificationAlgorithm> = match &key.kind {
        Kind::Rsa { .. } => rsa_verification(&digest),
        Kind::Curve(curve) if curve.digest == digest => Some(match form(frame, 5) {
            Form::Asn1 => curve.verifying.0,
            Form::Fixed => curve.verifying.1,
        }),
        Kind::Curve(_) => None,
        Kind::Edwards => Some(&signature::ED25519),
    };
    let Some(algorithm) = algorithm else {
        return frame.raise(&mismatch(&key.kind, &digest));
    };
    let known = signature::UnparsedPublicKey::new(algorithm, &key.public);
    frame.push_truth(known.verify(message, signed).is_ok());
    Reply::Values(1)
}

/// What a message is padded with: PKCS #1 v1.5 unless the script says otherwise.
fn padding(frame: &Frame<'_>) -> Result<Option<&'static OaepAlgorithm>, String> {
    let oaep = match frame.integer(3).unwrap_or(1) {
        1 => return Ok(None),
        OAEP => frame.text(4).unwrap_or_else(|| "sha1".to_owned()).to_ascii_lowercase(),
        _ => return Err("there are the paddings RSA_PKCS1 and RSA_PKCS1_OAEP".to_owned()),
    };
    Ok(Some(match oaep.as_str() {
        "sha1" => &OAEP_SHA1_MGF1SHA1,
        "sha256" => &OAEP_SHA256_MGF1SHA256,
        "sha384" => &OAEP_SHA384_MGF1SHA384,
        "sha512" => &OAEP_SHA512_MGF1SHA512,
        _ => return Err("OAEP goes with sha1, sha256, sha384 and sha512".to_owned()),
    }))
}

fn give(frame: &Frame<'_>, result: Result<Vec<u8>, String>) -> Reply {
    match result {
        Ok(result) => frame.push_bytes(&result),
        Err(said) => return frame.fail(said.as_bytes()),
    }
    Reply::Values(1)
}

/// `encrypt(key, message, padding, digest)`.
fn encrypt(frame: &Frame<'_>) -> Reply {
    let Some(key) = frame.object::<Key>(1) else { return no_key(frame) };
    let Some(message) = frame.bytes(2) else {
        return frame.raise("bad argument #1 to 'encrypt': a string is expected");
    };
    let Kind::Rsa { public: Some(public) } = &key.kind else {
        return frame.fail(b"only RSA keys encrypt");
    };
    let result = padding(frame).and_then(|padding| {
        let too_long = |_| "it cannot be encrypted: is the message too long?".to_owned();
        let mut room = vec![0; public.key_size_bytes()];
        let length = match padding {
            Some(oaep) => {
                let key = OaepPublicEncryptingKey::new((**public).clone()).map_err(too_long)?;
                key.encrypt(oaep, message, &mut room, None).map_err(too_long)?.len()
            }
            None => {
                let key = Pkcs1PublicEncryptingKey::new((**public).clone()).map_err(too_long)?;
                key.encrypt(message, &mut room).map_err(too_long)?.len()
            }
        };
        room.truncate(length);
        Ok(room)
    });
    give(frame, result)
}

/// `decrypt(key, message, padding, digest)`.
fn decrypt(frame: &Frame<'_>) -> Reply {
    let Some(key) = frame.object::<Key>(1) else { return no_key(frame) };
    let Some(message) = frame.bytes(2) else {
        return frame.raise("bad argument #1 to 'decrypt': a string is expected");
    };
    let Some(Secret::Rsa(_, Some(secret))) = &key.secret else {
        return frame.fail(b"only private RSA keys in PKCS #8 decrypt");
    };
    let result = padding(frame).and_then(|padding| {
        let wrong = |_| "it cannot be decrypted".to_owned();
        let mut room = vec![0; secret.key_size_bytes()];
        let length = match padding {
            Some(oaep) => {
                let key = OaepPrivateDecryptingKey::new((**secret).clone()).map_err(wrong)?;
                key.decrypt(oaep, message, &mut room, None).map_err(wrong)?.len()
            }
            None => {
                let key = Pkcs1PrivateDecryptingKey::new((**secret).clone()).map_err(wrong)?;
                key.decrypt(message, &mut room).map_err(wrong)?.len()
            }
        };
        room.truncate(length);
        Ok(room)
    });
    give(frame, result)
}
