//! What was compressed once, for whoever asks for it again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_filter::SharedBytes;

/// Parts that do not wait for each other.
const SHARDS: usize = 8;

/// Bytes that an entry takes beside its content.
const OVERHEAD: usize = 256;

/// What content is found by: bits of keyed hashes, which nobody outside can predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Print(pub(super) u64, pub(super) u32);

/// Compressed content within a budget of bytes, which is exact.
pub(super) struct Store {
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes that each shard may keep.
    share: usize,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Print, Entry>,
    /// The order in which entries are looked at when room is needed.
    order: VecDeque<Print>,
    /// What is being compressed now.
    begun: HashSet<Print>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    /// The content it was made of, if that is what it is found by: prints alone may be equal.
    plain: Option<SharedBytes>,
    coded: SharedBytes,
    bytes: usize,
    /// Whether it was of use since it was looked at last.
    used: bool,
}

impl Store {
    /// With room for so many bytes.
    pub(super) fn new(budget: usize) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), share: budget / SHARDS }
    }

    /// The largest content that is kept.
    pub(super) const fn largest(&self) -> usize {
        self.share / 2
    }

    fn shard(&self, print: Print) -> MutexGuard<'_, Shard> {
        let place = usize::try_from(print.0 % 8).unwrap_or(0);
        let shard = self.shards.get(place).unwrap_or(&self.shards[0]);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was made of this content, if it was; of that of an origin, `plain` is not known.
    pub(super) fn find(&self, print: Print, plain: Option<&[u8]>) -> Option<SharedBytes> {
        let mut shard = self.shard(print);
        let entry = shard.entries.get_mut(&print)?;
        let same = match (&entry.plain, plain) {
            (None, None) => true,
            // Shared by the same answers, it is the same place in memory: that is seen at once.
            (Some(known), Some(plain)) => {
                std::ptr::eq(&raw const **known, plain) || **known == *plain
            }
            _ => false,
        };
        if !same {
            return None;
        }
        entry.used = true;
        Some(entry.coded.clone())
    }

    /// Whoever gets this makes what is kept; `None` while somebody else does.
    pub(super) fn begin(self: &Arc<Self>, print: Print) -> Option<Filling> {
        let begun = self.shard(print).begun.insert(print);
        begun.then(|| Filling { store: Arc::clone(self), print })
    }

    fn put(&self, print: Print, plain: Option<SharedBytes>, coded: SharedBytes) {
        let bytes = coded.len() + plain.as_ref().map_or(0, |plain| plain.len()) + OVERHEAD;
        if bytes > self.share {
            return;
        }
        let mut shard = self.shard(print);
        shard.remove(print);
        shard.make_room(self.share - bytes);
        shard.bytes += bytes;
        shard.order.push_back(print);
        shard.entries.insert(print, Entry { plain, coded, bytes, used: false });
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().bytes).sum()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("share", &self.share).finish_non_exhaustive()
    }
}

impl Shard {
    fn remove(&mut self, print: Print) {
        if let Some(old) = self.entries.remove(&print) {
            self.bytes -= old.bytes;
            self.order.retain(|known| *known != print);
        }
    }

    /// Drops what was not used lately until no more than `most` bytes are kept.
    fn make_room(&mut self, most: usize) {
        while self.bytes > most
            && let Some(print) = self.order.pop_front()
        {
            match self.entries.get_mut(&print) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.order.push_back(print);
                }
                _ => self.bytes -= self.entries.remove(&print).map_or(0, |entry| entry.bytes),
            }
        }
    }
}

/// Something that is being compressed, to be kept. Dropped before, it may be begun by somebody else.
#[derive(Debug)]
pub(super) struct Filling {
    store: Arc<Store>,
    print: Print,
}

impl Filling {
    /// It is done.
    pub(super) fn put(self, plain: Option<SharedBytes>, coded: SharedBytes) {
        self.store.put(self.print, plain, coded);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.store.shard(self.print).begun.remove(&self.print);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: usize) -> SharedBytes {
        vec![b'x'; length].into()
    }

    #[test]
    fn one_makes_it_and_all_have_it() {
        let store = Arc::new(Store::new(1 << 20));
        let print = Print(1, 2);
        let filling = store.begin(print).unwrap();
        assert!(store.begin(print).is_none() && store.find(print, None).is_none());
        drop(filling);
        // It broke off: the next one tries.
        store.begin(print).unwrap().put(None, bytes(10));
        assert_eq!(store.find(print, None).unwrap().len(), 10);
        assert!(store.begin(print).is_some(), "it may have to be made anew");
        assert!(store.find(Print(1, 3), None).is_none());
    }

    #[test]
    fn content_is_compared_and_not_only_its_print() {
        let store = Arc::new(Store::new(1 << 20));
        let (print, plain) = (Print(1, 2), SharedBytes::from(b"plain".to_vec()));
        store.begin(print).unwrap().put(Some(plain.clone()), bytes(10));
        assert!(store.find(print, Some(&plain)).is_some());
        assert!(store.find(print, Some(b"plain")).is_some());
        assert!(store.find(print, Some(b"pla1n")).is_none());
        assert!(store.find(print, None).is_none());
        store.begin(print).unwrap().put(None, bytes(10));
        assert!(store.find(print, Some(b"plain")).is_none());
    }

    #[test]
    fn the_budget_is_exact_and_what_is_used_stays() {
        // All in one shard.
        let store = Arc::new(Store::new(SHARDS * 10 * (1000 + OVERHEAD)));
        let print = |number: u64| Print(number * 8, 0);
        for number in 0..100 {
            store.begin(print(number)).unwrap().put(None, bytes(1000));
            // Another one each time, so that the first is looked at between.
            assert!(number < 5 || store.find(print(3), None).is_some(), "{number}");
            store.find(print(3), None);
            assert!(store.bytes() <= 10 * (1000 + OVERHEAD));
        }
        let kept = (0..100).filter(|number| store.find(print(*number), None).is_some()).count();
        assert_eq!((kept, store.bytes()), (10, 10 * (1000 + OVERHEAD)));
        // The same again takes no more room, and what does not fit at all takes none.
        store.begin(print(3)).unwrap().put(None, bytes(500));
        assert_eq!(store.bytes(), 10 * (1000 + OVERHEAD) - 500);
        store.begin(print(200)).unwrap().put(None, bytes(1 << 20));
        assert!(store.find(print(200), None).is_none());
        assert_eq!(store.bytes(), 10 * (1000 + OVERHEAD) - 500);
    }
}
