//! An answer too large for memory goes to the disk while it comes: pieces wait in a short queue, from which a thread
//! that may wait for the disk writes them one after the other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use sluice_net::disk::DiskFile;
use sluice_net::{Pool, offload_to};

use super::form::{Front, KEPT, SPOILED, Sized, Summing, born_ms};
use super::index::{Number, Slip, locked};
use super::place::Place;
use super::save::DRAFT;
use super::{Tier, blocks};
use crate::content::{Content, Part};
use crate::entry::{About, Identity};

/// Bytes that may wait to be written; whoever brings more waits.
const FULL: usize = 4 * 1024 * 1024;
/// When it goes on.
const EASED: usize = 1024 * 1024;
/// Pieces are joined up to this size.
const CHUNK: usize = 256 * 1024;
/// Room is taken in steps of so many bytes where nobody knows how much will come.
const STEP: u64 = 1024 * 1024;

/// What became of it: the content, or what could not be written. What was is in the file, as long as that is open.
pub(crate) type Ended = Result<Content, Unwritten>;
/// Told that.
type Ending = Box<dyn FnOnce(Ended) + Send>;
/// The end of the content, as it came.
pub(crate) type Unwritten = VecDeque<Vec<u8>>;
/// Whoever wants to know how far it is.
pub(crate) trait Watch: Send + Sync {
    /// So much is in the file.
    fn grew(&self, part: Part);
    /// Whether it was purged meanwhile.
    fn is_void(&self) -> bool;
}

/// An answer on its way to the disk. Dropped before its end, it is forgotten.
#[derive(Debug)]
pub(crate) struct Draft {
    work: Arc<Work>,
    ended: bool,
}

struct Work {
    tier: Tier,
    identity: Identity,
    about: Arc<About>,
    front: Front,
    number: Number,
    /// Bytes of content, if that is known.
    length: Option<u64>,
    watching: Arc<dyn Watch>,
    queue: Mutex<Queue>,
    written: Mutex<Written>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What is to be done.
#[derive(Default)]
struct Queue {
    chunks: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether somebody writes.
    busy: bool,
    /// Whether there is nothing more to be written, whatever comes.
    over: bool,
    ending: Option<Ending>,
    /// Who waits for room.
    waiting: Option<Waker>,
}

/// What is done. Only the one who writes looks at it.
struct Written {
    file: Option<Arc<DiskFile>>,
    /// Bytes of content.
    length: u64,
    reserved: u64,
    summing: Summing,
}

impl Tier {
    /// An answer comes that is too large for memory, of this length if that is known. `None` if it is too large
    /// for the disk as well, or nothing is written now. Whoever watches is told how much is in the file.
    pub(crate) fn draft(
        &self,
        (identity, about): (&Identity, &Arc<About>),
        length: Option<u64>,
        (now, unix_ms): (u64, u64),
        watching: Arc<dyn Watch>,
    ) -> Option<Draft> {
        let disk = &self.disk;
        if length.is_some_and(|length| length > self.entry_limit) || !disk.is_written_to(now) {
            return None;
        }
        let came = born_ms(about.born, now, unix_ms);
        let work = Work {
            front: Front::new(&self.zone, identity, (about, came)),
            number: disk.next_number(),
            tier: self.clone(),
            identity: identity.clone(),
            about: Arc::clone(about),
            length,
            watching,
            queue: Mutex::default(),
            written: Mutex::new(Written {
                file: None,
                length: 0,
                reserved: 0,
                summing: Summing::new(),
            }),
        };
        Some(Draft { work: Arc::new(work), ended: false })
    }
}

impl Draft {
    /// More content; whether it is still wanted.
    pub(crate) fn push(&self, piece: &[u8]) -> bool {
        let mut queue = locked(&self.work.queue);
        if queue.over {
            return false;
        }
        queue.bytes += piece.len();
        match queue.chunks.back_mut().filter(|last| last.len() + piece.len() <= CHUNK) {
            Some(last) => last.extend_from_slice(piece),
            None => queue.chunks.push_back(piece.to_vec()),
        }
        self.start(&mut queue);
        true
    }

