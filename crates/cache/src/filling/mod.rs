//! An answer that is on its way: who asked for it passes it on, and others follow it.

mod follow;
mod gathered;

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluice_filter::Broken;
use sluice_message::{Ranges, parse_ranges};
use sluice_net::{Deadline, spawn};

use crate::content::{Ahead, Content, Part};
use crate::disk::Watch;
use crate::entry::{About, Entry, Identity};
use follow::Flow;
use gathered::Gathered;

/// Of a file that grows so much is given at once.
const STRETCH: u64 = 1024 * 1024;
/// Who holds the others up is looked for so often.
const PATIENCE: Duration = Duration::from_secs(5);
/// Whoever takes less than this meanwhile is not waited for.
const LEAST: u64 = 256 * 1024;

/// What content in memory counts for, as long as this lives.
pub(crate) type Room = Box<dyn fmt::Debug + Send + Sync>;

/// Whether others may wait for an answer on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// They may.
    Welcome,
    /// Each asks for itself.
    Unwanted,
}

/// What somebody who waits wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// That the answer has begun: the rest can be given as it comes.
    Beginning,
    /// That it is whole.
    Whole,
}

/// An answer that is on its way.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) identity: Identity,
    pub(crate) company: Company,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    outcome: Option<Outcome>,
    /// What it is an answer to was purged meanwhile: it is not kept.
    void: bool,
    /// It is not kept: those who have begun get what comes, nobody else does.
    passing: bool,
    /// Those who wait or follow, each in a place of its own.
    places: Vec<Place>,
    free: Vec<usize>,
    /// How many wait or follow.
    joined: usize,
    /// Who asked, and wants to know when somebody begins to wait.
    leader: Option<Waker>,
    /// Who asked, and goes on when those who follow have taken something.
    held_up: Option<Waker>,
    /// Whether somebody looks for those who hold the others up.
    watched: bool,
    /// The answer as followers get it, if they may.
    flow: Option<Arc<Entry>>,
    gathered: Gathered,
    /// As much of it as is in a file.
    file: Option<Part>,
    /// What the content in memory counts for while nobody brings more of it.
    room: Option<Room>,
}

/// Somebody who waits or follows.
#[derive(Debug, Default)]
struct Place {
    waker: Option<Waker>,
    /// How far somebody who follows is who is waited for, and how far he was when that was looked at.
    at: Option<u64>,
    mark: u64,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It has begun, and can be given as it comes.
    Begun(Arc<Entry>),
    /// It is there, and kept if there is room.
    Whole(Arc<Entry>),
    /// It was on the disk, and is kept in memory if there is room.
    Recalled(Arc<Entry>),
    /// It is for nobody but who asked.
    Unshared,
    /// The origin failed: all get this status.
    Failed(u16),
    /// It was whole, and is not kept: those who follow have it, or what is left of it.
    Passed,
    /// Who asked failed or left.
    Broken,
}

impl Filling {
    pub(crate) fn new(identity: Identity, company: Company) -> Self {
        Self { identity, company, progress: Mutex::default() }
    }

    /// What is asked for was purged: what comes is older than that.
    pub(crate) fn spoil(&self) {
        self.progress().void = true;
    }

    /// Whether somebody waits for it; the waker is woken when somebody begins to.
    pub(crate) fn is_awaited(&self, waker: &Waker) -> bool {
        let mut progress = self.progress();
        if progress.joined == 0 && !progress.leader.as_ref().is_some_and(|it| it.will_wake(waker)) {
            progress.leader = Some(waker.clone());
        }
        progress.joined > 0
    }

    /// Whether nothing has become of it yet.
    pub(crate) fn is_open(&self) -> bool {
        let progress = self.progress();
        progress.outcome.is_none() && !progress.passing
    }

    /// It has begun, with so many bytes to come if that is known: others may have it as it comes.
    pub(crate) fn open(self: &Arc<Self>, about: &About, length: Option<u64>) {
        if self.company == Company::Welcome {
            let coming = Flow { filling: Arc::clone(self), length };
            let content = Content::Coming(Ahead::new(Arc::new(coming), length));
            let entry = Entry::new(self.identity.clone(), about.clone(), content);
            self.progress().flow = Some(Arc::new(entry));
        }
    }

    /// Room for so many bytes of content that are about to come.
    pub(crate) fn expect(&self, bytes: usize) {
        self.progress().gathered.expect(bytes);
    }

    /// More content, for memory.
    pub(crate) fn push(&self, piece: &[u8]) {
        let mut progress = self.progress();
        progress.gathered.push(piece);
        progress.wake();
    }

