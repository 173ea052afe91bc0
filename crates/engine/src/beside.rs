//! Exchanges that are run beside others, for errands of filters.
//!
//! An errand is run as what a client asks for, over a connection that never leaves the process. Its other end says a
//! request, which stands for that of the errand, waits, and takes what it is sent; so nothing of an exchange has to
//! know that nobody is there.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluice_filter::Local;
use sluice_net::{Deadline, Nanos, Stream, now, spawn};

use crate::connection::Connection;
use crate::coroutine::Panicked;
use crate::errand::Errand;
use crate::local::Scope;

/// The request that stands for the errand's.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: errand\r\n\r\n";

/// Whoever gets more than this gets content that he is not to have: the errand has failed.
const TAKEN: usize = 512 * 1024;

/// Errands under way in this thread beyond which there are no more: each has two descriptors.
const AT_ONCE: usize = 256;

/// Nobody waits for longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs what a connection has to say.
pub(crate) type Run = Rc<dyn Fn(Rc<Connection>) -> Local<Result<(), Panicked>>>;

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

/// Errands of this thread are run so, until that is dropped.
pub(crate) struct Runner(());

impl Runner {
    pub(crate) fn new(run: Run) -> Self {
        RUN.set(Some(run));
        Self(())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        RUN.set(None);
    }
}

/// Begins an errand for a request of this connection; whether that could be done.
pub(crate) fn begin(connection: &Connection, scope: &Scope, errand: Errand) -> bool {
    let Some(run) = RUN.with_borrow(Clone::clone) else { return false };
    if UNDER_WAY.get() >= AT_ONCE {
        return false;
    }
    let Ok((inner, outer)) = Stream::pair() else { return false };
    let connection = Rc::new(connection.shadow(inner, scope, errand));
    let busy = Busy::new();
    spawn(async move {
        attend(run, connection, outer).await;
        drop(busy);
    });
    true
}

/// Counts an errand while it is under way.
struct Busy(());

impl Busy {
    fn new() -> Self {
        UNDER_WAY.set(UNDER_WAY.get() + 1);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get() - 1);
    }
}

/// Asks, and waits for the end.
async fn attend(run: Run, connection: Rc<Connection>, outer: Stream) {
    if say(&outer).await.is_err() {
        return;
    }
    let until = now().saturating_add(Nanos::try_from(PATIENCE.as_nanos()).unwrap_or(Nanos::MAX));
    let mut other_end =
        OtherEnd { stream: Some(outer), taken: 0, until, deadline: Deadline::new() };
    // What was said may not be there to be read yet.
    while connection.served.get() == 0 {
        poll_fn(|cx| connection.stream.poll_readable(cx)).await;
        let mut running = run(Rc::clone(&connection));
        let ended = poll_fn(|cx| {
            let ended = running.as_mut().poll(cx);
            if ended.is_pending() {
                other_end.tend(cx);
            }
            ended
        });
        if let Err(panicked) = ended.await {
            return connection.worker.on_panic(&panicked);
        }
    }
}

async fn say(stream: &Stream) -> std::io::Result<()> {
    let mut said = 0;
    poll_fn(|cx| {
        while let Some(rest @ [_, ..]) = REQUEST.get(said..) {
            said += ready!(stream.poll_write(cx, rest))?;
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// The end of the connection that stands for a client.
struct OtherEnd {
    stream: Option<Stream>,
    taken: usize,
    until: Nanos,
    deadline: Deadline,
}

impl OtherEnd {
    /// Takes what has come, and leaves when it is too much or takes too long.
    fn tend(&mut self, cx: &Context<'_>) {
        let mut room = Vec::new();
        while let Some(stream) = &self.stream {
            room.clear();
            room.reserve(4096);
            match stream.poll_read(cx, &mut room) {
                Poll::Ready(Ok(length @ 1..)) => self.taken = self.taken.saturating_add(length),
                Poll::Ready(_) => self.stream = None,
                Poll::Pending => break,
            }
            if self.taken > TAKEN {
                self.stream = None;
            }
        }
        if self.stream.is_some() && self.deadline.poll_at(self.until, cx).is_ready() {
            self.stream = None;
        }
    }
}
