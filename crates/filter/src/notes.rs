//! What filters leave for each other, for templates and for the log, within one exchange.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;

use crate::owner::Owner;
use crate::throttle::Throttle;

/// What is said of a client in a token that was verified.
pub trait Claims: Debug + Send + Sync {
    /// The claim at this path of names, as text: texts as they are, others as JSON.
    fn claim(&self, path: &[Box<str>]) -> Option<Cow<'_, [u8]>>;
}

/// Something that is kept while an exchange is under way, such as its place among those of a limit.
pub trait Held: Debug + Send + Sync {
    /// The exchange is over, in whatever way: what `token` stands for is free.
    fn release(&self, token: u64);
}

/// Whether a variant was chosen.
#[derive(Clone, Copy, Debug, Default)]
enum Varied {
    #[default]
    No,
    Yes,
}

/// Notes of one exchange; their memory is used again.
#[derive(Debug, Default)]
pub struct Notes {
    /// Whether there may be anything to forget but what is forgotten by a store: numbers, variant and target.
    used: bool,
    /// Who the client has proved to be.
    user: Vec<u8>,
    /// What its token says.
    claims: Option<Arc<dyn Claims>>,
    /// The variant of the route that was chosen for it; or for an earlier one: the next often gets the same.
    variant: Option<Arc<str>>,
    varied: Varied,
    /// The upstream that was chosen instead of the route's.
    target: Option<usize>,
    /// Bytes of content that may follow, if a filter says.
    body_limit: Option<u64>,
    /// What holds it to a bandwidth, and how much of that the gateway does already.
    throttles: Vec<Arc<dyn Throttle>>,
    heeded: usize,
    /// Others, by name.
    others: Vec<(Arc<str>, Vec<u8>)>,
    /// What filters keep for themselves.
    numbers: Vec<(Owner, [u32; 4])>,
    /// The same, where numbers do not do.
    things: Vec<(Owner, Box<dyn Any>)>,
    /// What is free when all is over.
    held: Vec<(Arc<dyn Held>, u64)>,
    /// A bit for each filter of the chain whose condition was judged.
    pub(crate) judged: u64,
    /// A bit for each filter that is left out.
    pub(crate) left_out: u64,
    /// The bit of the filter that has replaced the answer, if one has.
    pub(crate) replaced_by: u64,
    /// The bit of the filter that was asked last.
    pub(crate) asked: Cell<u64>,
}

impl Notes {
    /// Forgets everything, for the next exchange.
    #[inline]
    pub fn clear(&mut self) {
        if self.used {
            self.forget();
        }
        self.numbers.clear();
        self.varied = Varied::No;
        self.target = None;
        self.asked.set(0);
        self.judged = 0;
        self.left_out = 0;
    }

    #[inline(never)]
    fn forget(&mut self) {
        self.used = false;
        self.user.clear();
        self.claims = None;
        self.body_limit = None;
        self.throttles.clear();
        self.heeded = 0;
        self.others.clear();
        self.release();
    }

    /// What `other` has found out, without what it keeps and holds: for an exchange that goes on beside that one.
    pub fn inherit(&mut self, other: &Self) {
        self.used = true;
        self.user.clone_from(&other.user);
        self.claims.clone_from(&other.claims);
        self.variant.clone_from(&other.variant);
        self.varied = other.varied;
        self.target = other.target;
        self.body_limit = other.body_limit;
        self.others.clone_from(&other.others);
    }

    /// Begins with the chain of another route; what was found out stays.
    pub fn restart(&mut self) {
        self.asked.set(0);
        self.target = None;
        self.judged = 0;
        self.left_out = 0;
    }

    /// Who is asked from now on is no filter of the chain.
    #[inline]
    pub fn leave_chain(&self) {
        self.asked.set(0);
    }

    /// Who the client has proved to be; for `auth.user`.
    #[must_use]
    pub fn user(&self) -> Option<&[u8]> {
        (!self.user.is_empty()).then_some(&*self.user)
    }

    /// The client has proved to be this one.
    pub fn set_user(&mut self, user: &[u8]) {
        self.used = true;
        self.user.clear();
        self.user.extend_from_slice(user);
    }

    /// What a verified token says of the client; for `auth.claim`.
    #[must_use]
    pub fn claims(&self) -> Option<&dyn Claims> {
        self.claims.as_deref()
    }

    /// The client has shown a token that says so.
    pub fn set_claims(&mut self, claims: Arc<dyn Claims>) {
        self.used = true;
        self.claims = Some(claims);
    }

