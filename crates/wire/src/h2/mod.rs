//! HTTP/2 (RFC 9113): bytes in, bytes out.

pub mod hpack;
