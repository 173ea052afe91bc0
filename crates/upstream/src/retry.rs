//! When a request is tried again, and how often at most.

use std::cell::Cell;
use std::time::Duration;

use sluice_message::{Fault, FaultKind, GrpcStatus, GrpcStatuses, Retry};
use sluice_net::{Nanos, now};

/// When a request is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries after the first one.
    pub attempts: u32,
    /// What a try must have come to.
    pub on: Conditions,
    /// Which requests may reach a server twice.
    pub methods: Repeatable,
    /// How long one try may take until the head of its answer is there.
    pub try_timeout: Option<Duration>,
    /// How many retries there may be beside first tries; no limit if absent.
    pub budget: Option<BudgetRule>,
    /// Bytes of a request's content that are kept for another try.
    pub buffer: usize,
    /// When another server is asked beside a slow one.
    pub hedge: Option<HedgeRule>,
}

/// When another server is asked beside a slow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HedgeRule {
    /// How long those asked so far may take.
    pub after: Duration,
    /// How many are asked beside the first, at most.
    pub most: u32,
}

/// Which requests may reach a server twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeatable {
    /// Those whose repetition does no more than sending them once (RFC 9110, 9.2.2).
    #[default]
    Idempotent,
    /// All: whoever configured it knows that his servers can tell.
    All,
}

/// Something a try can come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No connection could be opened: nothing was sent.
    Connect,
    /// The connection ended before the first byte of an answer.
    Reset,
    /// Time ran out before the first byte of an answer.
    Timeout,
    /// An answer of this status.
    Status(u16),
    /// A call that ended so, before anything else of its answer had come.
    Call(GrpcStatus),
}

/// A set of conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// One bit for each status from 100 on.
    statuses: [u64; 8],
    /// How calls end.
    calls: GrpcStatuses,
    /// One bit for each other condition.
    others: u8,
}

impl Conditions {
    /// These as well.
    #[must_use]
    pub fn with(mut self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        for condition in conditions {
            match condition {
                Condition::Status(status) => {
                    let (word, bit) = place(status);
                    if let Some(word) = self.statuses.get_mut(word) {
                        *word |= bit;
                    }
                }
                Condition::Call(status) => self.calls = self.calls.with(status),
                other => self.others |= mark(other),
            }
        }
        self
    }

    /// Whether an answer of this status is one to try again after.
    #[must_use]
    #[inline]
    pub fn has_status(&self, status: u16) -> bool {
        let (word, bit) = place(status);
        self.statuses.get(word).is_some_and(|word| word & bit != 0)
    }

    /// How calls end that are to be tried again.
    #[must_use]
    pub const fn calls(&self) -> GrpcStatuses {
        self.calls
    }

    fn has(&self, condition: Condition) -> bool {
        self.others & mark(condition) != 0
    }

    /// Whether a try that ended in this fault is one to try again after.
    #[must_use]
    pub fn covers(&self, fault: Fault) -> bool {
        match (fault.retry, fault.kind) {
            (Retry::Never, _) => false,
            (Retry::Always, FaultKind::ConnectTimedOut) => {
                self.has(Condition::Connect) || self.has(Condition::Timeout)
            }
            (Retry::Always, _) => self.has(Condition::Connect),
            (Retry::IfIdempotent, FaultKind::TimedOut | FaultKind::ResponseTimedOut) => {
                self.has(Condition::Timeout)
            }
            (Retry::IfIdempotent, _) => self.has(Condition::Reset),
        }
    }
}

/// Word and bit of a status; beyond the last word for what is no status.
#[inline]
fn place(status: u16) -> (usize, u64) {
    let at = status.wrapping_sub(100);
    (usize::from(at / 64), 1 << (at % 64))
}

const fn mark(condition: Condition) -> u8 {
    match condition {
        Condition::Connect => 1,
        Condition::Reset => 2,
        Condition::Timeout => 4,
        Condition::Status(_) | Condition::Call(_) => 0,
    }
}

/// How many retries there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRule {
    /// Retries a request allows, in millionths.
    pub share: u32,
    /// Retries a second that are allowed however few requests there are.
    pub minimum: u32,
}

/// What one retry costs.
const RETRY: u64 = 1_000_000;

/// Retries that may be saved up.
const SAVED: u64 = 100;

