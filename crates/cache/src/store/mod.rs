//! Where answers are kept in memory: sharded, with a budget that is never exceeded.

mod lead;
mod shard;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use sluice_message::Fields;
use sluice_meter::{CacheReading, CacheSource, DiskReading, PurgeTarget, Thoroughness};
use sluice_net::{now, unix_ms};

use crate::budget::Budget;
use crate::disk::Tier;
use crate::entry::{Entry, Identity};
use crate::filling::{Company, Filling, Joined};
use crate::hashing::Hashing;
use crate::key::KeyPlan;
use crate::target::Target;
use shard::Shard;

pub(crate) use lead::Lead;

/// Answers that are looked for at the same time rarely wait for each other.
const SHARDS: usize = 64;

/// Answers in memory.
#[derive(Debug)]
pub(crate) struct Store {
    shards: Box<[Mutex<Shard>]>,
    hashing: Hashing,
    /// Where answers outlive the process, if they do.
    tier: RwLock<Option<Tier>>,
    /// Bytes that are taken, of answers on their way too.
    budget: Budget,
    /// What its keys are made of.
    plan: KeyPlan,
    /// The shard that gives something up next.
    hand: AtomicUsize,
    evictions: AtomicU64,
}

/// What is to be done for a request that is not answered from what is kept.
#[derive(Debug)]
pub(crate) enum Course {
    /// It is there by now.
    Found(Arc<Entry>),
    /// It is on its way: wait.
    Join(Arc<Filling>),
    /// Ask the origin.
    Lead(Lead),
}

impl Store {
    /// With room for so many bytes, and keys of this plan.
    pub(crate) fn new(budget: usize, plan: KeyPlan) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hashing: Hashing::of_process(),
            tier: RwLock::new(None),
            budget: Budget::new(wide(budget)),
            plan,
            hand: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// What stands for a URL.
    #[inline]
    pub(crate) fn hash(&self, url: &[u8]) -> u64 {
        self.hashing.hash(url)
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        // Bits that the tables inside do not look at first.
        let place = usize::try_from(hash >> 32).unwrap_or(0) % SHARDS;
        Some(locked(self.shards.get(place)?))
    }

    /// What is kept for a request: its hash, the URL, what else is part of the key, its fields.
    pub(crate) fn find(
        &self,
        hash: u64,
        (url, extra): (&[u8], &[u8]),
        request: &Fields,
    ) -> Option<Arc<Entry>> {
        self.shard(hash)?.find(hash, (url, extra), request).cloned()
    }

    /// Whether anything is kept for this, whatever requests it was given to said.
    pub(crate) fn keeps(&self, identity: &Identity) -> bool {
        self.shard(identity.hash).is_some_and(|shard| shard.keeps(identity))
    }

    /// What is to be done for a request that saw `seen` and cannot be answered from it.
    pub(crate) fn course(
        self: &Arc<Self>,
        identity: Identity,
        request: &Fields,
        (seen, now): (Option<&Arc<Entry>>, u64),
    ) -> Option<Course> {
        let hash = identity.hash;
        let mut shard = self.shard(hash)?;
        if let Some(entry) = shard.find(hash, (&identity.url, &identity.extra), request)
            && !seen.is_some_and(|seen| Arc::ptr_eq(seen, entry))
        {
            return Some(Course::Found(Arc::clone(entry)));
        }
        if let Some(filling) = shard.joinable(&identity) {
            return Some(Course::Join(filling));
        }
        let company =
            if shard.is_unshared(hash, now) { Company::Unwanted } else { Company::Welcome };
        let filling = Arc::new(Filling::new(identity, company));
        shard.begin(Arc::clone(&filling));
        drop(shard);
        Some(Course::Lead(Lead::new(Arc::clone(self), filling)))
    }

    /// An answer on its way that a part is wanted of whose first bytes are there.
    pub(crate) fn coming(&self, identity: &Identity, range: &[u8]) -> Option<(Arc<Entry>, Joined)> {
        let filling = self.shard(identity.hash)?.joinable(identity)?;
        filling.covering(range)
    }

    /// The duty to ask the origin alone, for somebody who has waited long enough.
    pub(crate) fn alone(self: &Arc<Self>, identity: Identity) -> Option<Lead> {
        let filling = Arc::new(Filling::new(identity, Company::Unwanted));
        self.shard(filling.identity.hash)?.begin(Arc::clone(&filling));
        Some(Lead::new(Arc::clone(self), filling))
    }

    /// The next requests for this do not wait for each other: answers are for nobody but who asks.
    fn set_unshared(&self, hash: u64, until: u64, now: u64) {
        if let Some(mut shard) = self.shard(hash) {
            shard.set_unshared(hash, until, now);
        }
    }

