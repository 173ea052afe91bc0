//! Protocol codecs: bytes in, bytes out; no socket, no clock.

pub mod grpc_web;
pub mod h1;
pub mod h2;
pub mod proxy;
pub mod websocket;
