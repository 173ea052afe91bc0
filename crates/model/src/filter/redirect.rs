//! The redirect filter: sends clients to another scheme, host or path.

use sluice_expression::{Phase, Scope};

use crate::expression::{Expression, read_template};
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Where clients are sent; what is not said stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectFilter {
    /// "http" or "https".
    pub scheme: Option<&'static str>,
    /// The host, without a port.
    pub host: Option<Expression>,
    /// The port.
    pub port: Option<u16>,
    /// The path.
    pub path: Option<Expression>,
    /// Whether the query stays.
    pub keep_query: bool,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

pub(super) static SECTION: Section = Section {
    name: "filter.redirect",
    doc: "Sends clients to another scheme, host or path. What is not said stays as it is; who is there \
          already passes.",
    keys: &[
        Key {
            name: "scheme",
            kind: Kind::Word(&["http", "https"]),
            preset: Preset::Absent("stays"),
            doc: "The scheme. Where it changes, the port goes.",
        },
        Key {
            name: "host",
            kind: Kind::Text("template"),
            preset: Preset::Absent("stays"),
            doc: "The host, without a port: a template such as `\"www.{request.host}\"`.",
        },
        Key {
            name: "port",
            kind: Kind::Integer { min: 1, max: 65_535, word: None },
            preset: Preset::Absent("stays, unless scheme or host change"),
            doc: "The port.",
        },
        Key {
            name: "path",
            kind: Kind::Text("template"),
            preset: Preset::Absent("stays"),
            doc: "The path: a template, in which values cannot end the path. It may bring a query.",
        },
        Key {
            name: "keep_query",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "Whether the client's query follows the path.",
        },
        Key {
            name: "status",
            kind: Kind::Integer { min: 301, max: 308, word: None },
            preset: Preset::Value("308"),
            doc: "301 or 308 for good, 302 or 307 for now, 303 to be fetched with GET. 307 and 308 keep the \
                  method.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<RedirectFilter> {
    let scope = Scope::new(Phase::Request);
    let status = fields.integer("status").and_then(|it| u16::try_from(it).ok()).unwrap_or(308);
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let flaw =
            Flaw::new(format!("{status} redirects nobody")).with_help("301, 302, 303, 307 or 308");
        fields.report.error(fields.span, flaw);
    }
    let redirect = RedirectFilter {
        scheme: fields.word("scheme"),
        host: read_template(fields, "host", &scope),
        port: fields.integer("port").and_then(|it| u16::try_from(it).ok()),
        path: read_template(fields, "path", &scope),
        keep_query: fields.flag("keep_query").unwrap_or(true),
        status,
    };
    let keys = ["scheme", "host", "port", "path", "keep_query"];
    if !keys.iter().any(|key| fields.written(key).is_some()) {
        let flaw = Flaw::new("this redirect leads nowhere else")
            .with_help("give it a `scheme`, `host`, `port` or `path`");
        fields.report.error(fields.span, flaw);
    }
    Some(redirect)
}