/// What a worker may still spend on retries to one cluster: requests pay in, retries draw out.
#[derive(Debug)]
pub(crate) struct Budget {
    rule: BudgetRule,
    /// In millionths of a retry.
    balance: Cell<u64>,
    /// Until when the minimum was paid in.
    since: Cell<Nanos>,
}

impl Budget {
    pub(crate) fn new(rule: BudgetRule) -> Self {
        let balance = Cell::new(u64::from(rule.minimum) * RETRY);
        Self { rule, balance, since: Cell::new(now()) }
    }

    fn pay(&self, amount: u64) {
        let most = SAVED.max(u64::from(self.rule.minimum)) * RETRY;
        self.balance.set(self.balance.get().saturating_add(amount).min(most));
    }

    /// A retry that was paid for is not made.
    pub(crate) fn refund(&self) {
        self.pay(RETRY);
    }

    /// A request comes in.
    #[inline]
    pub(crate) fn deposit(&self) {
        self.pay(u64::from(self.rule.share));
    }

    /// Takes one retry out; `None` if there is none left.
    pub(crate) fn withdraw(&self) -> Option<()> {
        self.pay_minimum(now());
        self.balance.set(self.balance.get().checked_sub(RETRY)?);
        Some(())
    }

    /// A minimum of so many a second is as many millionths a microsecond.
    fn pay_minimum(&self, now: Nanos) {
        let passed = now.saturating_sub(self.since.replace(now)) / 1000;
        self.pay(passed.saturating_mul(u64::from(self.rule.minimum)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_cover_what_they_name() {
        let always = |kind| Fault::upstream(kind, Retry::Always);
        let maybe = |kind| Fault::upstream(kind, Retry::IfIdempotent);
        let faults = [
            always(FaultKind::ConnectFailed),
            always(FaultKind::ConnectTimedOut),
            maybe(FaultKind::Closed),
            maybe(FaultKind::Reset),
            maybe(FaultKind::ResponseTimedOut),
            maybe(FaultKind::TimedOut),
            Fault::upstream(FaultKind::Closed, Retry::Never),
        ];
        let rows = [
            (&[][..], [false; 7]),
            (&[Condition::Connect], [true, true, false, false, false, false, false]),
            (&[Condition::Reset], [false, false, true, true, false, false, false]),
            (&[Condition::Timeout], [false, true, false, false, true, true, false]),
            (&[Condition::Status(502)], [false; 7]),
        ];
        for (on, expected) in rows {
            let on = Conditions::default().with(on.iter().copied());
            assert_eq!(faults.map(|fault| on.covers(fault)), expected, "{on:?}");
        }
    }

    #[test]
    fn statuses_are_told_apart() {
        let named = [404, 429, 500, 503, 599];
        let on = Conditions::default().with(named.map(Condition::Status));
        for status in (0..=u16::MAX).filter(|status| on.has_status(*status)) {
            assert!(named.contains(&status), "{status}");
        }
        assert!(named.iter().all(|status| on.has_status(*status)));
        assert!(!on.has(Condition::Connect) && on.calls().is_empty());
        let on = on.with([Condition::Call(GrpcStatus::UNAVAILABLE)]);
        assert!(on.calls().has(GrpcStatus::UNAVAILABLE) && !on.calls().has(GrpcStatus::UNKNOWN));
    }

    #[test]
    fn retries_are_a_share_of_the_requests() {
        let budget = Budget::new(BudgetRule { share: 200_000, minimum: 0 });
        assert_eq!(budget.withdraw(), None, "nobody has paid in");
        let mut granted = 0;
        for _ in 0..100 {
            budget.deposit();
            granted += usize::from(budget.withdraw().is_some());
        }
        assert_eq!(granted, 20);
        // What is saved up is bounded.
        (0..10_000).for_each(|_| budget.deposit());
        assert_eq!((0..10_000).filter_map(|_| budget.withdraw()).count(), 100);
    }

    #[test]
    fn the_minimum_needs_no_requests() {
        let budget = Budget::new(BudgetRule { share: 0, minimum: 3 });
        let all = || std::iter::from_fn(|| budget.withdraw()).count();
        assert_eq!((all(), all()), (3, 0));
        for (passed, granted) in [(1_000, 3), (333, 0), (334, 2), (10_000, 30), (900_000, 100)] {
            budget.since.set(0);
            budget.pay_minimum(passed * 1_000_000);
            budget.since.set(now());
            assert_eq!(all(), granted, "{passed} ms");
        }
    }
}
