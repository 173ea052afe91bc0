//! Queues of entries, in the manner of S3-FIFO: what is asked for once only passes through a small one, so that
//! a scan does not drive out what is asked for often.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

/// What can stand in a queue.
pub(crate) trait Queued {
    /// The hash of what it answers.
    fn hash(&self) -> u64;
    /// Bytes it counts for.
    fn cost(&self) -> u64;
    fn is_kept(&self) -> bool;
    fn standing(&self) -> &Standing;
}

/// How something stands in the queues.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// How often it was given since this was last set, up to a few times.
    uses: AtomicU8,
    /// The queue it is in.
    queue: AtomicU8,
}

impl Standing {
    /// It was given.
    #[inline]
    pub(crate) fn touch(&self) {
        let uses = self.uses();
        if uses < OFTEN {
            self.set_uses(uses + 1);
        }
    }

    #[inline]
    fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }
}

/// How often something has to be used to count as used often.
const OFTEN: u8 = 3;

/// The part of the bytes that new entries get, one in so many.
const SMALL_PART: u64 = 10;
/// An entry that was used more often than this while it was new stays.
const PROMOTED: u8 = 0;

const SMALL: u8 = 1;
const MAIN: u8 = 2;

/// In which order entries go.
#[derive(Debug)]
pub(crate) struct Queues<E> {
    small: Queue<E>,
    main: Queue<E>,
    /// Hashes of those that went while they were new: what comes back was wanted after all.
    ghosts: VecDeque<u64>,
    known: HashSet<u64>,
}

#[derive(Debug)]
struct Queue<E> {
    /// Entries may have left meanwhile.
    order: VecDeque<Weak<E>>,
    entries: usize,
    bytes: u64,
}

impl<E> Default for Queues<E> {
    fn default() -> Self {
        Self {
            small: Queue::default(),
            main: Queue::default(),
            ghosts: VecDeque::new(),
            known: HashSet::new(),
        }
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { order: VecDeque::new(), entries: 0, bytes: 0 }
    }
}

impl<E: Queued> Queue<E> {
    fn push(&mut self, entry: &Arc<E>, number: u8) {
        entry.standing().queue.store(number, Ordering::Relaxed);
        self.order.push_back(Arc::downgrade(entry));
        self.entries += 1;
        self.bytes += entry.cost();
        // Those that left otherwise are forgotten before they outnumber the others.
        if self.order.len() > 2 * self.entries + 64 {
            self.order.retain(|one| one.upgrade().is_some_and(|one| one.is_kept()));
        }
    }

    fn forget(&mut self, entry: &E) {
        self.entries = self.entries.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(entry.cost());
    }

    fn pop(&mut self) -> Option<Arc<E>> {
        while let Some(one) = self.order.pop_front() {
            if let Some(entry) = one.upgrade().filter(|entry| entry.is_kept()) {
                self.forget(&entry);
                return Some(entry);
            }
        }
        None
    }
}

impl<E: Queued> Queues<E> {
    /// A new entry.
    pub(crate) fn push(&mut self, entry: &Arc<E>) {
        match self.known.contains(&entry.hash()) {
            true => self.main.push(entry, MAIN),
            false => self.small.push(entry, SMALL),
        }
    }

    /// An entry left otherwise.
    pub(crate) fn forget(&mut self, entry: &E) {
        match entry.standing().queue.load(Ordering::Relaxed) {
            SMALL => self.small.forget(entry),
            MAIN => self.main.forget(entry),
            _ => {}
        }
    }

    /// How many there are.
    pub(crate) const fn entries(&self) -> usize {
        self.small.entries + self.main.entries
    }

    /// The entry that is wanted least; it is in no queue any more.
    pub(crate) fn pop(&mut self) -> Option<Arc<E>> {
        loop {
            let all = self.small.bytes + self.main.bytes;
            let from_small = self.main.entries == 0 || self.small.bytes * SMALL_PART >= all;
            if from_small && let Some(entry) = self.small.pop() {
                if entry.standing().uses() > PROMOTED {
                    entry.standing().set_uses(0);
                    self.main.push(&entry, MAIN);
                    continue;
                }
                self.remember(entry.hash());
                return Some(entry);
            }
            let entry = match self.main.pop() {
                Some(entry) => entry,
                None if self.small.entries > 0 => continue,
                None => return None,
            };
            match entry.standing().uses() {
                0 => return Some(entry),
                uses => {
                    entry.standing().set_uses(uses - 1);
                    self.main.push(&entry, MAIN);
                }
            }
        }
    }

    /// Remembers about as many as there are entries.
    fn remember(&mut self, hash: u64) {
        if !self.known.insert(hash) {
            return;
        }
        self.ghosts.push_back(hash);
        while self.ghosts.len() > self.entries().max(16) {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}
