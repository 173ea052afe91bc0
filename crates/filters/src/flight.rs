//! One asks, all others wait for what it learns.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A question that only one of all workers asks at a time.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    flying: bool,
    /// How many questions are over.
    landed: u64,
    waiting: Vec<Waker>,
}

/// The right to ask. The question is over when it is dropped, answered or not.
#[derive(Debug)]
pub(crate) struct Pilot(Arc<Flight>);

impl Flight {
    /// The right to ask, unless somebody is asking.
    pub(crate) fn board(self: &Arc<Self>) -> Option<Pilot> {
        let mut state = self.lock();
        if state.flying {
            return None;
        }
        state.flying = true;
        Some(Pilot(Arc::clone(self)))
    }

    /// Waits until the question is over that is being asked now, if there is one.
    pub(crate) fn landing(self: Arc<Self>) -> impl Future<Output = ()> {
        let before = self.lock().landed;
        poll_fn(move |cx| {
            let mut state = self.lock();
            if !state.flying || state.landed != before {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Whoever panicked with the lock left a whole state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.flying = false;
        state.landed += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use super::Flight;

    #[test]
    fn one_asks_and_the_others_wait() {
        let flight = Arc::new(Flight::default());
        let pilot = flight.board().unwrap();
        assert!(flight.board().is_none());
        let mut landing = pin!(Arc::clone(&flight).landing());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(landing.as_mut().poll(&mut cx).is_pending());
        drop(pilot);
        assert!(landing.as_mut().poll(&mut cx).is_ready());
        // The next question does not hold up who waited for the one before.
        let mut late = pin!(Arc::clone(&flight).landing());
        assert!(late.as_mut().poll(&mut cx).is_ready());
        assert!(flight.board().is_some());
    }
}
