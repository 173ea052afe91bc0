//! Answers of filters, and content they asked for.

use std::sync::Arc;

use sluice_message::{Fields, SettledHead, SpaceExhausted};

use crate::{Body, SharedBytes};

/// Content of a request that was read before the request goes anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content<'a> {
    /// Its beginning.
    pub bytes: &'a [u8],
    /// Whether more follows.
    pub more: bool,
}

/// An answer a filter gives.
#[derive(Debug, Default)]
pub struct Reply {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Field lines. Framing is added; `Date` too.
    pub fields: Fields,
    /// Content.
    pub body: Body,
    /// Why the request was refused, if it was: for the log, and told to the client in the trailers of a call.
    pub reason: Option<&'static str>,
}

/// An answer that is made once and given often: nothing of it is copied where nobody changes it.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Status and field lines. Framing is added; `Date` too, if it is not there.
    pub head: Arc<SettledHead>,
    /// Content.
    pub body: SharedBytes,
}

impl From<Ready> for Reply {
    fn from(ready: Ready) -> Self {
        let Ready { head, body } = ready;
        let fields = head.fields.clone();
        Self { status: head.status, fields, body: Body::Shared(body), reason: None }
    }
}

impl Reply {
    /// An answer with this status and nothing else.
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self { status, fields: Fields::new(), body: Body::EMPTY, reason: None }
    }

    /// The answer to a request that is refused: a line of text with the status and the reason, which is a
    /// few words in lower case that give no secret away. To a call it is the status of gRPC that stands for
    /// the status.
    #[must_use]
    pub fn refusal(status: u16, reason: &'static str) -> Self {
        let body = format!("{status} {}: {reason}\n", phrase(status)).into_bytes().into();
        let mut fields = Fields::new();
        // An empty head has room for one short line.
        let _ = fields.push(b"content-type", b"text/plain; charset=utf-8");
        Self { status, fields, body, reason: Some(reason) }
    }

    /// The same with another field line. Name and value have to be valid.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if it does not fit.
    pub fn with_field(mut self, name: &[u8], value: &[u8]) -> Result<Self, SpaceExhausted> {
        self.fields.push(name, value)?;
        Ok(self)
    }
}

/// The reason phrase of a status (RFC 9110, 15; RFC 6585) for the short text of a refusal.
#[must_use]
pub const fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        508 => "Loop Detected",
        _ => "Error",
    }
}
