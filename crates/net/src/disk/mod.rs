//! Files whose content goes to clients: opened, looked at, read and kept without holding a worker up.

mod depot;
mod file;
mod folder;
mod read;

pub use depot::{Depot, Taking};
pub use file::{DiskFile, Kind, Looks};
pub use folder::{Denied, Folder, Listed, More};
pub use read::{Reading, WINDOW};
