//! The head of a response, whatever protocol it came by.

use crate::{BodyLength, Fields, Persistence, Span, Version};

/// The head of a response. All spans point into `fields.bytes()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code, 100 to 599 (999 is let through, RFC 9110, section 15).
    pub status: u16,
    /// Reason phrase as it was sent; empty in protocols without one.
    pub reason: Span,
    /// Received version.
    pub version: Version,
    /// Length of the content that follows.
    pub body: BodyLength,
    /// Whether the origin means to go on after this response.
    pub persistence: Persistence,
    /// Field lines.
    pub fields: Fields,
}

impl ResponseHead {
    /// An empty head, to be filled by a decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Becomes a copy of `other` within the memory there is.
    pub fn copy_from(&mut self, other: &Self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.copy_from(&other.fields);
        *self = Self {
            status: other.status,
            reason: other.reason,
            version: other.version,
            body: other.body,
            persistence: other.persistence,
            fields,
        };
    }

    /// Whether this is an interim response (RFC 9110, 15.2); 101 is final for its connection.
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        self.status >= 100 && self.status < 200 && self.status != 101
    }
}
