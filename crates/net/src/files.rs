//! Files the control plane reads: configurations, bodies, and what tells one version from the next.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The whole content of a file.
///
/// # Errors
/// What the kernel says: no such file, permission denied, a directory.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// Makes a file hold exactly these bytes.
///
/// # Errors
/// What the kernel says: no such directory, permission denied, disk full.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

/// Whether there is a directory at this path.
#[must_use]
pub fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// The directory a file lies in; the working directory for a bare name.
#[must_use]
pub fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// The path without symbolic links; as given if it leads nowhere.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// What tells one version of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The version behind a path, symbolic links followed; `None` if there is nothing.
pub(crate) fn version(path: &Path) -> Option<Version> {
    let meta = std::fs::metadata(path).ok()?;
    Some(Version {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_lies_in_the_working_directory() {
        let rows = [("a.toml", "."), ("/a.toml", "/"), ("/etc/s/a.toml", "/etc/s"), ("x/a", "x")];
        for (path, expected) in rows {
            assert_eq!(directory_of(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
