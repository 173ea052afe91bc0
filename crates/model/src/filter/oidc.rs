//! Users who sign in with an OpenID provider.

use std::path::PathBuf;
use std::time::Duration;

use super::FilterUpstream;
use super::jwt::{Url, find_upstream, parse_claim, parse_cookie, parse_url, read_headers, texts};
use super::told::{read_path, read_paths, read_secret_texts};
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::secret::Secret;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::upstream::Roster;

/// Who signs users in, and what is kept of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oidc {
    /// The provider.
    pub provider: Box<OidcProvider>,
    /// What it calls this gateway.
    pub client_id: String,
    /// What it knows it by.
    pub client_secret: Option<Secret>,
    /// A file with that.
    pub client_secret_file: Option<PathBuf>,
    /// How it is told.
    pub client_auth: ClientAuth,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// What is kept in browsers.
    pub session: OidcSession,
    /// Where the provider sends users back to.
    pub callback_path: String,
    /// Where users sign out.
    pub logout_path: String,
    /// Where they are sent then.
    pub after_logout: String,
    /// How browsers call this gateway.
    pub public_url: Option<String>,
    /// The claim that names the user.
    pub user_claim: String,
    /// Fields that tell origins of claims.
    pub headers: Vec<(String, String)>,
    /// Whether origins get the access token.
    pub forward_token: bool,
}

/// How this gateway proves to the provider who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// By a header.
    Basic,
    /// In the form.
    Post,
}

/// The provider, and where it is asked what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcProvider {
    /// What it calls itself.
    pub issuer: String,
    /// Where it describes itself.
    pub discovery: OidcEndpoint,
    /// Where browsers sign in, unless it says so itself.
    pub authorization_url: Option<String>,
    /// Where browsers sign out, unless it says so itself.
    pub end_session_url: Option<String>,
    /// Where codes are exchanged, unless it says so itself.
    pub token: Option<OidcEndpoint>,
    /// Where its keys are, unless it says so itself.
    pub jwks: Option<OidcEndpoint>,
    /// Where tokens are revoked, unless it says so itself.
    pub revocation: Option<OidcEndpoint>,
    /// How long each question may take.
    pub timeout: Duration,
}

/// A place that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcEndpoint {
    /// Whom to ask.
    pub upstream: FilterUpstream,
    /// The host asked for.
    pub host: String,
    /// Path and query.
    pub target: String,
}

/// What is kept in browsers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSession {
    /// The first one seals, all of them open.
    pub secrets: Vec<Secret>,
    /// Files with more of them.
    pub secret_files: Vec<PathBuf>,
    /// The name of the cookie.
    pub cookie: String,
    /// How long a session is good.
    pub life: Duration,
}

