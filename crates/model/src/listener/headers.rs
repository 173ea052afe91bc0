//! What a listener does with header names and methods that servers may misunderstand.

use crate::fields::Fields;
use crate::section::{Key, Kind, Preset};

/// What becomes of headers whose names servers may take for other ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AmbiguousHeaders {
    /// They are dropped.
    #[default]
    Drop,
    /// The request is refused.
    Refuse,
    /// They are kept.
    Keep,
}

/// What becomes of requests with the method TRACE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMethod {
    /// They are answered with 405.
    #[default]
    Refuse,
    /// They are routed like others.
    Allow,
}

pub(super) const AMBIGUOUS_HEADERS: Key = Key {
    name: "ambiguous_headers",
    kind: Kind::Word(&["drop", "refuse", "keep"]),
    preset: Preset::Value("drop"),
    doc: "What becomes of headers and trailers whose names have other characters than letters, digits and hyphens, \
          such as `X_User`, which many servers take for `X-User`. `refuse` answers with 400; `keep` forwards them, \
          but for those that look like a header the gateway itself acts on.",
};

pub(super) const TRACE_METHOD: Key = Key {
    name: "trace_method",
    kind: Kind::Word(&["refuse", "allow"]),
    preset: Preset::Value("refuse"),
    doc: "Whether requests with the method TRACE are routed. Servers answer them with all headers they got, those \
          that the gateway adds included. `refuse` answers with 405.",
};

pub(super) fn read_ambiguous_headers(fields: &Fields<'_, '_>) -> AmbiguousHeaders {
    match fields.word("ambiguous_headers") {
        Some("refuse") => AmbiguousHeaders::Refuse,
        Some("keep") => AmbiguousHeaders::Keep,
        _ => AmbiguousHeaders::Drop,
    }
}

pub(super) fn read_trace_method(fields: &Fields<'_, '_>) -> TraceMethod {
    match fields.word("trace_method") {
        Some("allow") => TraceMethod::Allow,
        _ => TraceMethod::Refuse,
    }
}
