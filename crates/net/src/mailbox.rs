//! Messages from other threads to a task.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

#[derive(Debug)]
struct Shared<T> {
    letters: VecDeque<T>,
    reader: Option<Waker>,
    senders: usize,
}

/// The sending end; any thread may have one.
#[derive(Debug)]
pub struct Post<T>(Arc<Mutex<Shared<T>>>);

/// The receiving end.
#[derive(Debug)]
pub struct Mailbox<T>(Arc<Mutex<Shared<T>>>);

/// A new mailbox and its sending end. It is for control messages: unbounded, and locked for each.
#[must_use]
pub fn mailbox<T>() -> (Post<T>, Mailbox<T>) {
    let shared = Shared { letters: VecDeque::new(), reader: None, senders: 1 };
    let shared = Arc::new(Mutex::new(shared));
    (Post(Arc::clone(&shared)), Mailbox(shared))
}

fn lock<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    // No code runs under the lock that could leave the queue half-changed.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Post<T> {
    /// Delivers a message. If the receiver is gone, nobody reads it.
    pub fn send(&self, letter: T) {
        let mut shared = lock(&self.0);
        shared.letters.push_back(letter);
        let reader = shared.reader.take();
        drop(shared);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Self {
        lock(&self.0).senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Post<T> {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.senders -= 1;
        let reader = (shared.senders == 0).then(|| shared.reader.take()).flatten();
        drop(shared);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<T> Mailbox<T> {
    /// Waits for the next message; `None` once every sender is gone and all were read.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| {
            let mut shared = lock(&self.0);
            if let Some(letter) = shared.letters.pop_front() {
                return Poll::Ready(Some(letter));
            }
            if shared.senders == 0 {
                return Poll::Ready(None);
            }
            shared.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
