//! What a browser stores for us, sealed: who is signed in, and a sign-in that has begun.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Who is signed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// The subject: who it is to the issuer, whatever else changes.
    pub(super) subject: String,
    /// The nonce of the sign-in.
    pub(super) nonce: String,
    /// Values of claims by the names of the claims; `None` for a claim that the ID token did not have.
    /// Names, not places in the options: those move when the options change.
    pub(super) claims: BTreeMap<String, Option<String>>,
    /// For origins, if they get one.
    pub(super) access_token: Option<String>,
    /// To go on without the user.
    pub(super) refresh_token: Option<String>,
    /// When the provider has to be asked again, as Unix time in seconds; 0 = never.
    pub(super) renew: u64,
    /// When the user has to sign in again, as Unix time in seconds.
    pub(super) end: u64,
}

impl Session {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Self { subject, nonce, claims, access_token, refresh_token, renew, end } = self;
        let all = json!({
            "s": subject, "o": nonce, "c": claims, "a": access_token, "r": refresh_token,
            "n": renew, "e": end,
        });
        all.to_string().into_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let all: Value = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| all.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| all.get(name).and_then(Value::as_u64);
        let claims = all.get("c")?.as_object()?.iter();
        let claims =
            claims.map(|(name, value)| (name.clone(), value.as_str().map(str::to_owned))).collect();
        Some(Self {
            subject: text("s")?,
            nonce: text("o")?,
            claims,
            access_token: text("a"),
            refresh_token: text("r"),
            renew: number("n")?,
            end: number("e")?,
        })
    }

    /// The value of a claim.
    pub(super) fn claim(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_deref()
    }
}

/// A sign-in that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    /// What comes back from the provider with the user.
    pub(super) state: String,
    /// What the ID token has to hold.
    pub(super) nonce: String,
    /// What the code is good with (RFC 7636).
    pub(super) verifier: String,
    /// Where the user wanted to go.
    pub(super) target: String,
}

impl Login {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Self { state, nonce, verifier, target } = self;
        json!([state, nonce, verifier, target]).to_string().into_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [state, nonce, verifier, target] = serde_json::from_slice(bytes).ok()?;
        Some(Self { state, nonce, verifier, target })
    }
}

/// Whether a cookie of this name is one of ours, of a filter whose cookie is `name`.
pub(super) fn is_ours(have: &[u8], name: &str) -> bool {
    let Some(rest) = have.strip_prefix(name.as_bytes()) else { return false };
    let rest = rest.strip_prefix(ID_TOKEN.as_bytes()).unwrap_or(rest);
    matches!(rest.first(), None | Some(b'.')) || rest.starts_with(LOGIN.as_bytes())
}

/// What the name of a begun sign-in's cookie goes on with.
pub(super) const LOGIN: &str = "-login-";

/// What the name of the cookie goes on with that has the ID token.
pub(super) const ID_TOKEN: &str = "-id";

#[cfg(test)]
mod tests {
    use super::{Login, Session, is_ours};

    #[test]
    fn a_session_is_read_as_it_was_written() {
        let claims = [("email", Some("eva \"ä\"".to_owned())), ("groups", None)];
        let session = Session {
            subject: "1".to_owned(),
            nonce: "n".to_owned(),
            claims: claims.map(|(name, value)| (name.to_owned(), value)).into(),
            access_token: Some("t".to_owned()),
            refresh_token: None,
            renew: 60,
            end: 3600,
        };
        let read = Session::from_bytes(&session.to_bytes()).unwrap();
        assert_eq!(read, session);
        assert_eq!(read.claim("email"), Some("eva \"ä\""));
        assert_eq!((read.claim("groups"), read.claim("name")), (None, None));
        assert_eq!(Session::from_bytes(b"{}"), None);
    }

    #[test]
    fn a_begun_sign_in_comes_back_as_it_was() {
        let login = Login {
            state: "s".to_owned(),
            nonce: "n".to_owned(),
            verifier: "v".to_owned(),
            target: "/a?b=\"c\"".to_owned(),
        };
        assert_eq!(Login::from_bytes(&login.to_bytes()), Some(login));
        assert_eq!(Login::from_bytes(b"[\"a\"]"), None);
    }

    #[test]
    fn our_cookies_are_known_by_their_names() {
        for ours in ["sid", "sid.1", "sid-login-abc", "sid-id", "sid-id.1"] {
            assert!(is_ours(ours.as_bytes(), "sid"), "{ours}");
        }
        for other in ["si", "sidx", "sid-log", "xsid", "sid-idx"] {
            assert!(!is_ours(other.as_bytes(), "sid"), "{other}");
        }
    }
}
