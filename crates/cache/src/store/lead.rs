//! The duty to bring an answer that others may wait for.

use std::sync::Arc;
use std::task::Waker;

use super::Store;
use crate::content::Content;
use crate::entry::{About, Entry};
use crate::filling::{Filling, Outcome};

/// Room is taken in steps of this many bytes where nobody knows how much will come.
const STEP: usize = 64 * 1024;

/// The duty to bring an answer. Whoever drops it has failed, and those who wait are told.
#[derive(Debug)]
pub(crate) struct Lead {
    store: Arc<Store>,
    filling: Arc<Filling>,
    /// Content so far.
    bytes: Vec<u8>,
    /// Bytes of the budget that it has.
    reserved: usize,
    /// The most that content may be.
    limit: usize,
}

/// The answer is too large for what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Lead {
    pub(super) const fn new(store: Arc<Store>, filling: Arc<Filling>) -> Self {
        Self { store, filling, bytes: Vec::new(), reserved: 0, limit: 0 }
    }

    /// Content comes, up to `limit` bytes of it; so much if that is known.
    pub(crate) fn begin(&mut self, length: Option<usize>, limit: usize) -> Result<(), Full> {
        self.limit = limit;
        let Some(length) = length else { return Ok(()) };
        if length > limit || !self.store.reserve(length) {
            return Err(Full);
        }
        self.reserved = length;
        self.bytes.reserve_exact(length);
        Ok(())
    }

    /// More content.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), Full> {
        let wanted = self.bytes.len().saturating_add(piece.len());
        if wanted > self.limit {
            return Err(Full);
        }
        if wanted > self.reserved {
            let more = (wanted - self.reserved).max(STEP);
            if !self.store.reserve(more) {
                return Err(Full);
            }
            self.reserved += more;
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Whether somebody waits for it; the waker is woken when somebody begins to.
    pub(crate) fn is_awaited(&self, waker: &Waker) -> bool {
        self.filling.is_awaited(waker)
    }

    /// All content is there.
    pub(crate) fn finish(mut self, about: About) -> Arc<Entry> {
        let body = Content::from(std::mem::take(&mut self.bytes));
        let identity = self.filling.identity.clone();
        self.deliver(Entry::new(identity, about, body))
    }

    /// An answer is there whose content was known before.
    pub(crate) fn deliver(mut self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        self.store.release(std::mem::take(&mut self.reserved));
        if self.filling.is_void() {
            entry.leave();
        } else {
            if !self.store.put(&entry) {
                entry.leave();
            }
            self.store.save(&entry);
        }
        self.end(Outcome::Whole(Arc::clone(&entry)));
        entry
    }

    /// It was on the disk.
    pub(crate) fn recall(mut self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        if self.filling.is_void() || !self.store.put(&entry) {
            entry.leave();
        }
        self.end(Outcome::Recalled(Arc::clone(&entry)));
        entry
    }

    /// The answer is for nobody but who asked; for so long others need not wait to hear this.
    pub(crate) fn decline(mut self, until: u64, now: u64) {
        self.store.set_unshared(self.filling.identity.hash, until, now);
        self.end(Outcome::Unshared);
    }

    /// Those who wait ask for themselves, and so do others for so long: nobody may have it without asking.
    pub(crate) fn dismiss(&self, until: u64, now: u64) {
        self.store.set_unshared(self.filling.identity.hash, until, now);
        self.filling.end(Outcome::Unshared);
    }

    /// The origin failed with this status, for all who wait.
    pub(crate) fn fail(mut self, status: u16) {
        self.end(Outcome::Failed(status));
    }

    /// Those who wait ask for themselves, or get what there is.
    pub(crate) fn withdraw(mut self) {
        self.end(Outcome::Unshared);
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(mut shard) = self.store.shard(self.filling.identity.hash) {
            shard.end(&self.filling);
        }
        self.filling.end(outcome);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.store.release(self.reserved);
        // After another outcome this is nothing new.
        self.end(Outcome::Broken);
    }
}
