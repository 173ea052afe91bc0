//! How the shares of variants change in the course of time: they grow by steps, and fall when a variant does badly.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sluice_meter::{VariantMeter, VariantTotals};

use super::VariantShare;

/// How much a variant gets, in parts of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareCourse {
    /// Always as much.
    Fixed(u32),
    /// More and more.
    Ramp(Ramp),
}

/// A share that grows, in parts of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// At first.
    pub from: u32,
    /// In the end.
    pub to: u32,
    /// By so much with each step.
    pub step: u32,
    /// Nanoseconds between steps.
    pub every: u64,
}

/// When a variant is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// If so many parts of a thousand more of its requests fail than of the stable one's.
    pub errors: Option<u32>,
    /// If its mean latency is more than so many per cent of the stable one's.
    pub latency: Option<u32>,
    /// Nanoseconds that are looked at together.
    pub window: u64,
    /// Fewer requests say nothing: more of them are waited for.
    pub minimum: u64,
}

/// A share as it is now.
#[derive(Debug)]
pub(super) struct Present {
    share: VariantShare,
    now: AtomicU32,
}

/// A variant that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fallen {
    pub(super) variant: usize,
    /// In words for the log.
    pub(super) why: &'static str,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Course {
    rules: Box<[Box<[Present]>]>,
    rollback: Option<Rollback>,
    /// The next moment at which something may change.
    due: AtomicU64,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// When the first request came.
    started: Option<u64>,
    /// When the next window ends.
    window: u64,
    /// Each variant's counts and those of the stable one when its window began; the stable one has none.
    before: Vec<(VariantTotals, VariantTotals)>,
    fallen: Vec<bool>,
}

impl ShareCourse {
    fn first(self) -> u32 {
        match self {
            Self::Fixed(share) => share,
            Self::Ramp(ramp) => ramp.from,
        }
    }

    fn most(self) -> u32 {
        match self {
            Self::Fixed(share) => share,
            Self::Ramp(ramp) => ramp.to.max(ramp.from),
        }
    }

    /// The share after so many nanoseconds, and after how many more it changes.
    fn after(self, nanos: u64) -> (u32, Option<u64>) {
        let ramp = match self {
            Self::Fixed(share) => return (share, None),
            Self::Ramp(ramp) => ramp,
        };
        let every = ramp.every.max(1);
        let steps = nanos / every;
        let grown = steps.saturating_mul(ramp.step.into()).saturating_add(ramp.from.into());
        match u32::try_from(grown) {
            Ok(share) if share < ramp.to => (share, Some(every - nanos % every)),
            _ => (self.most(), None),
        }
    }
}

impl Present {
    pub(super) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn most(&self) -> u32 {
        self.share.course.most()
    }

    pub(super) fn variant(&self) -> usize {
        self.share.variant
    }
}

