//! Answers are written to the disk, by threads that may wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluice_filter::SharedBytes;

use super::form::{Front, Head, KEPT, SPOILED, Sized, born_ms, sum};
use super::index::{Slip, locked};
use super::place::Place;
use super::trouble::Trouble;
use super::{Disk, Tier, blocks};
use crate::content::Content;
use crate::entry::Entry;
use crate::fifo::Queued;

/// Bytes that may wait to be written; what comes then is not kept on the disk.
const WAITING: usize = 64 * 1024 * 1024;
/// What is on its way to its name.
pub(super) const DRAFT: &str = ".new";

/// An answer that is to be written. Dropped without that, it is forgotten.
struct Saving {
    disk: Arc<Disk>,
    slip: Arc<Slip>,
    front: Front,
    content: SharedBytes,
}

impl Tier {
    /// Has an answer written that came whole. `now` and `unix_ms` are the two clocks.
    pub(crate) fn save(&self, entry: &Entry, (now, unix_ms): (u64, u64)) {
        let content = match &entry.body {
            Content::Memory(content) => content,
            Content::File(_) | Content::Coming(_) => return,
        };
        let disk = &self.disk;
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        if length > self.entry_limit || !disk.is_written_to(now) {
            return;
        }
        let before = disk.queued.fetch_add(weight(content), Ordering::Relaxed);
        let came = born_ms(entry.about.born, now, unix_ms);
        let front = Front::new(&self.zone, &entry.identity, (&entry.about, came));
        let slip = Arc::new(Slip::new(
            entry.identity.clone(),
            Arc::clone(&self.zone),
            (entry.about.vary.clone(), entry.about.tags.clone()),
            (disk.next_number(), blocks(front.room().saturating_add(length))),
        ));
        locked(&disk.pending).insert(slip.number, Arc::clone(&slip));
        let disk = Arc::clone(disk);
        let saving = Saving { disk, slip, front, content: content.clone() };
        if before > WAITING {
            return saving.disk.is_busy();
        }
        self.disk.elsewhere(move |_| saving.run());
    }

    /// Has the head of an answer written anew that its origin has confirmed. Its content stays.
    pub(crate) fn confirm(&self, entry: &Entry, (now, unix_ms): (u64, u64)) {
        let Some(slip) = self.same(&entry.identity, entry) else {
            return self.save(entry, (now, unix_ms));
        };
        let spoiled = slip.is_spoiled();
        slip.restore();
        let content = entry.body.clone();
        let came = born_ms(entry.about.born, now, unix_ms);
        let front = Front::new(&self.zone, &entry.identity, (&entry.about, came));
        self.disk.elsewhere(move |disk| {
            let guard = disk.place();
            let Some(place) = &*guard else { return };
            match rewrite(&slip, (front, &content), &**place) {
                Ok(true) => {}
                // It was about another one than the one that was confirmed.
                Ok(false) if spoiled => slip.spoil(),
                Ok(false) => {}
                Err(error) => disk.fail(&error),
            }
        });
    }
}

impl Disk {
    /// Whether anything is written at this time.
    pub(super) fn is_written_to(&self, now: u64) -> bool {
        !self.awaiting.load(Ordering::Relaxed) && now >= self.paused_until.load(Ordering::Relaxed)
    }

    fn is_busy(&self) {
        self.troubles.count(Trouble::Busy, || {
            let path = self.path.display();
            format!("cache folder {path}: it is too slow: some answers are not written to it")
        });
    }

    /// A file is whole: it gets its name, and is found from now on, unless it was purged meanwhile. Yields
    /// whether it is.
    pub(super) fn publish(
        self: &Arc<Self>,
        slip: &Arc<Slip>,
        mark: u8,
        place: &dyn Place,
    ) -> io::Result<bool> {
        let name = slip.number.to_string();
        place.rename(&format!("{name}{DRAFT}"), &name)?;
        slip.verify();
        // Purges wait meanwhile: they find it here or there.
        let mut pending = locked(&self.pending);
        if !slip.is_kept() {
            drop(pending);
            place.remove(&name)?;
            return Ok(false);
        }
        let left = self.index.insert(slip);
        pending.remove(&slip.number);
        drop(pending);
        for one in &left {
            self.take_off(&one.number.to_string(), one.bytes, place);
        }
        if mark == KEPT {
            self.mark_one(slip, place);
        }
        Ok(true)
    }
}

impl Saving {
    fn run(self) {
        let disk = Arc::clone(&self.disk);
        let guard = disk.place();
        let Some(place) = &*guard else { return };
        let bytes = self.slip.bytes;
        if !self.slip.is_kept() || !disk.reserve(bytes, &**place) {
            return;
        }
        match self.write(&**place) {
            Ok(true) => disk.succeed(),
            Ok(false) => self.undo(&**place),
            Err(error) => {
                self.undo(&**place);
                disk.fail(&error);
            }
        }
    }

    fn write(&self, place: &dyn Place) -> io::Result<bool> {
        let length = u64::try_from(self.content.len()).unwrap_or(u64::MAX);
        let content = Sized { length, sum: sum(&self.content) };
        let mark = if self.slip.is_spoiled() { SPOILED } else { KEPT };
        let room = self.front.room();
        let Some(front) = self.front.clone().bytes(content, mark, room) else { return Ok(false) };
        let file = place.create(&format!("{}{DRAFT}", self.slip.number))?;
        place.write(&file, &front, 0)?;
        place.write(&file, &self.content, room)?;
        self.disk.publish(&self.slip, mark, place)
    }

    fn undo(&self, place: &dyn Place) {
        // If even that fails, the file is taken out at the next start.
        let _ = place.remove(&format!("{}{DRAFT}", self.slip.number));
        self.disk.release(self.slip.bytes);
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        self.disk.queued.fetch_sub(weight(&self.content), Ordering::Relaxed);
        locked(&self.disk.pending).remove(&self.slip.number);
    }
}

/// Writes a head anew in the room there is. One that does not fit stays as it was: the answer is only confirmed
/// once more after a restart. One that was written half, because the power failed, is found out by its checksum.
/// Yields whether the file has this content.
fn rewrite(
    slip: &Slip,
    (front, content): (Front, &Content),
    place: &dyn Place,
) -> io::Result<bool> {
    let held = locked(&slip.head);
    let Ok(file) = place.reopen(&slip.number.to_string()) else { return Ok(false) };
    let Ok(before) = Head::read(&file) else { return Ok(false) };
    let same = match content {
        Content::Memory(bytes) => content
            .length()
            .is_some_and(|length| before.content == Sized { length, sum: sum(bytes) }),
        Content::File(part) => part.file.looks()?.identity == file.looks()?.identity,
        Content::Coming(_) => false,
    };
    if !same {
        return Ok(false);
    }
    let mark = if slip.is_spoiled() { SPOILED } else { KEPT };
    if let Some(bytes) = front.bytes(before.content, mark, before.at) {
        place.write(&file, &bytes, 0)?;
    }
    drop(held);
    Ok(true)
}

/// What content counts for among what waits to be written, with what is around it.
fn weight(content: &[u8]) -> usize {
    content.len() + 4096
}
