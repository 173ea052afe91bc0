//! How many requests a key may make, and where it stands: the generic cell rate algorithm.
//!
//! Of each key one moment is kept: when its allowance will be whole again. Each request puts it off by an
//! interval, and is refused if that would put it off by more than the allowance lasts. So in any span
//! of time no more pass than the allowance and one for each interval in it.

use std::fmt::Debug;

use sluice_filter::Local;

use crate::key_table::{Change, KeyTable};

const SECOND: u64 = 1_000_000_000;

/// How many requests may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How many may come at once.
    burst: u64,
    /// After how many nanoseconds one more may come.
    interval: u64,
    /// After how many nanoseconds an allowance that was used up is whole again.
    whole: u64,
}

impl Quota {
    /// So many in so many nanoseconds, `burst` of them at once; at least one of each.
    #[must_use]
    pub fn new(count: u64, period: u64, burst: u64) -> Self {
        // Rounded up: never more than was said.
        let (burst, interval) = (burst.max(1), period.div_ceil(count.max(1)).max(1));
        Self { burst, interval, whole: burst.saturating_mul(interval) }
    }

    /// How many may come at once.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Seconds until an allowance that was used up is whole again.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.whole.div_ceil(SECOND)
    }

    /// One more; `None` if there is none left.
    #[inline]
    fn take(&self, until: u64, now: u64) -> Option<u64> {
        let next = until.max(now).saturating_add(self.interval);
        (next - now <= self.whole).then_some(next)
    }

    /// Where a key stands that will have all again at `until`.
    fn standing(&self, rule: usize, until: u64, now: u64) -> Standing {
        let owed = until.saturating_sub(now);
        let remaining = self.whole.saturating_sub(owed) / self.interval;
        let reset = owed.div_ceil(SECOND);
        Standing { rule, remaining, reset, outcome: Outcome::Passed }
    }

    fn refusal(&self, rule: usize, until: u64, now: u64) -> Standing {
        let standing = self.standing(rule, until, now);
        let free = until.saturating_add(self.interval).saturating_sub(self.whole);
        let retry_after = free.saturating_sub(now).div_ceil(SECOND).max(1);
        Standing { remaining: 0, outcome: Outcome::Refused { retry_after }, ..standing }
    }
}

/// Where a key stands with a rule: the one that leaves the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The place of the rule.
    pub rule: usize,
    /// How many more may come now.
    pub remaining: u64,
    /// Seconds until all that may come at once may come again.
    pub reset: u64,
    /// Whether the request may go on.
    pub outcome: Outcome,
}

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It may.
    Passed,
    /// It may not.
    Refused {
        /// Seconds after which it may; at least 1.
        retry_after: u64,
    },
    /// Nobody knows: too many keys are counted already.
    Unknown,
}

/// One of a rule for a key.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// The key.
    pub key: &'a [u8],
    /// How many it may make.
    pub quota: Quota,
}

/// What a [`Store`] says.
pub enum Taken {
    /// It knows.
    Now(Standing),
    /// It asks somebody else.
    Later(Local<Standing>),
}

