//! Answers from files.
//!
//! [`Files`] is asked as a filter is, and answers every request. What it knows of files it keeps in a table for
//! each worker, so that a file asked for often costs neither the disk nor a lock others want; what is not there
//! is looked for on another thread. Nothing outside of the root is ever opened: see [`sluice_net::disk::Folder`].

mod answer;
mod choice;
mod glob;
mod handler;
mod listing;
mod media;
mod open;
mod parts;
mod resolve;
mod settings;
mod table;
mod way;

pub use glob::Glob;
pub use handler::Files;
pub use settings::{Attempt, Cache, Encoding, Listing, Names, Settings};