    /// Takes so many bytes of the budget; less wanted things go for them.
    fn reserve(&self, bytes: usize) -> bool {
        self.budget.reserve(wide(bytes), || self.evict())
    }

    /// Gives bytes back.
    fn release(&self, bytes: usize) {
        self.budget.release(wide(bytes));
    }

    /// Gives up what is wanted least in one of the shards.
    fn evict(&self) -> bool {
        for _ in 0..SHARDS {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = self.shards.get(hand % SHARDS) else { continue };
            if let Some(freed) = locked(shard).evict() {
                self.evictions.fetch_add(1, Ordering::Relaxed);
                self.release(freed);
                return true;
            }
        }
        false
    }

    /// Keeps an entry whose bytes were reserved.
    fn keep(&self, entry: &Arc<Entry>) {
        let Some(mut shard) = self.shard(entry.identity.hash) else { return };
        let freed = shard.insert(entry);
        drop(shard);
        self.release(freed);
    }

    /// Keeps an entry if there is room.
    pub(crate) fn put(&self, entry: &Arc<Entry>) -> bool {
        let room = self.reserve(entry.cost);
        if room {
            self.keep(entry);
        }
        room
    }

    /// Takes an entry out, of the disk, too.
    pub(crate) fn remove(&self, entry: &Arc<Entry>) {
        if let Some(tier) = self.tier() {
            tier.remove(entry);
        }
        let Some(mut shard) = self.shard(entry.identity.hash) else { return };
        let freed = shard.remove(entry);
        drop(shard);
        self.release(freed);
    }

    /// Purges, and says how many answers that hit. What is on its way is not kept either.
    pub(crate) fn forget(&self, target: Target<'_>, thoroughness: Thoroughness) -> usize {
        let tier = self.tier();
        let mut hits = 0;
        let mut purge = |shard: &Mutex<Shard>| {
            let (hit, freed) = locked(shard).purge(target, thoroughness);
            // What is in both places is one answer.
            let alone = |entry: &&Arc<Entry>| !tier.as_ref().is_some_and(|tier| tier.has(entry));
            hits += hit.iter().filter(alone).count();
            self.release(freed);
        };
        match target {
            Target::Url(url) => {
                let place = usize::try_from(self.hash(url) >> 32).unwrap_or(0) % SHARDS;
                self.shards.get(place).into_iter().for_each(purge);
            }
            _ => self.shards.iter().for_each(&mut purge),
        }
        hits + tier.map_or(0, |tier| tier.forget(target, thoroughness))
    }

    /// Where answers outlive the process, if they do.
    pub(crate) fn tier(&self) -> Option<Tier> {
        self.tier.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers outlive the process here from now on.
    pub(crate) fn set_tier(&self, tier: Option<Tier>) {
        *self.tier.write().unwrap_or_else(PoisonError::into_inner) = tier;
    }

    /// Has an entry outlive the process whose content was known before.
    fn confirm(&self, entry: &Entry) {
        if let Some(tier) = self.tier() {
            tier.confirm(entry, (now(), unix_ms()));
        }
    }

    /// Has an entry outlive the process.
    fn save(&self, entry: &Entry) {
        if let Some(tier) = self.tier() {
            tier.save(entry, (now(), unix_ms()));
        }
    }

    /// What its keys are made of.
    pub(crate) const fn plan(&self) -> &KeyPlan {
        &self.plan
    }

    /// There is room for so many bytes from now on.
    pub(crate) fn resize(&self, budget: usize) {
        self.budget.set_limit(wide(budget));
        self.budget.shrink(|| self.evict());
    }
}

impl CacheSource for Store {
    fn reading(&self) -> CacheReading {
        CacheReading {
            entries: self.shards.iter().map(|shard| locked(shard).entries()).sum(),
            bytes: narrow(self.budget.used()),
            budget: narrow(self.budget.limit()),
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    fn disk(&self) -> Option<DiskReading> {
        self.tier().map(|tier| tier.disk.reading())
    }

    fn retire(&self) {
        if let Some(tier) = self.tier() {
            tier.disk.retire();
        }
    }

    fn purge(&self, target: PurgeTarget<'_>, thoroughness: Thoroughness) -> usize {
        let mut url = Vec::new();
        let named = match target {
            PurgeTarget::All => Target::All,
            PurgeTarget::Tag(tag) => Target::Tag(tag),
            PurgeTarget::Url(scheme, authority, target) => {
                self.plan.write_url((scheme, authority, target), &mut url);
                Target::Url(&url)
            }
            PurgeTarget::Prefix(scheme, authority, target) => {
                self.plan.write_url((scheme, authority, target), &mut url);
                Target::Prefix(&url)
            }
        };
        self.forget(named, thoroughness)
    }
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn narrow(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Whoever panicked with the lock left a whole state.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
