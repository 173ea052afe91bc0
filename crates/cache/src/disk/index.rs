//! What is on the disk, as far as it has to be known to find it and to give it up.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_message::Fields;

use crate::entry::{AsItIs, Identity};
use crate::fifo::{Queued, Queues, Standing};
use crate::vary::Selecting;

/// Answers that are looked for at the same time rarely wait for each other.
const SHARDS: usize = 64;
/// Variants of an answer to one URL that are kept.
const VARIANTS: usize = 64;

/// The number of a file. What was written later has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Number {
    /// Whether this process has written it; what it found is older, whatever clocks say.
    pub(super) own: bool,
    /// When the process began that wrote it, in nanoseconds since 1970.
    pub(super) run: u64,
    /// How many it had written before.
    pub(super) count: u64,
}

impl Number {
    /// The folder that a file lies in.
    pub(super) fn folder(place: u64) -> String {
        format!("{:02x}", place % FOLDERS)
    }

    /// The number that a name stands for, of a file that was found.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (run, count) = name.split_at_checked(16)?;
        let parse = |text: &str, length: usize| {
            let digits = text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u64::from_str_radix(text, 16).ok().filter(|_| digits)
        };
        Some(Self { own: false, run: parse(run, 16)?, count: parse(count, 12)? })
    }
}

/// How many folders files are spread over.
pub(super) const FOLDERS: u64 = 256;

/// The path of its file.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}{:012x}", Self::folder(self.count), self.run, self.count)
    }
}

/// An answer on the disk.
#[derive(Debug)]
pub(crate) struct Slip {
    pub(super) identity: Identity,
    /// The cache that it belongs to.
    pub(super) zone: Arc<[u8]>,
    pub(super) vary: Vec<Selecting>,
    pub(super) tags: Vec<Box<[u8]>>,
    pub(super) number: Number,
    /// Bytes it takes on the disk.
    pub(super) bytes: u64,
    state: AtomicU8,
    standing: Standing,
    /// Held by whoever reads the head of its file or writes it anew.
    pub(super) head: Mutex<()>,
}

const GONE: u8 = 1;
const SPOILED: u8 = 2;
const VERIFIED: u8 = 4;

impl Slip {
    pub(super) fn new(
        identity: Identity,
        zone: Arc<[u8]>,
        (vary, tags): (Vec<Selecting>, Vec<Box<[u8]>>),
        (number, bytes): (Number, u64),
    ) -> Self {
        Self {
            identity,
            zone,
            vary,
            tags,
            number,
            bytes,
            state: AtomicU8::new(0),
            standing: Standing::default(),
            head: Mutex::new(()),
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.state.load(Ordering::Relaxed) & flag != 0
    }

    fn set(&self, flag: u8) {
        self.state.fetch_or(flag, Ordering::Relaxed);
    }

    /// Whether its origin has to be asked before it is given as if it was fresh.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.has(SPOILED)
    }

    pub(super) fn spoil(&self) {
        self.set(SPOILED);
    }

    /// Its origin has confirmed it.
    pub(super) fn restore(&self) {
        self.state.fetch_and(!SPOILED, Ordering::Relaxed);
    }

    /// Whether its content was found to be what was written, in this process or by its having written it.
    pub(super) fn is_verified(&self) -> bool {
        self.has(VERIFIED)
    }

    pub(super) fn verify(&self) {
        self.set(VERIFIED);
    }

    /// It is kept no longer.
    pub(super) fn leave(&self) {
        self.set(GONE);
    }

    fn is_same(&self, other: &Self) -> bool {
        self.identity == other.identity && self.zone == other.zone && self.vary == other.vary
    }
}

impl Queued for Slip {
    fn hash(&self) -> u64 {
        self.identity.hash
    }

    fn cost(&self) -> u64 {
        self.bytes
    }

    fn is_kept(&self) -> bool {
        !self.has(GONE)
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }
}

/// All that is on the disk.
#[derive(Debug)]
pub(super) struct Index {
    shards: Box<[Mutex<Shard>]>,
    /// The shard that gives something up next.
    hand: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    /// The newest first (RFC 9111, 4.1).
    buckets: HashMap<u64, Vec<Arc<Slip>>, BuildHasherDefault<AsItIs>>,
    queues: Queues<Slip>,
}

impl Shard {
    /// Takes out what `leaves` says. It is in no bucket then.
    fn extract(&mut self, hash: u64, leaves: impl Fn(&Arc<Slip>) -> bool) -> Vec<Arc<Slip>> {
        let Some(bucket) = self.buckets.get_mut(&hash) else { return Vec::new() };
        let left = bucket.extract_if(.., |slip| leaves(slip)).collect::<Vec<_>>();
        if bucket.is_empty() {
            self.buckets.remove(&hash);
        }
        for slip in &left {
            slip.leave();
            self.queues.forget(slip);
        }
        left
    }
}

