//! What each worker has at hand: room to write keys, and the entries it gave last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sluice_message::Fields;

use crate::entry::Entry;

/// Entries at hand; a power of two.
const NEAR: usize = 1024;

/// The desks of all workers. None waits for another one's lock.
#[derive(Debug)]
pub(crate) struct Desks(Box<[Mutex<Desk>]>);

#[derive(Debug)]
pub(crate) struct Desk {
    /// The key of the request at hand.
    pub(crate) key: Vec<u8>,
    near: Box<[Near]>,
}

/// An entry at hand. It does not keep what was given up from going.
#[derive(Clone, Debug, Default)]
struct Near {
    hash: u64,
    entry: Weak<Entry>,
}

impl Desks {
    pub(crate) fn new(workers: usize) -> Self {
        let desk = || {
            Mutex::new(Desk {
                key: Vec::new(),
                near: vec![Near::default(); NEAR].into_boxed_slice(),
            })
        };
        Self((0..workers.max(1)).map(|_| desk()).collect())
    }

    /// The desk of a worker.
    #[inline]
    pub(crate) fn of(&self, worker: usize) -> Option<MutexGuard<'_, Desk>> {
        let desk = self.0.get(worker).or_else(|| self.0.first())?;
        Some(desk.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Desk {
    /// The entry at hand for a URL of this hash and what else is part of the key.
    #[inline]
    pub(crate) fn find(&self, hash: u64, url: usize, request: &Fields) -> Option<Arc<Entry>> {
        let near = self.near.get(place(hash))?;
        if near.hash != hash {
            return None;
        }
        let entry = near.entry.upgrade()?;
        let (url, extra) = self.key.split_at_checked(url)?;
        let same = *entry.identity.url == *url && *entry.identity.extra == *extra;
        (same && entry.is_kept() && entry.is_for(request)).then_some(entry)
    }

    /// Has an entry at hand from now on.
    pub(crate) fn put(&mut self, entry: &Arc<Entry>) {
        let hash = entry.identity.hash;
        if let Some(near) = self.near.get_mut(place(hash)) {
            *near = Near { hash, entry: Arc::downgrade(entry) };
        }
    }
}

#[inline]
fn place(hash: u64) -> usize {
    usize::try_from(hash).unwrap_or(0) & (NEAR - 1)
}