impl Course {
    /// The course of the shares of each rule, for so many variants besides the stable one.
    pub(super) fn new<'r>(
        rules: impl Iterator<Item = &'r [VariantShare]>,
        rollback: Option<Rollback>,
        others: usize,
    ) -> Self {
        let present = |share: &VariantShare| Present {
            share: *share,
            now: AtomicU32::new(share.course.first()),
        };
        let progress = Progress {
            started: None,
            window: 0,
            before: vec![<(VariantTotals, VariantTotals)>::default(); others],
            fallen: vec![false; others],
        };
        Self {
            rules: rules.map(|shares| shares.iter().map(present).collect()).collect(),
            rollback,
            due: AtomicU64::new(0),
            progress: Mutex::new(progress),
        }
    }

    /// The shares of a rule now.
    pub(super) fn shares(&self, rule: usize) -> &[Present] {
        self.rules.get(rule).map_or(&[], |shares| shares)
    }

    #[inline]
    pub(super) fn is_due(&self, now: u64) -> bool {
        now >= self.due.load(Ordering::Relaxed)
    }

    /// Does what is to be done by now; the variants that are given up.
    pub(super) fn look(&self, now: u64, meter: &VariantMeter) -> Vec<Fallen> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        // Another worker may have done it meanwhile.
        if !self.is_due(now) {
            return Vec::new();
        }
        let progress = &mut *progress;
        let started = *progress.started.get_or_insert_with(|| {
            for (before, variant) in progress.before.iter_mut().zip(1..) {
                *before = (meter.totals(variant), meter.totals(0));
            }
            progress.window =
                self.rollback.map_or(u64::MAX, |rule| now.saturating_add(rule.window));
            now
        });
        let fallen = match self.rollback {
            Some(rule) if now >= progress.window => {
                progress.window = now.saturating_add(rule.window);
                judge(rule, progress, meter)
            }
            _ => Vec::new(),
        };
        let next = self.advance(now.saturating_sub(started), &progress.fallen, meter);
        let next = next.map_or(u64::MAX, |nanos| now.saturating_add(nanos));
        self.due.store(next.min(progress.window), Ordering::Relaxed);
        fallen
    }

    /// Sets the shares to what they are after so many nanoseconds; after how many more one changes.
    fn advance(&self, nanos: u64, fallen: &[bool], meter: &VariantMeter) -> Option<u64> {
        let mut next: Option<u64> = None;
        let mut told = vec![0; fallen.len() + 1];
        for present in self.rules.iter().flatten() {
            let variant = present.variant();
            let given_up = variant.checked_sub(1).and_then(|at| fallen.get(at)).copied();
            let (share, change) = match given_up {
                Some(true) => (0, None),
                _ => present.share.course.after(nanos),
            };
            present.now.store(share, Ordering::Relaxed);
            next = next.into_iter().chain(change).min();
            if let Some(told) = told.get_mut(variant) {
                *told = share.max(*told);
            }
        }
        let others: u32 = told.iter().sum();
        for (variant, share) in told.into_iter().enumerate() {
            let share = if variant == 0 { 1000_u32.saturating_sub(others) } else { share };
            meter.set_share(variant, share);
        }
        next
    }
}

/// The variants that do badly, among those of which enough is known.
fn judge(rule: Rollback, progress: &mut Progress, meter: &VariantMeter) -> Vec<Fallen> {
    let mut all = Vec::new();
    let stable = meter.totals(0);
    let variants = progress.before.iter_mut().zip(&mut progress.fallen).zip(1..);
    for ((before, fallen), variant) in variants {
        let now = meter.totals(variant);
        let (theirs, ours) = (since(now, before.0), since(stable, before.1));
        if theirs.requests < rule.minimum || *fallen {
            continue;
        }
        *before = (now, stable);
        if let Some(why) = fault(rule, theirs, ours) {
            *fallen = true;
            all.push(Fallen { variant, why });
        }
    }
    all
}

/// What a variant does worse than the stable one.
fn fault(rule: Rollback, variant: VariantTotals, stable: VariantTotals) -> Option<&'static str> {
    let per_mille = |totals: VariantTotals| ratio(totals.errors, totals.requests, 1000);
    let mean = |totals: VariantTotals| ratio(totals.nanos, totals.answers, 1);
    if rule.errors.is_some_and(|more| per_mille(variant) > per_mille(stable) + u128::from(more)) {
        return Some("too many of its requests fail");
    }
    let known = variant.answers.min(stable.answers) >= rule.minimum;
    let slow = |percent: u32| mean(variant) * 100 > mean(stable) * u128::from(percent);
    (known && rule.latency.is_some_and(slow)).then_some("its answers take too long")
}

fn ratio(part: u64, whole: u64, scale: u128) -> u128 {
    (u128::from(part) * scale).checked_div(u128::from(whole)).unwrap_or(0)
}

fn since(now: VariantTotals, before: VariantTotals) -> VariantTotals {
    VariantTotals {
        requests: now.requests.saturating_sub(before.requests),
        errors: now.errors.saturating_sub(before.errors),
        answers: now.answers.saturating_sub(before.answers),
        nanos: now.nanos.saturating_sub(before.nanos),
    }
}

