//! The server a key belongs to.

use std::sync::Arc;

use super::key::key_of;
use super::round_robin::RoundRobin;
use crate::ring::Ring;
use crate::scatter::mix;
use crate::{Ask, HashKey};

/// All keys of a server.
const ALL: u64 = 1 << 32;
/// Points that are passed at most to look for a better server than one that is found already.
const PATIENCE: usize = 64;

/// Looks keys up on the ring. Keys of a server that is out belong to whoever is next on the ring, each
/// point's to another; keys of the others stay where they are.
#[derive(Debug)]
pub(crate) struct Hash {
    key: HashKey,
    ring: Arc<Ring>,
    /// Of each server, how many keys of 2^32 it takes; the others go on to the next.
    admits: Box<[u64]>,
    /// Servers that take keys at all.
    open: usize,
    /// For requests without the key.
    spread: RoundRobin,
}

impl Hash {
    /// For the servers of the ring, of these weights now. One that has less than the weight it has on
    /// the ring, `full`, takes as many of its keys.
    pub(crate) fn new(
        key: HashKey,
        ring: Arc<Ring>,
        (weights, full): (&[u32], &[u32]),
        start: usize,
    ) -> Self {
        let part = |(&weight, &full): (&u32, &u32)| {
            (u64::from(weight) * ALL).checked_div(u64::from(full)).unwrap_or(0)
        };
        let parts: Vec<u64> = weights.iter().zip(full).map(part).collect();
        // If nobody takes all of its keys, there is nobody to take the rest.
        let most = parts.iter().copied().max().unwrap_or(0).max(1);
        let admit = |&part: &u64| {
            let admit = u128::from(part) * u128::from(ALL) / u128::from(most);
            u64::try_from(admit).unwrap_or(ALL)
        };
        let admits = parts.iter().map(admit).collect();
        let open = weights.iter().filter(|&&weight| weight > 0).count();
        Self { key, ring, admits, open, spread: RoundRobin::new(weights, start) }
    }

    /// Index of the server to ask; `None` if no server has a weight.
    #[inline]
    pub(crate) fn next(&self, ask: &Ask<'_>) -> Option<usize> {
        // Nobody there: not every point has to be asked to find that out.
        if self.open == 0 { None } else { self.find(ask, |_| false) }
    }

    /// The next server that is not to be avoided; `None` if there is none.
    pub(crate) fn other(&self, ask: &Ask<'_>, avoid: impl Fn(usize) -> bool) -> Option<usize> {
        let mut servers = self.admits.iter().enumerate();
        let anybody = servers.any(|(index, &admits)| admits > 0 && !avoid(index));
        if anybody { self.find(ask, avoid) } else { None }
    }

    fn find(&self, ask: &Ask<'_>, avoid: impl Fn(usize) -> bool) -> Option<usize> {
        let Some(key) = key_of(ask, &self.key) else { return self.spread.other(avoid) };
        let mut fallback = None;
        let mut left = usize::MAX;
        for index in self.ring.after(key) {
            if left == 0 {
                break;
            }
            left -= 1;
            let admits = self.admits.get(index).copied().unwrap_or(0);
            if admits == 0 || avoid(index) {
                continue;
            }
            // Whether a server that takes a part takes this key depends on both.
            if admits >= ALL || mix(key ^ self.ring.salt(index)) >> 32 < admits {
                return Some(index);
            }
            if fallback.is_none() {
                fallback = Some(index);
                left = left.min(PATIENCE);
            }
        }
        fallback
    }
}

#[cfg(test)]
mod tests {
    use sluice_message::RequestHead;

    use super::*;

    /// Looks up clients 10.x.y.z, one for each number below `count`.
    fn owners(rule: &Hash, count: u32) -> Vec<usize> {
        let head = RequestHead::new();
        let client = |number: u32| std::net::Ipv4Addr::from(0x0A00_0000 + number).into();
        let ask = |number| Ask { head: &head, client: client(number), avoid: &[] };
        (0..count).map(|number| rule.next(&ask(number)).unwrap()).collect()
    }

    fn rule(places: &[(&str, u32)], weights: &[u32]) -> Hash {
        let full: Vec<u32> = places.iter().map(|&(_, weight)| weight).collect();
        let ring = Ring::new(places.iter().copied());
        Hash::new(HashKey::Client, Arc::new(ring), (weights, &full), 0)
    }

    fn open(places: &[(&str, u32)]) -> Hash {
        let full: Vec<u32> = places.iter().map(|&(_, weight)| weight).collect();
        rule(places, &full)
    }

    const KEYS: u32 = 20_000;
    const FIVE: [(&str, u32); 5] = [("a:1", 1), ("b:1", 1), ("c:1", 1), ("d:1", 1), ("e:1", 1)];

