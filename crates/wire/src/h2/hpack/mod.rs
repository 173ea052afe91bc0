//! Header compression (RFC 7541).
//!
//! Decoded fields come as lines in the form of HTTP/1.1. The dynamic table keeps that form and the
//! judgement about each line: a field that is sent again costs one copy. The encoder finds fields that
//! repeat by a hash of their edges; whatever does not repeat, or must not be guessed, stays out of its
//! table.

mod code;
mod decode;
mod encode;
mod fixed;
mod huffman;
mod integer;
mod line;
mod table;

pub use decode::Decoder;
pub use encode::{Encoder, Name};
pub use line::{Class, Line, Mark};

/// What is wrong with a header block; all of it is `COMPRESSION_ERROR` (RFC 9113, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The block ends within a field.
    Truncated,
    /// An integer of more than 28 bits or five bytes (RFC 7541, 5.1).
    Integer,
    /// A Huffman code that ends wrongly (RFC 7541, 5.2).
    Huffman,
    /// An index beyond both tables, or 0 (RFC 7541, 2.3.3).
    Index,
    /// A table size above the limit, in the wrong place, or missing (RFC 7541, 4.2 and 6.3).
    TableSize,
}
