//! An answer that is on its way: who asked for it passes it on, and others follow it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sluice_filter::{BodySource, Broken, Piece, SharedBytes};

use crate::content::{Coming, Content, Part};
use crate::disk::Watch;
use crate::entry::{About, Entry, Identity};

/// Content is gathered in chunks of this size at most, which followers share.
const CHUNK: usize = 256 * 1024;

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
    /// Those who wait, each in a place of its own.
    waiting: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// How many wait or follow.
    joined: usize,
    /// Who asked, and wants to know when somebody begins to wait.
    leader: Option<Waker>,
    /// The answer as followers get it, if they may.
    flow: Option<Arc<Entry>>,
    gathered: Gathered,
    /// As much of it as is in a file.
    file: Option<Part>,
}

/// Content in memory.
#[derive(Debug, Default)]
struct Gathered {
    /// What somebody has, and shares with others.
    shared: Vec<SharedBytes>,
    /// What nobody has yet.
    open: VecDeque<Vec<u8>>,
    total: usize,
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
    /// Who asked failed or left.
    Broken,
}

impl Gathered {
    fn push(&mut self, piece: &[u8]) {
        self.total += piece.len();
        match self.open.back_mut().filter(|last| last.len() + piece.len() <= CHUNK) {
            Some(last) => last.extend_from_slice(piece),
            None => self.open.push_back(piece.to_vec()),
        }
    }

    /// The chunk of this number, if it is there.
    fn chunk(&mut self, number: usize) -> Option<SharedBytes> {
        if number == self.shared.len() {
            self.shared.push(self.open.pop_front()?.into());
        }
        self.shared.get(number).cloned()
    }

    /// All of it.
    fn take(&mut self) -> Vec<u8> {
        self.total = 0;
        if self.shared.is_empty() && self.open.len() < 2 {
            return self.open.pop_front().unwrap_or_default();
        }
        let shared = std::mem::take(&mut self.shared);
        let mut all = shared.iter().map(|chunk| &**chunk).collect::<Vec<_>>();
        all.extend(self.open.iter().map(Vec::as_slice));
        let all = all.concat();
        self.open.clear();
        all
    }
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
        self.progress().outcome.is_none()
    }

    /// It has begun, with so many bytes to come: others may have it as it comes.
    pub(crate) fn open(self: &Arc<Self>, about: &About, length: u64) {
        if self.company == Company::Welcome {
            let coming = Flow { filling: Arc::clone(self), length };
            let content = Content::Coming(Arc::new(coming));
            let entry = Entry::new(self.identity.clone(), about.clone(), content);
            self.progress().flow = Some(Arc::new(entry));
        }
    }

    /// Room for so many bytes of content that are about to come.
    pub(crate) fn expect(&self, bytes: usize) {
        self.progress().gathered.open.push_back(Vec::with_capacity(bytes.min(CHUNK)));
    }

    /// More content, for memory.
    pub(crate) fn push(&self, piece: &[u8]) {
        let mut progress = self.progress();
        progress.gathered.push(piece);
        progress.wake();
    }

    /// Bytes in memory.
    pub(crate) fn total(&self) -> usize {
        self.progress().gathered.total
    }

    /// What was gathered in memory.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.progress().gathered.take()
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

    /// What becomes of it, and the place of who waits for that: whoever follows on needs it until then.
    pub(crate) async fn outcome(self: Arc<Self>, wanted: Wanted) -> (Outcome, Joined) {
        let joined = Joined::new(&self);
        let outcome = poll_fn(|cx| {
            let mut progress = joined.filling.progress();
            if let Some(outcome) = &progress.outcome {
                return Poll::Ready(outcome.clone());
            }
            // Something has to be there: until then whoever waits can still ask for itself.
            let begun = progress.gathered.total > 0 || progress.file.is_some();
            if wanted == Wanted::Beginning
                && begun
                && let Some(entry) = &progress.flow
            {
                return Poll::Ready(Outcome::Begun(Arc::clone(entry)));
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
        self.waiting.iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }

    fn wait(&mut self, place: usize, cx: &Context<'_>) {
        if let Some(waker) = self.waiting.get_mut(place) {
            *waker = Some(cx.waker().clone());
        }
    }
}

/// Somebody who waits or follows, for as long as that is so.
#[derive(Debug)]
pub(crate) struct Joined {
    filling: Arc<Filling>,
    place: usize,
}

impl Joined {
    fn new(filling: &Arc<Filling>) -> Self {
        let mut progress = filling.progress();
        progress.joined += 1;
        let leader = progress.leader.take();
        let place = progress.free.pop().unwrap_or(progress.waiting.len());
        if place == progress.waiting.len() {
            progress.waiting.push(None);
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
        if let Some(waker) = progress.waiting.get_mut(self.place) {
            *waker = None;
        }
        progress.free.push(self.place);
    }
}

/// An answer on its way, as others get it.
#[derive(Debug)]
struct Flow {
    filling: Arc<Filling>,
    length: u64,
}

impl Coming for Flow {
    fn length(&self) -> u64 {
        self.length
    }

    fn follow(self: Arc<Self>) -> Box<dyn BodySource> {
        let joined = Joined::new(&self.filling);
        Box::new(Follower { joined, next: 0, at: 0, length: self.length })
    }
}

/// Somebody who gets an answer as it comes, as fast as he takes it: others are not held up.
#[derive(Debug)]
struct Follower {
    joined: Joined,
    /// The number of the next chunk.
    next: usize,
    /// Bytes so far.
    at: u64,
    length: u64,
}

impl BodySource for Follower {
    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Broken>> {
        let mut guard = self.joined.filling.progress();
        let progress = &mut *guard;
        if self.at == self.length {
            // Until it is kept, whoever brings it is not to think that nobody waits any more.
            if progress.outcome.is_none() {
                progress.wait(self.joined.place, cx);
                return Poll::Pending;
            }
            return Poll::Ready(Ok(Piece::End));
        }
        let content = match &progress.outcome {
            Some(Outcome::Whole(entry)) => Some(entry.body.part(self.at, self.length - self.at)),
            // Half is not to be taken for the whole.
            Some(_) => return Poll::Ready(Err(Broken)),
            None => match &progress.file {
                Some(part) if part.length > self.at => {
                    Some(Content::File(part.clone()).part(self.at, part.length - self.at))
                }
                Some(_) => None,
                None => progress.gathered.chunk(self.next).map(Content::Memory),
            },
        };
        let Some(content) = content.filter(|content| content.length() > 0) else {
            if progress.outcome.is_some() {
                return Poll::Ready(Err(Broken));
            }
            progress.wait(self.joined.place, cx);
            return Poll::Pending;
        };
        self.next += 1;
        self.at = self.at.saturating_add(content.length());
        Poll::Ready(Ok(content.piece()))
    }
}