    fn share(owners: &[usize], index: usize) -> f64 {
        let owned = u32::try_from(owners.iter().filter(|&&owner| owner == index).count()).unwrap();
        f64::from(owned) / f64::from(KEYS)
    }

    #[test]
    fn shares_follow_the_weights() {
        let owners = owners(&open(&[("a:1", 1), ("b:1", 2), ("c:1", 0), ("d:1", 5)]), KEYS);
        for (index, expected) in [(0, 0.125), (1, 0.25), (2, 0.0), (3, 0.625)] {
            let share = share(&owners, index);
            assert!((share - expected).abs() <= expected * 0.2, "{index}: {share}");
        }
    }

    #[test]
    fn a_server_more_takes_its_share_and_nothing_else_moves() {
        let before = owners(&open(&FIVE[..4]), KEYS);
        let after = owners(&open(&FIVE), KEYS);
        let moved = before.iter().zip(&after).filter(|(old, new)| old != new);
        assert!(moved.clone().all(|(_, &new)| new == 4), "only to the new one");
        let share = share(&after, 4);
        assert!((0.16..0.24).contains(&share), "{share}");
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let owners_in = |places: &[(&'static str, u32)]| -> Vec<&str> {
            owners(&open(places), 1000).into_iter().map(|index| places[index].0).collect()
        };
        let mut turned = FIVE;
        turned.rotate_left(2);
        assert_eq!(owners_in(&FIVE), owners_in(&turned));
    }

    #[test]
    fn the_share_of_a_server_that_is_out_goes_to_all_others() {
        let before = owners(&open(&FIVE), KEYS);
        let after = owners(&rule(&FIVE, &[1, 1, 0, 1, 1]), KEYS);
        for (old, new) in before.iter().zip(&after) {
            assert!(*new != 2 && (*old == 2 || old == new));
        }
        let heirs = before.iter().zip(&after).filter(|(old, _)| **old == 2).map(|(_, new)| *new);
        let mut counts = [0_u32; 5];
        heirs.for_each(|heir| counts[heir] += 1);
        let most = counts.iter().copied().max().unwrap();
        let sum: u32 = counts.iter().sum();
        assert!(most * 2 < sum, "no neighbour takes it all: {counts:?}");
    }

    #[test]
    fn a_server_that_takes_a_part_gets_more_and_more_of_its_own_keys() {
        let full = owners(&open(&FIVE), KEYS);
        let mut before = owners(&rule(&FIVE, &[8, 8, 0, 8, 8]), KEYS);
        for part in 1..8 {
            let now = owners(&rule(&FIVE, &[8, 8, part, 8, 8]), KEYS);
            let expected = share(&full, 2) * f64::from(part) / 8.0;
            assert!((share(&now, 2) - expected).abs() < 0.02, "{part}");
            for ((old, new), last) in before.iter().zip(&now).zip(&full) {
                assert!(old == new || (*new == 2 && *last == 2), "keys move once, to their server");
            }
            before = now;
        }
        let all_alike = owners(&rule(&FIVE, &[3; 5]), KEYS);
        assert_eq!(all_alike, full, "nobody is there to take the rest");
    }

    #[test]
    fn another_is_found_as_long_as_there_is_one() {
        let head = RequestHead::new();
        let ask = Ask { head: &head, client: [10, 0, 0, 1].into(), avoid: &[] };
        let five = open(&FIVE);
        let first = five.next(&ask).unwrap();
        assert_ne!(five.other(&ask, |index| index == first).unwrap(), first);
        let two = rule(&FIVE, &[0, 1, 0, 0, 9]);
        assert_eq!(
            (two.other(&ask, |index| index == 1), two.other(&ask, |index| index == 4)),
            (Some(4), Some(1))
        );
        let alone = rule(&FIVE, &[0, 1, 0, 0, 0]);
        assert_eq!((alone.next(&ask), alone.other(&ask, |_| true)), (Some(1), None));
        assert_eq!(rule(&FIVE, &[0; 5]).next(&ask), None);
    }

    #[test]
    fn requests_without_the_key_are_spread() {
        let head = RequestHead::new();
        let ask = Ask { head: &head, client: [10, 0, 0, 1].into(), avoid: &[] };
        let ring = Arc::new(Ring::new([("a:1", 1), ("b:1", 3)]));
        let key = HashKey::Header(b"x-user"[..].into());
        let rule = Hash::new(key, ring, (&[1, 3], &[1, 3]), 0);
        let mut seen = [0; 2];
        (0..400).for_each(|_| seen[rule.next(&ask).unwrap()] += 1);
        assert_eq!(seen, [100, 300]);
        assert_eq!(rule.other(&ask, |index| index == 1), Some(0));
    }
}
