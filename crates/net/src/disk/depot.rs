//! A folder that one process at a time keeps files of its own in.

use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::disk::DiskFile;

/// The file whose lock says whose the folder is, and that names its holder.
const LOCK: &str = "lock";

/// Whom the files belong to may read them, and nobody else: answers may be for few.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A folder that this process alone keeps files in, until it gives it up. All methods wait for the disk.
#[derive(Debug)]
pub struct Depot {
    folder: OwnedFd,
    lock: OwnedFd,
}

/// Whose a folder is.
#[derive(Debug)]
pub enum Taking {
    /// Ours from now on.
    Ours(Depot),
    /// Of another process, if that said its number.
    Others(Option<u32>),
}

impl Depot {
    /// Takes a folder, which is made if there is none.
    ///
    /// # Errors
    /// What the kernel says, and that it is no folder or cannot be written to.
    pub fn take(path: &Path) -> io::Result<Taking> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::openat(&folder, LOCK, flags, PRIVATE)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Taking::Others(holder(&lock))),
            Err(error) => return Err(error.into()),
        }
        rustix::fs::ftruncate(&lock, 0)?;
        let mut text = Vec::new();
        writeln!(text, "{}", std::process::id())?;
        // Only told to those who find the folder taken: a full disk is no reason not to take it.
        let _ = rustix::io::pwrite(&lock, &text, 0);
        Ok(Taking::Ours(Self { folder, lock }))
    }

    /// Leaves the folder to others. What this process has open stays open.
    pub fn give_up(&self) {
        // An error would say that it is not locked.
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }

    /// Makes a folder in it, if there is none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn make_folder(&self, name: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.folder, name, PRIVATE | Mode::XUSR) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of what is in a folder of it, in no order.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.folder, folder, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        Ok(names)
    }

    /// A new file, for writing and reading.
    ///
    /// # Errors
    /// What the kernel says; that there is one of this name already.
    pub fn create(&self, name: &str) -> io::Result<DiskFile> {
        self.get(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// A file, for reading.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(&self, name: &str) -> io::Result<DiskFile> {
        self.get(name, OFlags::RDONLY)
    }

    /// A file, for writing and reading.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn reopen(&self, name: &str) -> io::Result<DiskFile> {
        self.get(name, OFlags::RDWR)
    }

    fn get(&self, name: &str, flags: OFlags) -> io::Result<DiskFile> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(rustix::fs::openat(&self.folder, name, flags, PRIVATE)?.into())
    }

    /// Gives a file another name, at once and as a whole.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    /// Takes a file out, which is no fault if there is none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until everything that was written or taken out would be so after a loss of power.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.folder)?)
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Who has the lock, by its own words.
fn holder(lock: &OwnedFd) -> Option<u32> {
    let mut text = [0; 16];
    let length = rustix::io::pread(lock, &mut text[..], 0).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_a_folder_until_it_gives_it_up() {
        let path = std::env::temp_dir().join(format!("sluice-depot-{}/a/b", std::process::id()));
        let Taking::Ours(depot) = Depot::take(&path).unwrap() else { panic!("nobody has it") };
        match Depot::take(&path).unwrap() {
            Taking::Others(pid) => assert_eq!(pid, Some(std::process::id())),
            Taking::Ours(_) => panic!("it is taken"),
        }
        depot.make_folder("7f").unwrap();
        depot.make_folder("7f").unwrap();
        let file = depot.create("7f/one.new").unwrap();
        file.write_at(b"content", 3).unwrap();
        assert!(depot.create("7f/one.new").is_err(), "it is there");
        depot.rename("7f/one.new", "7f/one").unwrap();
        let mut room = [1; 16];
        assert_eq!(depot.open("7f/one").unwrap().read_at(&mut room, 0).unwrap(), 10);
        assert_eq!(&room[..10], b"\0\0\0content");
        depot.reopen("7f/one").unwrap().write_at(b"k", 3).unwrap();
        assert_eq!(depot.names("7f").unwrap(), ["one"]);
        depot.sync().unwrap();
        depot.remove("7f/one").unwrap();
        depot.remove("7f/one").unwrap();
        assert!(depot.names("7f").unwrap().is_empty() && depot.open("7f/one").is_err());
        depot.give_up();
        assert!(matches!(Depot::take(&path).unwrap(), Taking::Ours(_)), "it is free");
        std::fs::remove_dir_all(path.ancestors().nth(2).unwrap()).unwrap();
    }
}
