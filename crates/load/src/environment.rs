//! The machine a measurement was made on, and how quiet it was meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::figures;

#[cfg(test)]
mod tests;

/// Above this share of stolen time a run says more about the host than about the server.
pub const MUCH_STEAL: f64 = 0.01;

/// Above this share of CPU time used by strangers a run says more about them than about the server.
pub const MUCH_BY_OTHERS: f64 = 0.1;

/// A load average per core above which others were working, before anything was started.
const BUSY: f64 = 0.5;

/// The machine and the state of the source.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// The processor's name.
    pub cpu: String,
    /// CPUs that may be used.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel, like `Linux 6.18.0 x86_64`.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The commit, if the suite lies in a Git repository.
    pub commit: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// Load average before anything was started.
    pub load_before: f64,
    /// Load average after everything was stopped; it holds the measurement itself.
    pub load_after: f64,
    /// Share of CPU time that the host took away during the whole measurement.
    pub steal: f64,
}

impl Environment {
    /// Whether others were working before anything was started.
    #[must_use]
    pub fn was_busy(&self) -> bool {
        self.load_before > BUSY * f64::from(self.cores.max(1))
    }

    /// Looks at the machine, and at the repository that `folder` lies in, if any.
    pub fn observe(folder: &std::path::Path) -> Self {
        let git = |arguments: &[&str]| {
            let folder = folder.display().to_string();
            told(Command::new("git").arg("-C").arg(folder).args(arguments))
        };
        let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some();
        let mark =
            |commit| if dirty { format!("{commit} with uncommitted changes") } else { commit };
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism()
                .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
            memory_bytes: memory(&read("/proc/meminfo")),
            kernel: kernel(),
            system: distribution(&read("/etc/os-release")),
            commit: git(&["rev-parse", "--short=12", "HEAD"]).map(mark),
            branch: git(&["rev-parse", "--abbrev-ref", "HEAD"]),
            load_before: load_average(),
            load_after: 0.0,
            steal: 0.0,
        }
    }
}

/// What the machine did during a run.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Share of CPU time that the host took away.
    pub steal: f64,
    /// Share of CPU time that was used by anybody.
    pub busy: f64,
    /// CPU time used by anybody, in seconds.
    pub machine_cpu_seconds: f64,
    /// Load average at the beginning.
    pub load_before: f64,
    /// Load average at the end.
    pub load_after: f64,
    /// Share of CPU time that was used by programs which have no part in the measurement.
    #[serde(default)]
    pub others: f64,
}

impl Noise {
    /// The same, knowing how many seconds of CPU time the measurement itself used.
    pub(crate) fn beside(self, own_seconds: f64) -> Self {
        let others = 1.0 - own_seconds / self.machine_cpu_seconds.max(1e-9);
        Self { others: self.busy * others.clamp(0.0, 1.0), ..self }
    }
}

/// The machine's CPU clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineTicks {
    busy: u64,
    steal: u64,
    total: u64,
    load: f64,
}

impl MachineTicks {
    /// The clocks now.
    pub fn now() -> Self {
        Self { load: load_average(), ..machine_ticks(&read("/proc/stat")) }
    }

    /// What happened since.
    pub fn until_now(&self) -> Noise {
        self.until(&Self::now())
    }

    fn until(&self, later: &Self) -> Noise {
        let busy = figures::float(later.busy.saturating_sub(self.busy));
        let steal = figures::float(later.steal.saturating_sub(self.steal));
        let total = figures::float(later.total.saturating_sub(self.total)).max(1.0);
        Noise {
            steal: steal / total,
            busy: busy / total,
            machine_cpu_seconds: busy / ticks_per_second(),
            load_before: self.load,
            load_after: later.load,
            others: 0.0,
        }
    }
}

