//! A map from texts, filled once and then only read.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::trie::{narrow, wide};
use crate::word::hash;

/// Case of letters counts, as in paths.
pub(crate) const EXACT: u64 = 0;
/// Case of letters does not count, as in hosts: it is one bit of a byte, which hashes leave out.
pub(crate) const ANY_CASE: u64 = 0x2020_2020_2020_2020;

/// A map from texts to small values: open addressing over one array, two thirds of it empty at least.
///
/// Who sends requests chooses what is looked up, not what is stored, so a look-up ends after as many
/// steps as the longest run of the configuration's own texts; the seed differs in each process.
#[derive(Clone, Debug)]
pub(crate) struct Names<V, const CASE: u64> {
    slots: Box<[Slot<V>]>,
    texts: Box<[u8]>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot<V> {
    hash: u64,
    start: u32,
    end: u32,
    value: Option<V>,
}

impl<V: Copy, const CASE: u64> Names<V, CASE> {
    /// The map of these texts, each given once.
    pub(crate) fn new(names: Vec<(Vec<u8>, V)>) -> Self {
        let seed = RandomState::new().build_hasher().finish();
        if names.is_empty() {
            return Self { slots: Box::default(), texts: Box::default(), seed };
        }
        let count = (names.len() * 3).next_power_of_two();
        let mut slots = vec![Slot { hash: 0, start: 0, end: 0, value: None }; count];
        let mut texts = Vec::new();
        for (text, value) in names {
            let start = narrow(texts.len());
            texts.extend_from_slice(&text);
            let hash = hash(&text, seed, CASE);
            let is_free = |at: &usize| slots.get(*at).is_some_and(|slot| slot.value.is_none());
            let free = (0..count).map(|step| (slot_of(hash) + step) % count).find(is_free);
            if let Some(slot) = free.and_then(|at| slots.get_mut(at)) {
                *slot = Slot { hash, start, end: narrow(texts.len()), value: Some(value) };
            }
        }
        Self { slots: slots.into(), texts: texts.into(), seed }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The value of `text`.
    #[inline(always)]
    pub(crate) fn find(&self, text: &[u8]) -> Option<V> {
        let mask = self.slots.len().checked_sub(1)?;
        let hash = hash(text, self.seed, CASE);
        let mut at = slot_of(hash);
        // Ends, for most slots are empty.
        loop {
            let slot = self.slots.get(at & mask)?;
            let value = slot.value?;
            if slot.hash == hash
                && let Some(have) = self.texts.get(wide(slot.start)..wide(slot.end))
                && (have == text || (CASE == ANY_CASE && have.eq_ignore_ascii_case(text)))
            {
                return Some(value);
            }
            at = at.wrapping_add(1);
        }
    }
}

/// The first slot a hash may be in, once it is cut to the number of slots.
#[inline]
fn slot_of(hash: u64) -> usize {
    wide(u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 1_000] {
            let text = |n: u32| format!("/{n}/{}", "x".repeat(wide(n % 40))).into_bytes();
            let names = Names::<_, EXACT>::new((0..count).map(|n| (text(n), n)).collect());
            for n in 0..count {
                assert_eq!(names.find(&text(n)), Some(n));
            }
            for n in count..count + 1_000 {
                assert_eq!(names.find(&text(n)), None);
            }
            assert_eq!(names.find(b""), None);
        }
        assert_eq!(Names::<_, EXACT>::new(vec![(Vec::new(), 7)]).find(b""), Some(7));
    }

    #[test]
    fn case_counts_where_it_should() {
        let names = || vec![(b"/a-Long/Path".to_vec(), 1), (b"/x".to_vec(), 2)];
        let (exact, any) = (Names::<_, EXACT>::new(names()), Names::<_, ANY_CASE>::new(names()));
        for (text, in_exact, in_any) in [
            ("/a-Long/Path", Some(1), Some(1)),
            ("/A-LONG/pATH", None, Some(1)),
            ("/X", None, Some(2)),
            ("\x0fx", None, None),
            ("/a\rLong/Path", None, None),
        ] {
            assert_eq!(exact.find(text.as_bytes()), in_exact, "{text}");
            assert_eq!(any.find(text.as_bytes()), in_any, "{text}");
        }
    }
}
