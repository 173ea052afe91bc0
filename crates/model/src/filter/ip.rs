//! Requests by the address of their client.

use std::path::PathBuf;

use ipnet::IpNet;

use super::told::{read_paths, read_status};
use crate::address::parse_network;
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Whose requests are let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Only these, unless neither these nor their files are given.
    pub allow: Vec<IpNet>,
    /// Files with more of them.
    pub allow_files: Vec<PathBuf>,
    /// Not these.
    pub deny: Vec<IpNet>,
    /// Files with more of them.
    pub deny_files: Vec<PathBuf>,
    /// The status others get.
    pub status: u16,
}

pub(super) static SECTION: Section = Section {
    name: "filter.ip",
    doc: "Lets requests through by the address of their client: whom `trusted_proxies` name, or who \
          opened the connection. What is denied is refused even if it is allowed too. An IPv4 address \
          inside IPv6 counts as the IPv4 address. Long lists cost no more than short ones.",
    keys: &[
        Key {
            name: "allow",
            kind: Kind::Texts("address or network"),
            preset: Preset::Absent("all"),
            doc: "Only these are let through.",
        },
        Key {
            name: "allow_files",
            kind: Kind::Texts("path"),
            preset: Preset::Absent("none"),
            doc: "Files with more of them, one a line; what follows a `#` does not count.",
        },
        Key {
            name: "deny",
            kind: Kind::Texts("address or network"),
            preset: Preset::Absent("none"),
            doc: "These are refused.",
        },
        Key {
            name: "deny_files",
            kind: Kind::Texts("path"),
            preset: Preset::Absent("none"),
            doc: "Files with more of them, written like those of `allow_files`.",
        },
        Key {
            name: "status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("403"),
            doc: "The status of the answer to requests that are refused.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Ip> {
    let written = ["allow", "allow_files", "deny", "deny_files"];
    if !written.iter().any(|key| fields.written(key).is_some()) {
        let flaw = Flaw::new("this filter would let everybody through")
            .with_help("give it `allow` or `deny`");
        fields.report.error(fields.span, flaw);
        return None;
    }
    Some(Ip {
        allow: fields.list("allow", parse_network),
        allow_files: read_paths(fields, "allow_files"),
        deny: fields.list("deny", parse_network),
        deny_files: read_paths(fields, "deny_files"),
        status: read_status(fields),
    })
}
