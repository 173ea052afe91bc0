//! Notices that files have another content, however it came there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init, remove_watch};
use rustix::io::{Errno, read, write};

use crate::files::{Version, directories_on_the_way, version};
use crate::process::{End, start_thread};

/// So long the directories must be quiet: an editor writes a file in several steps, and half a
/// configuration is worth no message.
const QUIET: Duration = Duration::from_millis(200);

/// Steps of a change that are waited for at most; a directory with a busy log never gets quiet.
const PATIENCE: u32 = 10;

/// Calls `changed` when the file behind `path` is another one or has another content. That it is gone
/// is not told: it is on its way to be replaced.
///
/// Directories are watched, not the file: editors and deployments replace it, and a watch on the file
/// would follow the old one. Every directory is watched in which a symbolic link on the way to the
/// file lies; Kubernetes swaps a link in the middle of the path to a mounted ConfigMap.
///
/// # Errors
/// If the kernel refuses an inotify descriptor, the watch on a directory, or the thread.
pub fn watch_file(path: &Path, mut changed: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut watch = Watch::open([path.to_path_buf()], Absence::Ignored)?;
    let run = move || {
        while let Ok(Some(_)) = watch.wait() {
            changed();
        }
    };
    start_thread("sluice-watch", run, |_: End<()>| {})
}

/// Files that are watched until this is dropped.
#[derive(Debug)]
pub struct Watching {
    stop: Arc<OwnedFd>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // Only a counter that is full could refuse, and that one wakes the thread as well.
        let _ = write(&self.stop, &1_u64.to_ne_bytes());
    }
}

/// Calls `changed` with the path of each of these files that is another one, has another content, or
/// is gone or there again. A directory that is not there yet is waited for as well.
///
/// # Errors
/// As [`watch_file`].
pub fn watch_files(
    paths: BTreeSet<PathBuf>,
    mut changed: impl FnMut(&Path) + Send + 'static,
) -> io::Result<Watching> {
    let mut watch = Watch::open(paths, Absence::Told)?;
    let watching = Watching { stop: Arc::clone(&watch.stop) };
    let run = move || {
        while let Ok(Some(paths)) = watch.wait() {
            paths.iter().for_each(|path| changed(path));
        }
    };
    start_thread("sluice-watch", run, |_: End<()>| {})?;
    Ok(watching)
}

/// What is made of a file that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    Ignored,
    Told,
}

struct Watch {
    files: Vec<(PathBuf, Option<Version>)>,
    absence: Absence,
    inotify: OwnedFd,
    stop: Arc<OwnedFd>,
    directories: BTreeMap<PathBuf, i32>,
}

/// Why a wait for the kernel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Event,
    TimeOut,
    Stop,
}

impl Watch {
    fn open(paths: impl IntoIterator<Item = PathBuf>, absence: Absence) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let files = paths.into_iter().map(|path| (version(&path), path));
        let files = files.map(|(version, path)| (path, version)).collect();
        let directories = BTreeMap::new();
        let mut watch = Self { files, absence, inotify, stop, directories };
        watch.follow()?;
        Ok(watch)
    }

    /// Watches the directories the paths lead through now, and no others.
    fn follow(&mut self) -> io::Result<()> {
        let wanted: BTreeSet<PathBuf> =
            self.files.iter().flat_map(|(path, _)| directories_on_the_way(path)).collect();
        let stale: Vec<PathBuf> =
            self.directories.keys().filter(|it| !wanted.contains(*it)).cloned().collect();
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
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut refused = None;
        for directory in wanted {
            match add_watch(&self.inotify, &directory, flags) {
                Ok(watch) => _ = self.directories.insert(directory, watch),
                // The others are watched all the same.
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The files that are others now; `None` when it is time to stop.
    fn wait(&mut self) -> io::Result<Option<Vec<PathBuf>>> {
        loop {
            if self.poll(None)? == Woken::Stop {
                return Ok(None);
            }
            for _ in 0..PATIENCE {
                self.drain()?;
                match self.poll(Some(QUIET))? {
                    Woken::Stop => return Ok(None),
                    Woken::TimeOut => break,
                    Woken::Event => {}
                }
            }
            self.drain()?;
            // A directory that cannot be watched at the moment may come back: what is watched still
            // tells of it, and the next signal reloads in any case.
            let _ = self.follow();
            let changed = self.changed();
            if !changed.is_empty() {
                return Ok(Some(changed));
            }
        }
    }

    fn changed(&mut self) -> Vec<PathBuf> {
        let absence = self.absence;
        let is_news = |(path, known): &mut (PathBuf, Option<Version>)| {
            let now = version(path);
            if now == *known || now.is_none() && absence == Absence::Ignored {
                return None;
            }
            *known = now;
            Some(path.clone())
        };
        self.files.iter_mut().filter_map(is_news).collect()
    }

    /// Waits for something to happen.
    fn poll(&self, limit: Option<Duration>) -> io::Result<Woken> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        loop {
            let mut waited =
                [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut waited, limit.as_ref()) {
                Ok(0) => return Ok(Woken::TimeOut),
                Ok(_) if waited.iter().skip(1).any(|it| !it.revents().is_empty()) => {
                    return Ok(Woken::Stop);
                }
                Ok(_) => return Ok(Woken::Event),
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

    #[test]
    fn a_link_to_a_directory_swapped_above_the_file_is_a_change() {
        // As releases are deployed: current -> v1, and the file is current/a.toml.
        let directory = Directory::new("releases");
        for version in ["v1", "v2"] {
            std::fs::create_dir(directory.0.join(version)).unwrap();
            std::fs::write(directory.0.join(version).join("a.toml"), version).unwrap();
        }
        symlink("v1", directory.0.join("current")).unwrap();
        let changes = watched(&directory.0.join("current/a.toml"));
        symlink("v2", directory.0.join("next")).unwrap();
        std::fs::rename(directory.0.join("next"), directory.0.join("current")).unwrap();
        changes.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn several_files_are_told_apart_also_when_they_come_and_go() {
        let directory = Directory::new("several");
        let (one, two) = (directory.0.join("one"), directory.0.join("later/two"));
        std::fs::write(&one, "1").unwrap();
        let (sender, changes) = channel();
        let paths = BTreeSet::from([one.clone(), two.clone()]);
        let deliver = move |path: &Path| _ = sender.send(path.to_path_buf());
        let watching = watch_files(paths, deliver).unwrap();
        std::fs::create_dir(directory.0.join("later")).unwrap();
        std::fs::write(&two, "2").unwrap();
        assert_eq!(changes.recv_timeout(LONG).unwrap(), two);
        std::fs::write(&one, "other").unwrap();
        assert_eq!(changes.recv_timeout(LONG).unwrap(), one);
        std::fs::remove_file(&one).unwrap();
        assert_eq!(changes.recv_timeout(LONG).unwrap(), one);
        drop(watching);
        // The thread drops its sender when it ends.
        assert!(changes.recv_timeout(LONG).is_err());
        assert_eq!(changes.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
    }
}
