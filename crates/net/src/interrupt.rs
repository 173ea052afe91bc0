//! Interrupting a thread that is busy with something that may never end: a signal to it alone.
#![expect(
    unsafe_code,
    reason = "what runs in a signal handler has to be promised, and a signal to one thread is a call of C"
)]

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::process::{start_thread, thread_cpu};

/// How often the watch looks whether a thread is still at what it was at.
const TICK: Duration = Duration::from_millis(20);

/// The signal. Nobody else uses it: it belongs to interval timers, which this program has none of.
const SIGNAL: libc::c_int = libc::SIGVTALRM;

/// What a thread is at, as the watch sees it.
#[derive(Debug, Default)]
struct Busy {
    /// Odd while the thread is at a piece of work; each piece has its own number.
    work: AtomicU64,
    /// The alarm has rung since somebody asked.
    rung: AtomicBool,
}

/// A thread under watch.
struct Watched {
    thread: libc::pthread_t,
    busy: Arc<Busy>,
    /// The piece of work the watch saw last.
    seen: u64,
}

#[derive(Default)]
struct Watch {
    threads: Mutex<Vec<Watched>>,
    changed: Condvar,
}

static WATCH: OnceLock<Watch> = OnceLock::new();

/// Counts up every 20 ms while some thread is watched.
static TICKS: AtomicU64 = AtomicU64::new(0);

/// A number that changes every 20 ms while some thread is watched: a clock that costs nothing to look at.
#[must_use]
#[inline]
pub fn tick() -> u64 {
    TICKS.load(Ordering::Relaxed)
}

thread_local! {
    static ALARM: Cell<Option<Alarm>> = const { Cell::new(None) };
}

/// What the handler needs; copied, so that it holds no borrow when it is interrupted.
#[derive(Clone, Copy)]
struct Alarm {
    busy: *const Busy,
    limit: Duration,
    ring: unsafe fn(*mut ()),
    argument: *mut (),
    /// The piece of work that was seen first by the handler, and the CPU time of the thread then.
    since: (u64, Duration),
}

/// Whether the alarm has rung during a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Never.
    No,
    /// Once or more.
    Yes,
}

/// The watch over the calling thread; it ends when this is dropped, which has to be on the same thread.
#[derive(Debug)]
pub struct Limit {
    busy: Arc<Busy>,
    thread: libc::pthread_t,
    /// What the alarm is told with.
    aim: Cell<*mut ()>,
    /// Not to be sent to another thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Limit {
    /// From now on `ring` is called with `argument` on this thread, in a signal handler, again and again, when a
    /// piece of work has taken more than `limit` of its CPU time.
    ///
    /// # Errors
    /// If the kernel refuses the handler or the thread that watches, or the thread is watched already.
    ///
    /// # Safety
    /// `ring` must be fit for a signal handler (signal-safety(7)) that interrupts any instruction between
    /// [`Limit::begin`] and [`Limit::end`], and `argument` must be valid for it until the limit is dropped.
    pub unsafe fn new(
        limit: Duration,
        ring: unsafe fn(*mut ()),
        argument: *mut (),
    ) -> io::Result<Self> {
        if ALARM.get().is_some() {
            return Err(io::Error::other("this thread is watched already"));
        }
        let watch = watch()?;
        let busy = Arc::new(Busy::default());
        let since = (0, Duration::ZERO);
        let alarm = Alarm { busy: Arc::as_ptr(&busy), limit, ring, argument, since };
        ALARM.set(Some(alarm));
        // SAFETY: it asks for nothing and cannot fail (pthread_self(3)).
        let thread = unsafe { libc::pthread_self() };
        let watched = Watched { thread, busy: Arc::clone(&busy), seen: 0 };
        watch.threads.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
        watch.changed.notify_one();
        Ok(Self { busy, thread, aim: Cell::new(argument), _here: std::marker::PhantomData })
    }

    /// The next piece of work is measured by this limit and told of with this argument: one thread may have work of
    /// several kinds, one after the other.
    ///
    /// # Safety
    /// As for [`Limit::new`], until something else is aimed at; not between [`Limit::begin`] and [`Limit::end`].
    #[inline]
    pub unsafe fn aim(&self, limit: Duration, argument: *mut ()) {
        if !std::ptr::eq(self.aim.replace(argument), argument) {
            // A handler that comes in between finds a thread that is at no work, and returns.
            let alarm = ALARM.get().map(|alarm| Alarm { limit, argument, ..alarm });
            ALARM.set(alarm);
        }
    }

