//! Purges reach what is on the disk, what is being written to it, and what nobody has looked at yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluice_meter::Thoroughness;

use super::form::{MARK, SPOILED};
use super::index::{Slip, locked};
use super::place::Place;
use super::{Disk, Tier};
use crate::entry::{Entry, Identity};
use crate::target::Target;

/// A purge, kept until all files are known.
#[derive(Debug)]
pub(super) struct Purged {
    zone: Arc<[u8]>,
    target: Named,
    thoroughness: Thoroughness,
}

#[derive(Debug)]
enum Named {
    Url(Box<[u8]>),
    Prefix(Box<[u8]>),
    Tag(Box<[u8]>),
    All,
}

impl Named {
    fn of(target: Target<'_>) -> Self {
        match target {
            Target::Url(url) => Self::Url(url.into()),
            Target::Prefix(prefix) => Self::Prefix(prefix.into()),
            Target::Tag(tag) => Self::Tag(tag.into()),
            Target::All => Self::All,
        }
    }

    fn target(&self) -> Target<'_> {
        match self {
            Self::Url(url) => Target::Url(url),
            Self::Prefix(prefix) => Target::Prefix(prefix),
            Self::Tag(tag) => Target::Tag(tag),
            Self::All => Target::All,
        }
    }
}

impl Tier {
    /// Purges, and says how many answers that hit.
    pub(crate) fn forget(&self, target: Target<'_>, thoroughness: Thoroughness) -> usize {
        let disk = &self.disk;
        let wanted = |slip: &Slip| slip.zone == self.zone && target.has(&slip.identity, &slip.tags);
        // In this order nothing escapes: what is found later is looked for in the list, what is written meanwhile
        // is in the index or still pending.
        if let Some(purges) = locked(&disk.purges).as_mut() {
            let (zone, target) = (Arc::clone(&self.zone), Named::of(target));
            purges.push(Purged { zone, target, thoroughness });
        }
        for slip in locked(&disk.pending).values().filter(|slip| wanted(slip)) {
            match thoroughness {
                Thoroughness::Hard => slip.leave(),
                Thoroughness::Soft => slip.spoil(),
            }
        }
        let hash = match target {
            Target::Url(url) => Some(disk.hashing.hash(url)),
            _ => None,
        };
        let hit = disk.index.select(hash, wanted);
        disk.purge(&hit, thoroughness)
    }

    /// Whether there is exactly this variant.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.same(&entry.identity, entry).is_some()
    }

    pub(super) fn same(&self, identity: &Identity, entry: &Entry) -> Option<Arc<Slip>> {
        self.disk.index.same(&self.zone, identity, &entry.about.vary)
    }

    /// Takes an answer out, whether it is there or on its way.
    pub(crate) fn remove(&self, entry: &Entry) {
        let disk = &self.disk;
        let pending = locked(&disk.pending);
        let same = |slip: &&Arc<Slip>| {
            slip.identity == entry.identity
                && slip.zone == self.zone
                && slip.vary == entry.about.vary
        };
        pending.values().filter(same).for_each(|slip| slip.leave());
        drop(pending);
        if let Some(slip) = self.same(&entry.identity, entry) {
            disk.purge(&[slip], Thoroughness::Hard);
        }
    }
}

impl Disk {
    /// Takes these out, or notes that they have to be confirmed; how many there were.
    fn purge(self: &Arc<Self>, slips: &[Arc<Slip>], thoroughness: Thoroughness) -> usize {
        match thoroughness {
            Thoroughness::Hard => {
                let out = |slip: &&Arc<Slip>| self.index.remove(slip);
                let left = slips.iter().filter(out).cloned().collect::<Vec<_>>();
                let count = left.len();
                self.lasting.store(true, Ordering::Relaxed);
                self.doom(&left);
                count
            }
            Thoroughness::Soft => {
                slips.iter().for_each(|slip| slip.spoil());
                let slips = slips.to_vec();
                let count = slips.len();
                if count > 0 {
                    self.elsewhere(move |disk| disk.mark(&slips));
                }
                count
            }
        }
    }

    /// Notes in the files that their origin has to be asked first.
    fn mark(&self, slips: &[Arc<Slip>]) {
        let guard = self.place();
        let Some(place) = &*guard else { return };
        for slip in slips {
            self.mark_one(slip, &**place);
        }
        self.settle(&**place);
    }

    pub(super) fn mark_one(&self, slip: &Slip, place: &dyn Place) {
        let head = locked(&slip.head);
        // It may have been confirmed meanwhile, and written anew; or be gone.
        if slip.is_spoiled()
            && let Ok(file) = place.reopen(&slip.number.to_string())
            && let Err(error) = place.write(&file, &[SPOILED], MARK)
        {
            self.fail(&error);
        }
        drop(head);
    }

    /// What was purged while this was not known yet.
    pub(super) fn judge_late(self: &Arc<Self>, slip: &Arc<Slip>) {
        let purges = locked(&self.purges);
        for purge in purges.iter().flatten() {
            if purge.zone == slip.zone && purge.target.target().has(&slip.identity, &slip.tags) {
                self.purge(std::slice::from_ref(slip), purge.thoroughness);
            }
        }
    }
}
