//! Media types that filters are for.

use sluice_message::{FieldId, Fields};

/// A media type, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaRange {
    /// This one, in lower case.
    Exact(Box<str>),
    /// All that begin so, such as `text/`.
    Prefix(Box<str>),
    /// All that end so, such as `+json`.
    Suffix(Box<str>),
}

impl MediaRange {
    /// Whether the media type is one of these.
    pub(crate) fn holds(&self, media: &[u8]) -> bool {
        match self {
            Self::Exact(name) => media.eq_ignore_ascii_case(name.as_bytes()),
            Self::Prefix(start) => {
                let have = media.get(..start.len());
                have.is_some_and(|have| have.eq_ignore_ascii_case(start.as_bytes()))
            }
            Self::Suffix(end) => {
                let have = media.len().checked_sub(end.len()).and_then(|at| media.get(at..));
                have.is_some_and(|have| have.eq_ignore_ascii_case(end.as_bytes()))
            }
        }
    }
}

/// The media type of content, without parameters (RFC 9110, 8.3.1).
pub(crate) fn media_type(fields: &Fields) -> &[u8] {
    let media = fields.value(FieldId::ContentType).unwrap_or_default();
    media.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Whether a call of gRPC says so of its content: its messages are compressed, or not, one by one.
pub(crate) fn is_call(media: &[u8]) -> bool {
    const CALL: &[u8] = b"application/grpc";
    media.get(..CALL.len()).is_some_and(|start| start.eq_ignore_ascii_case(CALL))
}
