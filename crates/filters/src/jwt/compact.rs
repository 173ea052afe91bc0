//! The compact form of a signed token: three parts of base64url between dots (RFC 7515, 7.1).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::Refusal;

/// The longest token that is looked at, in bytes.
pub const MAX_TOKEN: usize = 16 * 1024;

/// A token taken apart. Nothing about it is verified yet.
#[derive(Debug)]
pub struct Token<'a> {
    /// What the signature is about: header and payload as they were sent.
    pub signed: &'a [u8],
    /// The header's `alg`.
    pub algorithm: String,
    /// The header's `kid`.
    pub key_id: Option<String>,
    /// The header's `typ`.
    pub kind: Option<String>,
    /// The claims.
    pub payload: Map<String, Value>,
    /// The signature's bytes.
    pub signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// [`Refusal`] if it is too long, malformed, or asks for extensions.
    pub fn parse(token: &'a [u8]) -> Result<Self, Refusal> {
        if token.len() > MAX_TOKEN {
            return Err(Refusal::TooLong);
        }
        let parts = Refusal::Malformed("it has not three parts");
        let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.');
        let (Some((first, _)), Some((second, _)), None) = (dots.next(), dots.next(), dots.next())
        else {
            return Err(parts);
        };
        let (Some(header), Some(payload), Some(signature), Some(signed)) = (
            token.get(..first),
            token.get(first + 1..second),
            token.get(second + 1..),
            token.get(..second),
        ) else {
            return Err(parts);
        };
        let mut header = object(header, "the header is no base64url of a JSON object")?;
        // RFC 7515, 4.1.11: what is not understood must not be accepted. `b64` (RFC 7797) comes with it.
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(Refusal::Critical);
        }
        let algorithm =
            text(&mut header, "alg")?.ok_or(Refusal::Malformed("the header names no algorithm"))?;
        let key_id = text(&mut header, "kid")?;
        let kind = text(&mut header, "typ")?;
        let payload = object(payload, "the payload is no base64url of a JSON object")?;
        let signature = BASE64_URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| Refusal::Malformed("the signature is no base64url"))?;
        Ok(Self { signed, algorithm, key_id, kind, payload, signature })
    }
}

/// Without padding and without stray bits, so that a token has one spelling (RFC 7515, 2).
fn object(part: &[u8], what: &'static str) -> Result<Map<String, Value>, Refusal> {
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Malformed(what))?;
    serde_json::from_slice(&decoded).map_err(|_| Refusal::Malformed(what))
}

fn text(header: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match header.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::Malformed("a member of the header is no text")),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    use super::{MAX_TOKEN, Token};
    use crate::jwt::Refusal;

    fn token(header: &str, payload: &str) -> String {
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.c2ln", encode(header), encode(payload))
    }

    #[test]
    fn takes_a_token_apart() {
        let token = token(r#"{"alg":"HS256","kid":"1","typ":"JWT","x":[1]}"#, r#"{"sub":"eva"}"#);
        let parsed = Token::parse(token.as_bytes()).unwrap();
        assert_eq!((parsed.algorithm.as_str(), parsed.key_id.as_deref()), ("HS256", Some("1")));
        assert_eq!(parsed.kind.as_deref(), Some("JWT"));
        assert_eq!(parsed.payload.get("sub").unwrap(), "eva");
        assert_eq!(parsed.signature, b"sig");
        assert!(
            token.as_bytes().starts_with(parsed.signed) && parsed.signed.len() + 5 == token.len()
        );
    }

    #[test]
    fn refuses_what_is_no_token() {
        let good = token(r#"{"alg":"HS256"}"#, "{}");
        let table = [
            String::new(),
            ".".to_owned(),
            "..".to_owned(),
            "a.b".to_owned(),
            format!("{good}.x"),
            format!("{good}="),
            format!(" {good}"),
            good.replace('.', ".."),
            good.replacen('e', "+", 1),
            // The last character holds bits that belong to no byte.
            good.replace("c2ln", "c2l"),
            token("[]", "{}"),
            token(r#"{"alg":"HS256"}"#, "[]"),
            token(r#"{"alg":"HS256"}"#, "\"sub\""),
            token(r#"{"alg":"HS256"} x"#, "{}"),
            token("{}", "{}"),
            token(r#"{"alg":null}"#, "{}"),
            token(r#"{"alg":["HS256"]}"#, "{}"),
            token(r#"{"alg":"HS256","kid":7}"#, "{}"),
            token(r#"{"alg":"HS256"}"#, &format!("{{\"a\":{}}}", "[".repeat(300))),
            token(r#"{"alg":"HS256"}"#, &"{\"a\":".repeat(300)),
        ];
        for wrong in &table {
            let refusal = Token::parse(wrong.as_bytes()).map(|_| ()).unwrap_err();
            assert!(matches!(refusal, Refusal::Malformed(_)), "{wrong}: {refusal}");
        }
        assert!(Token::parse(good.as_bytes()).is_ok());
    }

    #[test]
    fn refuses_what_has_to_be_understood() {
        for header in [r#"{"alg":"HS256","crit":["exp"]}"#, r#"{"alg":"HS256","b64":false}"#] {
            let refusal = Token::parse(token(header, "{}").as_bytes()).map(|_| ()).unwrap_err();
            assert_eq!(refusal, Refusal::Critical);
        }
    }

    #[test]
    fn a_long_token_is_not_even_decoded() {
        let long = format!("{}.e30.c2ln", "e".repeat(MAX_TOKEN));
        assert_eq!(Token::parse(long.as_bytes()).map(|_| ()).unwrap_err(), Refusal::TooLong);
    }
}
