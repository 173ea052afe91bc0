//! Folders nobody gets out of.

use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::disk::file::looks;
use crate::disk::{DiskFile, Kind, Looks};

/// A folder, and what is beneath it. Neither `..` nor symbolic links lead out of it.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

/// Why something is not had.
#[derive(Debug)]
pub enum Denied {
    /// There is no such thing.
    Missing,
    /// The way to it leads out of the folder.
    Outside,
    /// We may not.
    Forbidden,
    /// Too many files are open.
    Busy,
    /// Something else.
    Failed(io::Error),
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As the kernel has it: any bytes but NUL and the slash.
    pub name: Vec<u8>,
    /// What it stands for; of a link that stays within the folder, what it leads to.
    pub looks: Looks,
}

/// How often a way is looked for that others change meanwhile.
const TRIES: usize = 8;

impl Folder {
    /// The folder an operator has named. Waits for the disk, as all methods do.
    ///
    /// # Errors
    /// What the kernel says, and that it is no folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Opens what is at a path beneath; an empty one is the folder itself.
    ///
    /// # Errors
    /// [`Denied`]
    pub fn get(&self, path: &[u8]) -> Result<DiskFile, Denied> {
        let path = if path.is_empty() { b"." } else { path };
        for _ in 0..TRIES {
            let flags = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.fd, path, FOR_READING, Mode::empty(), flags) {
                Ok(fd) => return Ok(fd.into()),
                // The kernel could not be sure that nobody moved a folder meanwhile.
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Kernels before 5.6, and fences around processes that know of no such call.
                Err(Errno::NOSYS | Errno::PERM) => return self.walk(path),
                Err(errno) => return Err(denied(errno)),
            }
        }
        Err(Denied::Busy)
    }

    /// The same, name by name, for kernels that cannot: links are not followed then.
    fn walk(&self, path: &[u8]) -> Result<DiskFile, Denied> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut names = path.split(|byte| *byte == b'/').filter(|name| *name != b".").peekable();
        let mut at = rustix::io::dup(&self.fd).map_err(denied)?;
        while let Some(name) = names.next() {
            if name == b".." || name.is_empty() {
                return Err(Denied::Outside);
            }
            let last = names.peek().is_none();
            let flags = if last { FOR_READING | OFlags::NOFOLLOW } else { step };
            at = rustix::fs::openat(&at, name, flags, Mode::empty()).map_err(denied)?;
            if last {
                return Ok(at.into());
            }
        }
        rustix::fs::openat(&at, c".", FOR_READING, Mode::empty()).map(Into::into).map_err(denied)
    }

    /// What is in a folder beneath, up to `most` names in no order; says whether there are more. What cannot
    /// be had by its name is left out.
    ///
    /// # Errors
    /// [`Denied`]
    pub fn list(&self, path: &[u8], most: usize) -> Result<(Vec<Listed>, More), Denied> {
        let folder = self.get(path)?;
        let mut listed = Vec::new();
        for entry in Dir::read_from(folder.fd()).map_err(denied)? {
            let entry = entry.map_err(denied)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if listed.len() == most {
                return Ok((listed, More::Yes));
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(stat) = rustix::fs::statat(folder.fd(), entry.file_name(), flags) else {
                continue;
            };
            let looks = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => {
                    let way =
                        if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() };
                    self.get(&way).ok().and_then(|file| file.looks().ok())
                }
                _ => Some(looks(&stat)),
            };
            if let Some(looks) = looks.filter(|looks| looks.kind != Kind::Other) {
                listed.push(Listed { name: name.to_vec(), looks });
            }
        }
        Ok((listed, More::No))
    }
}

/// Whether there are more names than were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// That is all.
    No,
    /// There are.
    Yes,
}

/// Opening a pipe would wait for somebody who writes to it.
const FOR_READING: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn denied(errno: Errno) -> Denied {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::NXIO => {
            Denied::Missing
        }
        Errno::XDEV | Errno::LOOP => Denied::Outside,
        Errno::ACCESS | Errno::PERM => Denied::Forbidden,
        Errno::MFILE | Errno::NFILE => Denied::Busy,
        errno => Denied::Failed(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn tree(name: &str) -> PathBuf {
        let base = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(base.join("root/in/deep")).unwrap();
        std::fs::write(base.join("secret"), "secret").unwrap();
        std::fs::write(base.join("root/in/file"), "file").unwrap();
        for (target, link) in [
            ("in/file", "good"),
            ("in", "folder"),
            ("../secret", "out"),
            ("/etc/passwd", "absolute"),
            ("in/../../secret", "round"),
            ("loop", "loop"),
            ("/proc/self/root/etc/passwd", "magic"),
        ] {
            symlink(target, base.join("root").join(link)).unwrap();
        }
        base
    }

    #[test]
    fn nothing_leads_out() {
        let base = tree("beneath");
        let folder = Folder::open(&base.join("root")).unwrap();
        let by_kernel = |path: &[u8]| folder.get(path).is_ok();
        let by_walk = |path: &[u8]| folder.walk(path).is_ok();
        // Path, whether the kernel finds a way, whether the walk without links does.
        let rows: [(&str, bool, bool); 18] = [
            ("in/file", true, true),
            (".", true, true),
            ("in", true, true),
            ("in/deep", true, true),
            ("good", true, false),
            ("folder/file", true, false),
            ("out", false, false),
            ("absolute", false, false),
            ("round", false, false),
            ("loop", false, false),
            ("magic", false, false),
            ("../secret", false, false),
            ("in/../../secret", false, false),
            ("..", false, false),
            ("/etc/passwd", false, false),
            ("in/file/x", false, false),
            ("none", false, false),
            ("folder/../../secret", false, false),
        ];
        for (path, kernel, walk) in rows {
            assert_eq!(by_kernel(path.as_bytes()), kernel, "{path}");
            assert_eq!(by_walk(path.as_bytes()), walk, "{path} by name");
        }
        assert!(matches!(folder.get(b"out"), Err(Denied::Outside)));
        assert!(matches!(folder.get(b"none"), Err(Denied::Missing)));
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_list_has_what_can_be_had() {
        let base = tree("listed");
        let folder = Folder::open(&base.join("root")).unwrap();
        let (mut listed, more) = folder.list(b"", 100).unwrap();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<(&[u8], Kind)> =
            listed.iter().map(|it| (&*it.name, it.looks.kind)).collect();
        let expected: [(&[u8], Kind); 3] =
            [(b"folder", Kind::Directory), (b"good", Kind::File), (b"in", Kind::Directory)];
        assert_eq!((&*names, more), (&expected[..], More::No));
        let (some, more) = folder.list(b"", 2).unwrap();
        assert!(some.len() <= 2 && more == More::Yes);
        assert!(matches!(folder.list(b"in/file", 9), Err(Denied::Missing)));
        assert!(Folder::open(&base.join("root/in/file")).is_err());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
