//! A part of the store: what is kept, what is on its way, and in which order things go.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use sluice_message::Fields;
use sluice_meter::Thoroughness;

use crate::disk::Watch;
use crate::entry::{AsItIs, Entry, Identity};
use crate::fifo::Queues;
use crate::filling::{Company, Filling};
use crate::target::Target;

/// Variants of an answer to one URL that are kept.
const VARIANTS: usize = 64;
/// Notes about URLs that have nothing else.
const NOTES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Shard {
    buckets: HashMap<u64, Bucket, BuildHasherDefault<AsItIs>>,
    queues: Queues<Entry>,
    /// Notes that were made since somebody looked for old ones.
    notes: usize,
}

/// All about URLs with one hash, which is nearly always one.
#[derive(Debug, Default)]
struct Bucket {
    /// The newest first (RFC 9111, 4.1).
    entries: Vec<Arc<Entry>>,
    fillings: Vec<Arc<Filling>>,
    /// Until when answers are taken to be for nobody but who asks, in nanoseconds.
    unshared_until: u64,
}

impl Bucket {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.fillings.is_empty() && self.unshared_until == 0
    }
}

impl Shard {
    pub(super) fn find(
        &self,
        hash: u64,
        (url, extra): (&[u8], &[u8]),
        request: &Fields,
    ) -> Option<&Arc<Entry>> {
        self.buckets.get(&hash)?.entries.iter().find(|entry| {
            *entry.identity.url == *url && *entry.identity.extra == *extra && entry.is_for(request)
        })
    }

    /// Whether anything is kept for this, whatever requests it was given to said.
    pub(super) fn keeps(&self, identity: &Identity) -> bool {
        let bucket = self.buckets.get(&identity.hash);
        bucket.is_some_and(|it| it.entries.iter().any(|entry| entry.identity == *identity))
    }

    pub(super) fn entries(&self) -> usize {
        self.queues.entries()
    }

    /// What is on its way for this and may be waited for.
    pub(super) fn joinable(&self, identity: &Identity) -> Option<Arc<Filling>> {
        let joinable = |filling: &&Arc<Filling>| {
            filling.company == Company::Welcome
                && filling.is_open()
                && filling.identity == *identity
        };
        self.buckets.get(&identity.hash)?.fillings.iter().find(joinable).cloned()
    }

    pub(super) fn is_unshared(&self, hash: u64, now: u64) -> bool {
        self.buckets.get(&hash).is_some_and(|bucket| now < bucket.unshared_until)
    }

    pub(super) fn set_unshared(&mut self, hash: u64, until: u64, now: u64) {
        self.notes += 1;
        if self.notes > NOTES {
            self.notes = 0;
            for bucket in self.buckets.values_mut() {
                if bucket.unshared_until <= now {
                    bucket.unshared_until = 0;
                } else {
                    self.notes += 1;
                }
            }
            // If all are young, all are forgotten: it costs some waiting.
            if self.notes > NOTES / 2 {
                self.buckets.values_mut().for_each(|bucket| bucket.unshared_until = 0);
                self.notes = 0;
            }
            self.buckets.retain(|_, bucket| !bucket.is_empty());
        }
        self.buckets.entry(hash).or_default().unshared_until = until;
    }

    pub(super) fn begin(&mut self, filling: Arc<Filling>) {
        self.buckets.entry(filling.identity.hash).or_default().fillings.push(filling);
    }

    pub(super) fn end(&mut self, filling: &Arc<Filling>) {
        let hash = filling.identity.hash;
        if let Some(bucket) = self.buckets.get_mut(&hash) {
            bucket.fillings.retain(|one| !Arc::ptr_eq(one, filling));
            if bucket.is_empty() {
                self.buckets.remove(&hash);
            }
        }
    }

    /// Keeps an entry in the place of what it is newer than. Bytes that were freed.
    pub(super) fn insert(&mut self, entry: &Arc<Entry>) -> usize {
        let bucket = self.buckets.entry(entry.identity.hash).or_default();
        bucket.unshared_until = 0;
        let same =
            |one: &Arc<Entry>| one.identity == entry.identity && one.about.vary == entry.about.vary;
        let mut left = bucket.entries.extract_if(.., |one| same(one)).collect::<Vec<_>>();
        if bucket.entries.len() >= VARIANTS {
            left.extend(bucket.entries.pop());
        }
        bucket.entries.insert(0, Arc::clone(entry));
        self.queues.push(entry);
        left.iter().map(|one| self.drop_entry(one)).sum()
    }

    /// Takes an entry out. Bytes that were freed.
    pub(super) fn remove(&mut self, entry: &Arc<Entry>) -> usize {
        let hash = entry.identity.hash;
        let Some(bucket) = self.buckets.get_mut(&hash) else { return 0 };
        let before = bucket.entries.len();
        bucket.entries.retain(|one| !Arc::ptr_eq(one, entry));
        if bucket.entries.len() == before {
            return 0;
        }
        if bucket.is_empty() {
            self.buckets.remove(&hash);
        }
        self.drop_entry(entry)
    }

    /// It is in no bucket any more.
    fn drop_entry(&mut self, entry: &Entry) -> usize {
        entry.leave();
        self.queues.forget(entry);
        entry.cost
    }

    /// Gives up what is wanted least. Bytes that were freed.
    pub(super) fn evict(&mut self) -> Option<usize> {
        let entry = self.queues.pop()?;
        let hash = entry.identity.hash;
        if let Some(bucket) = self.buckets.get_mut(&hash) {
            bucket.entries.retain(|one| !Arc::ptr_eq(one, &entry));
            if bucket.is_empty() {
                self.buckets.remove(&hash);
            }
        }
        entry.leave();
        Some(entry.cost)
    }

    /// The answers that are hit, and bytes that were freed.
    pub(super) fn purge(
        &mut self,
        target: Target<'_>,
        thoroughness: Thoroughness,
    ) -> (Vec<Arc<Entry>>, usize) {
        let mut hit = Vec::new();
        for bucket in self.buckets.values_mut() {
            // What is on its way may be older than the purge; its tags are not known yet.
            for filling in &bucket.fillings {
                if matches!(target, Target::Tag(_)) || target.has(&filling.identity, &[]) {
                    filling.spoil();
                }
            }
            bucket.fillings.retain(|filling| !filling.is_void());
            for entry in &bucket.entries {
                if target.has(&entry.identity, &entry.about.tags) {
                    hit.push(Arc::clone(entry));
                }
            }
        }
        let freed = match thoroughness {
            Thoroughness::Soft => {
                hit.iter().for_each(|entry| entry.spoil());
                0
            }
            Thoroughness::Hard => hit.iter().map(|entry| self.remove(entry)).sum(),
        };
        (hit, freed)
    }
}
