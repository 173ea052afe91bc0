//! Tokens that a provider gives for a code or for a refresh token.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use sluice_filter::{Fetch, FetchFault, Fetched, Gateway};
use sluice_message::Fields;

use super::provider::{Endpoint, LIMIT};
use super::text::escaped;
use crate::Secret;

/// How this gateway proves to the provider who it is (OpenID Connect Core 1.0, 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// By a field.
    Basic,
    /// In the form.
    Post,
}

/// How this gateway is known to the provider.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
    pub(super) auth: ClientAuth,
}

/// What a provider gives.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) id: Option<String>,
    pub(super) access: Option<String>,
    pub(super) refresh: Option<String>,
    /// How long the access token is good, in seconds.
    pub(super) life: Option<u64>,
}

/// A text that ends up in a field of a request.
fn plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'!'..=b'~'))
}

impl Client {
    /// The request for tokens (RFC 6749, 4.1.3 and 6) or for the end of one (RFC 7009, 2.1), for a form that
    /// says what is offered.
    pub(super) fn request(
        &self,
        endpoint: &Endpoint,
        form: &str,
        (gateway, timeout): (&dyn Gateway, Duration),
    ) -> Fetch {
        let mut fields = Fields::new();
        let mut body = form.to_owned();
        // An empty head has room for these.
        let _ = fields.push(b"accept", b"application/json");
        let _ = fields.push(b"content-type", b"application/x-www-form-urlencoded");
        match (&self.secret, self.auth) {
            (Some(secret), ClientAuth::Basic) => {
                let secret = String::from_utf8_lossy(secret.expose());
                // RFC 6749, 2.3.1: both are encoded as in a form first.
                let pair = format!("{}:{}", escaped(&self.id), escaped(&secret));
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                let _ = fields.push(b"authorization", value.as_bytes());
            }
            (secret, _) => {
                body.push_str("&client_id=");
                body.push_str(&escaped(&self.id));
                if let Some(secret) = secret {
                    body.push_str("&client_secret=");
                    body.push_str(&escaped(&String::from_utf8_lossy(secret.expose())));
                }
            }
        }
        Fetch {
            cluster: endpoint.cluster,
            method: b"POST".to_vec(),
            target: endpoint.target.clone().into_bytes(),
            host: endpoint.host.clone().into_bytes(),
            fields,
            body: body.into_bytes(),
            timeout,
            limit: LIMIT,
            client: gateway.peer(),
        }
    }
}

/// Why there are no tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoTokens {
    /// The provider says no.
    Refused(String),
    /// It cannot be asked, or answers nonsense.
    Failed(String),
}

/// Whether a provider has revoked a token (RFC 7009, 2.2), and what it says if not.
pub(super) fn revoked(fetched: Result<Fetched, FetchFault>) -> Result<(), String> {
    let fetched = fetched.map_err(|fault| fault.to_string())?;
    match fetched.status {
        200 => Ok(()),
        status => Err(with_error(status, object(&fetched).as_ref())),
    }
}

fn object(fetched: &Fetched) -> Option<Map<String, Value>> {
    serde_json::from_slice(&fetched.body).ok()
}

/// The status and the error code of a response. RFC 6749, 5.2 says what that is made of; the text goes into a log.
fn with_error(status: u16, object: Option<&Map<String, Value>>) -> String {
    let error = object.and_then(|object| object.get("error")).and_then(Value::as_str);
    let error = error.filter(|text| plain(text) && text.len() < 64).unwrap_or_default();
    format!("{status} {error}").trim_end().to_owned()
}

impl Tokens {
    pub(super) fn read(fetched: Result<Fetched, FetchFault>) -> Result<Self, NoTokens> {
        let fetched = fetched.map_err(|fault| NoTokens::Failed(fault.to_string()))?;
        let object = object(&fetched);
        if fetched.status != 200 {
            let what = with_error(fetched.status, object.as_ref());
            return Err(match fetched.status {
                400 | 401 | 403 => NoTokens::Refused(what),
                _ => NoTokens::Failed(what),
            });
        }
        let object = object.ok_or_else(|| NoTokens::Failed("no JSON object".to_owned()))?;
        let text = |name: &str| {
            let text = object.get(name).and_then(Value::as_str);
            text.filter(|text| plain(text) && !text.is_empty()).map(str::to_owned)
        };
        Ok(Self {
            id: text("id_token"),
            access: text("access_token"),
            refresh: text("refresh_token"),
            life: object.get("expires_in").and_then(Value::as_u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use sluice_filter::{FetchFault, Fetched};

    use super::{NoTokens, Tokens};

    fn read(status: u16, body: &str) -> Result<Tokens, NoTokens> {
        Tokens::read(Ok(Fetched { status, body: body.into(), ..Fetched::default() }))
    }

    #[test]
    fn reads_what_a_provider_gives() {
        let tokens =
            read(200, r#"{"id_token":"a.b.c","access_token":"x","expires_in":60}"#).unwrap();
        assert_eq!((tokens.id.as_deref(), tokens.life), (Some("a.b.c"), Some(60)));
        assert_eq!((tokens.access.as_deref(), tokens.refresh), (Some("x"), None));
        let evil =
            read(200, "{\"access_token\":\"x\\r\\nX-Admin: 1\",\"refresh_token\":7}").unwrap();
        assert_eq!((evil.access, evil.refresh, evil.life), (None, None, None));
        let refused = |text: &str| NoTokens::Refused(text.to_owned());
        assert_eq!(
            read(400, r#"{"error":"invalid_grant"}"#).unwrap_err(),
            refused("400 invalid_grant")
        );
        assert_eq!(read(400, "{\"error\":\"a\\nb\"}").unwrap_err(), refused("400"));
        assert!(matches!(read(500, "").unwrap_err(), NoTokens::Failed(_)));
        assert!(matches!(read(200, "[]").unwrap_err(), NoTokens::Failed(_)));
        assert!(matches!(Tokens::read(Err(FetchFault::TimedOut)), Err(NoTokens::Failed(_))));
    }
}
