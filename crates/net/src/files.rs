//! Files the control plane reads: configurations, bodies, and what tells one version from the next.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Symbolic links on the way to one file, as in the kernel.
const LINKS: usize = 40;

/// The whole content of a file.
///
/// # Errors
/// What the kernel says: no such file, permission denied, a directory.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// The whole content of a regular file, unless it is larger than `most` bytes: then `None`.
///
/// # Errors
/// What the kernel says, and that it is a directory, a pipe or a device, which could keep us for ever.
pub fn read_small(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}

/// What lies in a directory, in the order of the names; subdirectories excepted.
///
/// # Errors
/// What the kernel says: no such directory, permission denied.
pub fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if !path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
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

/// The directories whose entries decide what is behind a path: that of the file, and those of every
/// symbolic link on the way. If the way ends early, that is in the last directory there is.
pub(crate) fn directories_on_the_way(path: &Path) -> Vec<PathBuf> {
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut rest: VecDeque<OsString> = parts(path).into();
    let (mut here, mut found) = (PathBuf::from("."), Vec::new());
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        let next = here.join(&part);
        let named = matches!(Path::new(&part).components().next(), Some(Component::Normal(_)));
        match std::fs::symlink_metadata(&next) {
            Ok(meta) if meta.is_symlink() && links < LINKS => {
                links += 1;
                found.push(here.clone());
                let target = std::fs::read_link(&next).unwrap_or_default();
                for part in parts(&target).into_iter().rev() {
                    rest.push_front(part);
                }
            }
            Ok(meta) if meta.is_dir() && !rest.is_empty() => here = next,
            _ if named => {
                found.push(here);
                return found;
            }
            _ => here = next,
        }
    }
    found.push(here);
    found
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

    #[test]
    fn every_link_on_the_way_has_a_directory_that_decides() {
        use std::os::unix::fs::symlink;
        let root = std::env::temp_dir().join(format!("sluice-way-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for directory in ["a/v1", "b"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::write(root.join("a/v1/file"), "x").unwrap();
        symlink("v1", root.join("a/current")).unwrap();
        symlink("../a/current/file", root.join("b/link")).unwrap();
        let rows: [(&str, &[&str]); 5] = [
            ("a/v1/file", &["a/v1"]),
            ("a/current/file", &["a", "a/v1"]),
            ("b/link", &["b", "b/../a", "b/../a/v1"]),
            ("a/v1/none", &["a/v1"]),
            ("a/none/file", &["a"]),
        ];
        for (path, expected) in rows {
            let expected: Vec<PathBuf> = expected.iter().map(|it| root.join(it)).collect();
            assert_eq!(directories_on_the_way(&root.join(path)), expected, "{path}");
        }
        assert_eq!(directories_on_the_way(Path::new("no-such-file")), [PathBuf::from(".")]);
        let _ = std::fs::remove_dir_all(&root);
    }

    #[test]
    fn only_small_regular_files_are_read() {
        let path = std::env::temp_dir().join(format!("sluice-small-{}", std::process::id()));
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_small(&path, 5).unwrap().as_deref(), Some(&b"12345"[..]));
        assert_eq!(read_small(&path, 4).unwrap(), None);
        assert!(read_small(Path::new("/dev/zero"), 4).is_err());
        assert!(read_small(Path::new("/"), 4).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
