//! HTTP/2 on a listener.

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};

/// How HTTP/2 is spoken with clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2 {
    /// Requests under way at once on a connection.
    pub streams: u32,
    /// Bytes of content a client may send for one request before they are taken.
    pub window: u32,
    /// Bytes of content a client may send for all requests of a connection before they are taken.
    pub connection_window: u32,
    /// Whether clients may speak an older version instead.
    pub older: Older,
}

/// Older versions of HTTP beside HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Older {
    /// HTTP/1.1 is spoken, too.
    Spoken,
    /// Who does not begin with HTTP/2 is disconnected.
    Refused,
}

pub(super) static HTTP2: Section = Section {
    name: "listener.http2",
    doc: "HTTP/2, over TLS where clients choose it in the handshake, without TLS where they begin \
          with it (prior knowledge).",
    keys: &[
        Key {
            name: "enabled",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "`false` for HTTP/1.1 alone.",
        },
        Key {
            name: "required",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` for HTTP/2 alone: TLS offers nothing else, and who begins a connection with \
                  something else is disconnected.",
        },
        Key {
            name: "streams",
            kind: Kind::Integer { min: 1, max: 65_535, word: None },
            preset: Preset::Value("128"),
            doc: "Requests a client may have under way at once on a connection. Further ones are \
                  refused, and may be sent again.",
        },
        Key {
            name: "window",
            kind: Kind::Size { min: 1024, max: 2_147_483_647, word: None },
            preset: Preset::Value("256KiB"),
            doc: "Bytes of content a client may send for one request before they are taken: what a \
                  request costs in memory at most when it is read slowly.",
        },
        Key {
            name: "connection_window",
            kind: Kind::Size { min: 65_535, max: 2_147_483_647, word: None },
            preset: Preset::Value("1MiB"),
            doc: "Bytes of content a client may send for all requests of a connection before they \
                  are taken.",
        },
    ],
};

/// `None` if it is not spoken.
pub(super) fn read_http2(fields: &Fields<'_, '_>) -> Option<Http2> {
    let required = fields.flag("required") == Some(true);
    let size = |name: &str| fields.size(name).and_then(|it| u32::try_from(it).ok());
    let http2 = Http2 {
        streams: fields.integer("streams").and_then(|it| u32::try_from(it).ok())?,
        window: size("window")?,
        connection_window: size("connection_window")?,
        older: if required { Older::Refused } else { Older::Spoken },
    };
    let enabled = fields.flag("enabled") != Some(false);
    if required && !enabled {
        let span = fields.entry("required").map_or(fields.span, |entry| entry.span);
        let flaw = Flaw::new("HTTP/2 cannot be required where it is not enabled")
            .with_help("remove `enabled = false`, or `required`");
        fields.report.error(span, flaw);
    }
    enabled.then_some(http2)
}
