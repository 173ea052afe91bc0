//! The request_id filter: gives each request an identifier.

use crate::fields::Fields;
use crate::header::parse_response_field;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// How requests get their identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The header it stands in, in lower case.
    pub header: String,
    /// Whose identifiers are taken over.
    pub accept: AcceptedIds,
    /// Whether the answer has it too.
    pub respond: bool,
}

/// Whose identifiers are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedIds {
    /// Nobody's.
    Never,
    /// Those of trusted peers.
    Trusted,
    /// Everybody's.
    Always,
}

pub(super) static SECTION: Section = Section {
    name: "filter.request_id",
    doc: "Gives each request an identifier that origin, client and log share: a UUID of version 7, which \
          grows with time.",
    keys: &[
        Key {
            name: "header",
            kind: Kind::Text("name"),
            preset: Preset::Value("x-request-id"),
            doc: "The header it stands in.",
        },
        Key {
            name: "accept",
            kind: Kind::Word(&["never", "trusted", "always"]),
            preset: Preset::Value("trusted"),
            doc: "Whose identifiers are taken over instead of making one: those of peers in \
                  `trusted_proxies`, nobody's, or everybody's. One that is longer than 128 \
                  bytes, or has other characters than letters, digits and `-_.:+/=@`, never is.",
        },
        Key {
            name: "respond",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "Whether the answer has the header too.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<RequestId> {
    let header = fields.parsed("header", parse_response_field);
    Some(RequestId {
        header: header.unwrap_or_else(|| "x-request-id".to_owned()).to_ascii_lowercase(),
        accept: match fields.word("accept") {
            Some("never") => AcceptedIds::Never,
            Some("always") => AcceptedIds::Always,
            _ => AcceptedIds::Trusted,
        },
        respond: fields.flag("respond").unwrap_or(true),
    })
}
