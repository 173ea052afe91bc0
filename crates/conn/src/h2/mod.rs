//! Connections that carry many messages at once (RFC 9113): one task drives the connection, the tasks of its
//! streams leave output with it and find their input there.
//!
//! All of it belongs to one thread. What streams write is gathered and written once per turn of the loop; what
//! arrives for a stream stays with the connection until the stream's reader takes it, and the window is
//! given back when the reader comes for more, so that a slow one never makes memory grow.

mod client;
mod server;
mod state;
mod stream;

pub use client::Http2Client;
pub use server::{Arrival, Failure, Http2Server, Pause};
pub(crate) use stream::Unanswered;
pub use stream::{ClientStream, ServerStream, SharedStream};
