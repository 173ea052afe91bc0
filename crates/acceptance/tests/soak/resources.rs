//! What the process holds: resident memory, descriptors, threads.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::slope::{Allowed, Trend};

/// The part of the time in which pools and caches fill and nothing is judged.
const WARM_UP: f64 = 0.25;

/// What a process holds at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) resident_kib: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
}

/// What this process holds.
pub(crate) fn sample(pid: u32, at: Duration) -> Sample {
    let count = |of: &str| std::fs::read_dir(format!("/proc/{pid}/{of}")).unwrap().count();
    Sample {
        at,
        resident_kib: status(pid, "VmRSS:"),
        descriptors: count("fd"),
        threads: count("task"),
    }
}

/// What the descriptors of this process are, each kind with its number.
pub(crate) fn kinds(pid: u32) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let Ok(link) = std::fs::read_link(entry.path()) else { continue };
        // `socket:[4711]` is one of many.
        let kind = link.display().to_string();
        let kind = kind.split(":[").next().unwrap_or_default().to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// Whether the process is there and has not ended.
pub(crate) fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// The threads of the process and where in the kernel each is, for a program that does not answer.
pub(crate) fn threads(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let about = |task: std::fs::DirEntry| {
        let of = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let [name, place, call] = ["comm", "wchan", "syscall"].map(of);
        format!("{}: {place} {}", name.trim(), call.split(' ').next().unwrap_or_default().trim())
    };
    tasks.map(about).collect::<Vec<_>>().join(", ")
}

/// The most resident memory the process ever had, in KiB.
pub(crate) fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

fn status(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Samples at a distance that fits the duration.
#[derive(Debug)]
pub(crate) struct Samples {
    total: Duration,
    pub(crate) all: Vec<Sample>,
}

impl Samples {
    pub(crate) fn new(total: Duration) -> Self {
        Self { total, all: Vec::new() }
    }

    /// The distance between two samples.
    pub(crate) fn every(&self) -> Duration {
        (self.total / 720).clamp(Duration::from_millis(100), Duration::from_secs(5))
    }

    pub(crate) fn take(&mut self, pid: u32, at: Duration) {
        self.all.push(sample(pid, at));
    }

    /// Writes the samples where `SOAK_REPORT` says, before anything is judged.
    pub(crate) fn write_unfinished(&self) {
        if let Some(path) = std::env::var_os("SOAK_REPORT") {
            let path = std::path::Path::new(&path).with_extension("csv");
            std::fs::write(path, self.csv()).expect("the samples can be written");
        }
    }

    /// All samples as CSV.
    pub(crate) fn csv(&self) -> String {
        let mut text = String::from("seconds,resident_kib,descriptors,threads\n");
        for it in &self.all {
            let seconds = it.at.as_secs_f64();
            let Sample { resident_kib, descriptors, threads, .. } = it;
            text.push_str(&format!("{seconds:.1},{resident_kib},{descriptors},{threads}\n"));
        }
        text
    }

    /// Those behind the warm-up.
    fn warm(&self) -> impl Iterator<Item = &Sample> {
        let begin = self.total.mul_f64(WARM_UP);
        self.all.iter().filter(move |sample| sample.at >= begin)
    }

    /// How much larger the last fifth of the samples is than the first fifth of the warm ones, at its least.
    pub(crate) fn growth_kib(&self) -> u64 {
        let warm: Vec<u64> = self.warm().map(|sample| sample.resident_kib).collect();
        let part = warm.len() / 5;
        let (first, last) = (&warm[..=part], &warm[warm.len() - part - 1..]);
        last.iter().min().unwrap().saturating_sub(*first.iter().min().unwrap())
    }

    /// The lines that are judged.
    pub(crate) fn trends(&self) -> Vec<Trend> {
        let of = |name, value: fn(&Sample) -> f64, allowed| {
            let points: Vec<(f64, f64)> =
                self.warm().map(|it| (it.at.as_secs_f64() / 3600.0, value(it))).collect();
            Trend::fit(name, &points, allowed)
        };
        vec![
            of("resident memory, KiB", |it| it.resident_kib as f64, Allowed::Share(0.02)),
            of("descriptors", |it| it.descriptors as f64, Allowed::Count(2.0)),
            of("threads", |it| it.threads as f64, Allowed::Count(0.5)),
        ]
    }
}
