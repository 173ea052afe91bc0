//! The duty to bring an answer that others may wait for.

use std::sync::Arc;
use std::task::Waker;

use sluice_net::{now, unix_ms};

use super::Store;
use crate::content::Content;
use crate::disk::{Draft, Unwritten, Watch};
use crate::entry::{About, Entry};
use crate::filling::{Filling, Outcome};

/// Room is taken in steps of this many bytes where nobody knows how much will come.
const STEP: usize = 64 * 1024;
/// What the disk does not take any more passes through so much memory.
const WINDOW: usize = 1024 * 1024;
/// So much comes at once; there has to be room for it.
const SHARE: usize = 16 * 1024;

/// The duty to bring an answer. Whoever drops it has failed, and those who wait are told.
#[derive(Debug)]
pub(crate) struct Lead {
    store: Arc<Store>,
    filling: Arc<Filling>,
    /// What is known of the answer, once it has begun.
    about: Option<Arc<About>>,
    /// Where its content goes that is too large for memory.
    draft: Option<Draft>,
    /// Whether it is not kept, and passed on to those who follow.
    passing: bool,
    /// Bytes of the budget that it has.
    reserved: usize,
    /// The most that content in memory may be.
    limit: usize,
}

/// Bytes of the budget that those have who follow on.
#[derive(Debug)]
struct Reserved {
    store: Arc<Store>,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.store.release(self.bytes);
    }
}

