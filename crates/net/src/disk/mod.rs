//! Files whose content goes to clients: opened, looked at and read without holding a worker up.

mod file;
mod folder;
mod read;

pub use file::{DiskFile, Kind, Looks};
pub use folder::{Denied, Folder, Listed, More};
pub use read::{Reading, WINDOW};
