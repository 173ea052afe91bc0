//! Answers come back from the disk, once they were found to be what was written.

use std::future::Future;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use sluice_net::disk::DiskFile;
use sluice_net::{Pool, offload_to};

use super::form::{Damage, Head, Summing, sum};
use super::index::{Slip, locked};
use super::trouble::Trouble;
use super::{Disk, Tier};
use crate::content::{Content, Part};
use crate::entry::{About, Entry, Identity};

/// Content is read in pieces of this size where it only has to be looked at.
const WINDOW: usize = 256 * 1024;

/// An answer that was on the disk.
#[derive(Debug)]
pub(crate) struct Recalled {
    head: Head,
    content: Content,
    spoiled: bool,
}

impl Recalled {
    /// The entry it is at this moment, by both clocks; for a request with this hash.
    pub(crate) fn entry(self, hash: u64, (now, unix_ms): (u64, u64)) -> Entry {
        let about: About = self.head.about(now, unix_ms);
        let identity = Identity { hash, url: self.head.url, extra: self.head.extra };
        let entry = Entry::new(identity, about, self.content);
        if self.spoiled {
            entry.spoil();
        }
        entry
    }
}

impl Tier {
    /// What a slip stands for: in memory up to so many bytes, larger content as a part of its file. `None` if it is
    /// not what was written, or cannot be read: then it is gone from now on.
    pub(crate) fn recall(
        &self,
        slip: Arc<Slip>,
        limit: usize,
    ) -> impl Future<Output = Option<Recalled>> + use<> {
        let result = Arc::new(Mutex::new(None));
        let (place, disk) = (Arc::clone(&result), Arc::clone(&self.disk));
        let done =
            offload_to(Pool::Disks, Box::new(move || *locked(&place) = disk.read(&slip, limit)));
        async move {
            done.await;
            locked(&result).take()
        }
    }
}

impl Disk {
    fn read(self: &Arc<Self>, slip: &Arc<Slip>, limit: usize) -> Option<Recalled> {
        let place = self.place().clone()?;
        let file = match place.open(&slip.number.to_string()) {
            Ok(file) => file,
            Err(error) => {
                // What is not there was given up meanwhile.
                if error.kind() != ErrorKind::NotFound {
                    self.drop_damaged(slip, &error.into());
                } else if self.index.remove(slip) {
                    self.release(slip.bytes);
                }
                return None;
            }
        };
        match check(slip, &Arc::new(file), limit) {
            Ok(recalled) => Some(recalled),
            Err(damage) => {
                self.drop_damaged(slip, &damage);
                None
            }
        }
    }

    fn drop_damaged(self: &Arc<Self>, slip: &Arc<Slip>, damage: &Damage) {
        // Of those who find it out one tells.
        if self.index.remove(slip) {
            let name = format!("{}/{}", self.path.display(), slip.number);
            let line = || format!("cache file {name} is dropped: {damage}");
            self.troubles.count(Trouble::Damaged, line);
            self.doom(std::slice::from_ref(slip));
        }
    }
}

/// Reads a file and checks all that nobody has checked.
fn check(slip: &Slip, file: &Arc<DiskFile>, limit: usize) -> Result<Recalled, Damage> {
    let held = locked(&slip.head);
    let head = Head::read(file)?;
    drop(held);
    let same = *head.zone == *slip.zone
        && head.url == slip.identity.url
        && head.extra == slip.identity.extra
        && head.stored().vary == slip.vary;
    if !same {
        return Err(Damage::Mistaken);
    }
    let (at, length) = (head.at, head.content.length);
    let content = match usize::try_from(length).ok().filter(|length| *length <= limit) {
        Some(length) => {
            let mut bytes = vec![0; length];
            if file.read_at(&mut bytes, at)? < length {
                return Err(Damage::Length);
            }
            if sum(&bytes) != head.content.sum {
                return Err(Damage::Content);
            }
            slip.verify();
            Content::Memory(bytes.into())
        }
        None => {
            if !slip.is_verified() {
                verify(file, &head)?;
                slip.verify();
            }
            Content::File(Part { file: Arc::clone(file), offset: at, length })
        }
    };
    let spoiled = slip.is_spoiled();
    Ok(Recalled { head, content, spoiled })
}

fn verify(file: &DiskFile, head: &Head) -> Result<(), Damage> {
    let (mut summing, mut room) = (Summing::new(), vec![0; WINDOW]);
    let (mut at, mut left) = (head.at, head.content.length);
    while left > 0 {
        let wanted = usize::try_from(left).map_or(WINDOW, |left| left.min(WINDOW));
        let part = room.get_mut(..wanted).unwrap_or_default();
        if file.read_at(part, at)? < wanted {
            return Err(Damage::Length);
        }
        summing.push(part);
        let read = u64::try_from(wanted).unwrap_or(u64::MAX);
        at = at.saturating_add(read);
        left = left.saturating_sub(read);
    }
    if summing.sum() == head.content.sum { Ok(()) } else { Err(Damage::Content) }
}
