//! The rewrite filter: asks the origin for another path, query or host.

use sluice_expression::{Phase, Scope};

use crate::expression::{Expression, read_template, template};
use crate::fields::{Fields, Phrase};
use crate::pattern::parse_regex;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

use super::headers::NamePattern;

/// What is changed, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Segments that are taken off the front of the path.
    pub strip_prefix: Option<String>,
    /// Expressions and what takes their place; the first that is found counts.
    pub replace: Vec<(String, String)>,
    /// The path that takes the place of the old one.
    pub path: Option<Expression>,
    /// What is put in front of the path.
    pub add_prefix: Option<String>,
    /// What happens to the query.
    pub query: QueryEdits,
    /// The host.
    pub host: Option<Expression>,
    /// Whether a route is looked for anew.
    pub reroute: bool,
}

/// What happens to the arguments of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryEdits {
    /// Arguments that are taken out.
    pub remove: Vec<NamePattern>,
    /// Old and new names.
    pub rename: Vec<(String, String)>,
    /// Arguments that have these values and no others.
    pub set: Vec<(String, Vec<Expression>)>,
    /// Arguments that are added.
    pub add: Vec<(String, Vec<Expression>)>,
}

pub(super) static SECTION: Section = Section {
    name: "filter.rewrite",
    doc: "Asks the origin for another path, query or host than the client did. What is to happen to the \
          path happens in the order of the keys.",
    keys: &[
        Key {
            name: "strip_prefix",
            kind: Kind::Text("path"),
            preset: Preset::Absent("nothing"),
            doc: "Segments that are taken off the front of the path, where they are there: `\"/api\"` makes \
                  `/users` of `/api/users`, `/` of `/api`, and leaves `/apis` as it is.",
        },
        Key {
            name: "replace",
            kind: Kind::Tables(&REPLACE),
            preset: Preset::Absent("nothing"),
            doc: "Regular expressions; the first that is found in the path changes it.",
        },
        Key {
            name: "path",
            kind: Kind::Text("template"),
            preset: Preset::Absent("stays"),
            doc: "The path that takes the place of the old one: a template, in which values cannot end the \
                  path or lead up (docs/expressions.md). It may bring a query.",
        },
        Key {
            name: "add_prefix",
            kind: Kind::Text("path"),
            preset: Preset::Absent("nothing"),
            doc: "Segments that are put in front of the path.",
        },
        Key {
            name: "query",
            kind: Kind::Table(&QUERY),
            preset: Preset::Absent("stays"),
            doc: "What happens to the arguments of the query.",
        },
        Key {
            name: "host",
            kind: Kind::Text("template"),
            preset: Preset::Absent("stays"),
            doc: "The host that is asked, with a port or without: a template.",
        },
        Key {
            name: "reroute",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "Whether the changed request is for another route: it is looked for anew, and its filters \
                  are gone through from the first.",
        },
    ],
};

static REPLACE: Section = Section {
    name: "filter.rewrite.replace",
    doc: "A regular expression, and what takes the place of what it is found in.",
    keys: &[
        Key {
            name: "regex",
            kind: Kind::Text("expression"),
            preset: Preset::Required,
            doc: "What is searched in the path, in the spelling that routes compare.",
        },
        Key {
            name: "with",
            kind: Kind::Text("text"),
            preset: Preset::Required,
            doc: "What takes its place. `$1` and `${name}` stand for groups. It may bring a query.",
        },
    ],
};

static QUERY: Section = Section {
    name: "filter.rewrite.query",
    doc: "What happens to the arguments of a query. Values are templates; arguments that nothing is said of \
          stay as the client wrote them.",
    keys: &[
        Key {
            name: "remove",
            kind: Kind::Texts("name"),
            preset: Preset::Absent("none"),
            doc: "Arguments that are taken out: `\"debug\"`, `\"utm_*\"` for all that begin so, `\"~ ^_\"` \
                  for a regular expression.",
        },
        Key {
            name: "rename",
            kind: Kind::Pairs("new name"),
            preset: Preset::Absent("none"),
            doc: "Arguments that get another name: `old = \"new\"`.",
        },
        Key {
            name: "set",
            kind: Kind::PairLists("template"),
            preset: Preset::Absent("none"),
            doc: "Values of arguments, instead of all they had.",
        },
        Key {
            name: "add",
            kind: Kind::PairLists("template"),
            preset: Preset::Absent("none"),
            doc: "Values of arguments beside those that are there.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Rewrite> {
    let scope = Scope::new(Phase::Request);
    let rewrite = Rewrite {
        strip_prefix: fields.parsed("strip_prefix", parse_prefix),
        replace: fields.tables("replace").iter().filter_map(replace).collect(),
        path: read_template(fields, "path", &scope),
        add_prefix: fields.parsed("add_prefix", parse_prefix),
        query: query(&fields.table("query")),
        host: read_template(fields, "host", &scope),
        reroute: fields.flag("reroute").unwrap_or_default(),
    };
    if rewrite.path.is_some() && (rewrite.strip_prefix.is_some() || !rewrite.replace.is_empty()) {
        let flaw = Flaw::new("`path` takes the place of what `strip_prefix` and `replace` make")
            .with_help("remove one of them");
        fields.report.error(fields.span, flaw);
    }
    Some(rewrite)
}

fn parse_prefix(text: &str) -> Result<String, Flaw> {
    let legal = |b: u8| b.is_ascii_graphic() && !b"?#".contains(&b);
    if text.starts_with('/') && text.bytes().all(legal) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is no path", text.escape_debug()))
        .with_help("it begins with / and has no blanks, ? or #"))
}

fn replace(fields: &Fields<'_, '_>) -> Option<(String, String)> {
    let regex = fields
        .parsed("regex", |text| parse_regex(text.strip_prefix('~').map_or(text, str::trim_start)));
    regex.zip(fields.text("with").map(|with| with.text.to_owned()))
}

fn query(fields: &Fields<'_, '_>) -> QueryEdits {
    let pairs = fields.pairs("rename").into_iter();
    let rename =
        pairs.filter_map(|(old, new)| Some((old.text.to_owned(), new.first()?.text.to_owned())));
    QueryEdits {
        remove: fields.list("remove", name_pattern),
        rename: rename.collect(),
        set: values(fields, "set"),
        add: values(fields, "add"),
    }
}

fn name_pattern(text: &str) -> Result<NamePattern, Flaw> {
    if let Some(expression) = text.strip_prefix('~') {
        return parse_regex(expression.trim_start()).map(NamePattern::Regex);
    }
    Ok(match text.strip_suffix('*') {
        Some(prefix) => NamePattern::Prefix(prefix.to_owned()),
        None => NamePattern::Exact(text.to_owned()),
    })
}

fn values(fields: &Fields<'_, '_>, key: &str) -> Vec<(String, Vec<Expression>)> {
    let scope = Scope::new(Phase::Request);
    let read = |(name, values): (Phrase<'_>, Vec<Phrase<'_>>)| {
        let values = values.into_iter();
        let values = values.filter_map(|value| template(value, &scope, fields.report));
        (name.text.to_owned(), values.collect())
    };
    fields.pairs(key).into_iter().map(read).collect()
}
