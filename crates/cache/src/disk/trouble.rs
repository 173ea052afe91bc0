//! What goes wrong with the disk: counted each time, told at once, and once until it is over.

use std::io::{self, ErrorKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use sluice_net::{LogWriter, precise_unix_nanos};

use super::index::locked;

/// Lines in a second; what goes beyond is counted and told later.
const PER_SECOND: u32 = 10;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is no room, or no more than others leave.
    NoSpace,
    /// Nothing may be written.
    ReadOnly,
    /// Something else.
    Failed,
    /// A file is not what was written.
    Damaged,
    /// More waits to be written than may wait.
    Busy,
}

impl Trouble {
    /// In the words of the metrics.
    pub(super) const NAMES: [&'static str; 5] =
        ["no_space", "read_only", "failed", "damaged", "busy"];

    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::NoSpace
            }
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::ReadOnly,
            _ => Self::Failed,
        }
    }

    const fn place(self) -> usize {
        match self {
            Self::NoSpace => 0,
            Self::ReadOnly => 1,
            Self::Failed => 2,
            Self::Damaged => 3,
            Self::Busy => 4,
        }
    }
}

/// What went wrong so far.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    counts: [AtomicU64; Trouble::NAMES.len()],
    /// Those that were told and are not over.
    told: AtomicU8,
    voice: Mutex<Voice>,
}

/// Who says it.
#[derive(Debug, Default)]
struct Voice {
    log: Option<LogWriter>,
    /// The second, since 1970, how many lines it had, and how many were left out since one was written.
    second: u64,
    lines: u32,
    left_out: u64,
    #[cfg(test)]
    said: Vec<String>,
}

impl Voice {
    fn say(&mut self, line: &str) {
        #[cfg(test)]
        self.said.push(line.to_owned());
        let Some(log) = &self.log else { return };
        let second = precise_unix_nanos() / 1_000_000_000;
        if std::mem::replace(&mut self.second, second) != second {
            self.lines = 0;
        }
        if self.lines >= PER_SECOND {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        let more = match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            number => format!("warning: {number} more lines like these were left out\n"),
        };
        log.write(format!("{more}warning: {line}\n").into_bytes());
    }
}

impl Troubles {
    /// What happens is told here.
    pub(super) fn new(log: Option<LogWriter>) -> Self {
        let voice = Voice { log, ..Voice::default() };
        Self { voice: Mutex::new(voice), ..Self::default() }
    }

    /// It happened. It is told unless it was and is not over.
    pub(super) fn count(&self, trouble: Trouble, line: impl FnOnce() -> String) {
        if let Some(count) = self.counts.get(trouble.place()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let bit = 1 << trouble.place();
        let lasting = trouble != Trouble::Damaged;
        if lasting && self.told.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        self.tell(&line());
    }

    /// Something for the log.
    pub(super) fn tell(&self, line: &str) {
        locked(&self.voice).say(line);
    }

    /// Writing works; whether it did not before.
    pub(super) fn end(&self) -> bool {
        self.told.load(Ordering::Relaxed) != 0 && self.told.swap(0, Ordering::Relaxed) != 0
    }

    /// What was told, as a test wants it.
    #[cfg(test)]
    pub(super) fn take_said(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.voice).said)
    }

    /// How often each happened.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        Trouble::NAMES.into_iter().zip(counts).collect()
    }
}
