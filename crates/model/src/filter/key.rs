//! What limits by key have in common: whom they count, and how many of them.

use sluice_expression::{Phase, Scope};

use crate::expression::{Expression, read_template};
use crate::fields::Fields;
use crate::section::{Key, Kind, Preset};

/// Whom a limit counts, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOptions {
    /// What a request counts by.
    pub key: Expression,
    /// Leading bits of IPv6 addresses that count as one client.
    pub ipv6_prefix: u8,
    /// How many keys are counted at the same time.
    pub room: usize,
    /// What becomes of requests with another key then.
    pub when_full: WhenFull,
}

/// What becomes of requests whose key has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// They go on.
    Pass,
    /// They are refused.
    Refuse,
}

/// Whether a limit is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It refuses.
    InForce,
    /// It counts what it would refuse.
    Dry,
}

pub(super) const KEY: Key = Key {
    name: "key",
    kind: Kind::Text("template"),
    preset: Preset::Value("{client.ip}"),
    doc: "Whom to count by, as a template: \"{default(request.header.x-api-key, client.ip)}\". Requests for which it \
          becomes the same text are counted together; what is absent leaves nothing.",
};

pub(super) const IPV6_PREFIX: Key = Key {
    name: "ipv6_prefix",
    kind: Kind::Integer { min: 1, max: 128, word: None },
    preset: Preset::Value("64"),
    doc: "Where the key is the client's address: the leading bits of an IPv6 address that count as one client. \
          Whoever has one address usually has a network of 64 bits.",
};

pub(super) const ROOM: Key = Key {
    name: "keys",
    kind: Kind::Integer { min: 64, max: 10_000_000, word: None },
    preset: Preset::Value("100000"),
    doc: "How many keys are counted at the same time, over all limits of the filter. Each takes up to 64 bytes of \
          memory, whether it is used or not. A key is counted as long as it has not its whole allowance.",
};

pub(super) const WHEN_FULL: Key = Key {
    name: "when_full",
    kind: Kind::Word(&["pass", "refuse"]),
    preset: Preset::Value("pass"),
    doc: "What becomes of requests with a new key when as many as `keys` are counted: they go on uncounted, or are \
          refused.",
};

pub(super) const DRY_RUN: Key = Key {
    name: "dry_run",
    kind: Kind::Flag,
    preset: Preset::Value("false"),
    doc: "`true` lets everything through and counts what would have been refused.",
};

pub(super) fn read_key(fields: &Fields<'_, '_>) -> KeyOptions {
    let key = read_template(fields, "key", &Scope::new(Phase::Request));
    let ipv6_prefix = fields.integer("ipv6_prefix").and_then(|bits| u8::try_from(bits).ok());
    let room = fields.integer("keys").and_then(|count| usize::try_from(count).ok());
    KeyOptions {
        key: key.unwrap_or_else(|| Expression("{client.ip}".to_owned())),
        ipv6_prefix: ipv6_prefix.unwrap_or(64),
        room: room.unwrap_or(100_000),
        when_full: match fields.word("when_full") {
            Some("refuse") => WhenFull::Refuse,
            _ => WhenFull::Pass,
        },
    }
}

pub(super) fn read_run(fields: &Fields<'_, '_>) -> Run {
    if fields.flag("dry_run") == Some(true) { Run::Dry } else { Run::InForce }
}
