//! A codec over a socket, server and client side.
//!
//! [`Downstream`] is the client's side of an exchange, [`Upstream`] the origin's. Both offer the same
//! words whatever protocol is spoken: read a head, take content piece by piece, send a head, send
//! content, finish. What one side takes no faster than the other gives is held back by [`relay`],
//! so no body ever lies in memory.

mod buffer;
mod channel;
mod client;
pub mod h2;
mod linger;
mod receive;
mod relay;
mod send;
mod server;

pub use channel::{Bucket, Channel, Line, OriginChannel, Paced, Pacing};
pub use client::{ORIGIN_LIMITS, Reuse, Upstream};
pub use linger::linger;
pub use receive::{Content, Receiver};
pub use relay::{PipeLimits, Relay, RelayFault, tunnel};
pub use send::Sender;
pub use server::{Downstream, Given, HeadArrival, ServerTimeouts};
