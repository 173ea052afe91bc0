//! The loop of a thread: run what is ready, wait for sockets and deadlines, again.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::reactor::{Bell, Reactor};
use crate::task::Tasks;
use crate::{clock, timer};

/// What the tasks of a thread reach its loop by.
struct Current {
    tasks: Rc<Tasks>,
    reactor: Rc<Reactor>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Runs `root`, and every task spawned meanwhile, on this thread until `root` ends; tasks that still
/// run then are dropped.
///
/// # Errors
/// If the kernel refuses an epoll set or an eventfd: the process is out of descriptors.
pub fn run<T: 'static>(root: impl Future<Output = T> + 'static) -> io::Result<T> {
    let tasks = Rc::new(Tasks::new()?);
    let reactor = Rc::new(Reactor::new(tasks.foreign().bell())?);
    clock::advance();
    CURRENT.set(Some(Current { tasks: Rc::clone(&tasks), reactor: Rc::clone(&reactor) }));
    let output = Rc::new(Cell::new(None));
    let slot = Rc::clone(&output);
    tasks.spawn(Box::pin(async move { slot.set(Some(root.await)) }));
    let result = turn_until(&output, &tasks, &reactor);
    // Dropped while spawning still works: destructors of tasks may use the loop.
    tasks.clear();
    CURRENT.set(None);
    result
}

fn turn_until<T>(output: &Cell<Option<T>>, tasks: &Tasks, reactor: &Reactor) -> io::Result<T> {
    loop {
        tasks.run_ready();
        if let Some(output) = output.take() {
            return Ok(output);
        }
        let timeout = if tasks.has_ready() { Some(Duration::ZERO) } else { timer::until_next() };
        if reactor.turn(timeout)? == Bell::Rang {
            tasks.foreign().take();
        }
        timer::fire();
    }
}

/// Starts a task on this thread. Outside [`run`] the task is dropped at once.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    if let Some(tasks) = tasks() {
        tasks.spawn(Box::pin(task));
    }
}

/// Number of tasks of this thread that have not ended.
#[must_use]
pub fn live_tasks() -> usize {
    tasks().map_or(0, |tasks| tasks.len())
}

/// Runs every task of this thread once, so that each sees a change of the worker's state.
pub fn wake_all() {
    if let Some(tasks) = tasks() {
        tasks.wake_all();
    }
}

/// Lets every other task that is ready run first.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn tasks() -> Option<Rc<Tasks>> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| Rc::clone(&current.tasks)))
}

/// The epoll set of this thread.
///
/// # Errors
/// Outside [`run`]: there is none.
pub(crate) fn reactor() -> io::Result<Rc<Reactor>> {
    CURRENT
        .with_borrow(|current| current.as_ref().map(|current| Rc::clone(&current.reactor)))
        .ok_or_else(|| io::Error::other("sockets live inside a running loop"))
}
