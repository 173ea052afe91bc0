//! From a configuration to running workers: compile, swap, carry over, follow names, drain.
//!
//! [`run`] is the program's life. It reads the configuration, compiles it into a snapshot
//! ([`sluice_engine::Snapshot`]), opens what it needs of the world (sockets, files, names), starts the
//! workers, and then does what events ask for, one at a time, on one thread: signals, a changed file,
//! a changed name. Nothing of a new configuration takes effect before all of it is known to work.

mod admin;
mod check;
mod compile;
mod crew;
mod document;
mod estate;
mod event;
mod flaw;
mod followed;
mod health;
mod heritage;
mod keyring;
mod limiters;
mod lists;
mod memory;
mod names;
mod places;
mod service;
mod status;
mod supervisor;
#[cfg(test)]
mod tests;
mod voice;
mod watcher;

pub use admin::AdminPage;
pub use check::check;
pub use document::{ConfigError, ConfigSource, Document};
pub use flaw::Flaw;
pub use service::{Service, Unknown};
pub use status::{Phase, Shown, ShownListener, ShownPlace, ShownServer, ShownUpstream, Status};
pub use supervisor::{Failure, Launch, run};

/// Version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
