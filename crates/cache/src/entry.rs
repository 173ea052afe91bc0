//! An answer that is kept.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use sluice_message::{Field, Fields, Validators, parse_http_date};

use crate::content::Content;
use crate::fifo::{Queued, Standing};
use crate::policy::{Staleness, Terms};
use crate::vary::Selecting;

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// What the tables need for an entry beside what is in it.
const PLACE: usize = 256;
/// Seconds that a refresh may take.
pub(crate) const REFRESH: u64 = 30;

/// What a request asks for, as far as that tells answers apart before `Vary` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Keyed hash of what follows.
    pub(crate) hash: u64,
    /// The URL, in the form of the key plan.
    pub(crate) url: Box<[u8]>,
    /// What of the head is part of the key.
    pub(crate) extra: Box<[u8]>,
}

/// What is to be known of an answer apart from its content.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) status: u16,
    /// The lines it is given with again.
    pub(crate) fields: Fields,
    pub(crate) vary: Vec<Selecting>,
    /// Names that it can be purged by.
    pub(crate) tags: Vec<Box<[u8]>>,
    /// When its origin made it, in seconds since 1970.
    pub(crate) date: u64,
    pub(crate) terms: Terms,
    /// When it came, in nanoseconds of the clock that never goes back.
    pub(crate) born: u64,
}

/// An answer that is kept.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    pub(crate) about: About,
    pub(crate) body: Content,
    /// Until when it is fresh, in nanoseconds.
    fresh_until: u64,
    /// Bytes it counts for.
    pub(crate) cost: usize,
    state: AtomicU8,
    standing: Standing,
    /// Until when nobody is to ask the origin again, in nanoseconds.
    asked_until: AtomicU64,
}

const GONE: u8 = 1;
const SPOILED: u8 = 2;

impl About {
    /// When it stops to be fresh.
    fn fresh_until(&self) -> u64 {
        let left = self.terms.lifetime.saturating_sub(self.terms.age);
        self.born.saturating_add(left.saturating_mul(SECOND))
    }

    /// How old it is, in seconds (RFC 9111, 4.2.3).
    pub(crate) fn age(&self, now: u64) -> u64 {
        self.terms.age + now.saturating_sub(self.born) / SECOND
    }

    /// Until when that is its age, in nanoseconds.
    pub(crate) fn same_age_until(&self, now: u64) -> u64 {
        let seconds = now.saturating_sub(self.born) / SECOND + 1;
        self.born.saturating_add(seconds.saturating_mul(SECOND))
    }

    /// What it is told from others of its resource by.
    pub(crate) fn validators(&self) -> Validators<'_> {
        let modified = self.fields.values_of(b"last-modified").next();
        Validators {
            etag: self.fields.values_of(b"etag").next(),
            last_modified: modified.and_then(|value| parse_http_date(value, self.date)),
            date: self.date,
        }
    }
}

impl Entry {
    pub(crate) fn new(identity: Identity, about: About, body: Content) -> Self {
        let fields = about.fields.bytes().len() + size_of_val(about.fields.lines());
        let names = identity.url.len() + identity.extra.len();
        let tags = about.tags.iter().map(|tag| tag.len() + size_of::<Box<[u8]>>()).sum::<usize>();
        let vary = about.vary.iter().map(Selecting::size).sum::<usize>();
        let withheld = about.terms.withheld.iter().map(|name| name.len() + size_of::<Field>());
        let around = size_of::<Self>() + PLACE + names + tags + vary + withheld.sum::<usize>();
        Self {
            fresh_until: about.fresh_until(),
            cost: around + fields + body.size(),
            identity,
            about,
            body,
            state: AtomicU8::new(0),
            standing: Standing::default(),
            asked_until: AtomicU64::new(0),
        }
    }

    /// Whether it is for requests with these fields.
    #[inline]
    pub(crate) fn is_for(&self, request: &Fields) -> bool {
        self.about.vary.iter().all(|one| one.matches(request))
    }

