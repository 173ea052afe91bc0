//! HTTP/1.0 and HTTP/1.1 (RFC 9112): strict in what is let in, byte for byte in what is passed on.
//!
//! The decoders judge a message once. Whatever they let through has one meaning only, so the
//! encoders copy field lines as they stand and re-make nothing but the framing.

pub(crate) mod authority;
mod body;
mod chunk;
mod decode;
pub(crate) mod encode;
pub(crate) mod head;
mod name;
pub(crate) mod number;
mod response;
pub(crate) mod scan;
mod status;
pub(crate) mod target;
pub(crate) mod trailer;

pub use body::{BodyDecoder, BodyState, Piece};
pub use decode::{Decoded, Limits, decode_request};
pub use encode::{
    CHUNK_END, CONTINUE, RequestFraming, ResponseFraming, Upgrade, encode_chunk_start,
    encode_last_chunk, encode_request, encode_response,
};
pub use response::decode_response;
