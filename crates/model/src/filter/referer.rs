//! Requests by the page they come from.

use super::told::read_status;
use super::user_agent::{UNSAID, Unsaid, read_unsaid};
use crate::address::parse_host;
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Which pages may refer here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referer {
    /// Only pages of these hosts, unless there is none.
    pub allow: Vec<String>,
    /// Not pages of these hosts.
    pub deny: Vec<String>,
    /// Whether pages of the host that is asked may always.
    pub same_host: bool,
    /// What becomes of requests that name no page.
    pub missing: Unsaid,
    /// The status others get.
    pub status: u16,
}

pub(super) static SECTION: Section = Section {
    name: "filter.referer",
    doc: "Lets requests through by the host of the page they come from (`Referer`). Whoever writes requests \
          himself can write any: this keeps other sites from embedding what is here, and no attacker out.",
    keys: &[
        Key {
            name: "allow",
            kind: Kind::Texts("host, or `*.host` for all below it"),
            preset: Preset::Absent("all"),
            doc: "Only pages of these hosts may refer here.",
        },
        Key {
            name: "deny",
            kind: Kind::Texts("host, or `*.host` for all below it"),
            preset: Preset::Absent("none"),
            doc: "Pages of these hosts may not, even if they are allowed too.",
        },
        Key {
            name: "same_host",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "`true` lets pages of the host that is asked refer to it without naming it in `allow`.",
        },
        Key {
            name: "missing",
            kind: Kind::Word(UNSAID),
            preset: Preset::Value("allow"),
            doc: "What becomes of requests that name no page, as when an address was typed in.",
        },
        Key {
            name: "status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("403"),
            doc: "The status of the answer to requests that are refused.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Referer> {
    Some(Referer {
        allow: fields.list("allow", parse_hosts),
        deny: fields.list("deny", parse_hosts),
        same_host: fields.flag("same_host").unwrap_or(true),
        missing: read_unsaid(fields, "missing"),
        status: read_status(fields),
    })
}

/// "shop.example", "*.shop.example", or an address.
pub(crate) fn parse_hosts(text: &str) -> Result<String, Flaw> {
    if let Some(below) = text.strip_prefix("*.") {
        return parse_host(below).map(|host| format!("*.{host}"));
    }
    match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => Ok(address.to_string()),
        Ok(std::net::IpAddr::V6(address)) => Ok(format!("[{address}]")),
        Err(_) => parse_host(text),
    }
}
