//! Scripts over real sockets.

mod crypto;
mod datagrams;
mod hostile;
mod modules;
mod names;
mod scripted;
mod tcp;
mod tls;
