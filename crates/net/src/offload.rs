//! Work that would hold a worker up, done on threads of its own.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

use crate::process::cpus;

/// Pieces of work that may wait; more would wait for longer than anybody stays.
const QUEUE: usize = 256;

/// A piece of work and who waits for it.
struct Piece {
    work: Box<dyn FnOnce() + Send>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Whether it was done, once it is over.
    outcome: Option<bool>,
    waker: Option<Waker>,
}

/// What keeps the threads that work is done on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Computing: half as many threads as there are CPUs, so that workers keep theirs.
    Processors,
    /// Waiting for disks, which costs no processor.
    Disks,
}

/// The same where disks are waited for: an answer under way waits for one piece of work at a time, and is broken
/// off if it is not done.
const DISK_QUEUE: usize = 16 * 1024;

/// Threads that wait for disks: a disk does several things at once, and one that hangs must not stop the others.
const DISK_THREADS: usize = 8;

/// The threads, started when the first work comes.
static PROCESSORS: OnceLock<SyncSender<Piece>> = OnceLock::new();
static DISKS: OnceLock<SyncSender<Piece>> = OnceLock::new();

/// Has `work`, which computes, done by another thread. Yields `false` if it was not done: too much waits already,
/// there are no threads, or it panicked. Whoever stops waiting does not stop the work.
pub fn offload(work: Box<dyn FnOnce() + Send>) -> impl Future<Output = bool> {
    offload_to(Pool::Processors, work)
}

/// The same for work of any kind.
pub fn offload_to(pool: Pool, work: Box<dyn FnOnce() + Send>) -> impl Future<Output = bool> {
    let waiting = Arc::new(Mutex::new(Waiting::default()));
    let piece = Piece { work, waiting: Arc::clone(&waiting) };
    let inbox = match pool {
        Pool::Processors => PROCESSORS.get_or_init(|| start_threads("offload", QUEUE, cpus() / 2)),
        Pool::Disks => DISKS.get_or_init(|| start_threads("disk", DISK_QUEUE, DISK_THREADS)),
    };
    let taken = inbox.try_send(piece).is_ok();
    poll_fn(move |cx| {
        if !taken {
            return Poll::Ready(false);
        }
        let mut state = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = state.outcome {
            return Poll::Ready(done);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    })
}

fn start_threads(name: &str, queue: usize, count: usize) -> SyncSender<Piece> {
    let (send, receive) = sync_channel(queue);
    let receive = Arc::new(Mutex::new(receive));
    for number in 0..count.max(1) {
        let receive = Arc::clone(&receive);
        let body = move || run(&receive);
        // Without any thread the queue is closed, and nobody waits for what never comes.
        let _ = thread::Builder::new().name(format!("{name}-{number}")).spawn(body);
    }
    send
}

fn run(inbox: &Mutex<Receiver<Piece>>) {
    loop {
        // Held while waiting: one thread waits for work, the others for their turn to wait.
        let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Piece { work, waiting }) = next else { return };
        let done = catch_unwind(AssertUnwindSafe(work)).is_ok();
        let mut state = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        state.outcome = Some(done);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn work_is_done_elsewhere_and_a_panic_is_told() {
        let (send, receive) = channel();
        let outcome = crate::run(async move {
            let here = thread::current().id();
            let (name, seen) = (send.clone(), send);
            let done = offload(Box::new(move || {
                name.send(thread::current().id() == here).unwrap();
            }))
            .await;
            let failed = offload(Box::new(|| panic!("on purpose"))).await;
            drop(seen);
            (done, failed)
        });
        assert_eq!(outcome.unwrap(), (true, false));
        assert!(!receive.recv().unwrap());
        refuse_what_cannot_wait();
    }

    /// Not a test of its own: the threads are those of the process.
    fn refuse_what_cannot_wait() {
        let (go, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let held: Vec<_> = (0..QUEUE + cpus() + 1)
            .map(|_| {
                let gate = Arc::clone(&gate);
                offload(Box::new(move || {
                    // An error is the sign to go on.
                    let _ = gate.lock().unwrap().recv();
                }))
            })
            .collect();
        let refused = crate::run(async move {
            let mut refused = 0;
            drop(go);
            for work in held {
                refused += usize::from(!work.await);
            }
            refused
        });
        assert!(refused.unwrap() >= 1);
    }
}
