//! A number for each of many keys, shared by all workers: bounded, and changed without a lock.
//!
//! Each key has a slot with its tag (a keyed hash) and its word. Known keys are found and their words changed by a
//! compare-and-swap alone; a lock is taken for the moment in which a key gets a slot. A slot whose word says
//! that nothing is left to know goes to the next key that needs one.
//!
//! That a change can only hit the key it was meant for rests on two facts. A slot changes its key only
//! while its word is [`BUSY`]. And words of different times of a slot differ: whoever claims a slot writes a word
//! that it never had before ([`KeyTable::update`] asks this of its callers). So a word that is still the same
//! after the tag was seen is the word of that tag.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// The word of a slot that is about to get another key. No other word is this one.
const BUSY: u64 = u64::MAX;
/// A key is in one of so many slots, beginning with its own.
const REACH: usize = 32;
/// Keys that come at the same time rarely wait for each other.
const LOCKS: usize = 64;

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this word now, in this slot.
    Made {
        /// Where it is, for [`KeyTable::revise`].
        slot: usize,
        /// The word.
        word: u64,
    },
    /// The word was not to be changed; it is this.
    Refused(u64),
    /// The key has no slot, and none is free.
    Full,
}

#[derive(Debug, Default)]
struct Slot {
    /// The key; 0 = there has never been one.
    tag: AtomicU64,
    word: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub struct KeyTable {
    slots: Box<[Slot]>,
    locks: Box<[Mutex<()>]>,
    /// Random, so that nobody can choose keys that share a slot.
    hashing: SeedableRandomState,
}

impl KeyTable {
    /// With room for so many keys at the same time.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        let count = keys.max(REACH).saturating_mul(2).next_power_of_two();
        Self {
            slots: (0..count).map(|_| Slot::default()).collect(),
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
            // The system's randomness; the hash itself costs a fraction of the standard library's.
            hashing: SeedableRandomState::with_seed(
                RandomState::new().hash_one(0),
                SharedSeed::global_random(),
            ),
        }
    }