    /// Whether more waits than may wait; the waker is woken when that is over.
    pub(crate) fn is_full(&self, waker: &Waker) -> bool {
        let mut queue = locked(&self.work.queue);
        let full = queue.bytes > FULL && !queue.over;
        if full {
            queue.waiting = Some(waker.clone());
        }
        full
    }

    /// What was not written before nothing more was.
    pub(crate) fn unwritten(self) -> Unwritten {
        std::mem::take(&mut locked(&self.work.queue).chunks)
    }

    /// All content was there. It is told when it is kept, or is not.
    pub(crate) fn finish(mut self, ending: impl FnOnce(Ended) + Send + 'static) {
        self.ended = true;
        let mut queue = locked(&self.work.queue);
        if queue.over {
            let unwritten = std::mem::take(&mut queue.chunks);
            drop(queue);
            return ending(Err(unwritten));
        }
        queue.ending = Some(Box::new(ending));
        self.start(&mut queue);
    }

    /// Has the queue emptied, unless somebody does.
    fn start(&self, queue: &mut Queue) {
        if !std::mem::replace(&mut queue.busy, true) {
            let turn = Turn(Some(Arc::clone(&self.work)));
            drop(offload_to(Pool::Disks, Box::new(move || turn.take())));
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.ended {
            let mut queue = locked(&self.work.queue);
            if !queue.over {
                queue.over = true;
                self.start(&mut queue);
            }
        }
    }
}

/// The duty to write. If too much waits for the disk already, it is dropped, and so is the draft.
struct Turn(Option<Arc<Work>>);

impl Turn {
    fn take(mut self) {
        if let Some(work) = self.0.take() {
            work.write();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work.give_up();
        }
    }
}

impl Work {
    /// Writes what there is.
    fn write(&self) {
        let disk = Arc::clone(&self.tier.disk);
        loop {
            let guard = disk.place();
            let Some(place) = &*guard else { return self.give_up() };
            let (mut chunks, ending) = {
                let mut queue = locked(&self.queue);
                if queue.over {
                    drop(queue);
                    return self.undo(&**place);
                }
                let chunks = std::mem::take(&mut queue.chunks);
                let ending = if chunks.is_empty() { queue.ending.take() } else { None };
                if chunks.is_empty() && ending.is_none() {
                    queue.busy = false;
                    return;
                }
                (chunks, ending)
            };
            if let Some(ending) = ending {
                let content = self.end(&**place);
                locked(&self.queue).over = true;
                drop(guard);
                return ending(content.ok_or_else(Unwritten::new));
            }
            while let Some(chunk) = chunks.pop_front() {
                if let Err(error) = self.append(&chunk, &**place) {
                    self.fail(error, &**place);
                    drop(guard);
                    chunks.push_front(chunk);
                    let mut queue = locked(&self.queue);
                    chunks.append(&mut queue.chunks);
                    queue.chunks = chunks;
                    drop(queue);
                    return self.give_up();
                }
                let mut queue = locked(&self.queue);
                queue.bytes -= chunk.len();
                if queue.bytes < EASED
                    && let Some(waker) = queue.waiting.take()
                {
                    waker.wake();
                }
            }
        }
    }

    /// Writes a piece; `Err(None)` if there is no room for it by the budget.
    fn append(&self, chunk: &[u8], place: &dyn Place) -> Result<(), Option<io::Error>> {
        let mut written = locked(&self.written);
        let room = self.front.room();
        let size = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let end = written.length.saturating_add(size);
        if end > self.length.unwrap_or(self.tier.entry_limit) {
            return Err(None);
        }
        let wanted = blocks(room.saturating_add(end));
        if wanted > written.reserved {
            let all = match self.length {
                Some(length) => blocks(room.saturating_add(length)),
                None => wanted.saturating_add(STEP),
            };
            let more = all - written.reserved;
            if !self.tier.disk.reserve(more, place) {
                return Err(None);
            }
            written.reserved = all;
        }
        let file = match &written.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = Arc::new(place.create(&format!("{}{DRAFT}", self.number))?);
                written.file = Some(Arc::clone(&file));
                file
            }
        };
        place.write(&file, chunk, room.saturating_add(written.length))?;
        written.length = end;
        written.summing.push(chunk);
        drop(written);
        self.watching.grew(Part { file, offset: room, length: end });
        Ok(())
    }

