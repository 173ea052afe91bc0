//! The decompress filter: plain content for those who have to read it.

use crate::fields::Fields;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// What is made plain, and how much may come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decompress {
    /// Whether content of requests is.
    pub requests: bool,
    /// Whether content of answers is.
    pub responses: PlainResponses,
    /// Bytes that may come out of content of a request.
    pub request_limit: u64,
    /// Bytes that may come out of content of an answer; `None` = any number.
    pub response_limit: Option<u64>,
    /// Bytes that may come out of each byte.
    pub expansion: u64,
}

/// Which answers are made plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainResponses {
    /// All.
    All,
    /// Those to clients that do not accept them as they are.
    Unaccepted,
    /// None.
    None,
}

pub(super) static SECTION: Section = Section {
    name: "filter.decompress",
    doc: "Makes compressed content plain, for those who have to read it.",
    keys: &[
        Key {
            name: "requests",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "Whether compressed content of requests goes on plain. What is in an encoding that is not known is \
                  refused with 415 then.",
        },
        Key {
            name: "responses",
            kind: Kind::Word(&["all", "unaccepted", "none"]),
            preset: Preset::Value("all"),
            doc: "Which compressed answers go on plain: all of them, those that the client has not said it accepts, \
                  or none.",
        },
        Key {
            name: "request_limit",
            kind: Kind::Size { min: 0, max: u64::MAX, word: None },
            preset: Preset::Value("16MiB"),
            doc: "Bytes that may come out of content of a request. More is refused with 413.",
        },
        Key {
            name: "response_limit",
            kind: Kind::Size { min: 0, max: u64::MAX, word: Some("unlimited") },
            preset: Preset::Value("unlimited"),
            doc: "Bytes that may come out of content of an answer, which is broken off then.",
        },
        Key {
            name: "expansion",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Value("1100"),
            doc: "Bytes that may come out for each byte that goes in, once a megabyte has. gzip and deflate never \
                  reach more than 1032.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Decompress> {
    Some(Decompress {
        requests: fields.flag("requests").unwrap_or(true),
        responses: match fields.word("responses") {
            Some("none") => PlainResponses::None,
            Some("unaccepted") => PlainResponses::Unaccepted,
            _ => PlainResponses::All,
        },
        request_limit: fields.size("request_limit").unwrap_or(16 * 1024 * 1024),
        response_limit: fields.size("response_limit"),
        expansion: fields.integer("expansion").unwrap_or(1100),
    })
}
