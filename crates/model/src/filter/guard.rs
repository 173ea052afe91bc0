//! The guard: refuses requests by method and size.

use crate::fields::Fields;
use crate::header::parse_method;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// What requests may be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Methods that are let through; empty = all.
    pub methods: Vec<String>,
    /// Bytes of path and query; `None` = what the listener allows.
    pub target: Option<u64>,
    /// Bytes of all header fields; `None` = what the listener allows.
    pub header: Option<u64>,
    /// Header fields; `None` = what the listener allows.
    pub fields: Option<u64>,
    /// Bytes of content; `None` = what the route allows.
    pub body: Option<u64>,
    /// Whether content has to say how long it is.
    pub length: Length,
}

/// Whether content has to say how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It may.
    Optional,
    /// It has to.
    Required,
}

pub(super) static SECTION: Section = Section {
    name: "filter.guard",
    doc: "Refuses requests by method and size before anything else is done for them.",
    keys: &[
        Key {
            name: "methods",
            kind: Kind::Texts("method"),
            preset: Preset::Absent("all"),
            doc: "The methods that are let through, in capitals. Others are refused with 405, and told \
                  which would do.",
        },
        Key {
            name: "target",
            kind: Kind::Size { min: 1, max: 1 << 20, word: None },
            preset: Preset::Absent("what the listener allows"),
            doc: "Bytes that path and query may have. More is refused with 414.",
        },
        Key {
            name: "header",
            kind: Kind::Size { min: 1, max: 1 << 20, word: None },
            preset: Preset::Absent("what the listener allows"),
            doc: "Bytes that all header fields may have, names included. More is refused with 431.",
        },
        Key {
            name: "fields",
            kind: Kind::Integer { min: 1, max: 10_000, word: None },
            preset: Preset::Absent("what the listener allows"),
            doc: "How many header fields there may be. More are refused with 431.",
        },
        Key {
            name: "body",
            kind: Kind::Size { min: 0, max: u64::MAX, word: None },
            preset: Preset::Absent("the `body_limit` of the route"),
            doc: "Bytes that content may have. More is refused with 413, at once where the length is \
                  announced.",
        },
        Key {
            name: "length_required",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` refuses content that does not say how long it is, with 411.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Guard> {
    Some(Guard {
        methods: fields.list("methods", parse_method),
        target: fields.size("target"),
        header: fields.size("header"),
        fields: fields.integer("fields"),
        body: fields.size("body"),
        length: match fields.flag("length_required") {
            Some(true) => Length::Required,
            _ => Length::Optional,
        },
    })
}