    /// Bytes in memory.
    pub(crate) fn total(&self) -> usize {
        self.progress().gathered.bytes()
    }

    /// What was gathered in memory.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.progress().gathered.take()
    }

    /// It is not kept from now on. Those who have begun get what comes, as long as they keep up; others ask for
    /// themselves. Whether somebody has begun.
    pub(crate) fn let_pass(&self) -> bool {
        let mut progress = self.progress();
        if progress.slowest().is_none() {
            return false;
        }
        progress.passing = true;
        progress.wake();
        let flow = progress.flow.take();
        drop(progress);
        // What it belongs to may go with it.
        drop(flow);
        true
    }

    /// What comes now is not in the file, where what came before is.
    pub(crate) fn leave_file(&self) {
        let mut progress = self.progress();
        let written = progress.file.as_ref().map_or(0, |part| part.length);
        progress.gathered = Gathered::beginning_at(written);
    }

    /// Lets go what all who follow have. Bytes that are left; `None` if nobody follows.
    pub(crate) fn trim(&self) -> Option<usize> {
        self.progress().trim()
    }

    /// Lets the oldest content go until there are no more bytes than this. Who has not got it is broken off.
    pub(crate) fn shrink_to(&self, bytes: usize) {
        let mut progress = self.progress();
        progress.gathered.shrink_to(bytes);
        progress.wake();
    }

    /// Whether those who follow have to take something before more comes than this many bytes in memory. The waker
    /// is woken when they have.
    pub(crate) fn is_full(self: &Arc<Self>, bytes: usize, waker: &Waker) -> bool {
        let mut progress = self.progress();
        let full = progress.trim().is_some_and(|held| held > bytes);
        progress.held_up = full.then(|| waker.clone());
        if full && !std::mem::replace(&mut progress.watched, true) {
            let filling = Arc::clone(self);
            spawn(async move {
                loop {
                    Deadline::new().sleep(PATIENCE).await;
                    if !filling.leave_behind() {
                        return;
                    }
                }
            });
        }
        full
    }

    /// Gives up those who hold the others up and have taken too little since this was done before. Whether
    /// somebody still waits for them.
    pub(crate) fn leave_behind(&self) -> bool {
        let mut progress = self.progress();
        let Some(leader) = progress.held_up.take().filter(|_| progress.outcome.is_none()) else {
            progress.watched = false;
            return false;
        };
        progress.leave_behind();
        progress.wake();
        leader.wake();
        true
    }

    /// It was whole and is not kept: what those who follow have not got stays until they have it.
    pub(crate) fn end_passing(&self, room: Room) {
        let mut progress = self.progress();
        if progress.outcome.is_none() {
            progress.outcome = Some(Outcome::Passed);
            progress.room = Some(room);
            progress.wake();
        }
    }

    /// Tells those who wait. The first outcome counts.
    pub(crate) fn end(&self, outcome: Outcome) {
        let mut progress = self.progress();
        if progress.outcome.is_some() {
            return;
        }
        progress.outcome = Some(outcome);
        let flow = progress.flow.take();
        (progress.gathered, progress.file) = (Gathered::default(), None);
        progress.wake();
        drop(progress);
        // What it belongs to may go with it.
        drop(flow);
    }

    /// The answer for somebody who wants a part of it, and his place, if the first bytes of that are there and it is
    /// known how many there will be.
    pub(crate) fn covering(self: &Arc<Self>, range: &[u8]) -> Option<(Arc<Entry>, Joined)> {
        let joined = Joined::new(self, Some(0));
        let progress = self.progress();
        let entry = progress.flow.clone()?;
        let Ranges::Parts(parts) = parse_ranges(range, entry.body.length()?) else { return None };
        let [part] = parts.as_slice() else { return None };
        let written = progress.file.as_ref().map_or(0, |part| part.length);
        let here = part.first < progress.gathered.to().max(written);
        drop(progress);
        here.then_some((entry, joined))
    }

    /// What becomes of it, and the place of who waits for that: whoever follows on needs it until then.
    pub(crate) async fn outcome(self: Arc<Self>, wanted: Wanted) -> (Outcome, Joined) {
        let joined = Joined::new(&self, None);
        let outcome = poll_fn(|cx| {
            let mut progress = joined.filling.progress();
            if let Some(outcome) = &progress.outcome {
                return Poll::Ready(outcome.clone());
            }
            if progress.passing {
                return Poll::Ready(Outcome::Unshared);
            }
            // Something has to be there: until then whoever waits can still ask for itself.
            let begun = progress.gathered.bytes() > 0 || progress.file.is_some();
            if wanted == Wanted::Beginning
                && begun
                && let Some(entry) = progress.flow.clone()
            {
                // Nothing that he is to get goes from now on.
                progress.advance(joined.place, 0);
                return Poll::Ready(Outcome::Begun(entry));
            }
            progress.wait(joined.place, cx);
            Poll::Pending
        });
        let outcome = outcome.await;
        (outcome, joined)
    }

    /// Whoever panicked with the lock left a whole state.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Filling {
    fn grew(&self, part: Part) {
        let mut progress = self.progress();
        progress.file = Some(part);
        progress.wake();
    }

    fn is_void(&self) -> bool {
        self.progress().void
    }
}