/// CPU time in seconds that a process and its descendants have used, those that ended and were
/// waited for included. Nothing if there is no such process.
pub fn process_cpu(pid: u32) -> Option<f64> {
    let processes = processes();
    let ticks = tree_ticks(&processes, pid)?;
    let counted = figures::float(ticks) / ticks_per_second();
    // Ticks are 10 ms, a tenth of what a short run takes.
    let exact = members(&processes, pid).into_iter().map(scheduled).sum::<u64>();
    Some(counted.max(figures::float(exact) / 1e9))
}

/// Nanoseconds that the threads of a process have run which it has now. Those that ended are missing, so that it
/// may be less than what the ticks say; and all, on a kernel that does not count them.
fn scheduled(pid: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let ran = |text: String| text.split_ascii_whitespace().next()?.parse::<u64>().ok();
    threads
        .flatten()
        .filter_map(|it| ran(fs::read_to_string(it.path().join("schedstat")).ok()?))
        .sum()
}

/// A process and all its descendants, itself first.
pub fn family(pid: u32) -> Vec<u32> {
    members(&processes(), pid)
}

/// Whether anything of a process group still runs. The dead that nobody has waited for do not count.
pub(crate) fn group_runs(group: u32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut stats = pids.map(|pid: u32| read(&format!("/proc/{pid}/stat")));
    stats.any(|stat| {
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let mut fields = rest.split_ascii_whitespace();
        let alive = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
        alive && fields.nth(1).is_some_and(|found| found.parse() == Ok(group))
    })
}

/// The first line a command says, on either output; nothing if it cannot be started or is silent.
pub fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// The first line of the output of a command that succeeds.
fn told(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    line.filter(|_| output.status.success())
}

/// One line of `/proc/PID/stat`: parent and CPU ticks, waited-for children included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    ticks: u64,
}

fn processes() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, process(&read(&format!("/proc/{pid}/stat")))?))).collect()
}

/// The name stands in parentheses and may hold anything, so fields are counted from the last one.
fn process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().unwrap_or(0));
    Some(Process { parent, ticks: times.sum() })
}

fn members(processes: &BTreeMap<u32, Process>, root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        let children = processes.iter().filter(|(_, process)| process.parent == parent);
        found.extend(children.map(|(pid, _)| *pid));
        at = at.saturating_add(1);
    }
    found
}

fn tree_ticks(processes: &BTreeMap<u32, Process>, root: u32) -> Option<u64> {
    processes.get(&root)?;
    let all = members(processes, root);
    Some(all.iter().filter_map(|pid| processes.get(pid)).map(|process| process.ticks).sum())
}

fn machine_ticks(stat: &str) -> MachineTicks {
    let line = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    let fields: Vec<u64> =
        line.split_ascii_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
    let idle = field(3).saturating_add(field(4));
    let busy = [0, 1, 2, 5, 6].into_iter().map(field).sum::<u64>();
    let steal = field(7);
    MachineTicks { busy, steal, total: busy.saturating_add(idle).saturating_add(steal), load: 0.0 }
}

fn ticks_per_second() -> f64 {
    figures::float(rustix::param::clock_ticks_per_second()).max(1.0)
}

fn load_average() -> f64 {
    let text = read("/proc/loadavg");
    text.split_ascii_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

fn cpu_model(cpuinfo: &str) -> String {
    let named = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
        line.split_once(':').map(|(_, name)| name.trim().to_owned())
    };
    // ARM kernels name only the implementer and the part.
    named("model name")
        .or_else(|| named("Hardware"))
        .or_else(|| {
            Some(format!("implementer {}, part {}", named("CPU implementer")?, named("CPU part")?))
        })
        .unwrap_or_else(|| "unknown".to_owned())
}

fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:")).unwrap_or_default();
    let kib = line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn kernel() -> String {
    let part = |name: &str| read(&format!("/proc/sys/kernel/{name}")).trim().to_owned();
    format!("{} {} {}", part("ostype"), part("osrelease"), std::env::consts::ARCH)
}

fn distribution(release: &str) -> String {
    let line = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("unknown").trim_matches('"').to_owned()
}

fn read(path: &str) -> String {
    // Not every name of a process is UTF-8.
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
