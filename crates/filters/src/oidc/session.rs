//! What a browser keeps for us, sealed: who is signed in, and a sign-in that has begun.

use serde_json::{Map, Value, json};
use sluice_message::RequestHead;
use sluice_message::pair::cookies;

use crate::{CookieForm, Opened, Sealer};

/// A cookie holds no more than this: browsers stop at 4096 bytes, name and attributes included.
const PIECE: usize = 3600;
/// A session has no more pieces.
const PIECES: usize = 8;

/// Who is signed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// The user.
    pub(super) user: String,
    /// What origins are told, by the place of the field in the options.
    pub(super) fields: Vec<(usize, String)>,
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
        let fields: Map<String, Value> =
            self.fields.iter().map(|(place, value)| (place.to_string(), json!(value))).collect();
        let Self { user, access_token, refresh_token, renew, end, .. } = self;
        let all = json!({
            "u": user, "f": fields, "a": access_token, "r": refresh_token, "n": renew, "e": end,
        });
        all.to_string().into_bytes()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut all: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        let mut text = |name: &str| match all.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (user, access_token, refresh_token) = (text("u")?, text("a"), text("r"));
        let fields = all.get("f")?.as_object()?;
        let fields = fields
            .iter()
            .map(|(place, value)| Some((place.parse().ok()?, value.as_str()?.to_owned())))
            .collect::<Option<_>>()?;
        let number = |name: &str| all.get(name).and_then(Value::as_u64);
        let (renew, end) = (number("n")?, number("e")?);
        Some(Self { user, fields, access_token, refresh_token, renew, end })
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

/// The name of a piece of a session's cookie.
fn piece_name(name: &str, piece: usize) -> String {
    if piece == 0 { name.to_owned() } else { format!("{name}.{piece}") }
}

/// The text of a session's cookie, put together.
pub(super) fn kept(request: &RequestHead, name: &str) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    for piece in 0..PIECES {
        let name = piece_name(name, piece);
        let Some(part) = cookies(request, name.as_bytes()).next() else { break };
        whole.extend_from_slice(part);
    }
    (!whole.is_empty()).then_some(whole)
}

/// Whether a cookie of this name is one of ours.
pub(super) fn is_ours(have: &[u8], name: &str) -> bool {
    let Some(rest) = have.strip_prefix(name.as_bytes()) else { return false };
    matches!(rest.first(), None | Some(b'.')) || rest.starts_with(LOGIN.as_bytes())
}

/// What the name of a begun sign-in's cookie goes on with.
pub(super) const LOGIN: &str = "-login-";

/// The lines that have a browser keep a session; `None` if it is too large.
pub(super) fn keep(
    session: &Session,
    (name, form, scheme): (&str, &CookieForm, &str),
    (sealer, now): (&Sealer, u64),
) -> Option<Vec<String>> {
    let sealed = sealer.seal(name, &session.to_bytes(), session.end)?;
    let mut lines = Vec::new();
    for piece in sealed.as_bytes().chunks(PIECE) {
        let text = std::str::from_utf8(piece).ok()?;
        let age = session.end.saturating_sub(now);
        lines.push(form.set(&piece_name(name, lines.len()), text, scheme, Some(age)));
    }
    if lines.len() > PIECES {
        return None;
    }
    // A piece of a larger one that was there before would be taken for a part of this one.
    if lines.len() < PIECES {
        lines.push(form.set(&piece_name(name, lines.len()), "", scheme, Some(0)));
    }
    Some(lines)
}

/// The lines that have a browser forget it.
pub(super) fn forget(
    request: &RequestHead,
    (name, form, scheme): (&str, &CookieForm, &str),
) -> Vec<String> {
    (0..PIECES)
        .map(|piece| piece_name(name, piece))
        .filter(|piece| cookies(request, piece.as_bytes()).next().is_some())
        .map(|piece| form.set(&piece, "", scheme, Some(0)))
        .collect()
}

/// What a cookie's text holds.
pub(super) fn open(sealer: &Sealer, name: &str, text: &[u8], now: u64) -> Option<Session> {
    let Opened { plain, .. } = sealer.open(name, text, now)?;
    Session::from_bytes(&plain)
}

#[cfg(test)]
mod tests {
    use sluice_message::RequestHead;

    use super::{Login, Session, is_ours, keep, kept, open};
    use crate::{CookieForm, Readers, SameSite, Sealer, Secret};

    fn session(size: usize) -> Session {
        Session {
            user: "eva \"ä\"".to_owned(),
            fields: vec![(0, "a".to_owned()), (2, "b,c".to_owned())],
            access_token: Some("t".repeat(size)),
            refresh_token: None,
            renew: 60,
            end: 3600,
        }
    }

    #[test]
    fn sessions_go_through_cookies_of_any_number() {
        let sealer = Sealer::new(&[Secret::new("a secret of some length")], "oidc").unwrap();
        let form = CookieForm {
            path: "/".to_owned(),
            domain: None,
            same_site: SameSite::Lax,
            readers: Readers::Servers,
        };
        for size in [1, 3000, 15_000] {
            let session = session(size);
            let lines = keep(&session, ("sid", &form, "https"), (&sealer, 100)).unwrap();
            let mut head = RequestHead::new();
            for line in &lines {
                assert!(line.len() < 4096 && line.contains("Secure") && line.contains("HttpOnly"));
                let (pair, rest) = line.split_once("; ").unwrap();
                if !rest.contains("Max-Age=0") {
                    assert!(rest.contains("Max-Age=3500"), "{rest}");
                    head.fields.push(b"cookie", pair.as_bytes()).unwrap();
                }
            }
            let text = kept(&head, "sid").unwrap();
            assert_eq!(open(&sealer, "sid", &text, 200), Some(session));
            assert_eq!(open(&sealer, "sid", &text, 3600), None);
            assert_eq!(open(&sealer, "sid", &text[1..], 200), None);
        }
        assert!(keep(&session(40_000), ("sid", &form, "https"), (&sealer, 100)).is_none());
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
        for ours in ["sid", "sid.1", "sid-login-abc"] {
            assert!(is_ours(ours.as_bytes(), "sid"), "{ours}");
        }
        for other in ["si", "sidx", "sid-log", "xsid"] {
            assert!(!is_ours(other.as_bytes(), "sid"), "{other}");
        }
    }
}
