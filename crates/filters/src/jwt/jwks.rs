//! Sets of keys as JSON (RFC 7517, 5).

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::{Algorithm, Key};
use crate::Secret;

/// More than this is no set of keys.
const MAX_TEXT: usize = 512 * 1024;
const MAX_KEYS: usize = 256;

/// Whether a set may hold secrets (`kty` is `oct`). One that is fetched from a public address must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// Secrets are passed over.
    Ignored,
    /// Secrets are taken.
    Allowed,
}

/// What a set of keys holds.
#[derive(Debug)]
pub struct Jwks {
    /// The keys that verify tokens.
    pub keys: Vec<Key>,
    /// Why others are not among them, in order. Keys for encryption are none.
    pub ignored: Vec<String>,
}

/// Why a text is no set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwksFlaw {
    /// Too long, or too many keys.
    TooLarge,
    /// No JSON object with a list `keys`.
    Form,
    /// None of its keys can be used.
    Empty,
}

impl fmt::Display for JwksFlaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooLarge => "it is larger than a set of keys may be",
            Self::Form => "it is no JSON object with a list `keys`",
            Self::Empty => "none of its keys can verify tokens",
        })
    }
}

impl Jwks {
    /// Reads a set of the operator's own, which may be empty: then no token is good.
    ///
    /// # Errors
    /// As [`Jwks::parse`].
    pub fn of_file(text: &[u8]) -> Result<Self, JwksFlaw> {
        match Self::parse(text, Secrets::Allowed) {
            Err(JwksFlaw::Empty) if is_emptied(text) => {
                Ok(Self { keys: Vec::new(), ignored: Vec::new() })
            }
            set => set,
        }
    }

    /// Reads a set of keys. What is not understood is passed over (RFC 7517, 5).
    ///
    /// # Errors
    /// [`JwksFlaw`] if it is none or no key is left.
    pub fn parse(text: &[u8], secrets: Secrets) -> Result<Self, JwksFlaw> {
        if text.len() > MAX_TEXT {
            return Err(JwksFlaw::TooLarge);
        }
        let set: Map<String, Value> = serde_json::from_slice(text).map_err(|_| JwksFlaw::Form)?;
        let members = set.get("keys").and_then(Value::as_array).ok_or(JwksFlaw::Form)?;
        if members.len() > MAX_KEYS {
            return Err(JwksFlaw::TooLarge);
        }
        let mut found = Self { keys: Vec::new(), ignored: Vec::new() };
        for (index, member) in members.iter().enumerate() {
            let Some(member) = member.as_object() else { return Err(JwksFlaw::Form) };
            if !verifies(member) {
                continue;
            }
            match key(member, secrets) {
                Ok(key) => found.keys.push(key),
                Err(why) => {
                    let name = text_of(member, "kid").unwrap_or_default();
                    found.ignored.push(format!("key {} `{name}`: {why}", index + 1));
                }
            }
        }
        if found.keys.is_empty() { Err(JwksFlaw::Empty) } else { Ok(found) }
    }
}

/// Whether a set is well-formed and has no key at all: somebody has taken out the last one.
fn is_emptied(text: &[u8]) -> bool {
    let set = serde_json::from_slice::<Map<String, Value>>(text).ok();
    let members = set.as_ref().and_then(|set| set.get("keys")?.as_array());
    members.is_some_and(Vec::is_empty)
}

/// Whether the key is for signatures (RFC 7517, 4.2 and 4.3).
fn verifies(member: &Map<String, Value>) -> bool {
    let for_signatures = member.get("use").is_none_or(|purpose| purpose == "sig");
    let operations = member.get("key_ops").and_then(Value::as_array);
    for_signatures && operations.is_none_or(|list| list.iter().any(|entry| entry == "verify"))
}

fn key(member: &Map<String, Value>, secrets: Secrets) -> Result<Key, String> {
    let named = text_of(member, "alg")
        .map(|name| Algorithm::named(name).ok_or_else(|| format!("algorithm {name}")))
        .transpose()?;
    let key = match text_of(member, "kty") {
        Some("RSA") => {
            let (modulus, exponent) = (bytes(member, "n")?, bytes(member, "e")?);
            Key::rsa(without_zeros(&modulus), without_zeros(&exponent))
        }
        Some("EC") => {
            let (algorithm, size) = match text_of(member, "crv") {
                Some("P-256") => (Algorithm::Es256, 32),
                Some("P-384") => (Algorithm::Es384, 48),
                Some("P-521") => (Algorithm::Es512, 66),
                other => return Err(format!("curve {}", other.unwrap_or_default())),
            };
            let (x, y) = (bytes(member, "x")?, bytes(member, "y")?);
            // RFC 7518, 6.2.1.2: coordinates have the full size of the curve.
            if x.len() != size || y.len() != size {
                return Err("coordinates of the wrong size".to_owned());
            }
            Key::curve(algorithm, &[&[4], x.as_slice(), y.as_slice()].concat())
        }
        Some("OKP") => match text_of(member, "crv") {
            Some("Ed25519") => Key::curve(Algorithm::EdDsa, &bytes(member, "x")?),
            other => return Err(format!("curve {}", other.unwrap_or_default())),
        },
        Some("oct") if secrets == Secrets::Allowed => {
            let algorithm = named.ok_or("a secret has to name its algorithm")?;
            Key::secret(&Secret::new(bytes(member, "k")?), algorithm)
        }
        Some("oct") => return Err("a secret, which may not be here".to_owned()),
        other => return Err(format!("type {}", other.unwrap_or_default())),
    };
    let key = match named {
        Some(algorithm) => key.and_then(|key| key.only(&[algorithm])),
        None => key,
    };
    key.map(|key| key.with_id(text_of(member, "kid"))).map_err(|flaw| flaw.to_string())
}

fn text_of<'a>(member: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    member.get(name).and_then(Value::as_str)
}

fn bytes(member: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    let text = text_of(member, name).ok_or_else(|| format!("`{name}` is missing"))?;
    BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("`{name}` is no base64url"))
}

/// Some issuers write numbers with a zero in front, which RFC 7518, 2 forbids and everybody reads.
fn without_zeros(mut number: &[u8]) -> &[u8] {
    while let Some(rest) = number.strip_prefix(&[0]) {
        number = rest;
    }
    number
}
