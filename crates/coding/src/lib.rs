//! Content codings (RFC 9110, 8.4): which one a client wants, what makes content smaller, and what makes it
//! plain again.
//!
//! Bytes in, bytes out: no socket, no clock. Pieces are cut anywhere, and what comes out is the same.

mod accept;
mod coding;
mod decode;
mod encode;

pub use accept::{Wish, wish};
pub use coding::{Coding, codings_of};
pub use decode::{Bounds, Decoder, Undecodable};
pub use encode::{Encoder, Extent, Unencodable};
