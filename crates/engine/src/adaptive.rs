//! A limit of concurrency that finds itself, from the latency of origins.
//!
//! Up to the knee of its load curve a server answers in the same time, however many requests it
//! has; beyond it each further one only makes all of them wait. So the typical latency is compared
//! with a baseline that was measured with few requests under way: while it is as good, the limit may
//! rise, and when it is worse the limit falls in the same proportion. The baseline is measured anew
//! from time to time, with half the limit, since otherwise a server that has grown slower for good
//! would be taken for an overloaded one for ever.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_net::Nanos;

/// Bounds and pace of a limit that finds itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// The lowest limit, and the first one.
    pub min: u32,
    /// The highest limit.
    pub max: u32,
    /// By how many percent the latency may exceed the baseline.
    pub tolerance: u32,
    /// How often the limit is set anew at most.
    pub window: Duration,
    /// How often the baseline is measured anew.
    pub probe: Duration,
}

/// Answers that make a window at least: fewer say little.
const SAMPLES: u64 = 32;
/// Windows that make a new baseline.
const PROBED: u32 = 4;
/// How much of a window's difference the baseline follows.
const FOLLOW: f64 = 0.1;

/// What the workers gather, and the limit it comes to.
#[derive(Debug, Default)]
pub(crate) struct Learner {
    /// Number of answers, and below it the sum of the logarithms of their latencies.
    sums: AtomicU64,
    /// The most requests under way.
    peak: AtomicU32,
    /// The window does not end before.
    until: AtomicU64,
    /// Absent while the limit is a fixed one.
    gradient: Mutex<Option<Gradient>>,
}

/// Where the count begins in [`Learner::sums`].
const COUNT: u32 = 40;
/// Fixed point of the logarithms.
const UNIT: f64 = 256.0;

impl Learner {
    /// Follows these settings from now on; the limit it has found stays as far as they allow.
    pub(crate) fn follow(&self, settings: &AdaptiveSettings, set: impl FnOnce(u32)) {
        let mut gradient = self.lock();
        let gradient = gradient.get_or_insert_with(|| Gradient::new(settings.clone()));
        gradient.settings.clone_from(settings);
        gradient.set(gradient.limit);
        set(gradient.limit());
    }

    /// Learns no more.
    pub(crate) fn rest(&self, set: impl FnOnce()) {
        let mut gradient = self.lock();
        *gradient = None;
        set();
    }

    /// An origin answered after `nanos`, while `under_way` requests were. If that ends a window,
    /// `set` is called with the new limit.
    pub(crate) fn on_answer(
        &self,
        nanos: Nanos,
        under_way: u32,
        now: Nanos,
        set: impl FnOnce(u32),
    ) {
        if self.peak.load(Ordering::Relaxed) < under_way {
            self.peak.fetch_max(under_way, Ordering::Relaxed);
        }
        let sample = (1 << COUNT) + fixed(logarithm(nanos));
        let sums = self.sums.fetch_add(sample, Ordering::Relaxed).wrapping_add(sample);
        if sums >> COUNT < SAMPLES || now < self.until.load(Ordering::Relaxed) {
            return;
        }
        // Somebody who has the lock is at it already.
        let Ok(mut gradient) = self.gradient.try_lock() else { return };
        let Some(gradient) = &mut *gradient else { return };
        let sums = self.sums.swap(0, Ordering::Relaxed);
        let count = sums >> COUNT;
        if count < SAMPLES {
            return;
        }
        let latency = typical(sums & ((1 << COUNT) - 1), count);
        gradient.on_window(latency, self.peak.swap(0, Ordering::Relaxed), now);
        // Requests that began under the limit before are answered before the next look.
        let pause = duration_nanos(gradient.settings.window).max(nanos_of(latency));
        self.until.store(now.saturating_add(pause), Ordering::Relaxed);
        set(gradient.limit());
    }