#[cfg(test)]
mod tests {
    use sluice_meter::VariantEnd;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn course(course: ShareCourse, rollback: Option<Rollback>) -> (Course, VariantMeter) {
        let shares = [VariantShare { variant: 1, course }];
        let meter = VariantMeter::new(1, &["stable", "new"]);
        (Course::new([&shares[..]].into_iter(), rollback, 1), meter)
    }

    #[test]
    fn shares_grow_by_steps_and_end() {
        let ramp = Ramp { from: 10, to: 100, step: 40, every: 60 * SECOND };
        let (course, meter) = course(ShareCourse::Ramp(ramp), None);
        let start = 77 * SECOND;
        for (seconds, share) in
            [(0, 10), (59, 10), (60, 50), (119, 50), (121, 90), (180, 100), (9999, 100)]
        {
            let now = start + seconds * SECOND;
            if course.is_due(now) {
                assert_eq!(course.look(now, &meter), []);
            }
            assert_eq!(course.shares(0)[0].now(), share, "{seconds}");
        }
        assert!(!course.is_due(u64::MAX - 1));
    }

    #[test]
    fn a_fixed_share_needs_no_look_after_the_first() {
        let (course, meter) = course(ShareCourse::Fixed(100), None);
        assert!(course.is_due(SECOND));
        course.look(SECOND, &meter);
        assert!(!course.is_due(u64::MAX - 1));
        assert_eq!(course.shares(0)[0].now(), 100);
    }

    /// Requests of the stable variant and the other: how many, how many of them failed, nanoseconds each.
    fn rolled_back(rule: Rollback, stable: (u32, u32, u64), other: (u32, u32, u64)) -> bool {
        let (course, meter) = course(ShareCourse::Fixed(500), Some(rule));
        // What was before does not count.
        meter.on_end(0, 1, VariantEnd::Failed, Some(1 << 50));
        course.look(SECOND, &meter);
        for (variant, (count, errors, nanos)) in [(0, stable), (1, other)] {
            for number in 0..count {
                let end = if number < errors { VariantEnd::Failed } else { VariantEnd::Good };
                meter.on_end(0, variant, end, Some(nanos));
            }
        }
        assert!(!course.is_due(10 * SECOND));
        let fallen = course.look(12 * SECOND, &meter);
        assert_eq!(course.shares(0)[0].now() == 0, !fallen.is_empty());
        // It stays as it is.
        course.look(100 * SECOND, &meter);
        assert_eq!(course.shares(0)[0].now() == 0, !fallen.is_empty());
        !fallen.is_empty()
    }

    #[test]
    fn variants_that_do_badly_are_given_up() {
        let window = 10 * SECOND;
        let rule = Rollback { errors: Some(50), latency: Some(200), window, minimum: 20 };
        let rows = [
            ((100, 0, 100), (100, 5, 100), false),
            ((100, 0, 100), (100, 6, 100), true),
            ((100, 10, 100), (100, 15, 100), false),
            ((0, 0, 0), (100, 6, 100), true),
            ((100, 0, 100), (19, 19, 900), false),
            ((100, 0, 100), (100, 0, 200), false),
            ((100, 0, 100), (100, 0, 201), true),
            ((19, 0, 100), (100, 0, 900), false),
        ];
        for (stable, other, expected) in rows {
            assert_eq!(rolled_back(rule, stable, other), expected, "{stable:?} {other:?}");
        }
        let blind = Rollback { errors: None, latency: None, ..rule };
        assert!(!rolled_back(blind, (100, 0, 1), (100, 100, 1000)));
    }

    #[test]
    fn few_requests_are_looked_at_together_with_later_ones() {
        let rule = Rollback { errors: Some(0), latency: None, window: SECOND, minimum: 10 };
        let (course, meter) = course(ShareCourse::Fixed(500), Some(rule));
        course.look(SECOND, &meter);
        for second in 2..=10_u64 {
            meter.on_end(0, 1, VariantEnd::Failed, None);
            assert_eq!(course.look(second * SECOND, &meter), [], "{second}");
        }
        meter.on_end(0, 1, VariantEnd::Failed, None);
        let why = "too many of its requests fail";
        assert_eq!(course.look(11 * SECOND, &meter), [Fallen { variant: 1, why }]);
    }
}
