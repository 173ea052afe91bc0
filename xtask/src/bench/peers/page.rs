//! Pages: what is asked for where files, caches and compression are measured, and where it lies.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A page that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The port of the origin.
    pub origin: u16,
    /// The port of another one, for a worker that shares its own with nobody; the same where nobody asks for that.
    pub other: u16,
    /// Its path: below `/kept/` what caches keep, below `/packed/` what is compressed, below `/files/` files,
    /// below `/prepared/` files that were compressed before, below `/fresh/` what differs each time.
    pub path: &'static str,
    /// What the client says beside.
    pub header: Option<&'static str>,
    /// Threads or processes that serve it.
    pub workers: usize,
}

/// 13 bytes, as the direct answer has.
const TINY: &str = "tiny.txt";
/// 4 KiB.
const SMALL: &str = "small.txt";
/// A file that no cache of a server holds, in bytes.
pub const HUGE: u64 = 1 << 30;

/// Pages that are files of the suite of files, compression and caches, so that both speak of the same.
const SHARED: [&str; 2] = ["page.html", "list.json"];

/// Puts all pages into a folder.
pub fn lay_out(root: &Path, folder: &Path) -> Result<(), String> {
    let failed = |path: &Path, why| format!("{}: {why}", path.display());
    fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let small: Vec<u8> = (b'a'..=b'z').cycle().take(4096).collect();
    for (name, content) in [(TINY, &b"Hello, World!"[..]), (SMALL, &small)] {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|e| failed(&path, e))?;
    }
    for name in SHARED {
        let from = root.join("bench/suites/pingap").join(name);
        fs::copy(&from, folder.join(name)).map_err(|e| failed(&from, e))?;
    }
    // What gzip_static serves.
    let page = folder.join(SHARED[1]);
    let failed_gzip = |why: String| format!("gzip {}: {why}", page.display());
    let made = Command::new("gzip").args(["-9", "-k", "-f"]).arg(&page).status();
    if !made.map_err(|e| failed_gzip(e.to_string()))?.success() {
        return Err(failed_gzip("it failed".to_owned()));
    }
    // Without content on the disk: it is read as any other file once it is in memory.
    let path = folder.join("huge.bin");
    let file = fs::File::create(&path).map_err(|e| failed(&path, e))?;
    file.set_len(HUGE).map_err(|e| failed(&path, e))
}
