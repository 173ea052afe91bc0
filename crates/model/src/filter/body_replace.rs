//! The body_replace filter: replaces texts in content while it passes.

use super::media::media_range;
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// What is replaced, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyReplace {
    /// Whether content of requests is changed; of answers if not.
    pub requests: bool,
    /// Media types of content that is searched: whole ones, `text/*`, `*+json`.
    pub types: Vec<String>,
    /// What is replaced, one after the other.
    pub rules: Vec<BodyRule>,
    /// Bytes that are kept back to find an expression.
    pub longest: u64,
}

/// Something that is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyRule {
    /// What is looked for.
    pub find: BodyPattern,
    /// What takes its place.
    pub with: String,
    /// Whether only the first one of a message is replaced.
    pub once: bool,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPattern {
    /// This text, in capitals and small letters alike or not.
    Text(String, Letters),
    /// This regular expression.
    Regex(String),
}

/// Whether capitals and small letters are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// They differ.
    Differ,
    /// They are the same.
    Same,
}

pub(super) static SECTION: Section = Section {
    name: "filter.body_replace",
    doc: "Replaces texts in content while it passes.",
    keys: &[
        Key {
            name: "of",
            kind: Kind::Word(&["requests", "responses"]),
            preset: Preset::Value("responses"),
            doc: "Whose content is changed. For answers, origins are asked not to compress them.",
        },
        Key {
            name: "types",
            kind: Kind::Texts("media type"),
            preset: Preset::Absent("texts, JSON, JavaScript and XML"),
            doc: "Media types of content that is searched: `\"text/html\"`, `\"text/*\"`, `\"*+json\"`. Other \
                  content passes as it is, and so does content that is compressed.",
        },
        Key {
            name: "rules",
            kind: Kind::Tables(&RULE),
            preset: Preset::Required,
            doc: "What is replaced; each rule works on what the one before it made.",
        },
        Key {
            name: "longest",
            kind: Kind::Size { min: 16, max: 65_536, word: None },
            preset: Preset::Value("4KiB"),
            doc: "Bytes that are kept back at most to find a regular expression; a longer match is none.",
        },
    ],
};

static RULE: Section = Section {
    name: "filter.body_replace.rules",
    doc: "Something that is replaced: a `text` or a `regex`.",
    keys: &[
        Key {
            name: "text",
            kind: Kind::Text("text"),
            preset: Preset::Absent("none"),
            doc: "The text that is looked for, up to 4096 bytes.",
        },
        Key {
            name: "regex",
            kind: Kind::Text("expression"),
            preset: Preset::Absent("none"),
            doc: "The regular expression that is looked for. Classes mean ASCII; `^`, `$` and `\\b` have no \
                  place in content that comes in pieces.",
        },
        Key {
            name: "with",
            kind: Kind::Text("text"),
            preset: Preset::Required,
            doc: "What takes its place. Of a `regex`, `$1` and `${name}` stand for groups and `$$` for a \
                  dollar.",
        },
        Key {
            name: "ignore_case",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "Whether capitals and small letters of a `text` are the same; a `regex` says `(?i)`.",
        },
        Key {
            name: "once",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "Whether only the first one of a message is replaced.",
        },
    ],
};

/// Types of content that is text.
const TEXTS: [&str; 7] = [
    "text/*",
    "application/json",
    "*+json",
    "application/javascript",
    "application/xml",
    "*+xml",
    "application/x-www-form-urlencoded",
];

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<BodyReplace> {
    let mut types = fields.list("types", media_range);
    if fields.written("types").is_none() {
        types = TEXTS.map(str::to_owned).to_vec();
    }
    let rules = fields.tables("rules");
    let some = !rules.is_empty();
    if !some && fields.written("rules").is_some() {
        fields
            .report
            .error(fields.span, Flaw::new("this replaces nothing").with_help("add a rule"));
    }
    Some(BodyReplace {
        requests: fields.word("of") == Some("requests"),
        types,
        rules: rules.iter().filter_map(rule).collect(),
        longest: fields.size("longest").unwrap_or(4096),
    })
}

fn rule(fields: &Fields<'_, '_>) -> Option<BodyRule> {
    let (text, regex) = (fields.text("text"), fields.text("regex"));
    let (with, once) = (fields.text("with"), fields.flag("once").unwrap_or_default());
    let letters = match fields.flag("ignore_case") {
        Some(true) => Letters::Same,
        _ => Letters::Differ,
    };
    let find = match (text, regex) {
        (Some(text), None) => BodyPattern::Text(text.text.to_owned(), letters),
        (None, Some(regex)) => BodyPattern::Regex(regex.text.to_owned()),
        (Some(_), Some(regex)) => {
            let flaw = Flaw::new("a rule has a `text` or a `regex`, not both");
            fields.report.error(regex.span, flaw);
            return None;
        }
        (None, None) => {
            let flaw = Flaw::new("a rule has a `text` or a `regex`");
            fields.report.error(fields.span, flaw);
            return None;
        }
    };
    Some(BodyRule { find, with: with?.text.to_owned(), once })
}