impl Index {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hand: AtomicUsize::new(0) }
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        let place = usize::try_from(hash >> 32).unwrap_or(0) % SHARDS;
        Some(locked(self.shards.get(place)?))
    }

    /// What there is for a request.
    pub(super) fn find(
        &self,
        zone: &[u8],
        identity: &Identity,
        request: &Fields,
    ) -> Option<Arc<Slip>> {
        let shard = self.shard(identity.hash)?;
        let slip = shard.buckets.get(&identity.hash)?.iter().find(|slip| {
            slip.identity == *identity
                && *slip.zone == *zone
                && slip.vary.iter().all(|one| one.matches(request))
        })?;
        slip.standing.touch();
        Some(Arc::clone(slip))
    }

    /// Whether there is anything for this, whatever requests it was given to said.
    pub(super) fn keeps(&self, zone: &[u8], identity: &Identity) -> bool {
        self.shard(identity.hash).is_some_and(|shard| {
            let mut slips = shard.buckets.get(&identity.hash).into_iter().flatten();
            slips.any(|slip| slip.identity == *identity && *slip.zone == *zone)
        })
    }

    /// What there is for exactly this variant.
    pub(super) fn same(
        &self,
        zone: &[u8],
        identity: &Identity,
        vary: &[Selecting],
    ) -> Option<Arc<Slip>> {
        let shard = self.shard(identity.hash)?;
        let mut slips = shard.buckets.get(&identity.hash)?.iter();
        let same = |slip: &&Arc<Slip>| {
            slip.identity == *identity && *slip.zone == *zone && slip.vary == vary
        };
        slips.find(same).cloned()
    }

    /// Has it from now on in the place of what it is newer than. What leaves for it, which is itself if something
    /// newer is there.
    pub(super) fn insert(&self, slip: &Arc<Slip>) -> Vec<Arc<Slip>> {
        let hash = slip.identity.hash;
        let Some(mut shard) = self.shard(hash) else { return vec![Arc::clone(slip)] };
        let bucket = shard.buckets.get(&hash).map(Vec::as_slice).unwrap_or_default();
        if bucket.iter().any(|one| one.is_same(slip) && one.number > slip.number) {
            slip.leave();
            return vec![Arc::clone(slip)];
        }
        let surplus = bucket.get(VARIANTS - 1..).unwrap_or_default().to_vec();
        let mut left = shard.extract(hash, |one| one.is_same(slip));
        if left.is_empty() {
            left = shard.extract(hash, |one| surplus.iter().any(|other| Arc::ptr_eq(one, other)));
        }
        let bucket = shard.buckets.entry(hash).or_default();
        let place = bucket.iter().position(|one| one.number < slip.number);
        bucket.insert(place.unwrap_or(bucket.len()), Arc::clone(slip));
        shard.queues.push(slip);
        left
    }

    /// Takes one out; whether it was in.
    pub(super) fn remove(&self, slip: &Arc<Slip>) -> bool {
        let hash = slip.identity.hash;
        self.shard(hash)
            .is_some_and(|mut shard| !shard.extract(hash, |one| Arc::ptr_eq(one, slip)).is_empty())
    }

    /// Takes out what is wanted least.
    pub(super) fn evict(&self) -> Option<Arc<Slip>> {
        for _ in 0..SHARDS {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = self.shards.get(hand % SHARDS) else { continue };
            let mut shard = locked(shard);
            if let Some(slip) = shard.queues.pop() {
                let hash = slip.identity.hash;
                if let Some(bucket) = shard.buckets.get_mut(&hash) {
                    bucket.retain(|one| !Arc::ptr_eq(one, &slip));
                    if bucket.is_empty() {
                        shard.buckets.remove(&hash);
                    }
                }
                slip.leave();
                return Some(slip);
            }
        }
        None
    }

    /// All that `wanted` says, in the shard of a hash or in all.
    pub(super) fn select(
        &self,
        hash: Option<u64>,
        wanted: impl Fn(&Slip) -> bool,
    ) -> Vec<Arc<Slip>> {
        let mut all = Vec::new();
        let mut look = |shard: &Shard| {
            let slips = shard.buckets.values().flatten();
            all.extend(slips.filter(|slip| wanted(slip)).map(Arc::clone));
        };
        match hash {
            Some(hash) => self.shard(hash).iter().for_each(|shard| look(shard)),
            None => self.shards.iter().for_each(|shard| look(&locked(shard))),
        }
        all
    }

    /// How many there are.
    pub(super) fn entries(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).queues.entries()).sum()
    }
}

/// Whoever panicked with the lock left a whole state.
pub(super) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
