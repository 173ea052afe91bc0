//! The cors filter: says which pages of other origins may use this one.

use std::time::Duration;

use crate::fields::Fields;
use crate::header::{parse_authority, parse_field_name, parse_method};
use crate::pattern::parse_regex;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// What pages of other origins may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Whose pages.
    pub origins: Vec<PageOrigin>,
    /// Methods they may use; `None` = all.
    pub methods: Option<Vec<String>>,
    /// Header fields they may send; `None` = all.
    pub headers: Option<Vec<String>>,
    /// Header fields of answers they may read.
    pub expose: Vec<String>,
    /// Whether cookies and the like go along.
    pub credentials: bool,
    /// How long browsers may remember it.
    pub max_age: Duration,
}

/// The origin of a page, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOrigin {
    /// Any.
    Any,
    /// This one.
    Exact(String),
    /// Every host below one: what stands before it, such as `https://`, and `.shop.example`.
    Below(String, String),
    /// Those that this regular expression matches as a whole.
    Regex(String),
}

pub(super) static SECTION: Section = Section {
    name: "filter.cors",
    doc: "Says which pages of other origins may use this one, and answers when browsers ask before they \
          send a request.",
    keys: &[
        Key {
            name: "origins",
            kind: Kind::Texts("origin"),
            preset: Preset::Required,
            doc: "Whose pages: `\"https://shop.example\"`, `\"https://*.shop.example\"` for every host below, \
                  `\"~ https://[a-z]+[.]example\"` for a regular expression that matches the whole, `\"*\"` \
                  for all.",
        },
        Key {
            name: "methods",
            kind: Kind::Texts("method"),
            preset: Preset::Absent("GET, HEAD, POST, PUT, PATCH, DELETE"),
            doc: "Methods they may use; `\"*\"` for all.",
        },
        Key {
            name: "headers",
            kind: Kind::Texts("name"),
            preset: Preset::Absent("content-type"),
            doc: "Headers they may send beyond those that every page may; `\"*\"` for all.",
        },
        Key {
            name: "expose",
            kind: Kind::Texts("name"),
            preset: Preset::Absent("none"),
            doc: "Headers of answers they may read beyond those that every page may.",
        },
        Key {
            name: "credentials",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "Whether cookies and the like go along. Not with the origin `\"*\"`.",
        },
        Key {
            name: "max_age",
            kind: Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(86_400) },
            preset: Preset::Value("1h"),
            doc: "How long browsers may remember the answer. They have limits of their own, of two hours \
                  some.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Cors> {
    let origins = fields.list("origins", page_origin);
    let credentials = fields.flag("credentials").unwrap_or_default();
    if credentials && origins.contains(&PageOrigin::Any) {
        let flaw = Flaw::new("`credentials` are not for pages of all origins")
            .with_help("name the origins: every page could act as whoever looks at it");
        fields.report.error(fields.span, flaw);
    }
    let methods = || ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map(str::to_owned).to_vec();
    let headers = || vec!["content-type".to_owned()];
    Some(Cors {
        origins,
        methods: names(fields, "methods", parse_method, &methods),
        headers: names(fields, "headers", parse_field_name, &headers),
        expose: fields.list("expose", parse_field_name),
        credentials,
        max_age: fields.duration("max_age"),
    })
}

/// Names, or nothing for `*`.
fn names(
    fields: &Fields<'_, '_>,
    key: &str,
    parse: fn(&str) -> Result<String, Flaw>,
    preset: &dyn Fn() -> Vec<String>,
) -> Option<Vec<String>> {
    let all = fields.phrases(key).iter().any(|phrase| phrase.text == "*");
    let names = fields.list(key, |text| if text == "*" { Ok(String::new()) } else { parse(text) });
    match (all, fields.written(key)) {
        (true, _) => None,
        (false, Some(_)) => Some(names),
        (false, None) => Some(preset()),
    }
}

fn page_origin(text: &str) -> Result<PageOrigin, Flaw> {
    if let Some(expression) = text.strip_prefix('~') {
        return parse_regex(expression.trim_start()).map(PageOrigin::Regex);
    }
    let lower = text.to_ascii_lowercase();
    match lower.split_once("://") {
        _ if text == "*" => Ok(PageOrigin::Any),
        _ if text == "null" => Ok(PageOrigin::Exact(lower)),
        Some((scheme, host)) if !scheme.is_empty() => match host.strip_prefix("*.") {
            Some(below) => parse_authority(below)
                .map(|below| PageOrigin::Below(format!("{scheme}://"), format!(".{below}"))),
            None => {
                parse_authority(host).map(|host| PageOrigin::Exact(format!("{scheme}://{host}")))
            }
        },
        _ => Err(Flaw::new(format!("\"{}\" is no origin", text.escape_debug()))
            .with_help("an origin is a scheme and a host: \"https://shop.example\"")),
    }
}