    /// A piece of work begins.
    #[inline]
    pub fn begin(&self) {
        // Nobody else writes. The order does not matter: what is seen late is seen at the next tick.
        let work = self.busy.work.load(Ordering::Relaxed);
        self.busy.work.store(work.wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether the alarm has rung during the piece of work that is under way, for work that looks for itself.
    #[must_use]
    #[inline]
    pub fn seen(&self) -> Rung {
        if self.busy.rung.load(Ordering::Relaxed) { Rung::Yes } else { Rung::No }
    }

    /// It has ended; whether the alarm has rung meanwhile.
    #[must_use]
    #[inline]
    pub fn end(&self) -> Rung {
        self.begin();
        // The handler runs on this thread: from here on it is silent, and what it did before is seen below.
        compiler_fence(Ordering::SeqCst);
        if !self.busy.rung.load(Ordering::Relaxed) {
            return Rung::No;
        }
        self.busy.rung.store(false, Ordering::Relaxed);
        Rung::Yes
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Some(watch) = WATCH.get() {
            // Under the lock: no signal is sent to a thread that is not in the list.
            let mut threads = watch.threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.retain(|watched| watched.thread != self.thread);
        }
        ALARM.set(None);
    }
}

/// The watch of the process, with its thread and its handler.
fn watch() -> io::Result<&'static Watch> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let watch = WATCH.get_or_init(Watch::default);
    if !STARTED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler reads what belongs to its thread, asks a clock (both are listed in
        // signal-safety(7)) and calls what was promised to be fit for it.
        let registered = unsafe { signal_hook::low_level::register(SIGNAL, handle) };
        let started = registered.and_then(|_| {
            start_thread("sluice-watch", move || run(watch), |_: crate::process::End<()>| {})
        });
        if let Err(error) = started {
            STARTED.store(false, Ordering::Release);
            return Err(error);
        }
    }
    Ok(watch)
}

fn run(watch: &'static Watch) {
    let mut threads = watch.threads.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if threads.is_empty() {
            threads = watch.changed.wait(threads).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let waited = watch.changed.wait_timeout(threads, TICK);
        threads = waited.unwrap_or_else(PoisonError::into_inner).0;
        TICKS.fetch_add(1, Ordering::Relaxed);
        for watched in threads.iter_mut() {
            let work = watched.busy.work.load(Ordering::Relaxed);
            if std::mem::replace(&mut watched.seen, work) == work && work % 2 == 1 {
                // SAFETY: the thread is in the list, so it has not ended: it takes itself out before.
                unsafe { libc::pthread_kill(watched.thread, SIGNAL) };
            }
        }
    }
}

/// Runs on the thread that was interrupted.
fn handle() {
    let Some(mut alarm) = ALARM.get() else { return };
    // SAFETY: the limit keeps it alive, and takes the alarm away before it lets go.
    let work = unsafe { (*alarm.busy).work.load(Ordering::Relaxed) };
    let Some(cpu) = thread_cpu().filter(|_| work % 2 == 1) else { return };
    let (seen, since) = alarm.since;
    if seen != work {
        alarm.since = (work, cpu);
        ALARM.set(Some(alarm));
    } else if cpu.saturating_sub(since) >= alarm.limit {
        // SAFETY: as above.
        unsafe { (*alarm.busy).rung.store(true, Ordering::Relaxed) };
        // SAFETY: promised by whoever made the limit; the thread is between `begin` and `end`.
        unsafe { (alarm.ring)(alarm.argument) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    unsafe fn count(argument: *mut ()) {
        // SAFETY: the test gives a counter that outlives the limit.
        unsafe { (*argument.cast::<AtomicUsize>()).fetch_add(1, Ordering::Relaxed) };
    }

    #[test]
    fn a_thread_is_interrupted_as_long_as_it_is_at_the_same_work() {
        let rung = AtomicUsize::new(0);
        let argument = std::ptr::from_ref(&rung).cast_mut().cast();
        // SAFETY: `count` adds to an atomic, and `rung` outlives the limit.
        let limit = unsafe { Limit::new(Duration::from_millis(1), count, argument) }.unwrap();
        // SAFETY: as above.
        assert!(unsafe { Limit::new(Duration::from_millis(1), count, argument) }.is_err());
        limit.begin();
        while rung.load(Ordering::Relaxed) < 3 {
            std::hint::spin_loop();
        }
        assert_eq!(limit.end(), Rung::Yes);
        limit.begin();
        assert_eq!(limit.end(), Rung::No, "it is asked once for each time");
        let before = rung.load(Ordering::Relaxed);
        // What is not work is not interrupted, however long it takes.
        let until = thread_cpu().unwrap() + TICK * 5;
        while thread_cpu().unwrap() < until {}
        assert_eq!(rung.load(Ordering::Relaxed), before);
        let other = AtomicUsize::new(0);
        // SAFETY: as above, of the other counter.
        unsafe {
            limit.aim(Duration::from_millis(2), std::ptr::from_ref(&other).cast_mut().cast())
        };
        limit.begin();
        while other.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
        assert_eq!(limit.end(), Rung::Yes);
        assert_eq!(rung.load(Ordering::Relaxed), before);
    }
}
