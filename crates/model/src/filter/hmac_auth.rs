//! Requests that are signed.

use std::time::Duration;

use super::told::{
    MISSING, NamedSecrets, WithoutCredentials, parse_realm, parse_told_field, read_missing,
    read_secrets,
};
use crate::fields::Fields;
use crate::header::parse_field_name;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Keys, and what is asked of signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacAuth {
    /// The keys by their names.
    pub keys: NamedSecrets,
    /// The hashes that are accepted.
    pub algorithms: Vec<String>,
    /// The field with the moment of signing.
    pub date_header: String,
    /// How far that moment may be from now.
    pub skew: Duration,
    /// Fields that have to be signed.
    pub signed: Vec<String>,
    /// Whether the parameters of the query are signed in sorted order.
    pub sorted_query: bool,
    /// Whether content has to be signed.
    pub digest: bool,
    /// Signatures that are remembered, so that each is good once; `None` = they are good again and again.
    pub once: Option<usize>,
    /// What clients are told they need a signature for.
    pub realm: String,
    /// Whether origins do not see it.
    pub hide: bool,
    /// What becomes of requests without one.
    pub missing: WithoutCredentials,
    /// The field that tells origins the name of the key.
    pub user_header: Option<String>,
}

const ALGORITHMS: [&str; 3] = ["hmac-sha256", "hmac-sha384", "hmac-sha512"];

pub(super) static SECTION: Section = Section {
    name: "filter.hmac_auth",
    doc: "Lets requests through that are signed with a secret that both sides know. What is signed, and how \
          to do it, is on the page of the filter.",
    keys: &[
        Key {
            name: "keys",
            kind: Kind::Pairs("secret"),
            preset: Preset::Absent("those of the file"),
            doc: "Names and their secrets: `keys = { reports = \"${REPORTS_SECRET}\" }`.",
        },
        Key {
            name: "keys_file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "A file with more of them, lines `name:secret`; those that begin with `#` do not count.",
        },
        Key {
            name: "algorithms",
            kind: Kind::Texts("hmac-sha256, hmac-sha384 or hmac-sha512"),
            preset: Preset::Absent("all three"),
            doc: "The algorithms that are accepted.",
        },
        Key {
            name: "date_header",
            kind: Kind::Text("header name"),
            preset: Preset::Value("date"),
            doc: "The header with the moment of signing, written as in `Date` or as seconds since 1970. \
                  Programs in a browser cannot send `Date`: name another one for them.",
        },
        Key {
            name: "skew",
            kind: Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) },
            preset: Preset::Value("5m"),
            doc: "How far that moment may be from now.",
        },
        Key {
            name: "signed",
            kind: Kind::Texts("header name"),
            preset: Preset::Absent("`host`"),
            doc: "Headers that have to be signed.",
        },
        Key {
            name: "query",
            kind: Kind::Word(&["as_sent", "sorted"]),
            preset: Preset::Value("as_sent"),
            doc: "How the query stands in the text that is signed: as it is sent, or with its parameters sorted, for \
                  clients that sign them so and proxies that change their order. With `sorted`, parameters of one \
                  name have to be sent in that order, since origins may take the first or the last.",
        },
        Key {
            name: "digest",
            kind: Kind::Word(&["optional", "required"]),
            preset: Preset::Value("optional"),
            doc: "Whether content has to be signed, by the header `Content-Digest` (RFC 9530) with \
                  `sha-256` or `sha-512`. The digest is checked while content passes: an origin never gets \
                  the end of content that has another one.",
        },
        Key {
            name: "once",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` refuses a signature that was used before, while its moment is near enough.",
        },
        Key {
            name: "once_limit",
            kind: Kind::Integer { min: 1, max: 100_000_000, word: None },
            preset: Preset::Value("100000"),
            doc: "How many signatures are remembered for that. While there are more, requests get 503.",
        },
        Key {
            name: "realm",
            kind: Kind::Text("text"),
            preset: Preset::Value("api"),
            doc: "What clients are told they need a signature for.",
        },
        Key {
            name: "hide",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "`true` takes the signature out before the origin gets the request.",
        },
        Key {
            name: "missing",
            kind: Kind::Word(MISSING),
            preset: Preset::Value("refuse"),
            doc: "What becomes of requests without a signature: `pass` lets them go on as nobody's. A \
                  wrong one is refused in any case.",
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

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<HmacAuth> {
    let mut algorithms = fields.list("algorithms", parse_algorithm);
    if algorithms.is_empty() {
        algorithms = ALGORITHMS.iter().map(|name| (*name).to_owned()).collect();
    }
    let signed = match fields.written("signed") {
        Some(_) => fields.list("signed", parse_field_name),
        None => vec!["host".to_owned()],
    };
    let once = fields.flag("once").unwrap_or(false);
    let limit = fields.integer("once_limit").and_then(|limit| usize::try_from(limit).ok());
    Some(HmacAuth {
        keys: read_secrets(fields, "keys", "keys_file")?,
        algorithms,
        date_header: fields.parsed("date_header", parse_field_name)?,
        skew: fields.duration("skew"),
        signed,
        sorted_query: fields.word("query") == Some("sorted"),
        digest: fields.word("digest") == Some("required"),
        once: limit.filter(|_| once),
        realm: fields.parsed("realm", parse_realm)?,
        hide: fields.flag("hide").unwrap_or(true),
        missing: read_missing(fields),
        user_header: fields.parsed("user_header", parse_told_field),
    })
}

fn parse_algorithm(text: &str) -> Result<String, Flaw> {
    if ALGORITHMS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not an algorithm", text.escape_debug()))
        .with_help(format!("it is one of {}", ALGORITHMS.join(", "))))
}
