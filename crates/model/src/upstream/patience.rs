//! How long connections to an upstream are kept, and how long its servers may take.

use std::time::Duration;

use crate::fields::Fields;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};

/// Connections kept open for the next request.
#[derive(Clone, Debug, PartialEq)]
pub struct Keepalive {
    /// Idle connections each worker keeps to each server; 0 = none.
    pub idle: usize,
    /// How long an idle connection is kept.
    pub timeout: Duration,
}

/// How long a server may take.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamTimeout {
    /// To accept a connection.
    pub connect: Duration,
    /// Without a byte of a response.
    pub read: Duration,
    /// Without a byte of a request being taken.
    pub write: Duration,
    /// Without a byte in either direction on an upgraded connection.
    pub tunnel: Duration,
    /// For an upgraded connection in all; `None` = no limit.
    pub tunnel_lifetime: Option<Duration>,
}

pub(super) static KEEPALIVE: Section = Section {
    name: "upstream.keepalive",
    doc: "Connections to the servers that are kept open for the next request.",
    keys: &[
        Key {
            name: "idle",
            kind: Kind::Integer { min: 0, max: 1_000_000, word: None },
            preset: Preset::Value("256"),
            doc: "Idle connections each worker keeps to each server; 0 closes every connection \
                  after its response.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("60s"),
            doc: "How long an idle connection is kept. Choose it shorter than the server's own.",
        },
    ],
};

pub(super) static TIMEOUT: Section = Section {
    name: "upstream.timeout",
    doc: "How long a server may take before the request fails or is tried again.",
    keys: &[
        Key {
            name: "connect",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("2s"),
            doc: "For a connection to be accepted.",
        },
        Key {
            name: "read",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "Without a single byte of a response. Answered with 504.",
        },
        Key {
            name: "write",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "Without a single byte of the request being taken by the server.",
        },
        Key {
            name: "tunnel",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("1h"),
            doc: "Without a byte in either direction on an upgraded connection, such as a WebSocket.",
        },
        Key {
            name: "tunnel_lifetime",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Absent("no limit"),
            doc: "For an upgraded connection in all, whatever moves. Its ends are closed then, so \
                  that clients come back, and find other servers perhaps.",
        },
    ],
};

pub(super) fn read_keepalive(fields: &Fields<'_, '_>) -> Keepalive {
    let keepalive = fields.table("keepalive");
    let idle = keepalive.integer("idle").and_then(|it| usize::try_from(it).ok());
    Keepalive { idle: idle.unwrap_or_default(), timeout: keepalive.duration("timeout") }
}

pub(super) fn read_timeout(fields: &Fields<'_, '_>) -> UpstreamTimeout {
    let timeout = fields.table("timeout");
    UpstreamTimeout {
        connect: timeout.duration("connect"),
        read: timeout.duration("read"),
        write: timeout.duration("write"),
        tunnel: timeout.duration("tunnel"),
        tunnel_lifetime: Some(timeout.duration("tunnel_lifetime")).filter(|it| !it.is_zero()),
    }
}
