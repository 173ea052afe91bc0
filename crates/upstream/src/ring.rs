//! A ring of points, of which each key belongs to the next one.

use crate::scatter::{STEP, hash, mix};

/// Points of a server of weight 1: enough that shares differ by a few percent only.
const POINTS: u64 = 160;
/// Points of a ring at most: 8 MiB.
const MOST: u64 = 1 << 20;

/// Points of all servers, as many for each as its weight says.
///
/// A point depends on the server's address and its own number and on nothing else: when servers come or
/// go, only keys that belong to their points move. It is laid out once for all workers; who is not
/// available is passed over when a key is looked up.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Place on the ring in the upper half, index of the server in the lower.
    points: Box<[u64]>,
    /// A number for each server that depends on its address alone.
    salts: Box<[u64]>,
}

impl Ring {
    /// For servers of these addresses and weights.
    pub(crate) fn new<A: AsRef<str>>(servers: impl IntoIterator<Item = (A, u32)>) -> Self {
        let salted =
            |(address, weight): (A, u32)| (hash(address.as_ref().bytes()), u64::from(weight));
        let servers: Vec<(u64, u64)> = servers.into_iter().map(salted).collect();
        let sum: u64 = servers.iter().map(|&(_, weight)| weight).sum();
        let mut points = Vec::new();
        for (index, &(salt, weight)) in (0_u64..).zip(&servers) {
            // A ring too full keeps the first points of each server, so that few keys move.
            let room = (weight * MOST).checked_div(sum).unwrap_or(0).max(weight.min(1));
            let numbers = 0..(weight * POINTS).min(room);
            points.extend(numbers.map(|number| {
                let place = mix(salt.wrapping_add(number.wrapping_mul(STEP)));
                (place & PLACE) | index
            }));
        }
        points.sort_unstable();
        Self { points: points.into(), salts: servers.into_iter().map(|(salt, _)| salt).collect() }
    }

    /// The servers whose points follow a key, one for each point.
    #[inline]
    pub(crate) fn after(&self, key: u64) -> impl Iterator<Item = usize> {
        let at = self.points.partition_point(|&point| point & PLACE < key & PLACE);
        let (before, after) = self.points.split_at_checked(at).unwrap_or((&[], &self.points));
        after.iter().chain(before).filter_map(|&point| usize::try_from(point & !PLACE).ok())
    }

    /// The server's own number.
    #[inline]
    pub(crate) fn salt(&self, server: usize) -> u64 {
        self.salts.get(server).copied().unwrap_or(0)
    }
}

/// The half of a point that says where it is.
const PLACE: u64 = 0xFFFF_FFFF_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_follow_weights_within_bounds() {
        let points = |weights: &[u32]| {
            let servers = weights.iter().enumerate();
            let ring = Ring::new(servers.map(|(at, &weight)| (format!("h{at}:1"), weight)));
            (0..weights.len())
                .map(|index| ring.after(0).filter(|&owner| owner == index).count())
                .collect::<Vec<_>>()
        };
        assert_eq!(points(&[1, 3, 0]), [160, 480, 0]);
        let full = points(&[1000; 20]);
        assert!(full.iter().all(|&count| count == 52_428), "{full:?}");
        assert_eq!(points(&[]), [0_usize; 0]);
    }

    #[test]
    fn a_key_belongs_to_the_next_point_all_around() {
        let ring = Ring::new([("a:1", 1), ("b:1", 1)]);
        let first = ring.points[0];
        let owner = usize::try_from(first & !PLACE).unwrap();
        assert_eq!(ring.after(first).next(), Some(owner));
        assert_eq!(ring.after(u64::MAX).next(), Some(owner), "behind the last comes the first");
        assert_eq!(ring.after(0).count(), 320);
    }
}
