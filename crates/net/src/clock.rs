//! The clock of a worker: read once per turn of the loop, free to ask.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds of the monotonic clock since the process first looked at it.
pub type Nanos = u64;

/// Where the clock begins; the same for all threads.
static START: OnceLock<Instant> = OnceLock::new();

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

/// Time at this very moment, on the same clock as [`now`]: for who measures, since it costs a look at
/// the clock each time. It does not move [`now`].
#[must_use]
#[inline]
pub fn precise_now() -> Nanos {
    let start = *START.get_or_init(Instant::now);
    // One second on, so that "a while ago" is never before the beginning.
    nanos(start.elapsed()).saturating_add(1_000_000_000)
}

/// Time of this turn on the wall clock, in milliseconds since 1970 (UTC).
#[must_use]
pub fn unix_ms() -> u64 {
    let monotonic_ms = i64::try_from(now() / 1_000_000).unwrap_or(i64::MAX);
    u64::try_from(monotonic_ms.saturating_add(WALL_OFFSET_MS.get())).unwrap_or(0)
}

/// Time at this very moment on the wall clock, in nanoseconds since 1970 (UTC): for threads without turns, and for
/// names that must not come twice.
#[must_use]
pub fn precise_unix_nanos() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Reads the clock for the coming turn.
#[inline]
pub(crate) fn advance() {
    let now = precise_now();
    MONOTONIC.set(now);
    if now.saturating_sub(WALL_READ_AT.get()) >= WALL_TRUST {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX);
        WALL_OFFSET_MS.set(wall_ms - i64::try_from(now / 1_000_000).unwrap_or(0));
        WALL_READ_AT.set(now);
    }
}

/// A duration in the clock's unit; durations beyond 584 years saturate.
#[must_use]
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
