//! The headers filter: adds, changes and removes header fields.

use crate::expression::{Expression, template};
use crate::fields::{Fields, Phrase};
use crate::header::parse_field_name;
use crate::pattern::parse_regex;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

use sluice_expression::{Phase, Scope};

/// What happens to header fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// To those of requests.
    pub request: HeaderEdits,
    /// To those of answers.
    pub response: HeaderEdits,
    /// To those behind the content of answers.
    pub trailers: HeaderEdits,
    /// Whether answers are changed that the gateway gives because something failed.
    pub always: bool,
}

/// What happens to header fields of one kind, in this order. Names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Fields that are taken out.
    pub remove: Vec<NamePattern>,
    /// Old and new names.
    pub rename: Vec<(String, String)>,
    /// Fields that get other values if they are there.
    pub replace_if_present: Vec<(String, Vec<Expression>)>,
    /// Fields that have these values and no others.
    pub set: Vec<(String, Vec<Expression>)>,
    /// Fields that are added if they are not there.
    pub add_if_absent: Vec<(String, Vec<Expression>)>,
    /// Fields that are added to what is there.
    pub add: Vec<(String, Vec<Expression>)>,
}

/// Names of header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// This name.
    Exact(String),
    /// All that begin so.
    Prefix(String),
    /// All that this regular expression is found in; names are in lower case.
    Regex(String),
}

pub(super) static SECTION: Section = Section {
    name: "filter.headers",
    doc: "Adds, changes and removes header fields.",
    keys: &[
        Key {
            name: "request",
            kind: Kind::Table(&EDITS),
            preset: Preset::Absent("nothing changes"),
            doc: "What happens to the fields of a request before the origin gets it.",
        },
        Key {
            name: "response",
            kind: Kind::Table(&EDITS),
            preset: Preset::Absent("nothing changes"),
            doc: "What happens to the fields of an answer before the client gets it.",
        },
        Key {
            name: "trailers",
            kind: Kind::Table(&EDITS),
            preset: Preset::Absent("nothing changes"),
            doc: "What happens to the fields behind the content of an answer. Values are made when the \
                  answer begins.",
        },
        Key {
            name: "always",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` changes answers too that the gateway gives because something failed or the \
                  request was refused.",
        },
    ],
};

static EDITS: Section = Section {
    name: "filter.headers.request",
    doc: "What happens to fields, in this order; the same for `response` and `trailers`. Values are \
          templates (docs/expressions.md); one that becomes empty is not written.",
    keys: &[
        Key {
            name: "remove",
            kind: Kind::Texts("name"),
            preset: Preset::Absent("none"),
            doc: "Fields that are taken out: `\"x-debug\"`, `\"x-internal-*\"` for all that begin so, \
                  `\"~ ^x-[0-9]+$\"` for a regular expression.",
        },
        Key {
            name: "rename",
            kind: Kind::Pairs("new name"),
            preset: Preset::Absent("none"),
            doc: "Fields that get another name: `old = \"new\"`. Where there is an old one, fields of the \
                  new name are taken out.",
        },
        Key {
            name: "replace_if_present",
            kind: Kind::PairLists("template"),
            preset: Preset::Absent("none"),
            doc: "Values of fields that are there; fields that are not are not added.",
        },
        Key {
            name: "set",
            kind: Kind::PairLists("template"),
            preset: Preset::Absent("none"),
            doc: "Values of fields, instead of all they had.",
        },
        Key {
            name: "add_if_absent",
            kind: Kind::PairLists("template"),
            preset: Preset::Absent("none"),
            doc: "Values of fields that are not there.",
        },
        Key {
            name: "add",
            kind: Kind::PairLists("template"),
            preset: Preset::Absent("none"),
            doc: "Values of fields beside those that are there.",
        },
    ],
};

/// Fields that the gateway writes itself, or that are for the next hop alone (RFC 9110, 7.6.1).
const KEPT: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Where fields stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Request,
    Response,
    Trailers,
}

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Headers> {
    Some(Headers {
        request: edits(&fields.table("request"), Place::Request),
        response: edits(&fields.table("response"), Place::Response),
        trailers: edits(&fields.table("trailers"), Place::Trailers),
        always: fields.flag("always").unwrap_or_default(),
    })
}

fn edits(fields: &Fields<'_, '_>, place: Place) -> HeaderEdits {
    HeaderEdits {
        remove: fields.list("remove", |text| name_pattern(text, place)),
        rename: rename(fields, place),
        replace_if_present: values(fields, "replace_if_present", place),
        set: values(fields, "set", place),
        add_if_absent: values(fields, "add_if_absent", place),
        add: values(fields, "add", place),
    }
}

fn name_pattern(text: &str, place: Place) -> Result<NamePattern, Flaw> {
    if let Some(expression) = text.strip_prefix('~') {
        return parse_regex(expression.trim_start()).map(NamePattern::Regex);
    }
    match text.strip_suffix('*') {
        Some("") => Err(Flaw::new("this removes all fields").with_help("name what is to go")),
        Some(prefix) => parse_field_name(prefix).map(NamePattern::Prefix),
        None => name(text, place).map(NamePattern::Exact),
    }
}

/// A name that may be changed there.
fn name(text: &str, place: Place) -> Result<String, Flaw> {
    let name = parse_field_name(text)?;
    if KEPT.contains(&name.as_str()) {
        return Err(Flaw::new(format!("the header \"{name}\" is written by the gateway itself")));
    }
    match place {
        Place::Request if name == "host" => Err(Flaw::new("\"host\" is no header like others")
            .with_help("the filter `rewrite` has `host`, an upstream has `host`")),
        // RFC 9110, 6.5.1: what says how to read the content, or whether to, comes before it.
        Place::Trailers if name == "host" || name.starts_with("content-") => {
            Err(Flaw::new(format!("the header \"{name}\" cannot stand behind the content")))
        }
        _ => Ok(name),
    }
}

fn rename(fields: &Fields<'_, '_>, place: Place) -> Vec<(String, String)> {
    let report = fields.report;
    let pairs = fields.pairs("rename").into_iter();
    let read = |(old, new): (Phrase<'_>, Vec<Phrase<'_>>)| {
        let new = new.first().copied()?;
        let old = report.accept(old.span, name(old.text, place));
        let new = report.accept(new.span, name(new.text, place));
        old.zip(new)
    };
    pairs.filter_map(read).collect()
}

fn values(fields: &Fields<'_, '_>, key: &str, place: Place) -> Vec<(String, Vec<Expression>)> {
    let report = fields.report;
    let scope = Scope::new(match place {
        Place::Request => Phase::Request,
        Place::Response | Place::Trailers => Phase::Response,
    });
    let read = |(written, values): (Phrase<'_>, Vec<Phrase<'_>>)| {
        let values: Vec<_> =
            values.into_iter().filter_map(|value| template(value, &scope, report)).collect();
        report.accept(written.span, name(written.text, place)).map(|name| (name, values))
    };
    fields.pairs(key).into_iter().filter_map(read).collect()
}