/// The answer is too large for what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Lead {
    pub(super) const fn new(store: Arc<Store>, filling: Arc<Filling>) -> Self {
        Self { store, filling, about: None, draft: None, passing: false, reserved: 0, limit: 0 }
    }

    /// Content comes, up to `limit` bytes of it in memory; so much if that is known.
    pub(crate) fn begin(
        &mut self,
        about: About,
        length: Option<u64>,
        limit: usize,
    ) -> Result<(), Full> {
        self.limit = limit;
        let about = self.about.insert(Arc::new(about));
        let fresh = about.terms.lifetime > about.terms.age;
        if let Some(length) = length {
            let small = usize::try_from(length).ok().filter(|length| *length <= limit);
            match small.filter(|bytes| self.store.reserve(*bytes)) {
                Some(bytes) => {
                    self.reserved = bytes;
                    self.filling.expect(bytes);
                }
                None => self.draft = Some(self.draft(Some(length)).ok_or(Full)?),
            }
        }
        if fresh && let Some(about) = &self.about {
            self.filling.open(about, length);
        }
        Ok(())
    }

    /// A place on the disk for content of this length, if there is one.
    fn draft(&self, length: Option<u64>) -> Option<Draft> {
        let what = (&self.filling.identity, self.about.as_ref()?);
        let watching: Arc<dyn Watch> = Arc::<Filling>::clone(&self.filling);
        self.store.tier()?.draft(what, length, (now(), unix_ms()), watching)
    }

    /// What is known of the answer, once it has begun.
    pub(crate) fn about(&self) -> Option<&About> {
        self.about.as_deref()
    }

    /// More content.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), Full> {
        if self.passing {
            return self.pass_on(piece);
        }
        if let Some(draft) = &self.draft {
            return if draft.push(piece) { Ok(()) } else { self.leave_disk(piece) };
        }
        let wanted = self.filling.total().saturating_add(piece.len());
        if wanted > self.limit || !self.make_room(wanted) {
            return self.spill(piece);
        }
        self.filling.push(piece);
        Ok(())
    }

    fn make_room(&mut self, wanted: usize) -> bool {
        if wanted <= self.reserved {
            return true;
        }
        let more = (wanted - self.reserved).max(STEP);
        let room = self.store.reserve(more);
        self.reserved += if room { more } else { 0 };
        room
    }

    /// What was gathered in memory goes to the disk, and so does the rest. Without a disk, it goes to those who have
    /// begun with it and nowhere else.
    fn spill(&mut self, piece: &[u8]) -> Result<(), Full> {
        let Some(draft) = self.draft(None) else { return self.let_pass(piece) };
        let gathered = self.filling.take();
        let wanted = draft.push(&gathered) && draft.push(piece);
        self.draft = Some(draft);
        self.store.release(std::mem::take(&mut self.reserved));
        if wanted { Ok(()) } else { Err(Full) }
    }

    /// The disk takes no more.
    fn leave_disk(&mut self, piece: &[u8]) -> Result<(), Full> {
        let unwritten = self.draft.take().map(Draft::unwritten).unwrap_or_default();
        self.hand_over(unwritten)?;
        self.pass_on(piece)
    }

    /// What the disk has not taken goes to those who have begun with it, and so does the rest.
    fn hand_over(&mut self, unwritten: Unwritten) -> Result<(), Full> {
        let bytes = unwritten.iter().map(Vec::len).sum::<usize>();
        if !self.make_room(bytes.max(WINDOW)) && !self.make_room(bytes) {
            return Err(Full);
        }
        self.filling.leave_file();
        unwritten.iter().for_each(|chunk| self.filling.push(chunk));
        self.let_pass(&[])
    }

    /// It is not kept: those who have begun with it get the rest as it comes.
    fn let_pass(&mut self, piece: &[u8]) -> Result<(), Full> {
        if !self.filling.let_pass() {
            return Err(Full);
        }
        self.passing = true;
        self.leave_shard();
        self.pass_on(piece)
    }

    /// More content of what is not kept. The budget is not exceeded for those who are behind.
    fn pass_on(&mut self, piece: &[u8]) -> Result<(), Full> {
        let held = self.filling.trim().ok_or(Full)?;
        if !self.make_room(held.saturating_add(piece.len())) {
            self.filling.shrink_to(self.reserved.checked_sub(piece.len()).ok_or(Full)?);
        }
        self.filling.push(piece);
        Ok(())
    }

    /// Whether somebody waits for it; the waker is woken when somebody begins to.
    pub(crate) fn is_awaited(&self, waker: &Waker) -> bool {
        self.filling.is_awaited(waker)
    }

    /// Whether more waits to be written than may wait; the waker is woken when that is over.
    pub(crate) fn is_full(&self, waker: &Waker) -> bool {
        if self.passing {
            return self.filling.is_full(self.reserved.saturating_sub(SHARE), waker);
        }
        self.draft.as_ref().is_some_and(|draft| draft.is_full(waker))
    }

    /// All content is there.
    pub(crate) fn finish(mut self) {
        if self.passing {
            let bytes = std::mem::take(&mut self.reserved);
            let room = Reserved { store: Arc::clone(&self.store), bytes };
            return self.filling.end_passing(Box::new(room));
        }
        let Some(about) = self.about.take().map(Arc::unwrap_or_clone) else { return };
        let identity = self.filling.identity.clone();
        let Some(draft) = self.draft.take() else {
            let content = Content::from(self.filling.take());
            let (store, void) = (Arc::clone(&self.store), self.filling.is_void());
            let entry = self.put(Entry::new(identity, about, content), Outcome::Whole);
            if !void {
                store.save(&entry);
            }
            return;
        };
        draft.finish(move |ended| match ended {
            // It is on the disk already.
            Ok(content) => drop(self.put(Entry::new(identity, about, content), Outcome::Whole)),
            Err(unwritten) => {
                if self.hand_over(unwritten).is_ok() {
                    self.finish();
                }
            }
        });
    }

    /// All content is there, and is for those alone who wait or follow now.
    pub(crate) fn finish_unkept(self) {
        self.filling.spoil();
        self.finish();
    }

    /// An answer is there whose content was known before.
    pub(crate) fn deliver(self, entry: Entry) -> Arc<Entry> {
        let (store, void) = (Arc::clone(&self.store), self.filling.is_void());
        let entry = self.put(entry, Outcome::Whole);
        if !void {
            store.confirm(&entry);
        }
        entry
    }

    /// It was on the disk.
    pub(crate) fn recall(self, entry: Entry) -> Arc<Entry> {
        self.put(entry, Outcome::Recalled)
    }

    /// Keeps it in memory if there is room, and tells those who wait.
    fn put(mut self, entry: Entry, outcome: fn(Arc<Entry>) -> Outcome) -> Arc<Entry> {
        let entry = Arc::new(entry);
        self.store.release(std::mem::take(&mut self.reserved));
        if self.filling.is_void() || !self.store.put(&entry) {
            entry.leave();
        }
        self.end(outcome(Arc::clone(&entry)));
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
        self.leave_shard();
        self.filling.end(outcome);
    }

    /// Nobody finds it any more.
    fn leave_shard(&self) {
        if let Some(mut shard) = self.store.shard(self.filling.identity.hash) {
            shard.end(&self.filling);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.store.release(self.reserved);
        // After another outcome this is nothing new.
        self.end(Outcome::Broken);
    }
}
