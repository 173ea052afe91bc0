//! Protocol codecs: bytes in, bytes out; no socket, no clock.
