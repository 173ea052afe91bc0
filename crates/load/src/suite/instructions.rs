//! User instructions per request, counted by callgrind: the same to one percent on a busy machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::environment::{family, said};
use crate::figures;

/// Whether they can be counted here.
pub(crate) fn possible() -> bool {
    said(Command::new("valgrind").arg("--version")).is_some()
        && said(Command::new("callgrind_control").arg("--version")).is_some()
}

/// The command that runs another one under callgrind, with its counts in `dir`.
pub(crate) fn wrapped(command: &[String], dir: &Path) -> Vec<String> {
    let file = format!("--callgrind-out-file={}/callgrind.%p", dir.display());
    let mut all = vec!["valgrind".to_owned(), "--tool=callgrind".to_owned(), file];
    all.extend_from_slice(command);
    all
}

/// Sets the counts of a server to zero.
pub(crate) fn reset(pid: u32) -> Result<(), String> {
    control("-z", pid)
}

/// Writes the counts since the last reset and divides them by `requests`.
pub(crate) fn collect(pid: u32, dir: &Path, requests: u64) -> Result<f64, String> {
    control("-d", pid)?;
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut total = 0_u64;
    for entry in entries.flatten() {
        let name = entry.file_name();
        // Dumps have a number at the end; the file without one is written when the program ends.
        if name.to_string_lossy().starts_with("callgrind.") {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            total = total.saturating_add(counted(&text));
        }
    }
    match total {
        0 => Err("callgrind wrote no figures".to_owned()),
        total => Ok(figures::float(total) / figures::float(requests.max(1))),
    }
}

/// The sum in a file of callgrind; 0 if there is none.
fn counted(text: &str) -> u64 {
    let sum = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    sum("totals:").or_else(|| sum("summary:")).unwrap_or(0)
}

/// Reset writes a dump of its own in some versions, so dumps from before are removed by the caller.
fn control(what: &str, pid: u32) -> Result<(), String> {
    let pids: Vec<String> = family(pid).iter().map(u32::to_string).collect();
    let status = Command::new("callgrind_control")
        .arg(what)
        .args(pids)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("callgrind_control: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("callgrind_control {what} failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn sums_are_read() {
        assert_eq!(counted("events: Ir\nsummary: 12\nfn=x\n1 2\ntotals: 12345\n"), 12345);
        assert_eq!(counted("events: Ir\nsummary: 77\n"), 77);
        assert_eq!(counted("nothing"), 0);
    }
}
