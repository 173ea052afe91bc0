//! Signatures that were used, so that none is used twice.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Signatures of the last minutes, shared by all workers: a request that is repeated may reach any.
#[derive(Debug)]
pub struct Replays {
    /// Until when each is remembered, as Unix time in seconds.
    seen: Mutex<HashMap<Box<[u8]>, u64>>,
    capacity: usize,
}

/// How a signature is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// For the first time.
    First,
    /// Again: it is refused.
    Again,
    /// There is no room to remember it, so that it cannot be let through either.
    Full,
}

impl Replays {
    /// With room for so many signatures.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { seen: Mutex::new(HashMap::new()), capacity: capacity.max(1) }
    }

    /// Notes a signature that is good until `until`; both times are Unix time in seconds.
    pub fn note(&self, signature: &[u8], until: u64, now: u64) -> Sight {
        // Whoever panicked with the lock left a map that is whole.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.get(signature).is_some_and(|until| now <= *until) {
            return Sight::Again;
        }
        if seen.len() >= self.capacity {
            seen.retain(|_, until| now <= *until);
            if seen.len() >= self.capacity {
                return Sight::Full;
            }
        }
        seen.insert(signature.into(), until);
        Sight::First
    }
}

#[cfg(test)]
mod tests {
    use super::{Replays, Sight};

    #[test]
    fn nothing_is_used_twice_while_it_is_good() {
        let replays = Replays::new(2);
        assert_eq!(replays.note(b"a", 10, 0), Sight::First);
        assert_eq!(replays.note(b"a", 10, 10), Sight::Again);
        assert_eq!(replays.note(b"b", 20, 5), Sight::First);
        assert_eq!(replays.note(b"c", 20, 10), Sight::Full, "nothing that counts is forgotten");
        assert_eq!(replays.note(b"b", 20, 10), Sight::Again);
        assert_eq!(replays.note(b"c", 30, 11), Sight::First);
    }

    #[test]
    fn of_many_at_once_one_is_the_first() {
        let replays = Replays::new(100);
        let firsts: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| usize::from(replays.note(b"x", 9, 0) == Sight::First)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(firsts, 1);
    }
}
