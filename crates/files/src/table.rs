//! What a worker knows of names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::Cache;
use crate::open::{Key, Opened};

/// Names and what they stood for when somebody looked. Those that are asked for stay: each has a second chance
/// when room is needed.
#[derive(Debug, Default)]
pub(crate) struct Table {
    places: HashMap<Key, usize, RandomState>,
    slots: Vec<Slot>,
    /// Where room is looked for next.
    hand: usize,
    /// Bytes of content.
    bytes: u64,
}

#[derive(Debug)]
struct Slot {
    key: Key,
    opened: Arc<Opened>,
    /// When somebody looked, in nanoseconds of the worker's clock.
    seen: u64,
    used: bool,
}

/// How much a table may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) entries: usize,
    pub(crate) bytes: u64,
    pub(crate) fresh: Duration,
}

impl Room {
    /// The share of one worker.
    pub(crate) fn of(cache: &Cache, workers: usize) -> Self {
        let workers = workers.max(1);
        let share = u64::try_from(workers).unwrap_or(u64::MAX);
        Self {
            entries: (cache.entries / workers).max(1),
            bytes: cache.memory / share,
            fresh: cache.check,
        }
    }
}

impl Table {
    /// What the name stands for, if somebody has looked not long ago.
    pub(crate) fn fresh(&mut self, key: &Key, now: u64, room: Room) -> Option<Arc<Opened>> {
        let slot = self.slots.get_mut(*self.places.get(key)?)?;
        let limit = u64::try_from(room.fresh.as_nanos()).unwrap_or(u64::MAX);
        if now.saturating_sub(slot.seen) > limit {
            return None;
        }
        slot.used = true;
        Some(Arc::clone(&slot.opened))
    }

    /// What it stood for, however long ago.
    pub(crate) fn known(&self, key: &Key) -> Option<Arc<Opened>> {
        self.slots.get(*self.places.get(key)?).map(|slot| Arc::clone(&slot.opened))
    }

    /// Takes note of what was found.
    pub(crate) fn put(&mut self, key: Key, opened: Arc<Opened>, now: u64, room: Room) {
        self.remove(&key);
        let size = opened.size();
        if size > room.bytes {
            return;
        }
        while self.slots.len() >= room.entries || self.bytes.saturating_add(size) > room.bytes {
            self.make_room();
        }
        self.bytes = self.bytes.saturating_add(size);
        self.places.insert(key.clone(), self.slots.len());
        self.slots.push(Slot { key, opened, seen: now, used: false });
    }

    /// Lets one go that nobody has asked for since the hand came by.
    fn make_room(&mut self) {
        loop {
            self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
            let Some(slot) = self.slots.get_mut(self.hand) else { return };
            if !std::mem::take(&mut slot.used) {
                let key = slot.key.clone();
                return self.remove(&key);
            }
            self.hand += 1;
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(place) = self.places.remove(key) else { return };
        if place >= self.slots.len() {
            return;
        }
        let slot = self.slots.swap_remove(place);
        self.bytes = self.bytes.saturating_sub(slot.opened.size());
        if let Some(moved) = self.slots.get(place)
            && let Some(known) = self.places.get_mut(&moved.key)
        {
            *known = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key::Plain(number.to_string().into_bytes())
    }

    #[test]
    fn what_is_asked_for_stays() {
        let room = Room { entries: 10, bytes: 100, fresh: Duration::from_nanos(5) };
        let mut table = Table::default();
        for number in 0..1000 {
            table.put(key(number), Arc::new(Opened::Missing), 0, room);
            assert!(table.fresh(&key(0), 5, room).is_some(), "{number}");
            assert!(table.slots.len() <= 10 && table.places.len() == table.slots.len());
        }
        assert!(table.known(&key(500)).is_none());
        assert!(table.fresh(&key(0), 6, room).is_none());
        assert!(table.known(&key(0)).is_some());
        table.put(key(0), Arc::new(Opened::Folder), 9, room);
        assert!(matches!(table.fresh(&key(0), 9, room).as_deref(), Some(Opened::Folder)));
        for (place, slot) in table.slots.iter().enumerate() {
            assert_eq!(table.places.get(&slot.key), Some(&place));
        }
    }
}
