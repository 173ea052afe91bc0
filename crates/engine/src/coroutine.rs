//! Exchanges run in coroutines that outlive them.
//!
//! The state of an exchange is a few kilobytes: too much to carry for each idle connection, and too
//! much to set up for each request. So a connection that has something to say borrows a coroutine,
//! which loops over jobs, and gives it back when it is idle again.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

#[cfg(not(panic = "unwind"))]
compile_error!("a panic costs one exchange: it has to be caught, here and around filters");

/// Coroutines kept for reuse.
const KEPT: usize = 256;

/// Where job and result pass between a coroutine and its borrower.
struct Slot<J, R> {
    job: Cell<Option<J>>,
    result: Cell<Option<R>>,
}

/// The inner side of a coroutine.
pub(crate) struct Jobs<J, R>(Rc<Slot<J, R>>);

impl<J, R> Jobs<J, R> {
    /// The next job. No waker is kept: whoever leaves a job polls.
    pub(crate) async fn next(&self) -> J {
        poll_fn(|_| self.0.job.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    pub(crate) fn finish(&self, result: R) {
        self.0.result.set(Some(result));
    }
}

struct Coroutine<J, R> {
    slot: Rc<Slot<J, R>>,
    body: Pin<Box<dyn Future<Output = ()>>>,
}

/// Makes the endless future of one coroutine.
type Body<J, R> = dyn Fn(Jobs<J, R>) -> Pin<Box<dyn Future<Output = ()>>>;

/// Coroutines of one worker that nobody uses.
pub(crate) struct Coroutines<J, R> {
    free: RefCell<Vec<Coroutine<J, R>>>,
    crowd: Crowd,
    body: Box<Body<J, R>>,
}

/// A coroutine panicked; the payload says why.
pub(crate) struct Panicked(pub(crate) Box<dyn Any + Send>);

impl Panicked {
    /// Why, as far as it was said.
    pub(crate) fn text(&self) -> &str {
        self.0
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| self.0.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no reason given")
    }
}

impl<J, R> Coroutines<J, R> {
    pub(crate) fn new(
        crowd: Crowd,
        body: impl Fn(Jobs<J, R>) -> Pin<Box<dyn Future<Output = ()>>> + 'static,
    ) -> Self {
        Self { free: RefCell::default(), crowd, body: Box::new(body) }
    }

    /// Runs one job to its end; `on_poll` is called whenever it goes on. A panic inside costs this job
    /// alone: the coroutine is thrown away.
    pub(crate) async fn run(&self, job: J, on_poll: impl Fn()) -> Result<R, Panicked> {
        let coroutine = self.free.borrow_mut().pop();
        let mut coroutine = coroutine.unwrap_or_else(|| self.create());
        coroutine.slot.job.set(Some(job));
        let _busy = Busy::new(&self.crowd);
        let result = poll_fn(|cx| {
            on_poll();
            coroutine.poll(cx)
        })
        .await?;
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT {
            free.push(coroutine);
        }
        Ok(result)
    }

    /// Begins a job that may go on in another task.
    pub(crate) fn start(self: &Rc<Self>, job: J) -> Running<J, R> {
        let coroutine = self.free.borrow_mut().pop();
        let coroutine = coroutine.unwrap_or_else(|| self.create());
        coroutine.slot.job.set(Some(job));
        self.crowd.0.set(self.crowd.0.get() + 1);
        Running { home: Rc::clone(self), coroutine: Some(coroutine) }
    }

    fn create(&self) -> Coroutine<J, R> {
        let slot = Rc::new(Slot { job: Cell::new(None), result: Cell::new(None) });
        Coroutine { body: (self.body)(Jobs(Rc::clone(&slot))), slot }
    }
}

/// A job under way.
pub(crate) struct Running<J, R> {
    home: Rc<Coroutines<J, R>>,
    coroutine: Option<Coroutine<J, R>>,
}

impl<J, R> Future for Running<J, R> {
    type Output = Result<R, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(coroutine) = &mut self.coroutine else { return Poll::Pending };
        let Poll::Ready(result) = coroutine.poll(cx) else { return Poll::Pending };
        if let (Some(coroutine), Ok(_)) = (self.coroutine.take(), &result) {
            let mut free = self.home.free.borrow_mut();
            if free.len() < KEPT {
                free.push(coroutine);
            }
        }
        Poll::Ready(result)
    }
}

impl<J, R> Drop for Running<J, R> {
    fn drop(&mut self) {
        self.home.crowd.0.set(self.home.crowd.0.get() - 1);
    }
}

/// How many jobs are under way.
#[derive(Clone, Default)]
pub(crate) struct Crowd(Rc<Cell<usize>>);

impl Crowd {
    /// Whether so many jobs wait for something that each should hold as little memory as it can.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.0.get() > KEPT
    }
}

/// Counts a job while it runs, also if its task is dropped in the middle.
struct Busy<'b>(&'b Cell<usize>);

impl<'b> Busy<'b> {
    fn new(crowd: &'b Crowd) -> Self {
        crowd.0.set(crowd.0.get() + 1);
        Self(&crowd.0)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<J, R> Coroutine<J, R> {
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, Panicked>> {
        let body = &mut self.body;
        // The body is never polled again after a panic, so no broken state is seen.
        match catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(cx))) {
            Ok(_) => {
                self.slot.result.take().map_or(Poll::Pending, |result| Poll::Ready(Ok(result)))
            }
            Err(payload) => Poll::Ready(Err(Panicked(payload))),
        }
    }
}
