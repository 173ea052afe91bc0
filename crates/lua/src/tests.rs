//! Scripts over real sockets.

mod crypto;
mod hostile;
mod modules;
mod scripted;
mod tcp;
