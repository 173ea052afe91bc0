//! What goes wrong with the disk: counted each time, told once until it is over.

use std::io::{self, ErrorKind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::index::locked;

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
    news: Mutex<Vec<String>>,
    has_news: AtomicBool,
}

impl Troubles {
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
        self.tell(line());
    }

    /// Something for the log.
    pub(super) fn tell(&self, line: String) {
        let mut news = locked(&self.news);
        // Nobody reads more than that.
        if news.len() < 64 {
            news.push(line);
        }
        self.has_news.store(true, Ordering::Relaxed);
    }

    /// Writing works; whether it did not before.
    pub(super) fn end(&self) -> bool {
        self.told.load(Ordering::Relaxed) != 0 && self.told.swap(0, Ordering::Relaxed) != 0
    }

    /// What nobody has logged yet.
    pub(super) fn take_news(&self) -> Vec<String> {
        if !self.has_news.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut news = locked(&self.news);
        self.has_news.store(false, Ordering::Relaxed);
        std::mem::take(&mut news)
    }

    /// How often each happened.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        Trouble::NAMES.into_iter().zip(counts).collect()
    }
}
