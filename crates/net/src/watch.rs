//! Notices that a file has another content, however it came there.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init, remove_watch};
use rustix::io::{Errno, read};

use crate::files::{Version, directory_of, resolved, version};
use crate::process::{End, start_thread};

/// So long the directory must be quiet: an editor writes a file in several steps, and half a
/// configuration is worth no message.
const QUIET: Duration = Duration::from_millis(200);

/// Steps of a change that are waited for at most; a directory with a busy log never gets quiet.
const PATIENCE: u32 = 10;

/// Calls `changed` when the file behind `path` is another one or has another content.
///
/// Directories are watched, not the file: editors and deployments replace it, and a watch on the file
/// would follow the old one. The directory of whatever a symbolic link leads to is watched too;
/// Kubernetes swaps a link in the middle of the path to a mounted ConfigMap.
///
/// # Errors
/// If the kernel refuses an inotify descriptor, the watch on the file's directory, or the thread.
pub fn watch_file(path: &Path, mut changed: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut watch = Watch::open(path)?;
    let run = move || {
        while watch.wait().is_ok() {
            changed();
        }
    };
    start_thread("sluice-watch", run, |_: End<()>| {})
}

struct Watch {
    path: PathBuf,
    inotify: OwnedFd,
    directories: BTreeMap<PathBuf, i32>,
    version: Option<Version>,
}

impl Watch {
    fn open(path: &Path) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let version = version(path);
        let directories = BTreeMap::new();
        let mut watch = Self { path: path.to_path_buf(), inotify, directories, version };
        watch.follow()?;
        Ok(watch)
    }

    /// Watches the directories the path leads through now, and no others.
    fn follow(&mut self) -> io::Result<()> {
        let own = directory_of(&self.path);
        let target = directory_of(&resolved(&self.path));
        let stale: Vec<PathBuf> =
            self.directories.keys().filter(|it| **it != own && **it != target).cloned().collect();
        for directory in stale {
            if let Some(watch) = self.directories.remove(&directory) {
                // A directory that was deleted has taken its watch along.
                let _ = remove_watch(&self.inotify, watch);
            }
        }
        // Added anew even if known: a directory deleted and made again under the same name is
        // another one, and the kernel ignores what it has already.
        let flags = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        let watch = add_watch(&self.inotify, &own, flags)?;
        self.directories.insert(own, watch);
        if let Ok(watch) = add_watch(&self.inotify, &target, flags) {
            self.directories.insert(target, watch);
        }
        Ok(())
    }

    /// Returns once the file is another one.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            self.poll(None)?;
            for _ in 0..PATIENCE {
                self.drain()?;
                if !self.poll(Some(QUIET))? {
                    break;
                }
            }
            self.drain()?;
            // A directory that cannot be watched at the moment may come back: what is watched still
            // tells of it, and the next signal reloads in any case.
            let _ = self.follow();
            let now = version(&self.path);
            // A file that is gone is no new configuration; it is on its way to be replaced.
            if now.is_some() && now != self.version {
                self.version = now;
                return Ok(());
            }
        }
    }

    /// Waits for something to happen; false if it took too long.
    fn poll(&self, limit: Option<Duration>) -> io::Result<bool> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        loop {
            match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], limit.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the events away unread: which of them matter shows in the file.
    fn drain(&self) -> io::Result<()> {
        let mut buffer = [0_u8; 4096];
        loop {
            match read(&self.inotify, &mut buffer) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::{Receiver, channel};

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn watched(path: &Path) -> Receiver<()> {
        let (sender, receiver) = channel();
        watch_file(path, move || _ = sender.send(())).unwrap();
        receiver
    }

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn a_file_written_or_replaced_is_a_change() {
        let directory = Directory::new("replace");
        let file = directory.0.join("a.toml");
        std::fs::write(&file, "one").unwrap();
        let changes = watched(&file);
        std::fs::write(&file, "two, longer").unwrap();
        changes.recv_timeout(LONG).unwrap();
        std::fs::write(directory.0.join("new"), "three").unwrap();
        std::fs::rename(directory.0.join("new"), &file).unwrap();
        changes.recv_timeout(LONG).unwrap();
        // Gone and back is one change, a neighbour is none.
        std::fs::remove_file(&file).unwrap();
        std::fs::write(directory.0.join("neighbour"), "x").unwrap();
        std::fs::write(&file, "four").unwrap();
        changes.recv_timeout(LONG).unwrap();
        assert!(changes.try_recv().is_err());
    }

    #[test]
    fn a_link_swapped_in_the_middle_of_the_path_is_a_change() {
        // As a ConfigMap is mounted: a.toml -> ..data/a.toml, ..data -> ..version.
        let directory = Directory::new("links");
        for version in ["..1", "..2"] {
            std::fs::create_dir(directory.0.join(version)).unwrap();
            std::fs::write(directory.0.join(version).join("a.toml"), version).unwrap();
        }
        symlink("..1", directory.0.join("..data")).unwrap();
        let file = directory.0.join("a.toml");
        symlink("..data/a.toml", &file).unwrap();
        let changes = watched(&file);
        symlink("..2", directory.0.join("..data_tmp")).unwrap();
        std::fs::rename(directory.0.join("..data_tmp"), directory.0.join("..data")).unwrap();
        changes.recv_timeout(LONG).unwrap();
        // The directory the link leads to now is watched as well.
        std::fs::write(directory.0.join("..2/a.toml"), "changed in place").unwrap();
        changes.recv_timeout(LONG).unwrap();
    }
}
