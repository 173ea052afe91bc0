//! The number of the process in a file, for those who signal it.

use std::io;
use std::path::{Path, PathBuf};

/// A file that names this process.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes it, in one step: a reader sees the old number or the new one.
    ///
    /// # Errors
    /// What the kernel says: no such directory, permission denied.
    pub fn write(path: &Path) -> io::Result<Self> {
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        std::fs::write(&fresh, format!("{}\n", std::process::id()))?;
        std::fs::rename(&fresh, path)?;
        Ok(Self(path.to_path_buf()))
    }

    /// Removes it, unless it names another process by now.
    pub fn remove(self) {
        let named = std::fs::read_to_string(&self.0).unwrap_or_default();
        if named.trim() == std::process::id().to_string() {
            // It goes with us; if it cannot, the number in it is of no process.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_number_is_removed() {
        let path = std::env::temp_dir().join(format!("sluice-pid-{}", std::process::id()));
        let file = PidFile::write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        file.remove();
        assert!(!path.exists());
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        file.remove();
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
    }
}
