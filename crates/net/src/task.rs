//! Tasks of one thread and the wakers that make them run again.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use slab::Slab;

/// A future that lives on one thread.
type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    /// Tasks of this thread that are ready to run. Only their own thread pushes here.
    /// Without a destructor, which every access would have to ask about; emptied when the tasks go.
    static READY: RefCell<ManuallyDrop<Vec<usize>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// Identity of the task set of this thread, to tell local wake-ups from foreign ones; 0 if it has
    /// none. A number, which is read without asking whether the thread is ending.
    static LOCAL: Cell<u64> = const { Cell::new(0) };
    /// What is to be done before the turn ends. As with `READY`, without a destructor.
    static LATE: RefCell<ManuallyDrop<Vec<Rc<dyn Late>>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// Socket operations the running task has done since it was called.
    static SPENT: Cell<u32> = const { Cell::new(0) };
}

/// Socket operations a task may do before others get their turn: without a bound, one fast download
/// over loopback would never come to a wait.
const BUDGET: u32 = 64;

/// Counts a socket operation; `Pending` if the task has had its share and must let others run.
#[inline]
pub(crate) fn poll_budget(cx: &Context<'_>) -> Poll<()> {
    let spent = SPENT.get();
    if spent < BUDGET {
        SPENT.set(spent + 1);
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Work that is done once for all tasks of a turn.
pub trait Late {
    /// Does it, outside of every task.
    fn run(&self);
}

/// Has `work` done when every task that is ready now has run, before the kernel is asked for events again.
pub fn at_end_of_turn(work: Rc<dyn Late>) {
    LATE.with_borrow_mut(|late| late.push(work));
}

/// Does something for another task: its socket operations do not count as those of the running one.
#[inline]
pub fn for_another_task<R>(work: impl FnOnce() -> R) -> R {
    let spent = SPENT.replace(0);
    let done = work();
    SPENT.set(spent);
    done
}

/// Task sets made so far.
static SETS: AtomicU64 = AtomicU64::new(0);

/// Where other threads leave their wake-ups.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// Identity of the task set.
    set: u64,
    woken: Mutex<Vec<usize>>,
    pending: AtomicBool,
    bell: OwnedFd,
}

impl Foreign {
    fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let set = SETS.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Self { set, woken: Mutex::default(), pending: AtomicBool::new(false), bell })
    }

    fn push(&self, index: usize) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(index);
        if !self.pending.swap(true, Ordering::AcqRel) {
            // A full eventfd counter still rings; no other error is possible on an open eventfd.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// The descriptor that becomes readable when another thread wakes a task.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Moves foreign wake-ups into the local queue; called when the bell rang.
    pub(crate) fn take(&self) {
        let mut count = [0_u8; 8];
        // Nothing to read means another turn already took it.
        let _ = rustix::io::read(&self.bell, &mut count);
        // Cleared before the list is taken: a wake-up that comes in between rings again.
        self.pending.store(false, Ordering::Release);
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        READY.with_borrow_mut(|ready| ready.extend(woken));
    }
}

/// What a waker points to.
struct Handle {
    index: usize,
    scheduled: AtomicBool,
    /// That of `home`.
    set: u64,
    home: Arc<Foreign>,
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        if self.scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        if LOCAL.get() == self.set {
            READY.with_borrow_mut(|ready| ready.push(self.index));
        } else {
            self.home.push(self.index);
        }
    }
}

struct Task {
    /// Absent while the task runs. One pointer, which is all that moves then.
    body: Option<Box<Body>>,
    handle: Arc<Handle>,
}

/// What a task runs with, taken out for the run, so that neither is counted or copied.
struct Body {
    future: LocalFuture,
    waker: Waker,
}

/// All tasks of one thread.
pub(crate) struct Tasks {
    slots: RefCell<Slab<Task>>,
    /// Those whose turn it is; empty between turns. Two lists that change places: nothing is moved.
    turn: RefCell<Vec<usize>>,
    home: Arc<Foreign>,
}

impl Tasks {
    pub(crate) fn new() -> std::io::Result<Self> {
        let home = Arc::new(Foreign::new()?);
        LOCAL.set(home.set);
        Ok(Self { slots: RefCell::default(), turn: RefCell::default(), home })
    }

    pub(crate) fn foreign(&self) -> &Foreign {
        &self.home
    }

    pub(crate) fn spawn(&self, future: LocalFuture) {
        let mut slots = self.slots.borrow_mut();
        let entry = slots.vacant_entry();
        let handle = Arc::new(Handle {
            index: entry.key(),
            scheduled: AtomicBool::new(true),
            set: self.home.set,
            home: Arc::clone(&self.home),
        });
        READY.with_borrow_mut(|ready| ready.push(entry.key()));
        let waker = Waker::from(Arc::clone(&handle));
        entry.insert(Task { body: Some(Box::new(Body { future, waker })), handle });
    }

    /// Number of tasks that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Makes every task run once, so that each sees a change of the worker's state.
    pub(crate) fn wake_all(&self) {
        let handles: Vec<Arc<Handle>> =
            self.slots.borrow().iter().map(|(_, task)| Arc::clone(&task.handle)).collect();
        handles.iter().for_each(Wake::wake_by_ref);
    }

    /// Runs the tasks that are ready now; those woken meanwhile wait for the next turn, so that
    /// sockets are looked at in between. Last comes what was put off to the end of the turn.
    pub(crate) fn run_ready(&self) {
        let mut turn = self.turn.borrow_mut();
        READY.with_borrow_mut(|ready| std::mem::swap(&mut **ready, &mut *turn));
        for index in turn.drain(..) {
            self.run(index);
        }
        drop(turn);
        while let Some(work) = LATE.with_borrow_mut(|late| late.pop()) {
            work.run();
        }
    }

    /// Drops all tasks, also those that destructors of tasks spawn.
    pub(crate) fn clear(&self) {
        while !self.slots.borrow().is_empty() {
            let slots = std::mem::take(&mut *self.slots.borrow_mut());
            drop(slots);
        }
        // The memory, too: nobody else gives it back.
        READY.with_borrow_mut(|ready| **ready = Vec::new());
        drop(LATE.with_borrow_mut(|late| std::mem::take(&mut **late)));
    }

    pub(crate) fn has_ready(&self) -> bool {
        READY.with_borrow(|ready| !ready.is_empty())
    }

    /// A task that ended, or whose place was taken by another, may still be woken by an old waker:
    /// the former is skipped, the latter just looks around once too often.
    fn run(&self, index: usize) {
        let Some(mut body) = self.start(index) else { return };
        SPENT.set(0);
        let done = body.future.as_mut().poll(&mut Context::from_waker(&body.waker));
        match done {
            Poll::Pending => {
                if let Some(task) = self.slots.borrow_mut().get_mut(index) {
                    task.body = Some(body);
                }
            }
            Poll::Ready(()) => {
                let ended = self.slots.borrow_mut().try_remove(index);
                // Dropped outside the borrow: destructors may spawn.
                drop((ended, body));
            }
        }
    }

    fn start(&self, index: usize) -> Option<Box<Body>> {
        let mut slots = self.slots.borrow_mut();
        let task = slots.get_mut(index)?;
        let body = task.body.take()?;
        // Cleared before the run: a wake-up that comes while it runs must make it run again.
        task.handle.scheduled.swap(false, Ordering::AcqRel);
        Some(body)
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.clear();
        LOCAL.set(0);
    }
}