    /// What stands for a key. The same key is another one for another `purpose`.
    #[must_use]
    pub fn tag(&self, purpose: u8, key: &[u8]) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        hasher.write(key);
        hasher.write_u8(purpose);
        hasher.finish().max(1)
    }

    /// The word of a key, if it has one.
    #[must_use]
    pub fn read(&self, tag: u64) -> Option<u64> {
        loop {
            let (_, slot) = self.find(tag)?;
            let word = slot.word.load(Ordering::Acquire);
            if word != BUSY && slot.tag.load(Ordering::Acquire) == tag {
                return Some(word);
            }
            spin_loop();
        }
    }

    /// Changes the word of a key to what `change` makes of it, or leaves it if that is nothing. A key without a
    /// word gets what `claim` makes of the word of a slot, if that says that its last key needs it no
    /// more; a slot that was never used has the word 0. `claim` has to make a word that the slot had never
    /// before, for any key. Both may be called repeatedly.
    pub fn update(
        &self,
        tag: u64,
        change: impl Fn(u64) -> Option<u64>,
        claim: impl Fn(u64) -> Option<u64>,
    ) -> Change {
        loop {
            let Some((at, slot)) = self.find(tag) else {
                match self.insert(tag, &claim) {
                    Some(change) => return change,
                    // Another worker was faster.
                    None => continue,
                }
            };
            let word = slot.word.load(Ordering::Acquire);
            if word == BUSY || slot.tag.load(Ordering::Acquire) != tag {
                spin_loop();
                continue;
            }
            let Some(next) = change(word) else { return Change::Refused(word) };
            if swap(slot, word, next) {
                return Change::Made { slot: at, word: next };
            }
        }
    }

    /// Changes the word of a slot whose key cannot have gone meanwhile.
    pub fn revise(&self, slot: usize, change: impl Fn(u64) -> u64) {
        let Some(slot) = self.slots.get(slot) else { return };
        loop {
            let word = slot.word.load(Ordering::Acquire);
            if swap(slot, word, change(word)) {
                return;
            }
        }
    }

    /// The slot that a key is in if it can be.
    #[inline]
    fn home(&self, tag: u64) -> usize {
        let mask = self.slots.len().wrapping_sub(1);
        usize::try_from(tag & u64::from(u32::MAX)).unwrap_or_default() & mask
    }

    /// The slots that a key may be in.
    #[inline]
    fn reach(&self, tag: u64) -> impl Iterator<Item = (usize, &Slot)> {
        let mask = self.slots.len().wrapping_sub(1);
        let home = self.home(tag);
        (0..REACH).filter_map(move |step| {
            let at = home.wrapping_add(step) & mask;
            self.slots.get(at).map(|slot| (at, slot))
        })
    }

    #[inline]
    fn find(&self, tag: u64) -> Option<(usize, &Slot)> {
        // Most keys are there, and the loop costs more to set up than to go through.
        let home = self.home(tag);
        match self.slots.get(home) {
            Some(slot) if slot.tag.load(Ordering::Acquire) == tag => Some((home, slot)),
            _ => self.find_further(tag),
        }
    }

    #[inline(never)]
    fn find_further(&self, tag: u64) -> Option<(usize, &Slot)> {
        for (at, slot) in self.reach(tag) {
            match slot.tag.load(Ordering::Acquire) {
                found if found == tag => return Some((at, slot)),
                // Keys take the first slot they can get.
                0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Gives a key a slot; `None` if it has got one already.
    #[cold]
    fn insert(&self, tag: u64, claim: impl Fn(u64) -> Option<u64>) -> Option<Change> {
        let lock = usize::try_from(tag >> 32).unwrap_or_default() % LOCKS;
        let lock =
            self.locks.get(lock).map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        // All of them: one that looks unused may be about to be taken, and the key may be behind it.
        if self.reach(tag).any(|(_, slot)| slot.tag.load(Ordering::Acquire) == tag) {
            return None;
        }
        for (at, slot) in self.reach(tag) {
            let word = slot.word.load(Ordering::Acquire);
            if word != BUSY
                && let Some(first) = claim(word)
                && swap(slot, word, BUSY)
            {
                slot.tag.store(tag, Ordering::Release);
                slot.word.store(first, Ordering::Release);
                return Some(Change::Made { slot: at, word: first });
            }
        }
        drop(lock);
        Some(Change::Full)
    }
}

#[inline]
fn swap(slot: &Slot, from: u64, to: u64) -> bool {
    slot.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a slot for ever.
    fn once(word: u64) -> Option<u64> {
        (word == 0).then_some(1)
    }

    #[test]
    fn each_key_has_a_word_of_its_own() {
        let table = KeyTable::new(1000);
        let tags: Vec<u64> = (0..1000_u32).map(|key| table.tag(0, &key.to_le_bytes())).collect();
        for round in 1..=3 {
            for tag in &tags {
                let change = table.update(*tag, |word| Some(word + 1), once);
                assert!(matches!(change, Change::Made { word, .. } if word == round), "{change:?}");
            }
        }
        assert_ne!(table.tag(0, b"a"), table.tag(1, b"a"));
        assert_eq!(table.read(tags[0]), Some(3));
        assert_eq!(table.read(table.tag(0, b"nobody")), None);
        assert_eq!(table.update(tags[0], |_| None, once), Change::Refused(3));
    }

    #[test]
    fn a_full_table_says_so_and_what_is_not_needed_is_used_again() {
        let table = KeyTable::new(1);
        let keys = 0..10_000_u32;
        let change = |key: u32, claim: fn(u64) -> Option<u64>| {
            table.update(table.tag(0, &key.to_le_bytes()), |word| Some(word + 10), claim)
        };
        let full = keys.clone().filter(|key| change(*key, once) == Change::Full).count();
        assert_eq!(full, 10_000 - 64);
        let again = |word: u64| Some(word + 10);
        assert_eq!(keys.filter(|key| change(*key, again) == Change::Full).count(), 0);
    }

    /// Nothing is lost and nothing is counted twice while keys come and go on several threads.
    #[test]
    fn changes_of_all_threads_count_once() {
        let table = KeyTable::new(1);
        let rounds = 20_000_u64;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..rounds {
                        let tag = table.tag(0, &(round % 100).to_le_bytes());
                        // Low half: how many are in; high half: how often the slot changed hands.
                        let claim = |word: u64| {
                            (word & 0xFFFF_FFFF == 0).then_some(((word >> 32) + 1) << 32 | 1)
                        };
                        match table.update(tag, |word| Some(word + 1), claim) {
                            Change::Made { slot, word } => {
                                assert!((1..=4).contains(&(word & 0xFFFF_FFFF)), "{word:x}");
                                table.revise(slot, |word| word - 1);
                            }
                            Change::Full => {}
                            Change::Refused(_) => unreachable!(),
                        }
                    }
                });
            }
        });
        for slot in &table.slots {
            assert_eq!(slot.word.load(Ordering::Acquire) & 0xFFFF_FFFF, 0);
        }
    }
}