pub(super) static SECTION: Section = Section {
    name: "filter.oidc",
    doc: "Has users sign in with an OpenID provider: the code flow with PKCE. Who they are is kept in a sealed \
          cookie of theirs, nothing is kept here.",
    keys: &[
        Key {
            name: "issuer",
            kind: Kind::Text("URL"),
            preset: Preset::Required,
            doc: "The provider, as it calls itself. It describes itself at \
                  `ISSUER/.well-known/openid-configuration`.",
        },
        Key {
            name: "upstream",
            kind: Kind::Text("upstream name"),
            preset: Preset::Absent("the server of the issuer"),
            doc: "The upstream that is asked for the issuer's URLs, if it needs settings of its own.",
        },
        Key {
            name: "authorization_url",
            kind: Kind::Text("URL"),
            preset: Preset::Absent("what the provider says"),
            doc: "Where browsers are sent to sign in.",
        },
        Key {
            name: "token_url",
            kind: Kind::Text("URL"),
            preset: Preset::Absent("what the provider says"),
            doc: "Where codes are exchanged. It has to be written down if it is not on the issuer's server.",
        },
        Key {
            name: "jwks_url",
            kind: Kind::Text("URL"),
            preset: Preset::Absent("what the provider says"),
            doc: "Where the provider's keys are. It has to be written down if it is not on the issuer's \
                  server.",
        },
        Key {
            name: "revocation_url",
            kind: Kind::Text("URL"),
            preset: Preset::Absent("what the provider says"),
            doc: "Where tokens are revoked when a user signs out. It is required if it is not on the issuer's \
                  server, or tokens are not revoked.",
        },
        Key {
            name: "end_session_url",
            kind: Kind::Text("URL"),
            preset: Preset::Absent("what the provider says"),
            doc: "Where browsers are sent to sign out.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("5s"),
            doc: "How long each question to the provider may take.",
        },
        Key {
            name: "client_id",
            kind: Kind::Text("text"),
            preset: Preset::Required,
            doc: "What the provider calls this gateway.",
        },
        Key {
            name: "client_secret",
            kind: Kind::Text("text"),
            preset: Preset::Absent("a public client"),
            doc: "What the provider knows this gateway by: `client_secret = \"${OIDC_SECRET}\"`.",
        },
        Key {
            name: "client_secret_file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "A file with it; a line break at its end does not count.",
        },
        Key {
            name: "client_auth",
            kind: Kind::Word(&["basic", "post"]),
            preset: Preset::Value("basic"),
            doc: "How the provider is told: by a header, or in the form.",
        },
        Key {
            name: "scopes",
            kind: Kind::Texts("scope"),
            preset: Preset::Absent("`openid`, `profile`, `email`"),
            doc: "What is asked for; `openid` is always among it. Add `offline_access` for sessions that are \
                  renewed, where the provider wants it.",
        },
        Key {
            name: "secrets",
            kind: Kind::Texts("text"),
            preset: Preset::Absent("those of the files"),
            doc: "Secrets of at least 16 bytes that seal cookies. The first one seals, every one opens: put a \
                  new one in front, and take the old one out when `life` is over.",
        },
        Key {
            name: "secret_files",
            kind: Kind::Texts("path"),
            preset: Preset::Absent("none"),
            doc: "Files with such secrets, behind those of `secrets`.",
        },
        Key {
            name: "cookie",
            kind: Kind::Text("cookie name"),
            preset: Preset::Value("sluice-session"),
            doc: "The name of the cookie; large sessions take several.",
        },
        Key {
            name: "life",
            kind: Kind::Duration { min: Duration::from_secs(60), max: YEAR },
            preset: Preset::Value("8h"),
            doc: "How long a session is good before the user has to sign in again.",
        },
        Key {
            name: "callback_path",
            kind: Kind::Text("path"),
            preset: Preset::Value("/oidc/callback"),
            doc: "Where the provider sends users back to; tell it this address. The route has to take it.",
        },
        Key {
            name: "logout_path",
            kind: Kind::Text("path"),
            preset: Preset::Value("/oidc/logout"),
            doc: "Where users sign out. The route has to take it.",
        },
        Key {
            name: "after_logout",
            kind: Kind::Text("path"),
            preset: Preset::Value("/"),
            doc: "Where they are sent then.",
        },
        Key {
            name: "public_url",
            kind: Kind::Text("URL"),
            preset: Preset::Absent("what the browser asks for"),
            doc: "How browsers call this gateway, like `https://shop.example`, if somebody in front of it \
                  ends their encryption.",
        },
        Key {
            name: "user_claim",
            kind: Kind::Text("claim"),
            preset: Preset::Value("sub"),
            doc: "The claim that names the user, for logs and other filters.",
        },
        Key {
            name: "headers",
            kind: Kind::Pairs("claim"),
            preset: Preset::Absent("none"),
            doc: "Headers that tell origins of claims: `headers = { x-user = \"email\" }`. What clients send \
                  under these names is taken out.",
        },
        Key {
            name: "forward_token",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` tells origins the access token in `Authorization`, in place of what clients send \
                  there.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<Oidc> {
    let provider = read_provider(fields, roster)?;
    let mut scopes = texts(fields, "scopes");
    if scopes.is_empty() {
        scopes = ["profile", "email"].map(str::to_owned).to_vec();
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".to_owned());
    }
    let path = |key: &str| fields.parsed(key, parse_local);
    Some(Oidc {
        provider: Box::new(provider),
        client_id: fields.text("client_id")?.text.to_owned(),
        client_secret: fields.text("client_secret").map(|secret| Secret::new(secret.text)),
        client_secret_file: read_path(fields, "client_secret_file"),
        client_auth: match fields.word("client_auth") {
            Some("post") => ClientAuth::Post,
            _ => ClientAuth::Basic,
        },
        scopes,
        session: OidcSession {
            secrets: read_secret_texts(fields, "secrets"),
            secret_files: read_paths(fields, "secret_files"),
            cookie: fields.parsed("cookie", parse_cookie)?,
            life: fields.duration("life"),
        },
        callback_path: path("callback_path")?,
        logout_path: path("logout_path")?,
        after_logout: path("after_logout")?,
        public_url: fields.parsed("public_url", parse_origin),
        user_claim: fields.parsed("user_claim", parse_claim)?,
        headers: read_headers(fields),
        forward_token: fields.flag("forward_token").unwrap_or(false),
    })
}

fn read_provider(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<OidcProvider> {
    let issuer = fields.text("issuer")?;
    let parts = fields.report.accept(issuer.span, parse_url(issuer.text))?;
    let upstream = find_upstream(fields, roster, (Some("upstream"), issuer, &parts))?;
    let mut place = |key: &str| {
        let url = fields.text(key)?;
        let other = fields.report.accept(url.span, parse_url(url.text))?;
        let upstream = match other.server == parts.server {
            true => upstream.clone(),
            false => find_upstream(fields, roster, (None, url, &other))?,
        };
        let Url { host, target, .. } = other;
        Some(OidcEndpoint { upstream, host, target })
    };
    let (token, jwks, revocation) =
        (place("token_url"), place("jwks_url"), place("revocation_url"));
    let below = parts.target.trim_end_matches('/');
    Some(OidcProvider {
        issuer: issuer.text.to_owned(),
        discovery: OidcEndpoint {
            upstream,
            target: format!("{below}/.well-known/openid-configuration"),
            host: parts.host,
        },
        authorization_url: fields.parsed("authorization_url", parse_whole_url),
        end_session_url: fields.parsed("end_session_url", parse_whole_url),
        token,
        jwks,
        revocation,
        timeout: fields.duration("timeout"),
    })
}

fn parse_whole_url(text: &str) -> Result<String, Flaw> {
    parse_url(text).map(|_| text.to_owned())
}

/// Scheme and host alone.
fn parse_origin(text: &str) -> Result<String, Flaw> {
    let url = parse_url(text)?;
    if url.target != "/" {
        return Err(Flaw::new(format!("\"{text}\" has a path"))
            .with_help("write scheme and host alone: \"https://shop.example\""));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// A path of ours; a browser takes `//` for another host.
fn parse_local(text: &str) -> Result<String, Flaw> {
    let plain = |c: char| matches!(c, '!'..='~') && !matches!(c, '\\' | '?' | '#' | ';');
    if text.starts_with('/') && !text.starts_with("//") && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not a path", text.escape_debug()))
        .with_help("it begins with one / and has no blank, no semicolon and no query"))
}
