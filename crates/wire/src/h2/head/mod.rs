//! Between header blocks and heads (RFC 9113, 8).
//!
//! A decoded head has the form a head of HTTP/1.1 has: request line or nothing, then lines. What the
//! gateway does with a message does not depend on how it came.

mod encode;
mod repeat;
mod request;
mod response;
mod sheet;
mod trailer;

pub use encode::{RequestOptions, ResponseOptions, Scheme, Tunnel};
pub(super) use encode::{write_request, write_trailers};
pub(super) use repeat::{RequestReader, ResponseWriter};
pub use request::Connect;
pub(super) use response::read_response;
pub(super) use trailer::read_trailers;

use sluice_message::{FaultKind, Syntax};

/// Whether a stream's content ends with this frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More frames follow.
    More,
    /// It carries END_STREAM.
    Stream,
}

/// Why a header block that was read became no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Malformed: a stream error (RFC 9113, 8.1.1).
    Malformed(Syntax),
    /// Understood, and to be answered with a status.
    Refused(FaultKind),
}

impl From<Syntax> for Refusal {
    fn from(syntax: Syntax) -> Self {
        Self::Malformed(syntax)
    }
}
