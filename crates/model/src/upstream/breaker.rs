//! Limits on what an upstream is asked to do at a time.

use crate::fields::Fields;
use crate::section::{Key, Kind, Preset, Section};

/// Limits on what an upstream is asked to do at a time, over all workers; `None` = no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Connections in use.
    pub connections: Option<u32>,
    /// Requests that wait for a connection to be opened.
    pub pending: Option<u32>,
    /// Requests under way.
    pub requests: Option<u32>,
    /// Requests under way that are tried again.
    pub retries: Option<u32>,
}

pub(super) static BREAKER: Section = Section {
    name: "upstream.breaker",
    doc: "Limits on what the upstream is asked to do at a time, counted over all workers. What goes \
          beyond is answered with 503 at once.",
    keys: &[
        Key {
            name: "connections",
            kind: Kind::Integer { min: 1, max: 4_000_000_000, word: Some("unlimited") },
            preset: Preset::Absent("`\"unlimited\"`"),
            doc: "Connections in use, by requests or as tunnels. Idle ones do not count.",
        },
        Key {
            name: "pending",
            kind: Kind::Integer { min: 1, max: 4_000_000_000, word: Some("unlimited") },
            preset: Preset::Absent("`\"unlimited\"`"),
            doc: "Requests that wait for a connection to be opened.",
        },
        Key {
            name: "requests",
            kind: Kind::Integer { min: 1, max: 4_000_000_000, word: Some("unlimited") },
            preset: Preset::Absent("`\"unlimited\"`"),
            doc: "Requests under way, until their answer has been passed on.",
        },
        Key {
            name: "retries",
            kind: Kind::Integer { min: 0, max: 4_000_000_000, word: Some("unlimited") },
            preset: Preset::Absent("`\"unlimited\"`"),
            doc: "Requests under way that are being tried again. Beyond it what the first try came \
                  to is the answer.",
        },
    ],
};

pub(super) fn read_breaker(fields: &Fields<'_, '_>) -> Breaker {
    let breaker = fields.table("breaker");
    let limit = |name| breaker.integer(name).and_then(|it| u32::try_from(it).ok());
    Breaker {
        connections: limit("connections"),
        pending: limit("pending"),
        requests: limit("requests"),
        retries: limit("retries"),
    }
}