    /// The variant that was chosen; for `canary.variant`.
    #[must_use]
    pub fn variant(&self) -> Option<&str> {
        match self.varied {
            Varied::No => None,
            Varied::Yes => self.variant.as_deref(),
        }
    }

    /// This variant was chosen.
    pub fn set_variant(&mut self, variant: &Arc<str>) {
        self.varied = Varied::Yes;
        if !self.variant.as_ref().is_some_and(|known| Arc::ptr_eq(known, variant)) {
            self.variant = Some(Arc::clone(variant));
        }
    }

    /// The upstream that answers instead of the route's, by its index in the snapshot.
    #[must_use]
    pub const fn target(&self) -> Option<usize> {
        self.target
    }

    /// This upstream answers instead of the route's; `None` takes it back. Without effect where the route has
    /// no upstream.
    pub const fn set_target(&mut self, target: Option<usize>) {
        self.target = target;
    }

    /// Bytes of content that filters let through, if any of them says.
    #[must_use]
    pub const fn body_limit(&self) -> Option<u64> {
        self.body_limit
    }

    /// No more content than this is let through, nor than others have said.
    pub fn limit_body(&mut self, bytes: u64) {
        self.used = true;
        self.body_limit = Some(self.body_limit.map_or(bytes, |before| before.min(bytes)));
    }

    /// From now on the content of the request, its answer and all that other requests of the connection are held
    /// to by the same share this bandwidth. Says whether it is new.
    pub fn throttle(&mut self, throttle: Arc<dyn Throttle>) -> bool {
        self.used = true;
        let new = !self.throttles.iter().any(|known| known.owner() == throttle.owner());
        if new {
            self.throttles.push(throttle);
        }
        new
    }

    /// Whether somebody said so since [`Notes::heed_throttles`].
    #[must_use]
    #[inline]
    pub const fn has_new_throttles(&self) -> bool {
        self.throttles.len() > self.heeded
    }

    /// What it is held to beside what was asked for before.
    pub fn heed_throttles(&mut self) -> &[Arc<dyn Throttle>] {
        let new = self.throttles.get(self.heeded..).unwrap_or_default();
        self.heeded = self.throttles.len();
        new
    }

