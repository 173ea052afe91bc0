//! Lets so many requests of each client, or whatever else a key says, be under way at once.

use std::sync::Arc;

use sluice_filter::{Filter, Held, Owner, Phases, RequestContext, Verdict};
use sluice_meter::FilterMeter;

use crate::key_source::KeySource;
use crate::key_table::{Change, KeyTable};
use crate::rate_limit::{Strictness, WhenFull};

/// How many may be under way, of whom, and what becomes of the others.
#[derive(Debug)]
pub struct ConcurrencyRule {
    /// How many.
    pub most: u32,
    /// Of whom.
    pub key: KeySource,
    /// Keys that are counted at the same time.
    pub room: usize,
    /// What becomes of requests beyond the limit.
    pub strictness: Strictness,
    /// What becomes of requests whose key has no room.
    pub when_full: WhenFull,
}

/// See the module.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    rule: ConcurrencyRule,
    counts: Arc<Counts>,
    owner: Owner,
    meter: Arc<FilterMeter>,
}

/// Requests under way, by key. The lower half of a word counts them; the upper half counts how often the slot
/// changed hands, so that no word comes twice while its key is another one.
#[derive(Debug)]
struct Counts(KeyTable);

const COUNT: u64 = 0xFFFF_FFFF;
const HANDS: u64 = 1 << 32;

/// Places among [`ConcurrencyLimit::OUTCOMES`].
const PASSED: usize = 0;
const REFUSED: usize = 1;
const WOULD_REFUSE: usize = 2;
const UNCOUNTED: usize = 3;

impl Counts {
    /// One more of a key, if there are fewer than `most`.
    fn enter(&self, key: &[u8], most: u32) -> Change {
        let change = |word: u64| (word & COUNT < u64::from(most)).then_some(word + 1);
        // After four thousand million changes it begins anew; the last would look like a slot that is busy.
        let hands = |word: u64| word.checked_add(2 * HANDS).map_or(0, |next| next - HANDS);
        let claim = |word: u64| (word & COUNT == 0).then(|| hands(word) + 1);
        self.0.update(self.0.tag(0, key), change, claim)
    }
}

impl Held for Counts {
    fn release(&self, slot: u64) {
        if let Ok(slot) = usize::try_from(slot) {
            // Its key keeps it as long as one is under way.
            self.0.revise(slot, |word| word - 1);
        }
    }
}

impl ConcurrencyLimit {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] =
        &["passed", "refused", "would_refuse", "uncounted"];

    /// With this rule.
    #[must_use]
    pub fn new(rule: ConcurrencyRule, meter: Arc<FilterMeter>) -> Self {
        let counts = Arc::new(Counts(KeyTable::new(rule.room)));
        Self { rule, counts, owner: Owner::new(), meter }
    }
}

impl Filter for ConcurrencyLimit {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        // A request that was routed anew is under way once.
        if context.notes.kept(self.owner).is_some() {
            return Verdict::Continue;
        }
        context.notes.keep(self.owner, [0; 4]);
        let rule = &self.rule;
        let change = rule.key.with(&context.view(), |key| self.counts.enter(key, rule.most));
        let (outcome, refusal) = match (change, rule.strictness, rule.when_full) {
            (Change::Made { slot, .. }, ..) => {
                let counts: Arc<Counts> = Arc::clone(&self.counts);
                context.notes.hold(counts, u64::try_from(slot).unwrap_or(u64::MAX));
                (PASSED, None)
            }
            (Change::Refused(_), Strictness::Refuse(status), _) => {
                (REFUSED, Some((status, "too many requests at once")))
            }
            (Change::Refused(_), Strictness::CountOnly, _) => (WOULD_REFUSE, None),
            (Change::Full, Strictness::Refuse(status), WhenFull::Refuse) => {
                (UNCOUNTED, Some((status, "too many clients are counted")))
            }
            (Change::Full, ..) => (UNCOUNTED, None),
        };
        self.meter.count(context.gateway.worker(), outcome);
        match refusal {
            Some((status, reason)) => Verdict::refuse(status, reason),
            None => Verdict::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(change: Change) -> Option<u64> {
        match change {
            Change::Made { slot, .. } => u64::try_from(slot).ok(),
            Change::Refused(_) | Change::Full => None,
        }
    }

    #[test]
    fn places_are_taken_and_come_back() {
        let counts = Counts(KeyTable::new(1));
        let first = slot(counts.enter(b"a", 2)).unwrap();
        assert_eq!(slot(counts.enter(b"a", 2)), Some(first));
        assert!(matches!(counts.enter(b"a", 2), Change::Refused(word) if word & COUNT == 2));
        assert!(slot(counts.enter(b"b", 2)).is_some());
        counts.release(first);
        assert_eq!(slot(counts.enter(b"a", 2)), Some(first));
        assert!(slot(counts.enter(b"a", 2)).is_none());
        // Thousands of others come and go meanwhile.
        for key in 0..10_000_u32 {
            let slot = slot(counts.enter(&key.to_le_bytes(), 1)).unwrap();
            assert_ne!(slot, first);
            counts.release(slot);
        }
        counts.release(first);
        counts.release(first);
        assert!(slot(counts.enter(b"a", 1)).is_some());
    }

    #[test]
    fn a_slot_that_changed_hands_has_another_word() {
        let counts = Counts(KeyTable::new(1));
        let mut words = std::collections::HashSet::new();
        for key in 0..100_000_u32 {
            let Change::Made { slot, word } = counts.enter(&key.to_le_bytes(), 1) else {
                unreachable!()
            };
            assert_eq!(word & COUNT, 1);
            assert!(words.insert((slot, word)), "{word:x}");
            counts.release(u64::try_from(slot).unwrap());
        }
    }
}