    /// Whether it is still kept.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.state.load(Ordering::Relaxed) & GONE == 0
    }

    /// It is kept no longer.
    pub(crate) fn leave(&self) {
        self.state.fetch_or(GONE, Ordering::Relaxed);
    }

    /// Whether it may be given without asking its origin: it is fresh, and nobody has said that it is not.
    #[inline]
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        now < self.fresh_until && self.state.load(Ordering::Relaxed) == 0
    }

    /// Its origin has to be asked before it is given as if it was fresh.
    pub(crate) fn spoil(&self) {
        self.state.fetch_or(SPOILED, Ordering::Relaxed);
    }

    /// Whether it was fresh enough for those who waited for it, whether it is kept or not.
    pub(crate) fn is_young(&self, now: u64) -> bool {
        now < self.fresh_until
    }

    /// Seconds for which it is fresh; negative if it no longer is.
    pub(crate) fn left(&self, now: u64) -> i64 {
        let seconds = |nanos: u64| i64::try_from(nanos / SECOND).unwrap_or(i64::MAX);
        if now < self.fresh_until && self.state.load(Ordering::Relaxed) & SPOILED == 0 {
            return seconds(self.fresh_until - now);
        }
        // What was said to be stale is so from now on.
        if now < self.fresh_until {
            return 0;
        }
        // What was too old when it came is that much staler.
        let terms = &self.about.terms;
        let before = i64::try_from(terms.age.saturating_sub(terms.lifetime)).unwrap_or(i64::MAX);
        -(seconds(now - self.fresh_until).saturating_add(before))
    }

    /// Whether it may be given so many seconds after it was fresh.
    pub(crate) fn is_within(&self, patience: u64, now: u64) -> bool {
        let stale = u64::try_from(-self.left(now)).unwrap_or(0);
        patience > 0 && stale <= patience && self.is_kept()
    }

    /// Seconds that a client may be content with it after it was fresh, if it says so.
    pub(crate) fn may_be_stale(&self) -> bool {
        self.about.terms.staleness == Staleness::Allowed
    }

    /// Somebody asks the origin: for so long nobody else has to.
    pub(crate) fn hold_off(&self, until: u64) {
        self.asked_until.store(until, Ordering::Relaxed);
    }

    /// Whether the caller is to refresh it: nobody else is about to. Who does not come to an end is not waited for.
    pub(crate) fn begin_refresh(&self, now: u64) -> bool {
        let before = self.asked_until.load(Ordering::Relaxed);
        let until = now.saturating_add(REFRESH * SECOND);
        let order = Ordering::Relaxed;
        before <= now && self.asked_until.compare_exchange(before, until, order, order).is_ok()
    }

    /// Whether the origin is not to be asked for now.
    pub(crate) fn is_held_off(&self, now: u64) -> bool {
        now < self.asked_until.load(Ordering::Relaxed)
    }

    /// It was given.
    #[inline]
    pub(crate) fn touch(&self) {
        self.standing.touch();
    }
}

impl Queued for Entry {
    fn hash(&self) -> u64 {
        self.identity.hash
    }

    fn cost(&self) -> u64 {
        u64::try_from(self.cost).unwrap_or(u64::MAX)
    }

    fn is_kept(&self) -> bool {
        Self::is_kept(self)
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }
}

/// The key is a hash already.
#[derive(Debug, Default)]
pub(crate) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Answer, Cookies, Rules, SetCookie, date};

    #[test]
    fn a_clock_on_the_wall_that_jumps_keeps_nothing_fresh_for_longer() {
        const YEAR: u64 = 365 * 86_400;
        const NOW: u64 = 784_111_777;
        let mut fields = Fields::new();
        for (name, value) in [
            ("Date", "Sun, 06 Nov 1994 08:49:27 GMT"),
            ("Expires", "Sun, 06 Nov 1994 08:59:27 GMT"),
            ("ETag", "\"a\""),
        ] {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let rules = Rules {
            targeted: Vec::new(),
            lifetimes: Vec::new(),
            stale_while_revalidate: 0,
            stale_if_error: 0,
            cookies: Cookies::Careful,
            set_cookie: SetCookie::Refuse,
        };
        // What the clock says when the answer comes, and the age and lifetime that come of it.
        for (now, age, lifetime) in
            [(NOW, 10, 600), (NOW + YEAR, YEAR + 10, 600), (NOW - YEAR, 0, 600), (0, 0, 600)]
        {
            let answer = Answer {
                status: 200,
                fields: &fields,
                authorized: false,
                cookies: false,
                now,
                delay: 0,
            };
            let terms = rules.judge(&answer).unwrap();
            assert_eq!((terms.age, terms.lifetime), (age, lifetime), "{now}");
            // From then on time is that of the clock that never goes back, whatever the other one says.
            let born = 1_000 * SECOND;
            let about = About {
                status: 200,
                fields: fields.clone(),
                vary: Vec::new(),
                tags: Vec::new(),
                date: date(&answer),
                terms,
                born,
            };
            let identity = Identity { hash: 0, url: [].into(), extra: [].into() };
            let entry = Entry::new(identity, about, Vec::new().into());
            for seconds in [0, 1, 589, 590, 600, YEAR] {
                let later = born + seconds * SECOND;
                assert_eq!(entry.about.age(later), age + seconds);
                assert_eq!(entry.is_fresh(later), age + seconds < lifetime, "{now} {seconds}");
            }
        }
    }
}
