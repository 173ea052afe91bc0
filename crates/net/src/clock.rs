//! The clock of a worker: read once per turn of the loop, free to ask.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub type Nanos = u64;

thread_local! {
    static MONOTONIC: Cell<Nanos> = const { Cell::new(0) };
    static WALL_OFFSET_MS: Cell<i64> = const { Cell::new(0) };
    static WALL_READ_AT: Cell<Nanos> = const { Cell::new(0) };
}

/// How long the offset between the two clocks is trusted; steps of the wall clock show after this.
const WALL_TRUST: Nanos = 500_000_000;

/// Time of this turn on the monotonic clock, in nanoseconds. It was read when the loop last woke, so
/// work done since then is not in it.
#[must_use]
#[inline]
pub fn now() -> Nanos {
    MONOTONIC.get()
}

/// Time of this turn on the wall clock, in milliseconds since 1970 (UTC).
#[must_use]
pub fn unix_ms() -> u64 {
    let monotonic_ms = i64::try_from(now() / 1_000_000).unwrap_or(i64::MAX);
    u64::try_from(monotonic_ms.saturating_add(WALL_OFFSET_MS.get())).unwrap_or(0)
}

/// Reads the clock for the coming turn.
#[inline]
pub(crate) fn advance() {
    let now = read(ClockId::Monotonic);
    MONOTONIC.set(now);
    if now.saturating_sub(WALL_READ_AT.get()) >= WALL_TRUST || WALL_READ_AT.get() == 0 {
        let wall = i64::try_from(read(ClockId::Realtime) / 1_000_000).unwrap_or(i64::MAX);
        WALL_OFFSET_MS.set(wall - i64::try_from(now / 1_000_000).unwrap_or(0));
        WALL_READ_AT.set(now);
    }
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// A duration in the clock's unit; durations beyond 584 years saturate.
#[must_use]
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
