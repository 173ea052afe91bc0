//! Counters against peers that make work and pay nothing for it.
//!
//! Every kind of cheap frame has a level that halves each second. What a peer does that is of use (a
//! request that came to its end, content) is credit for the other kinds, so that busy connections do
//! not meet limits that are meant for idle ones.

/// A way to make work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flood {
    /// Streams opened and reset (CVE-2023-44487).
    Resets,
    /// Streams opened and made to be reset from this side (CVE-2025-8671).
    ProvokedResets,
    /// SETTINGS (CVE-2019-9515).
    Settings,
    /// PING (CVE-2019-9512).
    Pings,
    /// DATA and header frames without anything in them (CVE-2019-9518).
    Empty,
    /// WINDOW_UPDATE of few bytes.
    Windows,
    /// PRIORITY and frames of unknown types (CVE-2019-9513).
    Priorities,
    /// Frames that nothing is left to be done with: on streams that are closed or were refused,
    /// acknowledgements nobody waits for, GOAWAY again and again.
    Stray,
    /// A header block of too many or too large frames (CVE-2024-27316).
    Continuations,
    /// Answers to control frames that the peer does not read (CVE-2019-9517).
    Backlog,
}

impl Flood {
    /// As it stands in logs and metrics; one word, stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resets => "flood_resets",
            Self::ProvokedResets => "flood_provoked_resets",
            Self::Settings => "flood_settings",
            Self::Pings => "flood_pings",
            Self::Empty => "flood_empty",
            Self::Windows => "flood_windows",
            Self::Priorities => "flood_priorities",
            Self::Stray => "flood_stray",
            Self::Continuations => "flood_continuations",
            Self::Backlog => "flood_backlog",
        }
    }
}

/// What is let through at once; since levels halve each second, half of it every second for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloodLimits {
    /// Resets by the peer; a request that came to its end takes one back.
    pub resets: u32,
    /// Resets the peer provoked.
    pub provoked_resets: u32,
    /// SETTINGS frames.
    pub settings: u32,
    /// PING frames.
    pub pings: u32,
    /// Empty frames.
    pub empty: u32,
    /// WINDOW_UPDATE frames beyond one for each frame of data.
    pub windows: u32,
    /// PRIORITY and unknown frames.
    pub priorities: u32,
    /// Frames that nothing is left to be done with, beyond one for each frame of data.
    pub stray: u32,
    /// CONTINUATION frames of one header block.
    pub continuations: u32,
}

impl Default for FloodLimits {
    fn default() -> Self {
        Self {
            resets: 200,
            provoked_resets: 100,
            settings: 50,
            pings: 200,
            empty: 100,
            windows: 1000,
            priorities: 500,
            stray: 1000,
            continuations: 32,
        }
    }
}

/// Kinds that have a level: those before [`Flood::Continuations`].
const LEVELS: usize = 8;

/// Nanoseconds, the unit of time here.
const SECOND: u64 = 1_000_000_000;

/// The levels of a connection.
#[derive(Debug)]
pub(super) struct Floods {
    limits: [u32; LEVELS],
    levels: [u32; LEVELS],
    /// Requests that came to their end.
    finished: u32,
    /// Frames with content, either way.
    content: u32,
    /// When levels were halved last.
    since: u64,
}

impl Floods {
    pub(super) const fn new(limits: &FloodLimits) -> Self {
        let FloodLimits {
            resets,
            provoked_resets,
            settings,
            pings,
            empty,
            windows,
            priorities,
            stray,
            ..
        } = *limits;
        let limits = [resets, provoked_resets, settings, pings, empty, windows, priorities, stray];
        Self { limits, levels: [0; LEVELS], finished: 0, content: 0, since: 0 }
    }

    /// A request came to its end.
    #[inline(always)]
    pub(super) const fn finished(&mut self) {
        self.finished = self.finished.saturating_add(1);
    }

    /// A frame with content came or went.
    #[inline(always)]
    pub(super) const fn content(&mut self) {
        self.content = self.content.saturating_add(1);
    }

    /// Counts one of a kind, at `now` in nanoseconds on any clock that never goes back.
    ///
    /// # Errors
    /// The kind itself if it is one too many.
    pub(super) fn count(&mut self, flood: Flood, now: u64) -> Result<(), Flood> {
        self.decay(now);
        let credit = match flood {
            Flood::Resets | Flood::ProvokedResets => self.finished,
            // Whoever sends or takes content may say something about each frame of it: both windows,
            // a measurement of the way. What was on its way when its stream ended is no offence.
            Flood::Windows | Flood::Pings | Flood::Stray => {
                self.content.saturating_mul(4).saturating_add(self.finished)
            }
            _ => 0,
        };
        let (Some(level), Some(limit)) =
            (self.levels.get_mut(place(flood)), self.limits.get(place(flood)))
        else {
            return Err(flood);
        };
        *level = level.saturating_add(1);
        if *level > limit.saturating_add(credit) { Err(flood) } else { Ok(()) }
    }

    fn decay(&mut self, now: u64) {
        let seconds = now.saturating_sub(self.since) / SECOND;
        if seconds == 0 {
            return;
        }
        self.since = now;
        let halved =
            |level: u32| level.checked_shr(u32::try_from(seconds).unwrap_or(32)).unwrap_or(0);
        self.levels = self.levels.map(halved);
        self.finished = halved(self.finished);
        self.content = halved(self.content);
    }
}

#[expect(clippy::as_conversions, reason = "an enum without fields as its number")]
const fn place(flood: Flood) -> usize {
    flood as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Flood; LEVELS] = [
        Flood::Resets,
        Flood::ProvokedResets,
        Flood::Settings,
        Flood::Pings,
        Flood::Empty,
        Flood::Windows,
        Flood::Priorities,
        Flood::Stray,
    ];

    #[test]
    fn each_kind_has_its_limit_and_recovers() {
        for (place, kind) in KINDS.into_iter().enumerate() {
            let mut floods = Floods::new(&FloodLimits::default());
            let limit = floods.limits[place];
            for _ in 0..limit {
                floods.count(kind, 5).unwrap();
            }
            assert_eq!(floods.count(kind, 5), Err(kind), "{kind:?}");
            // Half of it is let through a second later, and all of it after a while.
            assert_eq!(floods.count(kind, 5 + SECOND), Ok(()));
            for _ in 0..limit {
                floods.count(kind, 60 * SECOND).unwrap();
            }
            assert_eq!(floods.count(kind, 60 * SECOND), Err(kind));
        }
    }

    #[test]
    fn use_is_credit() {
        let mut floods = Floods::new(&FloodLimits::default());
        for _ in 0..10_000 {
            floods.finished();
            floods.count(Flood::Resets, 0).unwrap();
            floods.content();
            floods.count(Flood::Windows, 0).unwrap();
        }
        // Content is no credit for settings.
        assert!((0..1000).any(|_| floods.count(Flood::Settings, 0).is_err()));
    }
}
