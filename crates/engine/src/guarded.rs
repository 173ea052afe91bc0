//! Content on its way through filters, whose panics cost the message alone.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};

use sluice_filter::{Broken, Pipeline};
use sluice_message::{FaultKind, Fields};

use crate::coroutine::Panicked;
use crate::local::Worker;

/// A pipeline that never panics.
pub(crate) struct Guarded {
    /// Absent once one of its filters has panicked: what that left half-done is never seen.
    pipeline: Option<Pipeline>,
    /// Who takes note of it.
    worker: Rc<Worker>,
}

impl Guarded {
    pub(crate) fn new(pipeline: Pipeline, worker: &Rc<Worker>) -> Self {
        Self { pipeline: Some(pipeline), worker: Rc::clone(worker) }
    }

    /// See [`Pipeline::push`]. An error is [`FaultKind::Broken`] if a filter failed, and otherwise a rule that
    /// the content breaks.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), FaultKind> {
        self.call(|pipeline| pipeline.push(piece, out))
    }

    /// See [`Pipeline::flush`] and [`Self::push`].
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), FaultKind> {
        self.call(|pipeline| pipeline.flush(out))
    }

    /// See [`Pipeline::poll_end`] and [`Self::push`].
    pub(crate) fn poll_end(
        &mut self,
        waker: &Waker,
        trailers: &mut Option<Fields>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), FaultKind>> {
        let mut polled = Poll::Pending;
        let called = self.call(|pipeline| {
            polled = pipeline.poll_end(waker, trailers, out);
            match polled {
                Poll::Ready(ended) => ended,
                Poll::Pending => Ok(()),
            }
        });
        match called {
            Err(kind) => Poll::Ready(Err(kind)),
            Ok(()) => polled.map(|_| Ok(())),
        }
    }

    /// See [`Pipeline::is_full`].
    pub(crate) fn is_full(&mut self, waker: &Waker) -> bool {
        let mut full = false;
        // What fails here is told by what comes next.
        let _ = self.call(|pipeline| {
            full = pipeline.is_full(waker);
            Ok(())
        });
        full
    }

    /// See [`Pipeline::is_awaited`].
    pub(crate) fn is_awaited(&self, waker: &Waker) -> bool {
        self.pipeline.as_ref().is_some_and(|pipeline| pipeline.is_awaited(waker))
    }

    fn call(
        &mut self,
        call: impl FnOnce(&mut Pipeline) -> Result<(), Broken>,
    ) -> Result<(), FaultKind> {
        let pipeline = self.pipeline.as_mut().ok_or(FaultKind::Broken)?;
        match catch_unwind(AssertUnwindSafe(|| call(pipeline))) {
            Ok(result) => result.map_err(|Broken| pipeline.fault()),
            Err(payload) => {
                self.pipeline = None;
                self.worker.on_panic(&Panicked(payload));
                Err(FaultKind::Broken)
            }
        }
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guarded").field(&self.pipeline).finish()
    }
}
