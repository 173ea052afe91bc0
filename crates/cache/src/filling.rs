//! An answer that is on its way: who asked for it passes it on, and others wait for it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::entry::{Entry, Identity};

/// Whether others may wait for an answer on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// They may.
    Welcome,
    /// Each asks for itself.
    Unwanted,
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
    waiting: Vec<Waker>,
    /// How many wait.
    joined: usize,
    /// Who asked, and wants to know when somebody begins to wait.
    leader: Option<Waker>,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
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

impl Filling {
    pub(crate) fn new(identity: Identity, company: Company) -> Self {
        Self { identity, company, progress: Mutex::default() }
    }

    /// What is asked for was purged: what comes is older than that.
    pub(crate) fn spoil(&self) {
        self.progress().void = true;
    }

    /// Whether what it is an answer to was purged meanwhile.
    pub(crate) fn is_void(&self) -> bool {
        self.progress().void
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

    /// Tells those who wait. The first outcome counts.
    pub(crate) fn end(&self, outcome: Outcome) {
        let mut progress = self.progress();
        if progress.outcome.is_some() {
            return;
        }
        progress.outcome = Some(outcome);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// What becomes of it.
    pub(crate) async fn outcome(self: Arc<Self>) -> Outcome {
        let joined = Joined::new(&self);
        poll_fn(|cx| {
            let mut progress = joined.0.progress();
            if let Some(outcome) = &progress.outcome {
                return Poll::Ready(outcome.clone());
            }
            if !progress.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                progress.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Whoever panicked with the lock left a whole state.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits, for as long as that is so.
struct Joined<'f>(&'f Filling);

impl<'f> Joined<'f> {
    fn new(filling: &'f Filling) -> Self {
        let mut progress = filling.progress();
        progress.joined += 1;
        let leader = progress.leader.take();
        drop(progress);
        leader.into_iter().for_each(Waker::wake);
        Self(filling)
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.0.progress().joined -= 1;
    }
}
