//! Scripts over real sockets.

mod hostile;
mod modules;
mod scripted;
mod tcp;
