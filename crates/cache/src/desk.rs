//! What each worker has at hand: room to write keys, and the entries it gave last with the heads it gave them with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sluice_filter::Ready;
use sluice_message::{Fields, ResponseHead, SettledHead, SpaceExhausted};
use sluice_meter::PerWorker;

use crate::content::Content;
use crate::entry::Entry;
use crate::told::{Told, tell, tell_age};

/// Sets of entries at hand; a power of two.
const SETS: usize = 256;
/// Entries that may have the same place: variants of one answer have.
const WAYS: usize = 4;
/// Heads with more bytes are made anew each time, so that those at hand stay small.
const LARGE_HEAD: usize = 2048;

/// The desks of all workers. None waits for another one's lock.
#[derive(Debug)]
pub(crate) struct Desks(PerWorker<Mutex<Desk>>);

#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// The URL of a request, as it is part of the key.
    pub(crate) url: Vec<u8>,
    /// What else of it is.
    pub(crate) extra: Vec<u8>,
    pub(crate) near: Shelf,
}

/// The entries at hand.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// Without any place before the first one comes.
    places: Vec<Near>,
    /// The way that is given up next.
    hand: usize,
}

/// What a request asks for, as its client wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'r> {
    /// Of the target.
    pub(crate) hash: u64,
    pub(crate) scheme: &'static str,
    pub(crate) authority: &'r [u8],
    pub(crate) target: &'r [u8],
    /// What of the head is part of the key.
    pub(crate) extra: &'r [u8],
    pub(crate) fields: &'r Fields,
}

/// An entry at hand. It does not keep what was given up from going.
#[derive(Clone, Debug, Default)]
struct Near {
    hash: u64,
    scheme: &'static str,
    authority: Box<[u8]>,
    target: Box<[u8]>,
    entry: Weak<Entry>,
    /// The head it is given with until then, in nanoseconds: age and time left count seconds.
    until: u64,
    head: Arc<SettledHead>,
}

impl Desks {
    pub(crate) fn new(workers: usize) -> Self {
        Self(PerWorker::new(workers))
    }

    /// The desk of a worker.
    #[inline]
    pub(crate) fn of(&self, worker: usize) -> MutexGuard<'_, Desk> {
        self.0.worker(worker).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// The place and the entry at hand for a request.
    #[inline]
    pub(crate) fn find(&self, wanted: &Wanted<'_>) -> Option<(usize, Arc<Entry>)> {
        let from = first_way(wanted.hash);
        let set = self.places.get(from..from + WAYS)?;
        set.iter().enumerate().find_map(|(way, near)| {
            if near.hash != wanted.hash || !near.is_for(wanted) {
                return None;
            }
            let entry = near.entry.upgrade()?;
            let (extra, own) = (wanted.extra, &*entry.identity.extra);
            let same = extra.is_empty() && own.is_empty() || extra == own;
            (same && entry.is_kept() && entry.is_for(wanted.fields)).then_some((from + way, entry))
        })
    }

    /// Has an entry at hand from now on.
    pub(crate) fn put(&mut self, wanted: &Wanted<'_>, entry: &Arc<Entry>) {
        if self.places.is_empty() {
            self.places = vec![Near::default(); SETS * WAYS];
        }
        let from = first_way(wanted.hash);
        let Some(set) = self.places.get_mut(from..from + WAYS) else { return };
        let free = set.iter().position(|near| {
            let kept = near.entry.upgrade().is_some_and(|one| one.is_kept());
            !kept || near.hash == wanted.hash && near.entry.as_ptr() == Arc::as_ptr(entry)
        });
        self.hand = self.hand.wrapping_add(1);
        if let Some(near) = set.get_mut(free.unwrap_or(self.hand % WAYS)) {
            *near = Near {
                hash: wanted.hash,
                scheme: wanted.scheme,
                authority: wanted.authority.into(),
                target: wanted.target.into(),
                entry: Arc::downgrade(entry),
                until: 0,
                head: Arc::default(),
            };
        }
    }

    /// A fresh entry at this place, ready to be given. Not what is a file, nor what has a head that leaves no room
    /// for what has to be added.
    #[inline]
    pub(crate) fn ready(&mut self, place: usize, entry: &Entry, now: u64) -> Option<Ready> {
        let Content::Memory(body) = &entry.body else { return None };
        let head = match self.places.get_mut(place) {
            Some(near) if now < near.until => Arc::clone(&near.head),
            near => renewed(near, entry, now).ok()?,
        };
        Some(Ready { head, body: body.clone() })
    }
}

impl Near {
    #[inline]
    fn is_for(&self, wanted: &Wanted<'_>) -> bool {
        *self.target == *wanted.target
            && *self.authority == *wanted.authority
            // `http` or `https`.
            && self.scheme.len() == wanted.scheme.len()
    }
}

/// The head for this second, kept where it is at hand.
#[cold]
fn renewed(
    near: Option<&mut Near>,
    entry: &Entry,
    now: u64,
) -> Result<Arc<SettledHead>, SpaceExhausted> {
    let about = &entry.about;
    let fill = |head: &mut ResponseHead| -> Result<(), SpaceExhausted> {
        head.status = about.status;
        head.fields.copy_from(&about.fields);
        tell_age(&mut head.fields, about.age(now))?;
        tell(&mut head.fields, Told::Hit(entry.left(now)))
    };
    match near {
        Some(near) if about.fields.bytes().len() <= LARGE_HEAD => {
            // In the memory of the one before, if nobody has that any more.
            Arc::make_mut(&mut near.head).change(fill)?;
            near.until = about.same_age_until(now);
            Ok(Arc::clone(&near.head))
        }
        _ => {
            let mut head = ResponseHead::default();
            fill(&mut head)?;
            Ok(Arc::new(head.into()))
        }
    }
}

