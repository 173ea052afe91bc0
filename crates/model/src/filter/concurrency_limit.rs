//! The limit of concurrency by key: how many requests of whom may be under way.

use super::key::{KeyOptions, Run, read_key, read_run};
use crate::fields::Fields;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// How many requests may be under way, of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedConcurrency {
    /// How many.
    pub limit: u32,
    /// Of whom.
    pub key: KeyOptions,
    /// Status of a refusal.
    pub status: u16,
    /// Whether requests are refused.
    pub run: Run,
}

pub(super) static SECTION: Section = Section {
    name: "filter.concurrency_limit",
    doc: "Lets so many requests of each client, or whatever else `key` says, be under way at once. Exact over all \
          workers.",
    keys: &[
        Key {
            name: "limit",
            kind: Kind::Integer { min: 1, max: 1_000_000_000, word: None },
            preset: Preset::Required,
            doc: "How many requests with the same key may be under way. A request is under way from its head to \
                  the end of its answer, a connection that was upgraded as long as it lasts.",
        },
        super::key::KEY,
        super::key::IPV6_PREFIX,
        super::key::ROOM,
        super::key::WHEN_FULL,
        Key {
            name: "status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("429"),
            doc: "Status of the answer to requests that are refused.",
        },
        super::key::DRY_RUN,
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<KeyedConcurrency> {
    let status = fields.integer("status").and_then(|status| u16::try_from(status).ok());
    let (key, run) = (read_key(fields), read_run(fields));
    let limit = fields.integer("limit").and_then(|limit| u32::try_from(limit).ok())?;
    Some(KeyedConcurrency { limit, key, status: status.unwrap_or(429), run })
}
