//! How much the servers of an upstream are asked at once.

use std::time::Duration;

use crate::fields::Fields;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};

/// How much each server is asked at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimit {
    /// Connections to each server that has no limit of its own; `None` = any number.
    pub connections: Option<u32>,
    /// Requests that may wait for one server.
    pub queue: u32,
    /// How long one may wait.
    pub wait: Duration,
}

pub(super) static LIMIT: Section = Section {
    name: "upstream.limit",
    doc: "How many connections there may be to each server, over all workers. Each request takes \
          one, so that no more requests are under way there. A request that finds its server full \
          goes to another one; if all are, it waits, the first first.",
    keys: &[
        Key {
            name: "connections",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Absent("no limit"),
            doc: "Connections to each server, idle ones included; `max_connections` of a server \
                  goes before.",
        },
        Key {
            name: "queue",
            kind: Kind::Integer { min: 0, max: 1_000_000, word: None },
            preset: Preset::Value("100"),
            doc: "Requests that may wait for one server. Others are answered with 503. A client \
                  that leaves frees its place.",
        },
        Key {
            name: "wait",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("1s"),
            doc: "How long a request may wait before it is answered with 503.",
        },
    ],
};

pub(super) fn read_limit(fields: &Fields<'_, '_>) -> ServerLimit {
    let limit = fields.table("limit");
    let number = |name| limit.integer(name).and_then(|it| u32::try_from(it).ok());
    ServerLimit {
        connections: number("connections"),
        queue: number("queue").unwrap_or_default(),
        wait: limit.duration("wait"),
    }
}
