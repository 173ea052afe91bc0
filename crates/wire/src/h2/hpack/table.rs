//! The dynamic table (RFC 7541, 2.3.2 and 4): entries in one run of bytes, oldest first.
//!
//! New entries are appended behind the others, so that each stays in one piece. When as many bytes are
//! dead as the table may hold, the living are moved to the front: at most one copy more per byte.

use std::collections::VecDeque;

use super::line::{OVERHEAD, PUNCTUATION};

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    /// Bytes appended before this one, since the table began; wraps.
    start: u32,
    length: u32,
    name: u32,
    tag: T,
}

/// Lines `name: value CRLF`, each with a tag.
#[derive(Debug)]
pub(super) struct Table<T> {
    bytes: Vec<u8>,
    /// Bytes dropped from the front of `bytes`; wraps.
    dropped: u32,
    entries: VecDeque<Entry<T>>,
    /// As RFC 7541, 4.1 counts.
    size: usize,
    max: usize,
    /// Changes so far.
    version: u64,
}

/// What an entry holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a, T> {
    pub(super) line: &'a [u8],
    /// Length of the name.
    pub(super) name: usize,
    pub(super) tag: T,
}

impl<T: Copy> Table<T> {
    pub(super) const fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), dropped: 0, entries: VecDeque::new(), size: 0, max, version: 0 }
    }

    #[inline]
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Makes the version another one.
    pub(super) const fn change(&mut self) {
        self.version += 1;
    }

    pub(super) const fn max(&self) -> usize {
        self.max
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// Changes the largest size; what does not fit any more is evicted (RFC 7541, 4.3).
    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.change();
        self.evict(max);
    }

    /// The entry that `back` others came after.
    #[inline(always)]
    pub(super) fn get(&self, back: usize) -> Option<Found<'_, T>> {
        let entry = self.entries.get(self.entries.len().wrapping_sub(back + 1))?;
        let start = widen(entry.start.wrapping_sub(self.dropped));
        let line = self.bytes.get(start..start + widen(entry.length))?;
        Some(Found { line, name: widen(entry.name), tag: entry.tag })
    }

    /// Adds a line, evicting what has to make room; says whether it was kept. One larger than the
    /// table empties it, which is no error (RFC 7541, 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], tag: T) -> bool {
        let size = name.len() + value.len() + OVERHEAD;
        self.change();
        let Some(left) = self.max.checked_sub(size) else {
            self.evict(0);
            return false;
        };
        self.evict(left);
        self.compact();
        let start = self.bytes.len();
        self.bytes.reserve(name.len() + value.len() + PUNCTUATION);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self.entries.push_back(Entry {
            start: narrow(start).wrapping_add(self.dropped),
            length: narrow(self.bytes.len() - start),
            name: narrow(name.len()),
            tag,
        });
        self.size += size;
        true
    }

    fn evict(&mut self, max: usize) {
        while self.size > max
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= widen(entry.length) - PUNCTUATION + OVERHEAD;
        }
    }

    /// Moves the living entries to the front if enough bytes before them are dead.
    fn compact(&mut self) {
        let end = narrow(self.bytes.len()).wrapping_add(self.dropped);
        let first = self.entries.front().map_or(end, |entry| entry.start);
        let dead = widen(first.wrapping_sub(self.dropped));
        if dead >= self.max.max(1) {
            self.bytes.drain(..dead.min(self.bytes.len()));
            self.dropped = first;
        }
    }
}

/// Offsets and lengths in a table are below twice the largest table size, far below 32 bits.
#[inline(always)]
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[inline(always)]
#[expect(clippy::as_conversions, reason = "u32 to usize never loses bits where we build for")]
const fn widen(value: u32) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_for_new_ones() {
        let mut table = Table::new(120);
        assert!(table.insert(b"name", b"value", 1));
        assert!(table.insert(b"a", b"b", 2));
        assert!(table.insert(b"c", b"d", 3));
        assert_eq!((table.len(), table.size()), (3, 41 + 34 + 34));
        assert!(table.insert(b"e", b"f", 4));
        let shown: Vec<_> =
            (0..4).map_while(|back| table.get(back)).map(|f| (f.line, f.name, f.tag)).collect();
        assert_eq!(shown, [(&b"e: f\r\n"[..], 1, 4), (b"c: d\r\n", 1, 3), (b"a: b\r\n", 1, 2)]);
        table.set_max(40);
        assert_eq!(table.len(), 1);
        assert!(!table.insert(b"longer", b"than forty", 5));
        assert_eq!((table.len(), table.size()), (0, 0));
        assert!(table.get(0).is_none());
    }

    #[test]
    fn memory_stays_bounded_and_entries_right() {
        let mut table = Table::new(512);
        for round in 0..10_000_u32 {
            let value = "v".repeat(usize::try_from(round % 90).unwrap());
            let name = round.to_string();
            assert!(table.insert(name.as_bytes(), value.as_bytes(), round));
            assert!(table.size() <= 512 && table.bytes.len() <= 1200);
            for back in 0..table.len() {
                let found = table.get(back).unwrap();
                assert_eq!(found.tag, round - u32::try_from(back).unwrap());
                assert_eq!(&found.line[..found.name], found.tag.to_string().as_bytes());
            }
        }
    }
}
