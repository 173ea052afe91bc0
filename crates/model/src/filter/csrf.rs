//! Requests that another site has a browser make.

use std::path::PathBuf;
use std::time::Duration;

use super::jwt::parse_cookie;
use super::referer::parse_hosts;
use super::told::{read_paths, read_secret_texts};
use crate::fields::Fields;
use crate::header::parse_field_name;
use crate::problem::Flaw;
use crate::secret::Secret;
use crate::section::{Key, Kind, Preset, Section, YEAR};
use crate::upstream::Roster;

/// Which requests that change something are let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csrf {
    /// Other sites whose pages may make requests, by their hosts.
    pub trusted: Vec<String>,
    /// What pages have to show besides.
    pub token: Option<CsrfToken>,
}

/// A token that a cookie holds and a header repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsrfToken {
    /// The first one makes tokens, all of them verify.
    pub secrets: Vec<Secret>,
    /// Files with more of them.
    pub secret_files: Vec<PathBuf>,
    /// The cookie.
    pub cookie: String,
    /// The header.
    pub header: String,
    /// The cookie of the session that a token is good for.
    pub session_cookie: Option<String>,
    /// How long a token is good.
    pub life: Duration,
    /// The paths that the cookie is for.
    pub path: String,
}

pub(super) static SECTION: Section = Section {
    name: "filter.csrf",
    doc: "Refuses requests that another site has a browser make: those with methods that change something \
          whose browser says that they come from elsewhere (`Sec-Fetch-Site`, `Origin`). With a secret, \
          scripts have to repeat a token besides, for browsers that say nothing.",
    keys: &[
        Key {
            name: "trusted",
            kind: Kind::Texts("host, or `*.host` for all below it"),
            preset: Preset::Absent("none"),
            doc: "Other hosts whose pages may make requests.",
        },
        Key {
            name: "secrets",
            kind: Kind::Texts("text"),
            preset: Preset::Absent("no token is asked for"),
            doc: "Secrets of at least 16 bytes that tokens are made of. The first one makes them, every one \
                  verifies: put a new one in front, and take the old one out when `life` is over.",
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
            preset: Preset::Value("csrf-token"),
            doc: "The cookie that holds the token. Scripts of a page read it. With a name that begins with \
                  `__Host-` no neighbouring site can write it.",
        },
        Key {
            name: "header",
            kind: Kind::Text("header name"),
            preset: Preset::Value("x-csrf-token"),
            doc: "The header that repeats the token.",
        },
        Key {
            name: "session_cookie",
            kind: Kind::Text("cookie name"),
            preset: Preset::Absent("a token is good for everybody"),
            doc: "The cookie of the session: a token that was made for another session is refused.",
        },
        Key {
            name: "life",
            kind: Kind::Duration { min: Duration::from_secs(60), max: YEAR },
            preset: Preset::Value("12h"),
            doc: "How long a token is good. It is made anew in the second half of its life.",
        },
        Key {
            name: "path",
            kind: Kind::Text("path"),
            preset: Preset::Value("/"),
            doc: "The paths that the cookie is for.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Csrf> {
    let (secrets, secret_files) =
        (read_secret_texts(fields, "secrets"), read_paths(fields, "secret_files"));
    let token = CsrfToken {
        cookie: fields.parsed("cookie", parse_cookie)?,
        header: fields.parsed("header", parse_field_name)?,
        session_cookie: fields.parsed("session_cookie", parse_cookie),
        life: fields.duration("life"),
        path: fields.parsed("path", parse_cookie_path)?,
        secrets,
        secret_files,
    };
    let wanted = !token.secrets.is_empty() || !token.secret_files.is_empty();
    Some(Csrf { trusted: fields.list("trusted", parse_hosts), token: wanted.then_some(token) })
}

/// A path for a cookie: nothing in it may end the attribute.
pub(super) fn parse_cookie_path(text: &str) -> Result<String, Flaw> {
    let plain = |c: char| matches!(c, '!'..='~') && !matches!(c, ';' | ',');
    if text.starts_with('/') && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not a path", text.escape_debug()))
        .with_help("it begins with / and has no blank, comma or semicolon"))
}
