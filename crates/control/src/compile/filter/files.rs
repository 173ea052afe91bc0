//! The files that a filter is made of, and whether they are still what they were.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};

use sluice_net::files;

use crate::flaw::plain;

/// A larger file is not taken for what a filter is made of.
const MOST: usize = 512 << 20;

/// Files that were read, and what was in them.
#[derive(Clone, Debug, Default)]
pub(super) struct Files(Vec<(PathBuf, u64)>);

impl Files {
    /// The content of a file. The error says in plain words what is wrong.
    pub(super) fn read(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        let shown = path.display();
        let bytes = files::read_small(path, MOST)
            .map_err(|error| format!("cannot read the file {shown}: {}", plain(&error)))?
            .ok_or_else(|| format!("the file {shown} is larger than {} MiB", MOST >> 20))?;
        self.0.push((path.to_owned(), sum(&bytes)));
        Ok(bytes)
    }

    /// The content of a file that is no larger than `most` bytes.
    pub(super) fn small(&mut self, path: &Path, most: usize) -> Result<Vec<u8>, String> {
        let bytes = self.read(path)?;
        let fits = bytes.len() <= most;
        let shown = path.display();
        fits.then_some(bytes).ok_or_else(|| format!("the file {shown} is larger than {most} bytes"))
    }

    /// Where they lie.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(path, _)| path.as_path())
    }

    /// The content of a file of text.
    pub(super) fn text(&mut self, path: &Path) -> Result<String, String> {
        let bytes = self.read(path)?;
        String::from_utf8(bytes).map_err(|_| format!("the file {} is no text", path.display()))
    }

    /// Whether all of them are what they were.
    pub(super) fn are_unchanged(&self) -> bool {
        self.0.iter().all(|(path, before)| {
            let now = files::read_small(path, MOST).ok().flatten();
            now.is_some_and(|bytes| sum(&bytes) == *before)
        })
    }
}

/// Not against forgers: whoever writes the file may change it.
fn sum(bytes: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(bytes)
}

#[cfg(test)]
mod tests {
    use super::Files;

    #[test]
    fn a_change_is_noticed() {
        let path = std::env::temp_dir().join(format!("sluice-files-{}", std::process::id()));
        std::fs::write(&path, "one").unwrap();
        let mut files = Files::default();
        assert_eq!(files.text(&path).unwrap(), "one");
        assert!(files.are_unchanged());
        std::fs::write(&path, "two").unwrap();
        assert!(!files.are_unchanged());
        std::fs::remove_file(&path).unwrap();
        assert!(!files.are_unchanged());
        assert!(files.read(&path).unwrap_err().contains("cannot read the file"));
    }
}
