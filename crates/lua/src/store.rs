//! Values that scripts share between all workers, with a time to live and a budget of bytes.
//!
//! A store is in parts, each with a lock that is held for one step and never while a script runs. What was used least
//! recently goes when a part is full.

mod names;
mod part;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_net::Nanos;

pub(crate) use names::open;
use part::Part;

/// What is kept for a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Bytes.
    Text(Box<[u8]>),
    /// A number.
    Number(f64),
    /// True or false.
    Truth(bool),
}

/// A value as it was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) value: Value,
    /// What whoever set it wrote beside it.
    pub(crate) flags: u32,
    /// Its time is over; nobody has taken it out yet.
    pub(crate) stale: bool,
}

/// When a value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In any case.
    Always,
    /// Where there is none.
    Absent,
    /// Where there is one.
    Present,
}

/// What is done for a value that there is no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Others that were not used for the longest time go.
    Evict,
    /// It is not kept.
    Refuse,
}

/// How long a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until it is taken out, or has to go.
    Unlimited,
    /// For so long.
    For(Duration),
}

impl Life {
    /// When it is over; `Nanos::MAX` is never.
    fn end(self, now: Nanos) -> Nanos {
        match self {
            Self::Unlimited => Nanos::MAX,
            Self::For(time) => {
                now.saturating_add(Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX))
            }
        }
    }
}

/// Which end of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

/// Why something could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists,
    NotFound,
    NotANumber,
    NotAList,
    NotAValue,
    NoMemory,
}

impl Refusal {
    /// As scripts are told.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::NotFound => "not found",
            Self::NotANumber => "not a number",
            Self::NotAList => "value not a list",
            Self::NotAValue => "value is a list",
            Self::NoMemory => "no memory",
        }
    }
}

/// Something was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// There was room.
    Freely,
    /// Others had to go, whose time was not over.
    AtTheCostOfOthers,
}

/// Parts have at least so many bytes, so that a value may be large.
const PART: usize = 1 << 20;

/// Most parts.
const PARTS: usize = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    parts: Box<[Mutex<Part>]>,
    hasher: RandomState,
}

impl Store {
    /// An empty one of so many bytes.
    pub(crate) fn new(size: usize) -> Self {
        let count = (size / PART).clamp(1, PARTS);
        let part = |_| Mutex::new(Part::new(size / count));
        Self { parts: (0..count).map(part).collect(), hasher: RandomState::new() }
    }

    /// Has this size from now on; what does not fit goes.
    pub(crate) fn resize(&self, size: usize) {
        let share = size / self.parts.len().max(1);
        self.each(|part| part.resize(share));
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, Part> {
        let hash = usize::try_from(self.hasher.hash_one(key) & 0xffff).unwrap_or(0);
        let part = self.parts.get(hash % self.parts.len().max(1));
        #[expect(
            clippy::expect_used,
            reason = "there is at least one part, and the rest of a division by their number is less"
        )]
        let part = part.expect("a part for each key");
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each(&self, mut work: impl FnMut(&mut Part)) {
        for part in &self.parts {
            work(&mut part.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The value of a key, also one whose time is over if it is still there.
    pub(crate) fn get(&self, key: &[u8], now: Nanos) -> Result<Option<Found>, Refusal> {
        self.part(key).get(key, now)
    }

    /// Keeps a value with flags.
    pub(crate) fn set(
        &self,
        key: &[u8],
        (value, flags): (Value, u32),
        (when, room): (When, Room),
        (life, now): (Life, Nanos),
    ) -> Result<Kept, Refusal> {
        self.part(key).set(key, (value, flags), (when, room), (life.end(now), now))
    }

    /// Takes a key out.
    pub(crate) fn delete(&self, key: &[u8]) {
        self.part(key).delete(key);
    }

    /// Adds to a number, which begins with `first` if there is none; `life` is that of a new one.
    pub(crate) fn add(
        &self,
        key: &[u8],
        (by, first): (f64, Option<f64>),
        (life, now): (Life, Nanos),
    ) -> Result<(f64, Kept), Refusal> {
        self.part(key).add(key, (by, first), (life.end(now), now))
    }

    /// Puts a value to an end of a list; how long that is then.
    pub(crate) fn push(
        &self,
        key: &[u8],
        (value, end): (Value, End),
        now: Nanos,
    ) -> Result<usize, Refusal> {
        self.part(key).push(key, (value, end), now)
    }

    /// Takes a value from an end of a list.
    pub(crate) fn pop(&self, key: &[u8], end: End, now: Nanos) -> Result<Option<Value>, Refusal> {
        self.part(key).pop(key, end, now)
    }

    /// How long a list is.
    pub(crate) fn length(&self, key: &[u8], now: Nanos) -> Result<usize, Refusal> {
        self.part(key).length(key, now)
    }

    /// How long a key is still kept.
    pub(crate) fn life(&self, key: &[u8], now: Nanos) -> Option<Life> {
        self.part(key).life(key, now)
    }

    /// A key is kept for so long from now on; whether there is one.
    pub(crate) fn prolong(&self, key: &[u8], (life, now): (Life, Nanos)) -> bool {
        self.part(key).prolong(key, (life.end(now), now))
    }

    /// The time of all that is there is over.
    pub(crate) fn expire_all(&self, now: Nanos) {
        self.each(|part| part.expire_all(now));
    }

    /// Takes out what is over, at most so many; how many it were.
    pub(crate) fn sweep(&self, most: usize, now: Nanos) -> usize {
        let mut gone = 0;
        self.each(|part| gone += part.sweep(most - gone, now));
        gone
    }

    /// Keys, at most so many.
    pub(crate) fn keys(&self, most: usize, now: Nanos) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        self.each(|part| part.list(&mut keys, most, now));
        keys
    }

    /// Bytes it may have, and bytes it has.
    pub(crate) fn room(&self) -> (usize, usize) {
        let mut room = (0, 0);
        self.each(|part| {
            let (budget, used) = part.room();
            room = (room.0 + budget, room.1 + used);
        });
        room
    }
}

#[cfg(test)]
mod tests;
