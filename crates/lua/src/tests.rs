//! Scripts over real sockets.

mod crypto;
mod datagrams;
mod hostile;
mod http;
mod modules;
mod names;
mod redis;
mod scripted;
mod tcp;
mod tls;
mod websocket;
