//! How a server of an upstream is chosen.

use crate::fields::Fields;
use crate::header::{is_token, parse_field_name};
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};

/// How a server is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other, by weight.
    RoundRobin,
    /// The one with the fewest requests under way for its weight.
    LeastRequests,
    /// The less busy of two drawn by chance.
    TwoChoices,
    /// By chance, by weight.
    Random,
    /// The same one for the same key.
    Hash(HashOn),
}

/// What of a request decides on its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashOn {
    /// The client's address.
    Client,
    /// The path.
    Path,
    /// The value of this header.
    Header(String),
    /// The value of this cookie.
    Cookie(String),
    /// The value of this parameter of the query.
    Query(String),
}

pub(super) const BALANCES: Kind =
    Kind::Word(&["round_robin", "least_requests", "two_choices", "random", "hash"]);

pub(super) static HASH: Section = Section {
    name: "upstream.hash",
    doc: "What of a request decides on its server, with `balance = \"hash\"`. Requests without it \
          are spread over all servers.",
    keys: &[
        Key {
            name: "on",
            kind: Kind::Word(&["client", "path", "header", "cookie", "query"]),
            preset: Preset::Required,
            doc: "What is hashed: `client` its address, `path` the path without the query, `header`, \
                  `cookie` and `query` the value of the one that `name` names.",
        },
        Key {
            name: "name",
            kind: Kind::Text("name"),
            preset: Preset::Absent("with `client` and `path`"),
            doc: "The header, the cookie or the parameter of the query.",
        },
    ],
};

pub(super) fn read_balance(fields: &Fields<'_, '_>) -> Balance {
    let word = fields.word("balance");
    let hash = fields.entry("hash");
    let on = read_hash(&fields.table("hash"));
    if let (Some(hash), Some(word)) = (hash, word)
        && word != "hash"
    {
        let flaw = Flaw::new(format!("`hash` has no effect with balance = \"{word}\""))
            .with_help("write balance = \"hash\", or remove `hash`");
        fields.report.error(hash.span, flaw);
    }
    match word {
        Some("least_requests") => Balance::LeastRequests,
        Some("two_choices") => Balance::TwoChoices,
        Some("random") => Balance::Random,
        Some("hash") => {
            if let (None, Some(balance)) = (hash, fields.entry("balance")) {
                let flaw = Flaw::new("balance = \"hash\" needs to know what is hashed")
                    .with_help("say it: hash = { on = \"client\" }");
                fields.report.error(balance.node.span, flaw);
            }
            Balance::Hash(on.unwrap_or(HashOn::Client))
        }
        _ => Balance::RoundRobin,
    }
}

fn read_hash(fields: &Fields<'_, '_>) -> Option<HashOn> {
    let name = fields.text("name");
    match (fields.word("on")?, name) {
        (on @ ("client" | "path"), Some(name)) => {
            let flaw = Flaw::new(format!("on = \"{on}\" has no name"))
                .with_help("remove `name`, or hash a header, a cookie or a query parameter");
            fields.report.error(name.span, flaw);
            None
        }
        ("client", None) => Some(HashOn::Client),
        ("path", None) => Some(HashOn::Path),
        (on, None) => {
            let flaw = Flaw::new(format!("`name` is missing: which {on}?"))
                .with_help(format!("say it: hash = {{ on = \"{on}\", name = \"...\" }}"));
            fields.report.error(fields.span, flaw);
            None
        }
        ("header", _) => fields.parsed("name", parse_field_name).map(HashOn::Header),
        ("cookie", _) => fields.parsed("name", parse_cookie_name).map(HashOn::Cookie),
        (_, Some(name)) if name.text.is_empty() => {
            fields.report.error(name.span, Flaw::new("the parameter has no name"));
            None
        }
        (_, Some(name)) => Some(HashOn::Query(name.text.to_owned())),
    }
}

/// A cookie's name is a token (RFC 6265, 4.1.1).
pub(super) fn parse_cookie_name(text: &str) -> Result<String, Flaw> {
    match is_token(text) {
        true => Ok(text.to_owned()),
        false => Err(Flaw::new(format!("\"{}\" is not the name of a cookie", text.escape_debug()))
            .with_help("letters, digits, - and _ are safe")),
    }
}
