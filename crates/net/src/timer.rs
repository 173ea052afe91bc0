//! Deadlines: one per task that waits, moved without touching the heap.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;

use crate::clock::{Nanos, nanos, now};

/// The time ran out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// "Never".
const NEVER: Nanos = Nanos::MAX;

struct Slot {
    /// When the task is to be woken; [`NEVER`] if it does not wait.
    deadline: Nanos,
    /// The earliest heap entry of this slot that is still out; it fires no later than `deadline`.
    armed: Nanos,
    generation: u32,
    waker: Option<Waker>,
}

struct Timers {
    slots: Slab<Slot>,
    heap: BinaryHeap<Reverse<(Nanos, usize, u32)>>,
    generation: u32,
}

thread_local! {
    static TIMERS: RefCell<Timers> = const { RefCell::new(Timers::new()) };
    static PRECISE: Cell<bool> = const { Cell::new(false) };
}

/// Makes deadlines of the calling thread end on time instead of up to a millisecond late, at the price
/// of a second system call for each wait: for who sends on a schedule.
pub fn wake_on_time() {
    PRECISE.set(true);
    // The kernel may otherwise stretch each wait by 50 microseconds in order to end several at once. A
    // refusal changes nothing but that.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Whether this thread asked to be woken on time.
pub(crate) fn is_precise() -> bool {
    PRECISE.get()
}

impl Timers {
    const fn new() -> Self {
        Self { slots: Slab::new(), heap: BinaryHeap::new(), generation: 0 }
    }

    fn fire(&mut self, now: Nanos) {
        while let Some(&Reverse((at, index, generation))) = self.heap.peek() {
            if at > now {
                return;
            }
            self.heap.pop();
            let Some(slot) = self.slots.get_mut(index).filter(|s| s.generation == generation)
            else {
                continue;
            };
            if slot.armed != at {
                continue;
            }
            slot.armed = NEVER;
            if slot.deadline <= now {
                if let Some(waker) = &slot.waker {
                    waker.wake_by_ref();
                }
            } else if slot.deadline != NEVER {
                slot.armed = slot.deadline;
                self.heap.push(Reverse((slot.deadline, index, generation)));
            }
        }
    }
}

/// Wakes the tasks whose deadline has passed.
pub(crate) fn fire() {
    TIMERS.with_borrow_mut(|timers| timers.fire(now()));
}

/// How long the loop may sleep; `None` if nobody waits.
pub(crate) fn until_next() -> Option<Duration> {
    TIMERS.with_borrow(|timers| {
        let &Reverse((at, _, _)) = timers.heap.peek()?;
        Some(Duration::from_nanos(at.saturating_sub(now())))
    })
}

/// The deadline of one task, to be kept as long as the task and used for each of its waits in turn.
#[derive(Debug)]
pub struct Deadline {
    index: usize,
}

impl Default for Deadline {
    fn default() -> Self {
        Self::new()
    }
}

impl Deadline {
    /// A deadline that is not set.
    #[must_use]
    pub fn new() -> Self {
        TIMERS.with_borrow_mut(|timers| {
            timers.generation = timers.generation.wrapping_add(1);
            let generation = timers.generation;
            let slot = Slot { deadline: NEVER, armed: NEVER, generation, waker: None };
            Self { index: timers.slots.insert(slot) }
        })
    }

    /// Ready once the clock has reached `at`; else the task is woken then, unless another deadline
    /// is set meanwhile.
    #[inline]
    pub fn poll_at(&self, at: Nanos, cx: &Context<'_>) -> Poll<Elapsed> {
        if at <= now() {
            return Poll::Ready(Elapsed);
        }
        TIMERS.with_borrow_mut(|timers| {
            let Some(slot) = timers.slots.get_mut(self.index) else { return };
            if slot.waker.as_ref().is_none_or(|old| !old.will_wake(cx.waker())) {
                slot.waker = Some(cx.waker().clone());
            }
            slot.deadline = at;
            // Moving a deadline later costs a store; only moving it before the armed entry a push.
            if at < slot.armed {
                slot.armed = at;
                timers.heap.push(Reverse((at, self.index, slot.generation)));
            }
        });
        Poll::Pending
    }

    /// Runs `work`, at most for `limit` from now on.
    ///
    /// # Errors
    /// [`Elapsed`] if the limit came first; `work` is dropped.
    pub async fn limit<F: Future>(&self, limit: Duration, work: F) -> Result<F::Output, Elapsed> {
        let at = after(limit);
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            self.poll_at(at, cx).map(Err)
        })
        .await
    }

    /// Waits for `pause`.
    pub async fn sleep(&self, pause: Duration) {
        let at = after(pause);
        poll_fn(|cx| self.poll_at(at, cx)).await;
    }
}

/// The point of the clock `wait` from now.
pub(crate) fn after(wait: Duration) -> Nanos {
    now().saturating_add(nanos(wait))
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // A thread that ends takes its timers along before or after us.
        let _ = TIMERS.try_with(|timers| timers.borrow_mut().slots.try_remove(self.index));
    }
}
