//! Scripts over real sockets.

mod console;
mod crypto;
mod datagrams;
mod documents;
mod expressions;
mod hostile;
mod http;
mod http2;
mod http2_client;
mod metrics;
mod modules;
mod names;
mod patterns;
mod redis;
mod scripted;
mod tcp;
mod tls;
mod websocket;
