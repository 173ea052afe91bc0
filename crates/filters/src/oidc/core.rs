//! What every step of signing in works with.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sluice_filter::{Reply, RequestContext, Verdict};
use sluice_message::{Method, RequestHead};
use sluice_meter::FilterMeter;

use super::provider::{Provider, ProviderOptions};
use super::renewals::Renewals;
use super::session::{self, Session};
use super::text::{form, with_query};
use super::tokens::{Client, ClientAuth};
use crate::identity::{only_value, too_large};
use crate::jwt::{Claims, Expiry, Rules};
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
    pub(super) form: CookieForm,
    pub(super) renewals: Renewals,
    opened: PerThread<Recent<Arc<Session>>>,
    /// The note that holds lines for the answer.
    pub(super) lines: Arc<str>,
    meter: Arc<FilterMeter>,
}

/// Sessions that each worker remembers, and how long their text may be.
const REMEMBERED: usize = 512;
const MAX_REMEMBERED: usize = 8192;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Renewed,
    Sent,
    SignedIn,
    SignedOut,
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
            required: Vec::new(),
        };
        let form = CookieForm {
            path: "/".to_owned(),
            domain: None,
            // The provider sends users back from another site.
            same_site: SameSite::Lax,
            readers: Readers::Servers,
        };
        let lines = Arc::from(format!("oidc.{}", options.cookie));
        Self {
            provider: Arc::new(Provider::new(options.provider.clone())),
            options,
            client,
            rules,
            sealer,
            form,
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
        let session = Arc::new(session::open(&self.sealer, &self.options.cookie, text, now)?);
        self.opened.with(memory, |recent| recent.put(text, session.end, Arc::clone(&session)));
        Some(session)
    }

    /// The client is signed in.
    pub(super) fn accept(&self, context: &mut RequestContext<'_>, session: &Session) -> Verdict {
        context.notes.set_user(session.user.as_bytes());
        // Nobody behind us has any use for our cookies.
        let ours = |name: &[u8]| session::is_ours(name, &self.options.cookie);
        if crate::cookie::hide(context.request, ours).is_err() {
            return too_large();
        }
        let fields = &mut context.request.fields;
        let told = session.fields.iter().filter_map(|(place, value)| {
            self.options.fields.get(*place).map(|(name, _)| (&**name, value.clone()))
        });
        let token =
            session.access_token.as_ref().filter(|_| self.options.forwarding == Forwarding::Token);
        let token = token.map(|token| (FIELD, format!("Bearer {token}")));
        for (name, value) in told.chain(token) {
            if fields.push(name, value.as_bytes()).is_err() {
                return too_large();
            }
        }
        Verdict::Continue
    }

    /// Has the answer keep a session, which was renewed.
    pub(super) fn keep_with_answer(&self, context: &mut RequestContext<'_>, session: &Session) {
        let now = context.gateway.unix_ms() / 1000;
        let how = (self.options.cookie.as_str(), &self.form, self.scheme(context));
        if let Some(lines) = session::keep(session, how, (&self.sealer, now)) {
            context.notes.set(&self.lines, lines.join("\n").as_bytes());
        }
    }

    /// What a user says that a verified token says of him.
    pub(super) fn session(&self, claims: &Claims, now: u64) -> Session {
        let fields = self.options.fields.iter().enumerate();
        Session {
            user: claims.text(&self.options.user_claim).unwrap_or_default(),
            fields: fields
                .filter_map(|(place, (_, claim))| Some((place, claims.text(claim)?)))
                .collect(),
            end: now.saturating_add(self.options.life),
            ..Session::default()
        }
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

    pub(super) fn sign_out(&self, context: &RequestContext<'_>) -> Verdict {
        self.count(context, Outcome::SignedOut);
        let how = (self.options.cookie.as_str(), &self.form, self.scheme(context));
        let lines = session::forget(context.request, how);
        let known = self.provider.last().and_then(|endpoints| endpoints.end_session.clone());
        let known = known.or_else(|| self.options.provider.end_session.clone());
        let target = match known {
            None => self.options.after_logout.clone(),
            Some(url) => {
                let back = self.own_url(context, &self.options.after_logout);
                let pairs = [
                    ("client_id", self.options.client_id.as_str()),
                    ("post_logout_redirect_uri", back.as_str()),
                ];
                with_query(&url, &form(&pairs))
            }
        };
        redirect(&target, &lines)
    }
}

/// An answer that sends a browser elsewhere, and is not kept by anybody.
pub(super) fn redirect(target: &str, cookies: &[String]) -> Verdict {
    let mut reply = Reply::new(302);
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
