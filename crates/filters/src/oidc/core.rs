//! What every step of signing in works with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sluice_filter::{Reply, RequestContext, Verdict};
use sluice_message::{Method, RequestHead};
use sluice_meter::FilterMeter;

use super::jar::CookieJar;
use super::provider::{Provider, ProviderOptions};
use super::renewals::Renewals;
use super::session::{self, ID_TOKEN, Session};
use super::tokens::{Client, ClientAuth};
use crate::identity::{only_value, too_large};
use crate::jwt::{Claims, Expiry, Requirement, Rules};
use crate::per_thread::PerThread;
use crate::{CookieForm, Readers, Recent, SameSite, Sealer, Secret};

/// What has users signed in, and what becomes of them.
#[derive(Clone, Debug)]
pub struct OidcOptions {
    /// The provider.
    pub provider: ProviderOptions,
    /// What it calls this gateway.
    pub client_id: String,
    /// What it knows it by; `None` for a public client.
    pub client_secret: Option<Secret>,
    /// How it is told.
    pub client_auth: ClientAuth,
    /// What is asked for, `openid` among it, between blanks.
    pub scopes: String,
    /// The name of the session's cookie.
    pub cookie: String,
    /// How long a session is good, in seconds.
    pub life: u64,
    /// Where the provider sends users back to.
    pub callback_path: String,
    /// Where users sign out.
    pub logout_path: String,
    /// Where they are sent then.
    pub after_logout: String,
    /// How browsers call this gateway, like `https://shop.example`; `None` = as they do.
    pub public_url: Option<String>,
    /// The claim that names the user.
    pub user_claim: String,
    /// Fields that tell origins of claims, by the name of the field.
    pub fields: Vec<(Box<[u8]>, String)>,
    /// Whether origins get the access token.
    pub forwarding: Forwarding,
}

/// Whether origins get the access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// They do, in `Authorization`.
    Token,
    /// They do not.
    Nothing,
}

/// What is shared by all requests.
pub(super) struct Core {
    pub(super) options: OidcOptions,
    pub(super) client: Client,
    pub(super) provider: Arc<Provider>,
    pub(super) rules: Rules,
    pub(super) sealer: Sealer,
    /// Where sessions are.
    pub(super) jar: CookieJar,
    /// Where the ID token is, for the sign-out alone: no other request carries it.
    pub(super) id_jar: CookieJar,
    pub(super) renewals: Renewals,
    opened: PerThread<Recent<Arc<Session>>>,
    /// The note that holds lines for the answer.
    pub(super) lines: Arc<str>,
    meter: Arc<FilterMeter>,
}

/// Sessions that each worker remembers, and how long their text may be.
const REMEMBERED: usize = 512;
const MAX_REMEMBERED: usize = 8192;

/// Cookies that a session takes at most, and an ID token: more would not fit into a URL, either.
const SESSION_PIECES: usize = 8;
const ID_TOKEN_PIECES: usize = 2;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Renewed,
    Sent,
    SignedIn,
    SignedOut,
    LogoutPage,
    Unauthenticated,
    Refused,
    Unavailable,
}

/// What origins read the access token from.
pub(super) const FIELD: &[u8] = b"authorization";

impl Core {
    pub(super) fn new(options: OidcOptions, sealer: Sealer, meter: Arc<FilterMeter>) -> Self {
        let client = Client {
            id: options.client_id.clone(),
            secret: options.client_secret.clone(),
            auth: options.client_auth,
        };
        let rules = Rules {
            issuers: vec![options.provider.issuer.clone()],
            audiences: vec![options.client_id.clone()],
            leeway: std::time::Duration::from_secs(30),
            expiry: Expiry::Required,
            // A renewed session has to be of the same one (OpenID Connect Core 1.0, 2 and 12.2).
            required: vec![Requirement { claim: "sub".into(), any_of: Vec::new() }],
        };
        let jar = |name: String, path: &str, pieces| CookieJar {
            name,
            form: CookieForm {
                path: path.to_owned(),
                domain: None,
                // The provider sends users back from another site.
                same_site: SameSite::Lax,
                readers: Readers::Servers,
            },
            pieces,
        };
        let id_name = format!("{}{ID_TOKEN}", options.cookie);
        let lines = Arc::from(format!("oidc.{}", options.cookie));
        Self {
            provider: Arc::new(Provider::new(options.provider.clone())),
            client,
            rules,
            sealer,
            jar: jar(options.cookie.clone(), "/", SESSION_PIECES),
            id_jar: jar(id_name, &options.logout_path, ID_TOKEN_PIECES),
            options,
            renewals: Renewals::default(),
            opened: PerThread::new(),
            lines,
            meter,
        }
    }

