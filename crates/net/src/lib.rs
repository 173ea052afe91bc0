//! The only sockets, files, timers, threads and clocks of the program.
//!
//! Each worker thread runs one [`Runtime`]: a queue of tasks, an epoll set, a heap of deadlines and a
//! clock that is read once per turn. Nothing in it is shared with other threads but a mailbox. The
//! reason for an own loop instead of a general runtime is the price of a kept-alive request: sockets
//! are registered once, edge-triggered, and never touched again; a read that came back short is not
//! repeated; no request arms a timer or asks for the time.

mod clock;
mod connect;
mod datagram;
pub mod descriptors;
pub mod disk;
pub mod errand;
pub mod files;
mod inherit;
pub mod interrupt;
mod listen;
mod log_writer;
mod mailbox;
pub mod memory;
mod offload;
mod permits;
mod pid_file;
pub mod process;
mod reactor;
pub mod resolve;
mod runtime;
pub mod signals;
mod socket;
mod stream;
pub mod succession;
mod task;
#[cfg(test)]
mod tests;
mod timer;
pub mod tls;
pub mod watch;

pub use clock::{Nanos, now, precise_now, precise_unix_nanos, unix_ms};
pub use connect::{connect, connect_from};
pub use datagram::{Datagrams, Sharing};
pub use inherit::{Inherited, Socket, Sockets, sockets_of_service_manager};
pub use listen::{Accepted, Binding, Listener, PeerAddress};
pub use log_writer::{LogCounts, LogTarget, LogWriter};
pub use mailbox::{Mailbox, Post, mailbox};
pub use offload::{Pool, offload, offload_to};
pub use permits::{Permit, Permits, Queued, Refused};
pub use pid_file::PidFile;
pub use runtime::{live_tasks, run, spawn, wake_all, yield_now};
pub use stream::{Endpoint, Stream};
pub use task::{Late, at_end_of_turn, for_another_task};
pub use timer::{Deadline, Elapsed, wake_on_time};
