//! Requests that bring a key.

use super::told::{
    MISSING, NamedSecrets, WithoutCredentials, parse_told_field, read_missing, read_secrets,
};
use crate::fields::Fields;
use crate::header::{is_token, parse_field_name};
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Keys, and where requests bring them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAuth {
    /// The keys by their names.
    pub keys: NamedSecrets,
    /// The field that holds the key.
    pub header: String,
    /// The scheme in front of it inside the field.
    pub scheme: Option<String>,
    /// The parameter of the query that may hold it instead.
    pub query: Option<String>,
    /// Whether origins do not see it.
    pub hide: bool,
    /// What becomes of requests without one.
    pub missing: WithoutCredentials,
    /// The field that tells origins the name of the key.
    pub user_header: Option<String>,
}

pub(super) static SECTION: Section = Section {
    name: "filter.key_auth",
    doc: "Lets requests through that bring one of the keys. How long a wrong one takes says nothing about \
          the right ones.",
    keys: &[
        Key {
            name: "keys",
            kind: Kind::Pairs("key"),
            preset: Preset::Absent("those of the file"),
            doc: "Names and their keys: `keys = { reports = \"${REPORTS_KEY}\" }`. The name is the user \
                  that logs, other filters and origins know.",
        },
        Key {
            name: "keys_file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "A file with more of them, lines `name:key`; those that begin with `#` do not count.",
        },
        Key {
            name: "header",
            kind: Kind::Text("header name"),
            preset: Preset::Value("x-api-key"),
            doc: "The header that holds the key.",
        },
        Key {
            name: "scheme",
            kind: Kind::Text("word"),
            preset: Preset::Absent("the value is the key"),
            doc: "The word in front of the key, as `Bearer` in `Authorization: Bearer KEY`.",
        },
        Key {
            name: "query",
            kind: Kind::Text("parameter name"),
            preset: Preset::Absent("none"),
            doc: "The parameter of the query that may hold the key instead. Keys in addresses end in logs \
                  and histories: for clients that can do nothing else.",
        },
        Key {
            name: "hide",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "`true` takes the key out before the origin gets the request.",
        },
        Key {
            name: "missing",
            kind: Kind::Word(MISSING),
            preset: Preset::Value("refuse"),
            doc: "What becomes of requests without a key: `pass` lets them go on as nobody's. A wrong key \
                  is refused in any case.",
        },
        Key {
            name: "user_header",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("none"),
            doc: "The header that tells origins the name of the key. What clients send under it is \
                  taken out.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<KeyAuth> {
    Some(KeyAuth {
        keys: read_secrets(fields, "keys", "keys_file")?,
        header: fields.parsed("header", parse_field_name)?,
        scheme: fields.parsed("scheme", parse_scheme),
        query: fields.parsed("query", parse_parameter),
        hide: fields.flag("hide").unwrap_or(true),
        missing: read_missing(fields),
        user_header: fields.parsed("user_header", parse_told_field),
    })
}

pub(super) fn parse_scheme(text: &str) -> Result<String, Flaw> {
    if is_token(text) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not a scheme", text.escape_debug()))
        .with_help("it is one word, like \"Bearer\""))
}

pub(super) fn parse_parameter(text: &str) -> Result<String, Flaw> {
    if text.is_empty() {
        return Err(Flaw::new("a parameter has a name"));
    }
    Ok(text.to_owned())
}
