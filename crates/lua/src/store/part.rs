//! A part of a store: values by their keys, the least recently used last.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use sluice_net::Nanos;

use super::{End, Found, Kept, Life, Refusal, Room, Value, When};

/// What an entry takes beside its key and its value: its places in the table and in the order of use.
const OVERHEAD: usize = 128;

/// What an element of a list takes beside its bytes.
const ELEMENT: usize = 32;

#[derive(Debug)]
enum Content {
    Value(Value),
    List(VecDeque<Value>),
}

#[derive(Debug)]
struct Entry {
    key: Arc<[u8]>,
    content: Content,
    flags: u32,
    /// When its time is over.
    end: Nanos,
    /// What it takes.
    bytes: usize,
    /// The one that was used next, and the one before.
    newer: Option<usize>,
    older: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Part {
    places: HashMap<Arc<[u8]>, usize>,
    entries: Slab<Entry>,
    newest: Option<usize>,
    oldest: Option<usize>,
    budget: usize,
    used: usize,
}

fn size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Number(_) | Value::Truth(_) => 8,
    }
}

impl Part {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            places: HashMap::new(),
            entries: Slab::new(),
            newest: None,
            oldest: None,
            budget,
            used: 0,
        }
    }

    pub(super) fn resize(&mut self, budget: usize) {
        self.budget = budget;
        while self.used > self.budget
            && let Some(oldest) = self.oldest
        {
            self.take(oldest);
        }
    }

    pub(super) const fn room(&self) -> (usize, usize) {
        (self.budget, self.used)
    }

    /// Where a key is, whatever its time.
    fn place(&self, key: &[u8]) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// Where a key is whose time is not over.
    fn live(&self, key: &[u8], now: Nanos) -> Option<usize> {
        self.place(key).filter(|&place| self.entries.get(place).is_some_and(|it| it.end > now))
    }

    fn unlink(&mut self, place: usize) {
        let Some((newer, older)) = self.entries.get(place).map(|it| (it.newer, it.older)) else {
            return;
        };
        match newer.and_then(|newer| self.entries.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match older.and_then(|older| self.entries.get_mut(older)) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link(&mut self, place: usize) {
        let before = self.newest.replace(place);
        if let Some(entry) = self.entries.get_mut(place) {
            (entry.newer, entry.older) = (None, before);
        }
        match before.and_then(|before| self.entries.get_mut(before)) {
            Some(before) => before.newer = Some(place),
            None => self.oldest = Some(place),
        }
    }

    /// Somebody asked for it.
    fn touch(&mut self, place: usize) {
        if self.newest != Some(place) {
            self.unlink(place);
            self.link(place);
        }
    }

    fn take(&mut self, place: usize) {
        self.unlink(place);
        if let Some(entry) = self.entries.try_remove(place) {
            self.places.remove(&entry.key);
            self.used -= entry.bytes;
        }
    }

    /// Makes room for so many more bytes, without touching `spared`.
    fn make_room(
        &mut self,
        bytes: usize,
        (room, spared): (Room, Option<usize>),
        now: Nanos,
    ) -> Result<Kept, Refusal> {
        let mut kept = Kept::Freely;
        if bytes > self.budget {
            return Err(Refusal::NoMemory);
        }
        while bytes > self.budget - self.used {
            let candidate = match self.oldest {
                oldest if oldest.is_some() && oldest == spared => {
                    oldest.and_then(|oldest| self.entries.get(oldest)).and_then(|it| it.newer)
                }
                oldest => oldest,
            };
            let Some((place, over)) =
                candidate.and_then(|it| Some((it, self.entries.get(it)?.end <= now)))
            else {
                return Err(Refusal::NoMemory);
            };
            if !over {
                if room == Room::Refuse {
                    return Err(Refusal::NoMemory);
                }
                kept = Kept::AtTheCostOfOthers;
            }
            self.take(place);
        }
        Ok(kept)
    }

    fn insert(
        &mut self,
        key: &[u8],
        (content, flags): (Content, u32),
        (bytes, end): (usize, Nanos),
    ) {
        let key: Arc<[u8]> = key.into();
        let entry =
            Entry { key: Arc::clone(&key), content, flags, end, bytes, newer: None, older: None };
        let place = self.entries.insert(entry);
        self.places.insert(key, place);
        self.used += bytes;
        self.link(place);
    }

    pub(super) fn get(&mut self, key: &[u8], now: Nanos) -> Result<Option<Found>, Refusal> {
        let Some(place) = self.place(key) else { return Ok(None) };
        self.touch(place);
        let Some(entry) = self.entries.get(place) else { return Ok(None) };
        let stale = entry.end <= now;
        match &entry.content {
            Content::Value(value) => {
                Ok(Some(Found { value: value.clone(), flags: entry.flags, stale }))
            }
            Content::List(_) if stale => Ok(None),
            Content::List(_) => Err(Refusal::NotAValue),
        }
    }

    pub(super) fn set(
        &mut self,
        key: &[u8],
        (value, flags): (Value, u32),
        (when, room): (When, Room),
        (end, now): (Nanos, Nanos),
    ) -> Result<Kept, Refusal> {
        match (when, self.live(key, now)) {
            (When::Absent, Some(_)) => return Err(Refusal::Exists),
            (When::Present, None) => return Err(Refusal::NotFound),
            _ => {}
        }
        let bytes = OVERHEAD + key.len() + size(&value);
        if room == Room::Refuse && bytes > self.budget {
            return Err(Refusal::NoMemory);
        }
        // What the key had is gone even if the new value does not fit: an old one must not be taken for it.
        if let Some(place) = self.place(key) {
            self.take(place);
        }
        let kept = self.make_room(bytes, (room, None), now)?;
        self.insert(key, (Content::Value(value), flags), (bytes, end));
        Ok(kept)
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        if let Some(place) = self.place(key) {
            self.take(place);
        }
    }

    pub(super) fn add(
        &mut self,
        key: &[u8],
        (by, first): (f64, Option<f64>),
        (end, now): (Nanos, Nanos),
    ) -> Result<(f64, Kept), Refusal> {
        if let Some(place) = self.live(key, now) {
            self.touch(place);
            let content = self.entries.get_mut(place).map(|it| &mut it.content);
            return match content {
                Some(Content::Value(Value::Number(number))) => {
                    *number += by;
                    Ok((*number, Kept::Freely))
                }
                _ => Err(Refusal::NotANumber),
            };
        }
        let sum = first.ok_or(Refusal::NotFound)? + by;
        let value = (Value::Number(sum), 0);
        let kept = self.set(key, value, (When::Always, Room::Evict), (end, now))?;
        Ok((sum, kept))
    }

    pub(super) fn push(
        &mut self,
        key: &[u8],
        (value, to): (Value, End),
        now: Nanos,
    ) -> Result<usize, Refusal> {
        let bytes = ELEMENT + size(&value);
        let Some(place) = self.live(key, now) else {
            self.delete(key);
            let bytes = OVERHEAD + key.len() + bytes;
            self.make_room(bytes, (Room::Evict, None), now)?;
            let list = Content::List(VecDeque::from([value]));
            self.insert(key, (list, 0), (bytes, Nanos::MAX));
            return Ok(1);
        };
        self.touch(place);
        if !self.entries.get(place).is_some_and(|it| matches!(it.content, Content::List(_))) {
            return Err(Refusal::NotAList);
        }
        self.make_room(bytes, (Room::Evict, Some(place)), now)?;
        self.used += bytes;
        match self.entries.get_mut(place) {
            Some(Entry { content: Content::List(list), bytes: all, .. }) => {
                *all += bytes;
                match to {
                    End::Left => list.push_front(value),
                    End::Right => list.push_back(value),
                }
                Ok(list.len())
            }
            _ => Err(Refusal::NotAList),
        }
    }

    pub(super) fn pop(
        &mut self,
        key: &[u8],
        from: End,
        now: Nanos,
    ) -> Result<Option<Value>, Refusal> {
        let Some(place) = self.live(key, now) else { return Ok(None) };
        self.touch(place);
        let Some(Entry { content: Content::List(list), bytes, .. }) = self.entries.get_mut(place)
        else {
            return Err(Refusal::NotAList);
        };
        let value = match from {
            End::Left => list.pop_front(),
            End::Right => list.pop_back(),
        };
        let gone = value.as_ref().map_or(0, |value| ELEMENT + size(value));
        *bytes -= gone;
        self.used -= gone;
        if list.is_empty() {
            self.take(place);
        }
        Ok(value)
    }

    pub(super) fn length(&self, key: &[u8], now: Nanos) -> Result<usize, Refusal> {
        let Some(place) = self.live(key, now) else { return Ok(0) };
        match self.entries.get(place).map(|it| &it.content) {
            Some(Content::List(list)) => Ok(list.len()),
            _ => Err(Refusal::NotAList),
        }
    }

    pub(super) fn life(&self, key: &[u8], now: Nanos) -> Option<Life> {
        let end = self.entries.get(self.live(key, now)?)?.end;
        Some(match end {
            Nanos::MAX => Life::Unlimited,
            end => Life::For(Duration::from_nanos(end - now)),
        })
    }

    pub(super) fn prolong(&mut self, key: &[u8], (end, now): (Nanos, Nanos)) -> bool {
        match self.live(key, now).and_then(|place| self.entries.get_mut(place)) {
            Some(entry) => {
                entry.end = end;
                true
            }
            None => false,
        }
    }

    pub(super) fn expire_all(&mut self, now: Nanos) {
        self.entries.iter_mut().for_each(|(_, entry)| entry.end = entry.end.min(now));
    }

    pub(super) fn sweep(&mut self, most: usize, now: Nanos) -> usize {
        let over = self.entries.iter().filter(|(_, entry)| entry.end <= now);
        let over: Vec<usize> = over.map(|(place, _)| place).take(most).collect();
        over.iter().for_each(|&place| self.take(place));
        over.len()
    }

    pub(super) fn list(&self, keys: &mut Vec<Box<[u8]>>, most: usize, now: Nanos) {
        let mut next = self.newest;
        while let Some(entry) = next.and_then(|place| self.entries.get(place))
            && keys.len() < most
        {
            if entry.end > now {
                keys.push((*entry.key).into());
            }
            next = entry.older;
        }
    }
}
