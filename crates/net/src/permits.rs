//! A limit on how much happens at once, over all threads, and the queue of those who wait for it.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::Deadline;

/// One who waits, in [`Permits::state`]; the lower half of the word counts permits taken.
const WAITER: u64 = 1 << 32;

/// So many permits, shared by all threads, and a queue of bounded length for who finds none.
///
/// Permits taken and waiters share one word: taking a free permit is one compare-and-swap, giving one
/// back that nobody waits for is one subtraction. The lock is for those who wait. Nobody overtakes
/// the queue, so nobody starves.
///
/// What is always true: while somebody waits and a permit is free, some thread is on its way to
/// hand it over. A permit becomes free by being given back or by a raised limit, and both look at the
/// queue afterwards; nobody joins the queue, which happens by a compare-and-swap on the same word,
/// while a permit is free.
#[derive(Debug)]
pub struct Permits {
    state: AtomicU64,
    limit: AtomicU32,
    /// Waiters at most.
    queue: AtomicU32,
    waiting: Mutex<Waiting>,
}

/// Those who wait, by a number that grows: the first is the next.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many wait already as may.
    Full,
    /// None came in time.
    TimedOut,
}

impl Permits {
    /// `limit` permits, and a queue for `queue` waiters. [`u32::MAX`] permits are as good as no
    /// limit; without any, nobody gets one until [`Self::resize`].
    #[must_use]
    pub const fn new(limit: u32, queue: u32) -> Self {
        Self {
            state: AtomicU64::new(0),
            limit: AtomicU32::new(limit),
            queue: AtomicU32::new(queue),
            waiting: Mutex::new(Waiting { next: 0, wakers: BTreeMap::new() }),
        }
    }

    /// Takes a permit if one is free and nobody waits. `of` is a reference to the permits or an
    /// `Arc` of them; the permit keeps it.
    #[inline]
    pub fn try_take<P: Deref<Target = Self>>(of: P) -> Option<Permit<P>> {
        if of.take_free() { Some(Permit { of }) } else { None }
    }

