//! When the next check begins.

use std::time::Duration;

use super::rule::WHOLE;

/// From the beginning of one check to that of the next: `interval`, longer or shorter by up to
/// `jitter` millionths. Servers that were all first checked at the start are spread out by it.
pub(super) fn pause(interval: Duration, jitter: u32, random: u64) -> Duration {
    let spread =
        interval.as_nanos().saturating_mul(u128::from(jitter.min(WHOLE))) / u128::from(WHOLE);
    let spread = u64::try_from(spread).unwrap_or(u64::MAX);
    let width = spread.saturating_mul(2);
    let offset = match width.checked_add(1) {
        Some(values) => random % values,
        None => random,
    };
    let least = interval.saturating_sub(Duration::from_nanos(spread));
    least.saturating_add(Duration::from_nanos(offset))
}

/// Numbers that look random enough to spread checks (xorshift64*).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        // Zero would stay zero for ever.
        Self(seed | 1)
    }

    pub(super) const fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