    /// All was written: it gets its head and its name. `None` if it is not kept.
    fn end(&self, place: &dyn Place) -> Option<Content> {
        match self.publish(place) {
            Ok(content) => {
                self.tier.disk.succeed();
                // What was purged meanwhile, or has another length than was said, leaves nothing behind.
                self.undo(place);
                content
            }
            Err(error) => {
                self.fail(Some(error), place);
                None
            }
        }
    }

    fn publish(&self, place: &dyn Place) -> io::Result<Option<Content>> {
        let mut written = locked(&self.written);
        let Some(file) = written.file.clone() else { return Ok(None) };
        if self.length.is_some_and(|length| length != written.length) {
            return Ok(None);
        }
        let disk = &self.tier.disk;
        let room = self.front.room();
        let bytes = blocks(room.saturating_add(written.length));
        disk.release(written.reserved.saturating_sub(bytes));
        written.reserved = bytes;
        let slip = Arc::new(Slip::new(
            self.identity.clone(),
            Arc::clone(&self.tier.zone),
            (self.about.vary.clone(), self.about.tags.clone()),
            (self.number, bytes),
        ));
        locked(&disk.pending).insert(self.number, Arc::clone(&slip));
        // Purges before this moment were told to the one who watches, those after it are told to the slip.
        if self.watching.is_void() {
            slip.leave();
        }
        let published = self.publish_as(&slip, (&file, &written), place);
        locked(&disk.pending).remove(&self.number);
        if published? {
            // It is the index that gives the bytes back from now on.
            (written.reserved, written.file) = (0, None);
        }
        // Those who follow it get all of it, whether it is kept or not.
        Ok(Some(Content::File(Part { file, offset: room, length: written.length })))
    }

    fn publish_as(
        &self,
        slip: &Arc<Slip>,
        (file, written): (&DiskFile, &Written),
        place: &dyn Place,
    ) -> io::Result<bool> {
        let mark = if slip.is_spoiled() { SPOILED } else { KEPT };
        let content = Sized { length: written.length, sum: written.summing.sum() };
        let front = self.front.clone();
        let room = front.room();
        let Some(front) = front.bytes(content, mark, room) else { return Ok(false) };
        place.write(file, &front, 0)?;
        self.tier.disk.publish(slip, mark, place)
    }

    fn fail(&self, error: Option<io::Error>, place: &dyn Place) {
        self.undo(place);
        if let Some(error) = error {
            self.tier.disk.fail(&error);
        }
    }

    /// Takes off what was written.
    fn undo(&self, place: &dyn Place) {
        let mut written = locked(&self.written);
        if written.file.take().is_some() {
            // If even that fails, the file is taken out at the next start.
            let _ = place.remove(&format!("{}{DRAFT}", self.number));
        }
        self.tier.disk.release(std::mem::take(&mut written.reserved));
    }

    /// Nothing more comes of it; whoever wants to know is told. What is left of it is taken off later.
    fn give_up(&self) {
        let mut written = locked(&self.written);
        let bytes = std::mem::take(&mut written.reserved);
        if written.file.take().is_some() || bytes > 0 {
            let draft = format!("{}{DRAFT}", self.number);
            locked(&self.tier.disk.doomed).push((draft, bytes));
        }
        drop(written);
        let mut queue = locked(&self.queue);
        queue.over = true;
        queue.bytes = 0;
        let waiting = queue.waiting.take();
        let ending = queue.ending.take().map(|ending| (ending, std::mem::take(&mut queue.chunks)));
        drop(queue);
        waiting.into_iter().for_each(Waker::wake);
        if let Some((ending, unwritten)) = ending {
            ending(Err(unwritten));
        }
    }
}
