//! Where files are kept: a folder of the system, or what a test puts in its place.

use std::fmt;
use std::io;

use sluice_net::disk::{Depot, DiskFile};

/// A place for files. All of it waits for a disk.
pub(super) trait Place: fmt::Debug + Send + Sync {
    fn make_folder(&self, name: &str) -> io::Result<()>;
    fn names(&self, folder: &str) -> io::Result<Vec<String>>;
    /// A new file, for writing and reading.
    fn create(&self, name: &str) -> io::Result<DiskFile>;
    fn open(&self, name: &str) -> io::Result<DiskFile>;
    /// A file, for writing and reading.
    fn reopen(&self, name: &str) -> io::Result<DiskFile>;
    fn write(&self, file: &DiskFile, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Waits until what was done outlasts a loss of power.
    fn sync(&self) -> io::Result<()>;
    /// Leaves it to others.
    fn give_up(&self);
}

impl Place for Depot {
    fn make_folder(&self, name: &str) -> io::Result<()> {
        Self::make_folder(self, name)
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        Self::names(self, folder)
    }

    fn create(&self, name: &str) -> io::Result<DiskFile> {
        Self::create(self, name)
    }

    fn open(&self, name: &str) -> io::Result<DiskFile> {
        Self::open(self, name)
    }

    fn reopen(&self, name: &str) -> io::Result<DiskFile> {
        Self::reopen(self, name)
    }

    fn write(&self, file: &DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_at(bytes, offset)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Self::rename(self, from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Self::remove(self, name)
    }

    fn sync(&self) -> io::Result<()> {
        Self::sync(self)
    }

    fn give_up(&self) {
        Self::give_up(self);
    }
}