    fn lock(&self) -> MutexGuard<'_, Option<Gradient>> {
        // Numbers alone, each of them good at any time.
        self.gradient.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The logarithm of a duration to the base 2, so that a mean of many is not the slowest one's.
fn logarithm(nanos: Nanos) -> f64 {
    // In 64 nanoseconds, which make four minutes of 32 bits.
    f64::from(u32::try_from(nanos / 64).unwrap_or(u32::MAX).max(1)).log2()
}

fn nanos_of(logarithm: f64) -> Nanos {
    whole(logarithm.exp2()).saturating_mul(64)
}

fn fixed(logarithm: f64) -> u64 {
    whole(logarithm * UNIT)
}

fn typical(sum: u64, count: u64) -> f64 {
    let mean = sum.checked_div(count).unwrap_or_default();
    f64::from(u32::try_from(mean).unwrap_or(u32::MAX)) / UNIT
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and none of the numbers is negative"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

fn duration_nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The limit and what it is judged by. Latencies are logarithms here.
#[derive(Debug)]
struct Gradient {
    settings: AdaptiveSettings,
    limit: f64,
    /// Absent before the first window.
    baseline: Option<f64>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The baseline is taken anew once this time has come.
    Judging { probe_at: Nanos },
    /// The limit is halved, requests that began before it are still under way.
    Settling { before: f64, until: Nanos },
    /// Windows and the sum of their latencies so far.
    Probing { before: f64, windows: u32, sum: f64 },
}

impl Gradient {
    fn new(settings: AdaptiveSettings) -> Self {
        let limit = f64::from(settings.min);
        Self { settings, limit, baseline: None, phase: Phase::Judging { probe_at: 0 } }
    }

    fn limit(&self) -> u32 {
        u32::try_from(whole(self.limit)).unwrap_or(u32::MAX)
    }

    fn on_window(&mut self, latency: f64, peak: u32, now: Nanos) {
        match self.phase {
            Phase::Judging { probe_at } => self.judge(latency, peak, (now, probe_at)),
            Phase::Settling { before, until } => {
                if now >= until {
                    self.phase = Phase::Probing { before, windows: 0, sum: 0.0 };
                }
            }
            Phase::Probing { before, windows, sum } => {
                let (windows, sum) = (windows + 1, sum + latency);
                if windows < PROBED {
                    self.phase = Phase::Probing { before, windows, sum };
                    return;
                }
                self.baseline = Some(sum / f64::from(windows));
                self.limit = before;
                self.judge_again(now);
            }
        }
    }

    fn judge_again(&mut self, now: Nanos) {
        let probe_at = now.saturating_add(duration_nanos(self.settings.probe));
        self.phase = Phase::Judging { probe_at };
    }

    fn judge(&mut self, latency: f64, peak: u32, (now, probe_at): (Nanos, Nanos)) {
        let Some(known) = self.baseline else {
            self.baseline = Some(latency);
            return self.judge_again(now);
        };
        // With less than half of what may be under way, latency is what the server can do.
        let at_ease = f64::from(peak) * 2.0 < self.limit;
        if now >= probe_at && !at_ease {
            // Twice the time of the requests that are under way, and of those that waited for them.
            let until = now.saturating_add(nanos_of(latency).saturating_mul(2));
            self.phase = Phase::Settling { before: self.limit, until };
            return self.set(self.limit / 2.0);
        }
        let follows = latency < known || at_ease;
        let baseline = if follows { known + FOLLOW * (latency - known) } else { known };
        self.baseline = Some(baseline);
        let allowed = baseline + (1.0 + f64::from(self.settings.tolerance) / 100.0).log2();
        if latency > allowed {
            self.set(self.limit * (allowed - latency).exp2().max(0.5));
        } else if !at_ease {
            self.set(self.limit + self.limit.sqrt());
        }
    }

    fn set(&mut self, limit: f64) {
        let (min, max) = (f64::from(self.settings.min), f64::from(self.settings.max));
        self.limit = limit.min(max).max(min);
    }
}

#[cfg(test)]
mod tests;
