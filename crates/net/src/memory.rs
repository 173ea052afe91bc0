//! How much memory the process has, and how much it may have.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Resident memory of the process in bytes; `None` if it cannot be read.
#[must_use]
pub fn resident() -> Option<u64> {
    let statm = read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(u64::try_from(rustix::param::page_size()).ok()?))
}

/// What the process may use at most, in bytes: the memory of the machine, or less if its control group
/// or one above it is limited. `None` if nothing can be read.
#[must_use]
pub fn available() -> Option<u64> {
    available_at(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn available_at(proc: &Path, groups: &Path) -> Option<u64> {
    let machine = machine(&proc.join("meminfo"));
    machine.into_iter().chain(of_group(&proc.join("self/cgroup"), groups)).min()
}

/// `MemTotal:       16384 kB` of proc_meminfo(5).
fn machine(meminfo: &Path) -> Option<u64> {
    let text = read_to_string(meminfo).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The lowest limit of the process's group and those above it (cgroups(7)): lines are
/// `0::/path` for version 2 and `4:cpu,memory:/path` for version 1.
fn of_group(cgroup: &Path, mount: &Path) -> Option<u64> {
    let text = read_to_string(cgroup).ok()?;
    let limits = text.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let (mount, file) = match controllers {
            "" => (mount.to_path_buf(), "memory.max"),
            list if list.split(',').any(|it| it == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        // In a container the path may be the one outside, which is not there: the group is the mount
        // itself then, which every walk ends at.
        let relative = PathBuf::from(path.trim_start_matches('/'));
        relative.ancestors().filter_map(|group| number(&mount.join(group).join(file))).collect()
    });
    limits.min()
}

/// The number in a file; `max` and what is no number is none.
fn number(path: &Path) -> Option<u64> {
    read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files with these contents, and what is read off it.
    fn read(name: &str, files: Files<'_>) -> Option<u64> {
        let id = std::process::id();
        let root = std::env::temp_dir().join(format!("sluice-memory-{name}-{id}"));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let limit = available_at(&root.join("proc"), &root.join("group"));
        let _ = std::fs::remove_dir_all(&root);
        limit
    }

    /// Files with their contents.
    type Files<'f> = &'f [(&'f str, &'f str)];

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal:       16384 kB\nMemFree:        1024 kB\n");

    #[test]
    fn the_tightest_limit_counts() {
        let machine = Some(16 << 20);
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        let v1 = ("proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/docker/1\n0::/\n");
        let rows: [(&str, Files<'_>, Option<u64>); 9] = [
            ("nothing", &[], None),
            ("machine", &[MACHINE], machine),
            ("free", &[MACHINE, v2, ("group/a/b/memory.max", "max\n")], machine),
            ("own", &[MACHINE, v2, ("group/a/b/memory.max", "1048576\n")], Some(1 << 20)),
            (
                "above",
                &[MACHINE, v2, ("group/a/b/memory.max", "99999\n"), ("group/a/memory.max", "4096")],
                Some(4096),
            ),
            ("container", &[MACHINE, v2, ("group/memory.max", "8192")], Some(8192)),
            ("larger", &[MACHINE, v2, ("group/memory.max", "999999999999")], machine),
            (
                "one",
                &[MACHINE, v1, ("group/memory/docker/1/memory.limit_in_bytes", "4096\n")],
                Some(4096),
            ),
            (
                "one-inside",
                &[MACHINE, v1, ("group/memory/memory.limit_in_bytes", "9223372036854771712")],
                machine,
            ),
        ];
        for (name, files, expected) in rows {
            assert_eq!(read(name, files), expected, "{name}");
        }
    }

    #[test]
    fn this_process_has_some_of_what_there_is() {
        let (resident, available) = (resident().unwrap(), available().unwrap());
        assert!(resident > 1 << 20 && resident < available, "{resident} of {available}");
    }
}