/// Where it is kept how many requests were made.
pub trait Store: Debug + Send + Sync {
    /// Takes one of each rule, or none if one of them has none left. `now` is in nanoseconds. The place of a
    /// demand is that of its rule.
    fn take(&self, demands: &[Demand<'_>], now: u64) -> Taken;
}

/// The store of one process, exact over all its workers.
#[derive(Debug)]
pub struct LocalStore(KeyTable);

impl LocalStore {
    /// With room for so many keys at the same time.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        Self(KeyTable::new(keys))
    }

    #[inline]
    fn take_one(&self, (rule, demand): (usize, &Demand<'_>), now: u64) -> Standing {
        let quota = demand.quota;
        let tag = self.tag(rule, demand);
        // A key that has all is one that nobody has heard of. What is written lies ahead of all that was.
        let claim = |until| if until < now { quota.take(until, now) } else { None };
        match self.0.update(tag, |until| quota.take(until, now), claim) {
            Change::Made { word, .. } => quota.standing(rule, word, now),
            Change::Refused(until) => quota.refusal(rule, until, now),
            Change::Full => Standing { rule, remaining: 0, reset: 0, outcome: Outcome::Unknown },
        }
    }

    fn tag(&self, rule: usize, demand: &Demand<'_>) -> u64 {
        self.0.tag(u8::try_from(rule).unwrap_or(u8::MAX), demand.key)
    }

    /// What stands in the way of a request, if anything does.
    fn refusal(&self, demands: &[Demand<'_>], now: u64) -> Option<Standing> {
        demands.iter().enumerate().find_map(|(rule, demand)| {
            let until = self.0.read(self.tag(rule, demand))?;
            let left = demand.quota.take(until, now);
            left.is_none().then(|| demand.quota.refusal(rule, until, now))
        })
    }

    /// Requests that one rule refuses do not count for the others, unless they come at the very moment in
    /// which another worker takes the last: then they do, rather than that one too many goes on.
    fn take_all(&self, demands: &[Demand<'_>], now: u64) -> Standing {
        if let Some(refusal) = self.refusal(demands, now) {
            return refusal;
        }
        let mut tightest: Option<Standing> = None;
        for demand in demands.iter().enumerate() {
            let standing = self.take_one(demand, now);
            if let Outcome::Refused { .. } = standing.outcome {
                return standing;
            }
            let worse = |known: &Standing| {
                standing.outcome == Outcome::Unknown
                    || known.outcome != Outcome::Unknown && standing.remaining < known.remaining
            };
            if tightest.as_ref().is_none_or(worse) {
                tightest = Some(standing);
            }
        }
        let nothing = Standing { rule: 0, remaining: 0, reset: 0, outcome: Outcome::Passed };
        tightest.unwrap_or(nothing)
    }
}

impl Store for LocalStore {
    #[inline]
    fn take(&self, demands: &[Demand<'_>], now: u64) -> Taken {
        Taken::Now(match demands {
            [only] => self.take_one((0, only), now),
            several => self.take_all(several, now),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn take(store: &LocalStore, demands: &[Demand<'_>], now: u64) -> Standing {
        match store.take(demands, now) {
            Taken::Now(standing) => standing,
            Taken::Later(_) => unreachable!(),
        }
    }

    const fn standing(rule: usize, remaining: u64, reset: u64, retry: u64) -> Standing {
        let outcome =
            if retry == 0 { Outcome::Passed } else { Outcome::Refused { retry_after: retry } };
        Standing { rule, remaining, reset, outcome }
    }

    #[test]
    fn an_allowance_is_used_up_and_comes_back() {
        let store = LocalStore::new(10);
        let quota = Quota::new(2, 10 * SECOND, 3);
        assert_eq!((quota.burst(), quota.window()), (3, 15));
        let start = 100 * SECOND;
        let rows = [
            (0, standing(0, 2, 5, 0)),
            (0, standing(0, 1, 10, 0)),
            (0, standing(0, 0, 15, 0)),
            (0, standing(0, 0, 15, 5)),
            (4, standing(0, 0, 11, 1)),
            (5, standing(0, 0, 15, 0)),
            (6, standing(0, 0, 14, 4)),
            (1000, standing(0, 2, 5, 0)),
        ];
        for (seconds, expected) in rows {
            let demand = Demand { key: b"a", quota };
            assert_eq!(take(&store, &[demand], start + seconds * SECOND), expected, "{seconds}");
        }
        let other = Demand { key: b"b", quota };
        assert_eq!(take(&store, &[other], start), standing(0, 2, 5, 0));
    }

    #[test]
    fn what_one_rule_refuses_does_not_count_for_others() {
        let store = LocalStore::new(10);
        let quick = Quota::new(1, SECOND, 1);
        let long = Quota::new(3, 3600 * SECOND, 3);
        let demands = [Demand { key: b"a", quota: quick }, Demand { key: b"a", quota: long }];
        let at = |seconds: u64| take(&store, &demands, (100 + seconds) * SECOND);
        assert_eq!(at(0), standing(0, 0, 1, 0));
        for _ in 0..10 {
            assert_eq!(at(0), standing(0, 0, 1, 1));
        }
        assert_eq!(at(1).outcome, Outcome::Passed);
        assert_eq!(at(2).outcome, Outcome::Passed);
        assert_eq!(at(3), standing(1, 0, 3597, 1197));
        assert_eq!(at(1200).outcome, Outcome::Passed);
    }

    #[test]
    fn more_keys_than_there_is_room_for_are_not_known() {
        let store = LocalStore::new(1);
        let quota = Quota::new(1, SECOND, 1);
        let outcome =
            |key: u64, now| take(&store, &[Demand { key: &key.to_le_bytes(), quota }], now).outcome;
        let unknown = (0..1000).filter(|key| outcome(*key, SECOND) == Outcome::Unknown).count();
        assert_eq!(unknown, 1000 - 64);
        // A moment later all of them have their allowance again.
        let unknown = (5000..5010).filter(|key| outcome(*key, 3 * SECOND) == Outcome::Unknown);
        assert_eq!(unknown.count(), 0);
    }

    /// However many ask, exactly as many get one as there are: with keys that come and go meanwhile, and clocks
    /// that do not agree.
    #[test]
    fn workers_never_let_more_through_than_there_is() {
        let quota = Quota::new(1000, 1000 * SECOND, 1000);
        for round in 0..20_u64 {
            let store = LocalStore::new(1);
            let passed = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for thread in 0..2_u64 {
                    let (store, passed) = (&store, &passed);
                    scope.spawn(move || {
                        for attempt in 0..3000_u64 {
                            // Short-lived keys take slots and give them back.
                            let key = (attempt % 40).to_le_bytes();
                            let short = Quota::new(1_000_000_000, SECOND, 1);
                            let now = 100 * SECOND + round + thread * 7 + attempt;
                            take(store, &[Demand { key: &key, quota: short }], now);
                            let got = take(store, &[Demand { key: b"all", quota }], 100 * SECOND);
                            if got.outcome == Outcome::Passed {
                                passed.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(passed.into_inner(), 1000, "{round}");
        }
    }
}
