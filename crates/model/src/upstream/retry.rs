//! When a request to an upstream is tried again.

use crate::fields::Fields;
use crate::section::{Key, Kind, Preset, Section};

/// When a request is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Tries after the first.
    pub attempts: u32,
}

pub(super) static RETRY: Section = Section {
    name: "upstream.retry",
    doc: "When a request that got no response is tried again, on another server if there is one.",
    keys: &[Key {
        name: "attempts",
        kind: Kind::Integer { min: 0, max: 100, word: None },
        preset: Preset::Value("1"),
        doc: "How often a request is tried again after the first try; 0 never does.",
    }],
};

pub(super) fn read_retry(fields: &Fields<'_, '_>) -> Retry {
    let retry = fields.table("retry");
    let attempts = retry.integer("attempts").and_then(|it| u32::try_from(it).ok());
    Retry { attempts: attempts.unwrap_or_default() }
}
