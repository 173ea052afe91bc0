//! A small memory of what was checked lately, so that checking it again costs next to nothing.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;

/// How many entries share a place: the more, the fewer are forgotten early.
const WAYS: usize = 4;

/// Bytes at the end of a key that it is found by.
const TAIL: usize = 32;

/// What was found out about keys (tokens, credentials), each until a moment.
///
/// A table of fixed size: a key has four places, and a new one takes that of the one that dies first.
/// Keys are found by a hash that nobody outside can predict and are then compared in full, so that no
/// two are ever taken for each other. For one thread: whoever shares it brings the lock.
#[derive(Debug)]
pub struct Recent<V> {
    slots: Box<[Option<Entry<V>>]>,
    hasher: RandomState,
    /// Longer keys are not kept.
    key_bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    hash: u64,
    key: Box<[u8]>,
    /// Unix time in seconds from which on it is no longer true.
    until: u64,
    value: V,
}

impl<V> Recent<V> {
    /// Room for at least `entries` keys of at most `key_bytes` bytes.
    #[must_use]
    pub fn new(entries: usize, key_bytes: usize) -> Self {
        let slots = entries.max(WAYS).next_power_of_two();
        Self {
            slots: std::iter::repeat_with(|| None).take(slots).collect(),
            hasher: RandomState::default(),
            key_bytes,
        }
    }

    /// What is known about `key` at `now` (Unix time in seconds).
    #[must_use]
    #[inline]
    pub fn get(&self, key: &[u8], now: u64) -> Option<&V> {
        let hash = self.hash(key);
        self.places(hash)?
            .iter()
            .flatten()
            .find(|entry| entry.hash == hash && *entry.key == *key)
            .filter(|entry| now < entry.until)
            .map(|entry| &entry.value)
    }

    /// Notes `value` for `key` until `until` (Unix time in seconds).
    pub fn put(&mut self, key: &[u8], until: u64, value: V) {
        if key.len() > self.key_bytes {
            return;
        }
        let hash = self.hash(key);
        let start = self.start(hash);
        let Some(places) = self.slots.get_mut(start..start + WAYS) else { return };
        let same = places.iter().position(|place| {
            place.as_ref().is_some_and(|old| old.hash == hash && *old.key == *key)
        });
        let place = match same {
            Some(at) => places.get_mut(at),
            // An empty place counts as one that died long ago.
            None => places.iter_mut().min_by_key(|place| place.as_ref().map_or(0, |old| old.until)),
        };
        if let Some(place) = place {
            *place = Some(Entry { hash, key: key.into(), until, value });
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.slots.fill_with(|| None);
    }

    /// How many entries there are, dead ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        // Keys end in what nobody chooses: a signature, a seal, a hash. So the end tells them apart, and a key
        // that was made to collide only costs a comparison.
        self.hasher.hash_one(key.last_chunk::<TAIL>().map_or(key, |tail| tail))
    }

    #[inline]
    fn places(&self, hash: u64) -> Option<&[Option<Entry<V>>]> {
        let start = self.start(hash);
        self.slots.get(start..start + WAYS)
    }

    /// Where the places of a hash begin; the number of slots is a power of two.
    #[inline]
    fn start(&self, hash: u64) -> usize {
        let last = (self.slots.len() / WAYS).wrapping_sub(1);
        (usize::try_from(hash >> 32).unwrap_or_default() & last) * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn knows_until_the_moment_comes() {
        let mut recent = Recent::new(64, 16);
        recent.put(b"key", 100, 1);
        assert_eq!(recent.get(b"key", 99), Some(&1));
        assert_eq!(recent.get(b"key", 100), None);
        assert_eq!(recent.get(b"kez", 99), None);
        recent.put(b"key", 200, 2);
        assert_eq!((recent.get(b"key", 150), recent.len()), (Some(&2), 1));
        recent.clear();
        assert!(recent.is_empty());
        assert_eq!(recent.get(b"key", 150), None);
    }

    #[test]
    fn stays_within_its_room() {
        let mut recent = Recent::new(64, 16);
        recent.put(&[b'x'; 17], 100, 0);
        assert!(recent.is_empty(), "too long a key is not kept");
        for at in 0..10_000_u32 {
            recent.put(&at.to_be_bytes(), 100 + u64::from(at), at);
            assert_eq!(recent.get(&at.to_be_bytes(), 0), Some(&at), "the newest is always there");
        }
        assert_eq!(recent.len(), 64);
    }

    #[test]
    fn the_one_that_dies_first_makes_room() {
        let mut recent = Recent::new(4, 16);
        for (key, until) in [("a", 40), ("b", 10), ("c", 30), ("d", 20)] {
            recent.put(key.as_bytes(), until, ());
        }
        recent.put(b"e", 50, ());
        assert_eq!(recent.get(b"b", 0), None);
        for key in ["a", "c", "d", "e"] {
            assert!(recent.get(key.as_bytes(), 0).is_some(), "{key}");
        }
    }
}