impl Progress {
    fn wake(&mut self) {
        self.places.iter_mut().filter_map(|place| place.waker.take()).for_each(Waker::wake);
    }

    fn wait(&mut self, place: usize, cx: &Context<'_>) {
        if let Some(place) = self.places.get_mut(place) {
            place.waker = Some(cx.waker().clone());
        }
    }

    /// Somebody who follows is so far.
    fn advance(&mut self, place: usize, at: u64) {
        if let Some(place) = self.places.get_mut(place) {
            place.at = Some(at);
        }
        self.held_up.take().into_iter().for_each(Waker::wake);
    }

    /// What there is from this place on; `None` if it has not come yet, or that was all.
    fn after(&mut self, at: u64) -> Result<Option<Content>, Broken> {
        match &self.outcome {
            None | Some(Outcome::Passed) => {}
            Some(Outcome::Whole(entry)) => {
                let rest = entry.body.part(at, u64::MAX);
                return Ok(Some(rest).filter(|rest| rest.length() != Some(0)));
            }
            // Half is not to be taken for the whole.
            Some(_) => return Err(Broken),
        }
        if at < self.floor() {
            // It was too far behind.
            return Err(Broken);
        }
        match &self.file {
            Some(part) if at < part.length => {
                Ok(Some(Content::File(part.clone()).part(at, STRETCH.min(part.length - at))))
            }
            _ => Ok(self.gathered.after(at).map(Content::Memory)),
        }
    }

    /// From where on all is still there.
    fn floor(&self) -> u64 {
        let from = self.gathered.from();
        let joins = self.file.as_ref().is_some_and(|part| from <= part.length);
        if joins { 0 } else { from }
    }

    /// How far the slowest is of those who are waited for.
    fn slowest(&self) -> Option<u64> {
        let floor = self.floor();
        self.places.iter().filter_map(|place| place.at).filter(|at| *at >= floor).min()
    }

    /// Lets go what all have who are waited for. Bytes that are left; `None` if there is nobody.
    fn trim(&mut self) -> Option<usize> {
        let slowest = self.slowest();
        self.gathered.drop_before(slowest.unwrap_or(u64::MAX));
        slowest.map(|_| self.gathered.bytes())
    }

    /// Nobody waits any more for those who have taken too little since the last time.
    fn leave_behind(&mut self) {
        let all = self.gathered.to();
        for place in &mut self.places {
            let Some(at) = place.at else { continue };
            if at < all && at - place.mark.min(at) < LEAST {
                place.at = None;
            }
            place.mark = at;
        }
        self.trim();
    }
}

/// Somebody who waits or follows, for as long as that is so.
#[derive(Debug)]
pub(crate) struct Joined {
    filling: Arc<Filling>,
    place: usize,
}

impl Joined {
    /// Somebody who waits, or follows and is so far.
    fn new(filling: &Arc<Filling>, at: Option<u64>) -> Self {
        let mut progress = filling.progress();
        progress.joined += 1;
        let leader = progress.leader.take();
        let place = progress.free.pop().unwrap_or(progress.places.len());
        if place == progress.places.len() {
            progress.places.push(Place::default());
        }
        if let Some(place) = progress.places.get_mut(place) {
            *place = Place { waker: None, at, mark: at.unwrap_or(0) };
        }
        drop(progress);
        leader.into_iter().for_each(Waker::wake);
        Self { filling: Arc::clone(filling), place }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let mut progress = self.filling.progress();
        progress.joined -= 1;
        if let Some(place) = progress.places.get_mut(self.place) {
            *place = Place::default();
        }
        progress.free.push(self.place);
        progress.held_up.take().into_iter().for_each(Waker::wake);
    }
}