    pub(super) fn count(&self, context: &RequestContext<'_>, outcome: Outcome) {
        let place = match outcome {
            Outcome::Passed => 0,
            Outcome::Renewed => 1,
            Outcome::Sent => 2,
            Outcome::SignedIn => 3,
            Outcome::SignedOut => 4,
            Outcome::Unauthenticated => 5,
            Outcome::Refused => 6,
            Outcome::Unavailable => 7,
            Outcome::LogoutPage => 8,
        };
        self.meter.count(context.gateway.worker(), place);
    }

    pub(super) fn refuse(
        &self,
        context: &RequestContext<'_>,
        status: u16,
        reason: &'static str,
    ) -> Verdict {
        self.count(context, Outcome::Refused);
        Verdict::refuse(status, reason)
    }

    pub(super) fn unavailable(&self, context: &RequestContext<'_>) -> Verdict {
        self.count(context, Outcome::Unavailable);
        Verdict::refuse(503, "sign-in is not available")
    }

    /// The session that a cookie's text holds.
    pub(super) fn open(&self, text: &[u8], now: u64) -> Option<Arc<Session>> {
        let memory = || Recent::new(REMEMBERED, MAX_REMEMBERED);
        let known = self.opened.with(memory, |recent| recent.get(text, now).map(Arc::clone));
        if let Some(known) = known.flatten() {
            return Some(known);
        }
        let opened = self.sealer.open(&self.jar.name, text, now)?;
        let session = Session::from_bytes(&opened.plain)?;
        // A claim that the options name since then was not looked for: the user signs in again, and nobody
        // is let through as somebody without it.
        if !self.wanted().all(|claim| session.claims.contains_key(claim)) {
            return None;
        }
        let session = Arc::new(session);
        self.opened.with(memory, |recent| recent.put(text, session.end, Arc::clone(&session)));
        Some(session)
    }

    /// The claims that a session has to know of.
    fn wanted(&self) -> impl Iterator<Item = &str> {
        let named = self.options.fields.iter().map(|(_, claim)| claim.as_str());
        named.chain([self.options.user_claim.as_str()])
    }

    /// The client is signed in.
    pub(super) fn accept(&self, context: &mut RequestContext<'_>, session: &Session) -> Verdict {
        let user = session.claim(&self.options.user_claim).unwrap_or_default();
        context.notes.set_user(user.as_bytes());
        // Nobody behind us has any use for our cookies.
        let ours = |name: &[u8]| session::is_ours(name, &self.options.cookie);
        if crate::cookie::hide(context.request, ours).is_err() {
            return too_large();
        }
        let fields = &mut context.request.fields;
        for (name, claim) in &self.options.fields {
            if let Some(value) = session.claim(claim)
                && fields.push(name, value.as_bytes()).is_err()
            {
                return too_large();
            }
        }
        if self.options.forwarding == Forwarding::Token
            && let Some(token) = &session.access_token
            && fields.push(FIELD, format!("Bearer {token}").as_bytes()).is_err()
        {
            return too_large();
        }
        Verdict::Continue
    }

