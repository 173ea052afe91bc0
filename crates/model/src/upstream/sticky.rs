//! Sessions that stay with their server.

use std::time::Duration;

use super::balance::parse_cookie_name;
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section, YEAR};

/// The cookie that leads a client back to its server.
#[derive(Clone, PartialEq, Eq)]
pub struct Sticky {
    /// Its name.
    pub cookie: String,
    /// What its value is signed with; `None` = something the process draws.
    pub key: Option<String>,
    /// Its attributes as they are sent, from the first semicolon on.
    pub attributes: String,
}

impl std::fmt::Debug for Sticky {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is nobody's business.
        f.debug_struct("Sticky")
            .field("cookie", &self.cookie)
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}

/// A key that is shorter could be found by trying.
const KEY: usize = 16;

pub(super) static STICKY: Section = Section {
    name: "upstream.sticky",
    doc: "A cookie that leads a client back to the server that answered it first, as long as that \
          server is there.",
    keys: &[
        Key {
            name: "cookie",
            kind: Kind::Text("cookie name"),
            preset: Preset::Value("sluice_server"),
            doc: "The name of the cookie.",
        },
        Key {
            name: "key",
            kind: Kind::Text("secret"),
            preset: Preset::Absent("drawn at each start"),
            doc: "What the cookie is signed with, of at least 16 characters. Gateways that shall \
                  know each other's cookies have the same; without it a restart forgets all sessions.",
        },
        Key {
            name: "path",
            kind: Kind::Text("path"),
            preset: Preset::Value("/"),
            doc: "Below which path the client sends the cookie.",
        },
        Key {
            name: "domain",
            kind: Kind::Text("domain"),
            preset: Preset::Absent("the host the client asked"),
            doc: "To which domain and those below it the client sends the cookie.",
        },
        Key {
            name: "max_age",
            kind: Kind::Duration { min: Duration::from_secs(1), max: YEAR },
            preset: Preset::Absent("until the browser is closed"),
            doc: "How long the client keeps the cookie, in whole seconds.",
        },
        Key {
            name: "secure",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true`: the client sends the cookie over encrypted connections only.",
        },
        Key {
            name: "http_only",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "`true`: scripts of the page do not see the cookie.",
        },
        Key {
            name: "same_site",
            kind: Kind::Word(&["lax", "strict", "none"]),
            preset: Preset::Value("lax"),
            doc: "With which requests from other sites the client sends the cookie: `lax` when a \
                  link is followed, `strict` with none, `none` with all (needs `secure`).",
        },
    ],
};

pub(super) fn read_sticky(fields: &Fields<'_, '_>) -> Option<Sticky> {
    let written = fields.entry("sticky").is_some();
    let fields = fields.table("sticky");
    let cookie = fields.parsed("cookie", parse_cookie_name);
    let key = fields.parsed("key", parse_key);
    let attributes = attributes(&fields);
    let sticky = Sticky { cookie: cookie?, key, attributes };
    written.then_some(sticky)
}

/// RFC 6265, 4.1.1, and SameSite as browsers have it.
fn attributes(fields: &Fields<'_, '_>) -> String {
    let path = fields.parsed("path", parse_path).unwrap_or_else(|| "/".to_owned());
    let mut text = format!("; Path={path}");
    if let Some(domain) = fields.parsed("domain", parse_domain) {
        text.push_str(&format!("; Domain={domain}"));
    }
    let age = fields.duration("max_age");
    if !age.is_zero() {
        text.push_str(&format!("; Max-Age={}", age.as_secs()));
    }
    let secure = fields.flag("secure").unwrap_or(false);
    if secure {
        text.push_str("; Secure");
    }
    if fields.flag("http_only").unwrap_or(true) {
        text.push_str("; HttpOnly");
    }
    text.push_str(match fields.word("same_site") {
        Some("strict") => "; SameSite=Strict",
        Some("none") => {
            if let (false, Some(entry)) = (secure, fields.entry("same_site")) {
                let flaw = Flaw::new("browsers refuse a cookie with same_site = \"none\" alone")
                    .with_help("add secure = true");
                fields.report.error(entry.node.span, flaw);
            }
            "; SameSite=None"
        }
        _ => "; SameSite=Lax",
    });
    text
}

/// The key itself is not repeated.
fn parse_key(text: &str) -> Result<String, Flaw> {
    match text.len() < KEY {
        true => Err(Flaw::new(format!("a key of {} characters could be guessed", text.len()))
            .with_help("make one: openssl rand -hex 32")),
        false => Ok(text.to_owned()),
    }
}

fn parse_path(text: &str) -> Result<String, Flaw> {
    match text.starts_with('/') && is_attribute(text) {
        true => Ok(text.to_owned()),
        false => Err(Flaw::new(format!("\"{}\" is not a path for a cookie", text.escape_debug()))
            .with_help("it starts with / and has no ; in it")),
    }
}

fn parse_domain(text: &str) -> Result<String, Flaw> {
    let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    match !text.is_empty() && text.bytes().all(letter) {
        true => Ok(text.to_owned()),
        false => Err(Flaw::new(format!("\"{}\" is not a domain", text.escape_debug()))
            .with_help("write it as in example.com")),
    }
}

/// Any character but a semicolon and controls (RFC 6265, 4.1.1).
fn is_attribute(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7F).contains(&b) && b != b';')
}