    /// The note of this name; for `note.NAME`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.others.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// Leaves a note, or changes it.
    pub fn set(&mut self, name: &Arc<str>, value: &[u8]) {
        self.used = true;
        match self.others.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => {
                old.clear();
                old.extend_from_slice(value);
            }
            None => self.others.push((Arc::clone(name), value.to_vec())),
        }
    }

    /// What a filter kept.
    #[must_use]
    pub fn kept(&self, owner: Owner) -> Option<[u32; 4]> {
        self.numbers.iter().find(|(known, _)| *known == owner).map(|(_, numbers)| *numbers)
    }

    /// Keeps numbers of a filter until it is asked again, in another phase or after the request was routed anew.
    pub fn keep(&mut self, owner: Owner, numbers: [u32; 4]) {
        match self.numbers.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, old)) => *old = numbers,
            None => self.numbers.push((owner, numbers)),
        }
    }

    /// Keeps a thing of a filter until it is taken or the exchange is over, in whatever way: it is dropped then.
    pub fn leave(&mut self, owner: Owner, thing: Box<dyn Any>) {
        self.used = true;
        self.things.retain(|(known, _)| *known != owner);
        self.things.push((owner, thing));
    }

    /// The thing that a filter left, if it is of this type.
    #[must_use]
    pub fn left<T: 'static>(&mut self, owner: Owner) -> Option<&mut T> {
        let (_, thing) = self.things.iter_mut().find(|(known, _)| *known == owner)?;
        thing.downcast_mut()
    }

    /// Keeps this until the exchange is over, whether that is answered, broken off or dropped.
    pub fn hold(&mut self, held: Arc<dyn Held>, token: u64) {
        self.used = true;
        self.held.push((held, token));
    }

    /// Whether something is kept until the exchange is over.
    #[must_use]
    #[inline]
    pub fn holds(&self) -> bool {
        !self.held.is_empty() || !self.things.is_empty()
    }

    /// The exchange is over.
    #[inline]
    pub fn release(&mut self) {
        if self.holds() {
            self.release_all();
        }
    }

    #[cold]
    fn release_all(&mut self) {
        self.things.clear();
        for (held, token) in self.held.drain(..) {
            held.release(token);
        }
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::throttle::{Bandwidth, Way};

    #[derive(Debug, Default)]
    struct Sum(AtomicU64);

    impl Held for Sum {
        fn release(&self, token: u64) {
            self.0.fetch_add(token, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_held_is_released_once_however_it_ends() {
        let sum = Arc::new(Sum::default());
        let mut notes = Notes::default();
        let released = || sum.0.load(Ordering::Relaxed);
        notes.hold(Arc::<Sum>::clone(&sum), 1);
        notes.hold(Arc::<Sum>::clone(&sum), 2);
        assert!(notes.holds() && released() == 0);
        notes.restart();
        assert_eq!(released(), 0);
        notes.release();
        notes.release();
        assert!(!notes.holds() && released() == 3);
        notes.hold(Arc::<Sum>::clone(&sum), 10);
        notes.clear();
        assert_eq!(released(), 13);
        notes.hold(Arc::<Sum>::clone(&sum), 100);
        drop(notes);
        assert_eq!(released(), 113);
    }

    #[test]
    fn things_are_dropped_when_all_is_over() {
        let (one, two) = (Owner::new(), Owner::new());
        let thing = Arc::new(());
        let mut notes = Notes::default();
        notes.leave(one, Box::new(Arc::clone(&thing)));
        notes.leave(two, Box::new(7_u32));
        assert_eq!(notes.left::<u32>(two), Some(&mut 7));
        assert!(notes.left::<u32>(one).is_none() && notes.left::<Arc<()>>(one).is_some());
        notes.restart();
        assert!(notes.holds() && Arc::strong_count(&thing) == 2);
        notes.release();
        assert!(!notes.holds() && Arc::strong_count(&thing) == 1);
        notes.leave(one, Box::new(Arc::clone(&thing)));
        notes.leave(one, Box::new(8_u32));
        assert_eq!(Arc::strong_count(&thing), 1);
    }

    #[test]
    fn each_filter_has_numbers_of_its_own() {
        let (one, two) = (Owner::new(), Owner::new());
        let mut notes = Notes::default();
        notes.keep(one, [1; 4]);
        notes.keep(two, [2; 4]);
        notes.keep(one, [3; 4]);
        assert_eq!((notes.kept(one), notes.kept(two)), (Some([3; 4]), Some([2; 4])));
        notes.clear();
        assert_eq!(notes.kept(one), None);
    }

    #[test]
    fn what_was_found_out_is_passed_on_and_what_is_kept_is_not() {
        let (name, owner) = (Arc::<str>::from("name"), Owner::new());
        let mut notes = Notes::default();
        notes.set_user(b"ann");
        notes.set(&name, b"value");
        notes.set_variant(&"v2".into());
        notes.set_target(Some(3));
        notes.limit_body(7);
        notes.keep(owner, [1; 4]);
        notes.leave(owner, Box::new(1_u32));
        notes.hold(Arc::new(Sum::default()), 1);
        let mut heir = Notes::default();
        heir.set(&"other".into(), b"before");
        heir.clear();
        heir.inherit(&notes);
        assert_eq!((heir.user(), heir.get("name")), (Some(&b"ann"[..]), Some(&b"value"[..])));
        assert_eq!((heir.variant(), heir.target()), (Some("v2"), Some(3)));
        assert_eq!((heir.body_limit(), heir.get("other")), (Some(7), None));
        assert!(!heir.holds() && heir.kept(owner).is_none() && notes.holds());
        heir.clear();
        assert_eq!((heir.user(), heir.variant(), heir.target()), (None, None, None));
    }

    #[derive(Debug)]
    struct Slow(Owner);

    impl Throttle for Slow {
        fn owner(&self) -> Owner {
            self.0
        }

        fn bandwidth(&self, _: Way) -> Option<Bandwidth> {
            None
        }

        fn on_wait(&self, _: usize, _: Way, _: u64) {}
    }

    #[test]
    fn throttles_are_told_of_once() {
        let (one, two) = (Arc::new(Slow(Owner::new())), Arc::new(Slow(Owner::new())));
        let mut notes = Notes::default();
        assert!(!notes.has_new_throttles());
        assert!(notes.throttle(Arc::<Slow>::clone(&one)));
        assert!(!notes.throttle(Arc::<Slow>::clone(&one)));
        assert!(notes.has_new_throttles());
        assert_eq!(notes.heed_throttles().len(), 1);
        notes.throttle(Arc::<Slow>::clone(&one));
        assert!(!notes.has_new_throttles());
        notes.restart();
        notes.throttle(Arc::<Slow>::clone(&two));
        assert_eq!(notes.heed_throttles().iter().map(|it| it.owner()).collect::<Vec<_>>(), [two.0]);
        notes.clear();
        notes.throttle(one);
        assert_eq!(notes.heed_throttles().len(), 1);
    }
}
