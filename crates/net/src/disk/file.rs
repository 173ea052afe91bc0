//! One open file.

use std::io::{self, IoSliceMut};
use std::path::Path;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};

/// An open file that is read by position: one object serves everybody at once.
#[derive(Debug)]
pub struct DiskFile {
    fd: OwnedFd,
}

/// What a name of a file system stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Content.
    File,
    /// More names.
    Directory,
    /// A pipe, a socket or a device, which could keep its reader for ever.
    Other,
}

/// What is known of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    /// What it is.
    pub kind: Kind,
    /// Bytes of content.
    pub size: u64,
    /// When its content changed, since 1970. Before that: zero.
    pub modified: Duration,
    /// When anything of it changed, which nobody can set back: seconds since 1970 and nanoseconds.
    pub changed: (i64, u64),
    /// What it is called by the kernel: its file system and its number there.
    pub identity: (u64, u64),
}

impl DiskFile {
    /// Opens what an operator has named. Waits for the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for somebody who writes to it.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    pub(crate) const fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// What is known of it. Waits for the disk, if at all, once.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn looks(&self) -> io::Result<Looks> {
        Ok(looks(&rustix::fs::fstat(&self.fd)?))
    }

    /// Fills `room` as far as there is content from `offset` on, and says how far. Waits for the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read_at(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
            match rustix::io::pread(&self.fd, rest, at) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    /// Writes `bytes` at `offset`. Waits for the disk.
    ///
    /// # Errors
    /// What the kernel says; some of it may have been written then.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
            match rustix::io::pwrite(&self.fd, rest, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => written += length,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Cuts it to so many bytes. Waits for the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn cut(&self, length: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.fd, length)?)
    }

    /// As [`DiskFile::read_at`], of what lies in memory: `None` if the disk would have to be waited for, or if the file system
    /// cannot tell.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn read_at_hand(&self, room: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let mut parts = [IoSliceMut::new(room)];
        match rustix::io::preadv2(&self.fd, &mut parts, offset, ReadWriteFlags::NOWAIT) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<OwnedFd> for DiskFile {
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

pub(super) fn looks(stat: &Stat) -> Looks {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    };
    let nanos = |nanos: u64| u32::try_from(nanos).unwrap_or(0);
    let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
    Looks {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: Duration::new(modified, nanos(stat.st_mtime_nsec)),
        changed: (stat.st_ctime, stat.st_ctime_nsec),
        identity: (stat.st_dev, stat.st_ino),
    }
}
