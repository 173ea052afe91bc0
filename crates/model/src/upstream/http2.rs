//! What is spoken with the servers of an upstream.

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};

use super::tls::UpstreamTls;

/// What is spoken with the servers of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
    /// What a server chooses in the handshake of TLS.
    Negotiated,
}

/// How HTTP/2 is spoken with servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamHttp2 {
    /// Requests under way at once on a connection.
    pub streams: u32,
    /// Bytes of content a server may send for one request before they are taken.
    pub window: u32,
    /// Bytes of content a server may send for all requests of a connection before they are taken.
    pub connection_window: u32,
}

pub(super) const PROTOCOLS: Kind = Kind::Word(&["http1", "http2", "negotiate"]);

pub(super) static HTTP2: Section = Section {
    name: "upstream.http2",
    doc: "HTTP/2 with the servers of an upstream, where `protocol` has it spoken.",
    keys: &[
        Key {
            name: "streams",
            kind: Kind::Integer { min: 1, max: 65_535, word: None },
            preset: Preset::Value("100"),
            doc: "Requests under way at once on a connection; fewer if the server allows fewer. When \
                  a connection has no room left, another one is opened.",
        },
        Key {
            name: "window",
            kind: Kind::Size { min: 1024, max: 2_147_483_647, word: None },
            preset: Preset::Value("256KiB"),
            doc: "Bytes of content a server may send for one request before they are taken: what an \
                  answer costs in memory at most when its client reads slowly.",
        },
        Key {
            name: "connection_window",
            kind: Kind::Size { min: 65_535, max: 2_147_483_647, word: None },
            preset: Preset::Value("32MiB"),
            doc: "Bytes of content a server may send for all requests of a connection before they \
                  are taken. With less than `streams` times `window`, clients that read slowly can \
                  hold up the others.",
        },
    ],
};

pub(super) fn read_http2(fields: &Fields<'_, '_>) -> UpstreamHttp2 {
    let integer =
        |name, or| fields.integer(name).and_then(|it| u32::try_from(it).ok()).unwrap_or(or);
    let size = |name, or| fields.size(name).and_then(|it| u32::try_from(it).ok()).unwrap_or(or);
    UpstreamHttp2 {
        streams: integer("streams", 100),
        window: size("window", 256 * 1024),
        connection_window: size("connection_window", 32 * 1024 * 1024),
    }
}

pub(super) fn read_protocol(fields: &Fields<'_, '_>, tls: Option<&UpstreamTls>) -> Protocol {
    let protocol = match fields.word("protocol") {
        Some("http2") => Protocol::Http2,
        Some("negotiate") => Protocol::Negotiated,
        _ => Protocol::Http1,
    };
    if let (Protocol::Negotiated, None, Some(entry)) = (protocol, tls, fields.entry("protocol")) {
        let flaw = Flaw::new("without TLS nothing is negotiated: HTTP/1.1 would be spoken")
            .with_help("write \"https://\" in front of the servers, or protocol = \"http2\"");
        fields.report.error(entry.node.span, flaw);
    }
    if let (Protocol::Http1, Some(entry)) = (protocol, fields.entry("http2")) {
        let flaw = Flaw::new("`http2` has no effect: HTTP/1.1 is spoken with these servers")
            .with_help("add protocol = \"http2\", or \"negotiate\" where there is TLS");
        fields.report.warning(entry.node.span, flaw);
    }
    protocol
}