    /// Takes a permit or a place in the queue, whose future is the permit.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn queue<P: Deref<Target = Self> + Unpin>(of: P) -> Result<Queued<P>, Refused> {
        if of.take_free() {
            return Ok(Queued { of: Some(of), place: Place::Granted });
        }
        let place = of.join()?;
        Ok(Queued { of: Some(of), place })
    }

    /// Takes a permit, waiting for it up to `wait` if need be.
    ///
    /// # Errors
    /// The queue is full, or time ran out. Dropping the future leaves the queue.
    pub async fn take<P: Deref<Target = Self> + Unpin>(
        of: P,
        deadline: &Deadline,
        wait: Duration,
    ) -> Result<Permit<P>, Refused> {
        let queued = Self::queue(of)?;
        deadline.limit(wait, queued).await.map_err(|_| Refused::TimedOut)
    }

    /// Changes the limits. Permits taken beyond a lower one stay taken; as many fewer are handed out.
    /// Waiters beyond a shorter queue stay as well.
    pub fn resize(&self, limit: u32, queue: u32) {
        let waiting = self.lock();
        self.limit.store(limit, Ordering::Relaxed);
        self.queue.store(queue, Ordering::Relaxed);
        drop(waiting);
        self.hand_over();
    }

    /// Permits there are.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Waiters there may be.
    #[must_use]
    pub fn queue_limit(&self) -> u32 {
        self.queue.load(Ordering::Relaxed)
    }

    /// Permits taken now.
    #[must_use]
    pub fn taken(&self) -> u32 {
        taken(self.state.load(Ordering::Relaxed))
    }

    /// Who waits now.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        waiting(self.state.load(Ordering::Relaxed))
    }

    #[inline]
    fn take_free(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        // A waiter makes the state larger than any limit: nobody is overtaken.
        while state < u64::from(self.limit()) {
            let after = state + 1;
            match self.exchange(state, after) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline]
    fn exchange(&self, before: u64, after: u64) -> Result<u64, u64> {
        // What was done under the permit before is seen by who gets it next.
        self.state.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Relaxed)
    }

    #[inline]
    fn give(&self) {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before >= WAITER {
            self.hand_over();
        }
    }

    /// Joins the queue; or takes a permit after all, given back meanwhile.
    #[cold]
    fn join(&self) -> Result<Place, Refused> {
        let mut queue = self.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let free = state < u64::from(self.limit());
            if !free && waiting(state) >= self.queue_limit() {
                return Err(Refused::Full);
            }
            match self.exchange(state, if free { state + 1 } else { state + WAITER }) {
                Ok(_) if free => return Ok(Place::Granted),
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let number = queue.next;
        queue.next += 1;
        // The first poll leaves the real one.
        queue.wakers.insert(number, Waker::noop().clone());
        Ok(Place::Waits(number))
    }

    /// Hands free permits to those who wait, the first first.
    #[cold]
    fn hand_over(&self) {
        // Woken outside the lock: the woken may be faster than we are.
        while let Some(waker) = self.hand_over_one() {
            waker.wake();
        }
    }

    fn hand_over_one(&self) -> Option<Waker> {
        let mut queue = self.lock();
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            // The lower half alone: it is compared while somebody waits.
            if taken(state) >= self.limit() || waiting(state) == 0 {
                return None;
            }
            match self.exchange(state, state + 1 - WAITER) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // Whoever joins or leaves changes number and queue under the same lock: they agree.
        queue.wakers.pop_first().map(|(_, waker)| waker)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Queue and count are changed together, without anything in between that could panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the waiter of this number has been handed a permit; if not, it will be woken.
    fn is_granted(&self, number: u64, cx: &Context<'_>) -> bool {
        let mut queue = self.lock();
        let Some(waker) = queue.wakers.get_mut(&number) else { return true };
        if !waker.will_wake(cx.waker()) {
            waker.clone_from(cx.waker());
        }
        false
    }

    /// Takes a waiter out; false if it had a permit already.
    fn leave(&self, number: u64) -> bool {
        let mut queue = self.lock();
        let waited = queue.wakers.remove(&number).is_some();
        if waited {
            self.state.fetch_sub(WAITER, Ordering::AcqRel);
        }
        waited
    }
}

/// Permits taken, the lower half of the state.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "that half is meant")]
const fn taken(state: u64) -> u32 {
    state as u32
}

/// Who waits, the upper half of the state.
#[expect(clippy::as_conversions, reason = "the half that is left fits")]
const fn waiting(state: u64) -> u32 {
    (state >> 32) as u32
}

/// The right to go on, given back when it is dropped.
#[derive(Debug)]
pub struct Permit<P: Deref<Target = Permits>> {
    of: P,
}

impl<P: Deref<Target = Permits>> Drop for Permit<P> {
    #[inline]
    fn drop(&mut self) {
        self.of.give();
    }
}

/// Where a waiter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Granted,
    Waits(u64),
}

/// A place in the queue; its future is the permit. Dropping it leaves the queue, and a permit handed
/// over meanwhile goes to the next.
#[derive(Debug)]
pub struct Queued<P: Deref<Target = Permits>> {
    /// Absent once the permit is out.
    of: Option<P>,
    place: Place,
}

impl<P: Deref<Target = Permits> + Unpin> Future for Queued<P> {
    type Output = Permit<P>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit<P>> {
        let place = self.place;
        let granted = match (&self.of, place) {
            (None, _) => false,
            (Some(_), Place::Granted) => true,
            (Some(of), Place::Waits(number)) => of.is_granted(number, cx),
        };
        match self.of.take_if(|_| granted) {
            Some(of) => Poll::Ready(Permit { of }),
            None => Poll::Pending,
        }
    }
}

impl<P: Deref<Target = Permits>> Drop for Queued<P> {
    fn drop(&mut self) {
        let Some(of) = &self.of else { return };
        let waited = match self.place {
            Place::Granted => false,
            Place::Waits(number) => of.leave(number),
        };
        if !waited {
            of.give();
        }
    }
}

#[cfg(test)]
mod tests;