    /// The `Set-Cookie` lines that store a session and, if there is a new one, its ID token; `None` if the session
    /// is too large.
    pub(super) fn store(
        &self,
        context: &RequestContext<'_>,
        (session, id_token): (&Session, Option<&str>),
    ) -> Option<Vec<String>> {
        let scheme = self.scheme(context);
        let age = session.end.saturating_sub(context.gateway.unix_ms() / 1000);
        let sealed = self.sealer.seal(&self.jar.name, &session.to_bytes(), session.end)?;
        let mut lines = self.jar.store(&sealed, scheme, age)?;
        if let Some(token) = id_token {
            let sealed = self.sealer.seal(&self.id_jar.name, token.as_bytes(), session.end)?;
            // Without it the provider asks the user who signs out whether he means it.
            lines.extend(self.id_jar.store(&sealed, scheme, age).unwrap_or_default());
        }
        Some(lines)
    }

    /// What the claims of a verified ID token say of a user: those that are wanted, by their names.
    pub(super) fn claims(&self, claims: &Claims) -> BTreeMap<String, Option<String>> {
        self.wanted().map(|name| (name.to_owned(), claims.text(name))).collect()
    }

    pub(super) fn scheme<'c>(&'c self, context: &'c RequestContext<'_>) -> &'c str {
        match &self.options.public_url {
            Some(url) => url.split("://").next().unwrap_or("https"),
            None => context.gateway.scheme(),
        }
    }

    /// A path of ours as the provider has to know it.
    pub(super) fn own_url(&self, context: &RequestContext<'_>, path: &str) -> String {
        match &self.options.public_url {
            Some(url) => format!("{}{path}", url.trim_end_matches('/')),
            None => {
                let authority = String::from_utf8_lossy(context.request.authority());
                format!("{}://{authority}{path}", context.gateway.scheme())
            }
        }
    }
}

/// An answer that sends a browser elsewhere, and is not kept by anybody.
pub(super) fn redirect(status: u16, target: &str, cookies: &[String]) -> Verdict {
    let mut reply = Reply::new(status);
    let mut lines = vec![("location", target), ("cache-control", "no-store")];
    lines.extend(cookies.iter().map(|line| ("set-cookie", line.as_str())));
    for (name, value) in lines {
        if reply.fields.push(name.as_bytes(), value.as_bytes()).is_err() {
            return Verdict::refuse(500, "no room for the answer");
        }
    }
    Verdict::Respond(Box::new(reply))
}

/// A text that nobody guesses, of 43 letters.
pub(super) fn unguessable() -> Option<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Whether a browser wants to show what comes, so that sending it elsewhere makes sense. A script would only be
/// confused.
pub(super) fn opens_page(request: &RequestHead) -> bool {
    if !matches!(request.method, Method::Get | Method::Head) {
        return false;
    }
    match only_value(&request.fields, b"sec-fetch-mode") {
        Ok(Some(mode)) => mode == b"navigate",
        Ok(None) => request.fields.values_of(b"accept").any(|value| {
            value.split(|byte| *byte == b',').any(|one| one.trim_ascii().starts_with(b"text/html"))
        }),
        Err(()) => false,
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Core").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluice_message::{Method, RequestHead};

    use super::opens_page;

    /// Method, field lines, and whether a page is to be shown.
    type Row = (&'static str, &'static [(&'static str, &'static str)], bool);

    #[test]
    fn only_pages_are_sent_elsewhere() {
        let table: [Row; 7] = [
            ("GET", &[("accept", "text/html,application/xhtml+xml")], true),
            ("GET", &[("accept", "application/json, text/html;q=0.1")], true),
            ("GET", &[("accept", "*/*")], false),
            ("GET", &[], false),
            ("POST", &[("accept", "text/html")], false),
            ("GET", &[("accept", "text/html"), ("sec-fetch-mode", "cors")], false),
            ("GET", &[("accept", "*/*"), ("sec-fetch-mode", "navigate")], true),
        ];
        for (method, lines, wanted) in table {
            let mut head = RequestHead::new();
            head.method = Method::of(method.as_bytes());
            for (name, value) in lines {
                head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            assert_eq!(opens_page(&head), wanted, "{method} {lines:?}");
        }
    }
}
