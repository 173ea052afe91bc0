//! What is known of a cache at one moment, and how it is told to forget.

use std::any::Any;
use std::fmt;

/// A cache that can be asked how it is doing, and told to forget.
pub trait CacheSource: Any + fmt::Debug + Send + Sync {
    /// How it is doing.
    fn reading(&self) -> CacheReading;

    /// How its folder on a disk is doing, if it has one.
    fn disk(&self) -> Option<DiskReading> {
        None
    }

    /// Leaves its folder to the process that takes this one's place.
    fn retire(&self) {}

    /// Forgets what is named, or has it confirmed before it is given again. How many answers that hit.
    fn purge(&self, target: PurgeTarget<'_>, thoroughness: Thoroughness) -> usize;
}

/// A cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReading {
    /// Answers that are kept.
    pub entries: usize,
    /// Bytes they take, with those that are on their way.
    pub bytes: usize,
    /// Bytes there may be.
    pub budget: usize,
    /// Answers that went because others needed their place.
    pub evictions: u64,
}

/// A folder that caches keep answers in, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReading {
    /// Its path.
    pub folder: String,
    /// Answers that are kept.
    pub entries: usize,
    /// Bytes they take, in whole blocks.
    pub bytes: u64,
    /// Bytes there may be: less than configured while the disk has no room.
    pub budget: u64,
    /// Answers that went because others needed their place.
    pub evictions: u64,
    /// What went wrong, and how often.
    pub faults: Vec<(&'static str, u64)>,
}

/// What a cache is to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeTarget<'a> {
    /// All answers to a URL: `http` or `https`, host and port, path and query.
    Url(&'a str, &'a [u8], &'a [u8]),
    /// All answers to URLs that begin so.
    Prefix(&'a str, &'a [u8], &'a [u8]),
    /// All answers with this tag.
    Tag(&'a [u8]),
    /// Everything.
    All,
}

/// What becomes of what is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// It goes.
    Hard,
    /// It is stale: its origin is asked before it is given again.
    Soft,
}
