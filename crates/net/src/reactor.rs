//! The epoll set of a thread and what it knows of each socket.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsFd, OwnedFd};
use slab::Slab;

/// Events taken per system call; more wait for the next turn.
const EVENTS: usize = 256;

/// The key of the bell other threads ring.
const BELL: u64 = u64::MAX;

/// One direction of a socket.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// The last word of kernel and system calls: an operation may succeed.
    ready: Cell<bool>,
    /// Somebody waits for `ready`.
    awaited: Cell<bool>,
    /// Who waited last. Kept after the wake-up, since the same task waits again.
    waker: RefCell<Option<Waker>>,
}

impl Direction {
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.get()
    }

    /// After an operation that would block, or a read that came back short: the socket is drained
    /// and the kernel will tell when that changes (epoll(7), edge-triggered).
    #[inline]
    pub(crate) fn set_drained(&self) {
        self.ready.set(false);
    }

    #[inline]
    pub(crate) fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        if self.ready.get() {
            return Poll::Ready(());
        }
        self.await_ready(cx);
        Poll::Pending
    }

    #[inline]
    pub(crate) fn await_ready(&self, cx: &Context<'_>) {
        self.awaited.set(true);
        let mut waker = self.waker.borrow_mut();
        if waker.as_ref().is_none_or(|old| !old.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    #[inline]
    fn announce(&self) {
        self.ready.set(true);
        if self.awaited.replace(false)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }
}

/// What is known of one socket.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) read: Direction,
    pub(crate) write: Direction,
    /// The peer closed its sending side, or the connection broke.
    pub(crate) closed: Cell<bool>,
}

impl Readiness {
    #[inline]
    fn on_event(&self, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        if flags.intersects(F::RDHUP | F::HUP | F::ERR) {
            self.closed.set(true);
        }
        if flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR) {
            self.read.announce();
        }
        if flags.intersects(F::OUT | F::HUP | F::ERR) {
            self.write.announce();
        }
    }
}

struct Entry {
    generation: u32,
    readiness: Rc<Readiness>,
}

/// The epoll set of a thread.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    entries: RefCell<Slab<Entry>>,
    generation: Cell<u32>,
    events: RefCell<Vec<epoll::Event>>,
}

/// A socket's membership in the epoll set of its thread.
pub(crate) struct Registration {
    pub(crate) readiness: Rc<Readiness>,
    reactor: Rc<Reactor>,
    index: usize,
}

impl Registration {
    /// Takes the descriptor out of the set although it stays open, here or in another process.
    pub(crate) fn unwatch(&self, fd: impl AsFd) {
        // An error means that it is out already.
        let _ = epoll::delete(&self.reactor.epoll, fd);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The kernel forgets the descriptor when it is closed, right after this.
        self.reactor.entries.borrow_mut().try_remove(self.index);
    }
}

/// How a descriptor is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// A connection: both directions and the peer's end.
    Connection,
    /// A listening socket of this thread alone.
    Listener,
    /// A listening socket shared with other threads: one of them is woken per connection.
    SharedListener,
}

impl Reactor {
    pub(crate) fn new(bell: &OwnedFd) -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        Ok(Self {
            epoll: set,
            entries: RefCell::default(),
            generation: Cell::new(0),
            events: RefCell::new(Vec::with_capacity(EVENTS)),
        })
    }

    /// Adds a descriptor. It counts as ready in both directions until an operation says otherwise.
    pub(crate) fn register(
        self: &Rc<Self>,
        fd: impl AsFd,
        watch: Watch,
    ) -> io::Result<Registration> {
        use epoll::EventFlags as F;
        let flags = match watch {
            Watch::Connection => F::IN | F::OUT | F::RDHUP | F::ET,
            Watch::Listener => F::IN | F::ET,
            // EPOLLEXCLUSIVE allows neither RDHUP nor a later change (epoll_ctl(2)).
            Watch::SharedListener => F::IN | F::EXCLUSIVE,
        };
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let readiness = Rc::new(Readiness::default());
        readiness.read.ready.set(true);
        readiness.write.ready.set(true);
        let index = self
            .entries
            .borrow_mut()
            .insert(Entry { generation, readiness: Rc::clone(&readiness) });
        let registration = Registration { readiness, reactor: Rc::clone(self), index };
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key(index, generation)), flags)?;
        Ok(registration)
    }

    /// Waits for events, at most `timeout` (forever if absent), and announces them. Says whether
    /// another thread rang the bell.
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> io::Result<Bell> {
        let mut events = self.events.borrow_mut();
        events.clear();
        let timeout = timeout.map(|wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let timeout = match timeout {
            Some(wait) if crate::timer::is_precise() => self.wait_precisely(wait),
            other => other,
        };
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        crate::clock::advance();
        let mut bell = Bell::Silent;
        let entries = self.entries.borrow();
        for event in events.iter() {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == BELL {
                bell = Bell::Rang;
                continue;
            }
            let (index, generation) = parts(data);
            // An event of a socket that was closed earlier in this turn may still be in the batch.
            if let Some(entry) = entries.get(index).filter(|e| e.generation == generation) {
                entry.readiness.on_event(flags);
            }
        }
        Ok(bell)
    }
}

impl Reactor {
    /// Waits for events in nanoseconds, which epoll_wait(2) cannot and epoll_pwait2(2) can only from
    /// Linux 5.11 on; what is left is to take the events.
    fn wait_precisely(&self, wait: Timespec) -> Option<Timespec> {
        let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
        if wait != nothing {
            // An interruption is a wake-up like any other.
            let _ = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&wait));
        }
        Some(nothing)
    }
}

/// Whether another thread left wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bell {
    Silent,
    Rang,
}

fn key(index: usize, generation: u32) -> u64 {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    u64::from(index) | u64::from(generation) << 32
}

#[inline]
#[expect(clippy::as_conversions, reason = "takes the two halves of the key apart")]
const fn parts(key: u64) -> (usize, u32) {
    ((key & 0xffff_ffff) as usize, (key >> 32) as u32)
}
