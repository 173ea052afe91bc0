//! Files whose content goes to clients: opened, looked at and read without holding a worker up.

mod file;
mod read;

pub use file::{DiskFile, Kind, Looks};
pub use read::{Reading, WINDOW};