#[inline]
fn first_way(hash: u64) -> usize {
    (usize::try_from(hash).unwrap_or(0) & (SETS - 1)) * WAYS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{About, Identity, SECOND};
    use crate::lines::fields;
    use crate::policy::{Staleness, Terms};
    use crate::vary::selecting;

    fn entry(answer: &Fields, request: &Fields, lifetime: u64) -> Arc<Entry> {
        let terms = Terms {
            lifetime,
            age: 0,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            staleness: Staleness::Allowed,
            immutable: false,
            withheld: Vec::new(),
        };
        let about = About {
            status: 200,
            fields: answer.clone(),
            vary: selecting(answer, request),
            tags: Vec::new(),
            date: 0,
            terms,
            born: 5 * SECOND,
        };
        let identity = Identity { hash: 7, url: (*b"u").into(), extra: [].into() };
        Arc::new(Entry::new(identity, about, Content::Memory(b"content".to_vec().into())))
    }

    fn wanted<'r>(authority: &'r [u8], target: &'r [u8], fields: &'r Fields) -> Wanted<'r> {
        Wanted { hash: 9, scheme: "http", authority, target, extra: b"", fields }
    }

    #[test]
    fn what_is_asked_for_differently_is_not_at_hand() {
        let none = Fields::new();
        let mut shelf = Shelf::default();
        let entry = entry(&none, &none, 60);
        let asked = wanted(b"a", b"/x", &none);
        assert!(shelf.find(&asked).is_none());
        shelf.put(&asked, &entry);
        assert!(shelf.find(&asked).is_some());
        let others = [
            wanted(b"b", b"/x", &none),
            wanted(b"a", b"/y", &none),
            Wanted { scheme: "https", ..asked },
            Wanted { extra: b"1", ..asked },
            Wanted { hash: 10, ..asked },
        ];
        for other in others {
            assert!(shelf.find(&other).is_none(), "{other:?}");
        }
        entry.leave();
        assert!(shelf.find(&asked).is_none(), "it is kept no longer");
    }

    #[test]
    fn variants_are_at_hand_beside_each_other() {
        let answer = fields(&[("vary", "accept-encoding")]);
        let mut shelf = Shelf::default();
        let requests: Vec<Fields> =
            ["gzip", "br", "zstd", ""].map(|ae| fields(&[("accept-encoding", ae)])).into();
        let entries: Vec<_> = requests.iter().map(|request| entry(&answer, request, 60)).collect();
        for (request, entry) in requests.iter().zip(&entries) {
            shelf.put(&wanted(b"a", b"/", request), entry);
        }
        for (request, entry) in requests.iter().zip(&entries) {
            let (_, found) = shelf.find(&wanted(b"a", b"/", request)).unwrap();
            assert!(Arc::ptr_eq(&found, entry));
        }
        // One more takes the place of another.
        let more = fields(&[("accept-encoding", "deflate")]);
        let one = entry(&answer, &more, 60);
        shelf.put(&wanted(b"a", b"/", &more), &one);
        assert!(shelf.find(&wanted(b"a", b"/", &more)).is_some());
        let left = requests.iter().filter(|it| shelf.find(&wanted(b"a", b"/", it)).is_some());
        assert_eq!(left.count(), WAYS - 1);
    }

    #[test]
    fn a_head_is_the_same_for_a_second_and_no_longer() {
        let none = Fields::new();
        let mut shelf = Shelf::default();
        let entry = entry(&fields(&[("x-a", "1")]), &none, 60);
        let asked = wanted(b"a", b"/", &none);
        shelf.put(&asked, &entry);
        let (place, _) = shelf.find(&asked).unwrap();
        let mut told = |now: u64| {
            let ready = shelf.ready(place, &entry, now).unwrap();
            let value = |name: &[u8]| {
                let value = ready.head.fields.values_of(name).next().unwrap_or_default();
                String::from_utf8(value.to_vec()).unwrap()
            };
            assert_eq!((value(b"x-a").as_str(), &*ready.body), ("1", &b"content"[..]));
            assert_eq!(ready.head.fields.lines().len(), 3);
            (value(b"age"), value(b"cache-status"), ready)
        };
        let table = [
            (5 * SECOND + 1, "0", "sluice; hit; ttl=59"),
            (6 * SECOND - 1, "0", "sluice; hit; ttl=59"),
            (6 * SECOND, "1", "sluice; hit; ttl=59"),
            (9 * SECOND - 1, "3", "sluice; hit; ttl=56"),
        ];
        for (now, age, status) in table {
            let (told_age, told_status, _) = told(now);
            assert_eq!((told_age.as_str(), told_status.as_str()), (age, status), "{now}");
        }
        // What somebody still has is not changed under his hands.
        let (.., held) = told(20 * SECOND);
        let (.., same) = told(21 * SECOND - 1);
        assert!(Arc::ptr_eq(&held.head, &same.head));
        let before = held.head.fields.clone();
        let (.., later) = told(30 * SECOND);
        assert_eq!(held.head.fields, before);
        assert_ne!(later.head.fields, before);
    }

    #[test]
    fn large_heads_are_not_kept_at_hand() {
        let none = Fields::new();
        let mut shelf = Shelf::default();
        let entry = entry(&fields(&[("x-a", &"1".repeat(LARGE_HEAD))]), &none, 60);
        let asked = wanted(b"a", b"/", &none);
        shelf.put(&asked, &entry);
        let (place, _) = shelf.find(&asked).unwrap();
        let ready = shelf.ready(place, &entry, 6 * SECOND).unwrap();
        assert_eq!(ready.head.fields.values_of(b"age").next(), Some(&b"1"[..]));
        assert!(shelf.places[place].head.fields.bytes().is_empty());
    }
}
