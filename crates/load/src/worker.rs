//! What the connections of one thread share: counts, quota, schedule, buffers.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluice_message::{Fields, ResponseHead};
use sluice_net::tls::{HandshakeError, Reason, Security, TlsClient};
use sluice_net::{Deadline, Endpoint, Nanos, Post, Stream, connect, precise_now, wake_all};

use crate::answer::Judge;
use crate::histogram::Histogram;
use crate::link::{Link, Scratch};
use crate::outcome::Mode;
use crate::pace::Schedule;
use crate::plan::Plan;
use crate::source::Failure;
use crate::tally::{Stamp, Tally, micros};

/// Requests that a thread takes from the common quota at once, at most.
const SHARE: u64 = 1024;

/// Waits of requests that were never sent are counted one by one up to this number, then in groups.
const SAMPLES: u64 = 100_000;

/// What the threads of a run share. Nothing of it is touched per request.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    /// Requests nobody has taken yet.
    left: AtomicU64,
    /// Whether any connection was ever opened.
    connected: AtomicBool,
    /// What was agreed upon on the first encrypted connection.
    pub(crate) agreed: OnceLock<Security>,
    /// Streams a server of HTTP/2 allowed on the first connection.
    pub(crate) allowed: OnceLock<u32>,
    /// Which address of each place answered last.
    preferred: Vec<AtomicUsize>,
}

impl Shared {
    pub(crate) fn new(plan: Plan) -> Self {
        let left = AtomicU64::new(plan.extent.requests.unwrap_or(u64::MAX));
        let preferred = plan.targets.iter().map(|_| AtomicUsize::new(0)).collect();
        Self {
            plan,
            left,
            connected: AtomicBool::new(false),
            agreed: OnceLock::new(),
            allowed: OnceLock::new(),
            preferred,
        }
    }

    /// Whether any connection was ever opened.
    pub(crate) fn was_reached(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Requests nobody has taken yet.
    fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes up to `share` requests from the quota.
    fn take(&self, share: u64) -> u64 {
        let mut taken = 0;
        // Never refused: the closure always has a new value.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            taken = left.min(share);
            Some(left - taken)
        });
        taken
    }
}

/// One thread of a run.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// Its number, from 0.
    pub(crate) number: u32,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) scratch: RefCell<Scratch>,
    /// Judges answers of a fixed request.
    pub(crate) judge: RefCell<Judge>,
    /// Where heads and trailers of HTTP/2 come in.
    pub(crate) sheet: RefCell<(ResponseHead, Fields)>,
    /// When the load begins; 0 before that is known.
    start: Cell<Nanos>,
    /// Requests due before this are warm-up.
    pub(crate) measured_from: Cell<Nanos>,
    /// Requests due after this are not sent.
    pub(crate) end: Cell<Nanos>,
    /// Requests this thread may still send.
    quota: Cell<u64>,
    schedule: Cell<Schedule>,
    /// Lanes that wait for a request to become due, those that wait longest in front.
    idle: RefCell<VecDeque<Rc<Seat>>>,
    pacer: RefCell<Option<Waker>>,
    /// Nothing new is sent any more.
    closing: Cell<bool>,
    lanes: Cell<u32>,
    root: RefCell<Option<Waker>>,
    /// Somebody wants the run to end now.
    stopped: Cell<bool>,
    /// When the run was over here; 0 before.
    over: Cell<Nanos>,
    /// How long requests had waited by then that have no response.
    left: RefCell<Histogram>,
    post: Post<News>,
}

/// What a thread tells the one that started it.
#[derive(Debug)]
pub(crate) enum News {
    /// So many more connections are open.
    Opened(u32),
    /// The load can begin.
    Ready,
    /// No connection was ever opened, and why.
    Unreachable(String),
    /// The counts of one second, counted from the beginning of the measuring.
    Interval(u32, Box<Tally>),
    /// The counts since the last interval, and that there are no more.
    Done(Box<Done>),
    /// The thread ended; if it was not done, it broke.
    Gone,
    /// Somebody wants the run to end.
    Stop,
}

/// The last news of a thread.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tally: Tally,
    /// The second these counts belong to.
    pub(crate) second: u32,
    /// When it ended.
    pub(crate) ended: Nanos,
    /// CPU time the thread used while measuring.
    pub(crate) cpu: Duration,
    /// How long requests had waited that have no response: those in flight, and in an open loop
    /// those that were due and never sent.
    pub(crate) left: Histogram,
    /// Requests of an open loop that were sent after its end because they were late.
    pub(crate) overdue: u64,
}

/// Where a lane of an open loop waits for a request to become due.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    granted: Cell<Option<Nanos>>,
    queued: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Seat {
    /// The request that was handed to the lane and not taken by it.
    pub(crate) fn granted(&self) -> Option<Nanos> {
        self.granted.get()
    }
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, number: u32, post: Post<News>) -> Self {
        let tally = Tally::new(&shared.plan.mode);
        let schedule = Schedule::new(0, 1.0, (0, 1));
        Self {
            shared,
            number,
            tally: RefCell::new(tally),
            scratch: RefCell::default(),
            judge: RefCell::default(),
            sheet: RefCell::default(),
            start: Cell::new(0),
            measured_from: Cell::new(Nanos::MAX),
            end: Cell::new(Nanos::MAX),
            quota: Cell::new(0),
            schedule: Cell::new(schedule),
            idle: RefCell::default(),
            pacer: RefCell::default(),
            closing: Cell::new(false),
            lanes: Cell::new(0),
            root: RefCell::default(),
            stopped: Cell::new(false),
            over: Cell::new(0),
            left: RefCell::default(),
            post,
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// Lets the load begin at `start`.
    pub(crate) fn begin(&self, start: Nanos) {
        let plan = self.plan();
        let from = start.saturating_add(nanos(plan.warmup));
        self.measured_from.set(from);
        if let Some(duration) = plan.extent.duration {
            self.end.set(from.saturating_add(nanos(duration)));
        }
        if let Mode::Open { rate_per_second } = plan.mode {
            let place = (self.number, plan.threads);
            self.schedule.set(Schedule::new(start, rate_per_second, place));
        }
        self.start.set(start);
        wake_all();
    }

    /// Waits until the load begins, and says when that was.
    pub(crate) async fn begun(&self) -> Nanos {
        poll_fn(|_| match self.start.get() {
            0 => Poll::Pending,
            start => Poll::Ready(start),
        })
        .await
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.start.get() != 0
    }

    /// Ready once the run has to end.
    pub(crate) fn poll_stopped(&self, cx: &Context<'_>) -> Poll<()> {
        if self.stopped.get() {
            return Poll::Ready(());
        }
        self.root.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Makes whoever waits for the end look around.
    pub(crate) fn wake_root(&self) {
        if let Some(root) = self.root.take() {
            root.wake();
        }
    }

    /// From now on nothing new is sent.
    pub(crate) fn close(&self) {
        if !self.closing.replace(true) {
            wake_all();
        }
    }

    pub(crate) fn add_lane(&self) {
        self.lanes.set(self.lanes.get() + 1);
    }

    pub(crate) fn remove_lane(&self) {
        self.lanes.set(self.lanes.get().saturating_sub(1));
        if self.lanes.get() == 0 {
            self.wake_root();
        }
    }

    /// Ends the run here.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        wake_all();
    }

    /// The run is over here: from now on lanes may be dropped with requests in flight.
    pub(crate) fn end_at(&self, moment: Nanos) {
        self.over.set(moment);
    }

    /// Counts requests that a lane has not brought to an end when it is dropped.
    pub(crate) fn leave(&self, stamps: impl Iterator<Item = Stamp>) {
        let over = self.over.get();
        let left = &mut *self.left.borrow_mut();
        for stamp in stamps {
            if over > 0 && stamp.due >= self.measured_from.get() {
                left.record(micros(over.saturating_sub(stamp.due)));
            }
        }
    }

    /// What [`Self::leave`] has counted.
    pub(crate) fn left(&self) -> Histogram {
        self.left.take()
    }

    /// How many requests of an open loop were due before `moment` and not handed to a lane.
    pub(crate) fn backlog(&self, moment: Nanos) -> u64 {
        if self.closing.get() || self.plan().offered().is_none() || self.lanes.get() == 0 {
            return 0;
        }
        let due = self.schedule.get().count_before(self.measured_from.get(), moment);
        match self.plan().extent.requests {
            None => due,
            Some(_) => due.min(self.quota.get().saturating_add(self.shared.left())),
        }
    }

    /// Counts those that are still not handed out when the run is over.
    pub(crate) fn leave_backlog(&self, count: u64) {
        let schedule = self.schedule.get().from(self.measured_from.get());
        let left = &mut *self.left.borrow_mut();
        // Not every one by itself: there may be thousands of millions.
        let step = count.div_ceil(SAMPLES).max(1);
        let mut index = 0;
        while index < count {
            let waited = self.over.get().saturating_sub(schedule.due_after(index));
            left.record_many(micros(waited), step.min(count - index));
            index += step;
        }
    }

    /// Whether something is due before the end that no lane has taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.schedule.get().due() < self.end.get()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Tells whoever started the run.
    pub(crate) fn tell(&self, news: News) {
        self.post.send(news);
    }

    /// A connection was refused: if it was the first of the run, there is nothing to measure.
    pub(crate) fn on_refused(&self, reason: &str) {
        if !self.shared.was_reached() {
            self.tell(News::Unreachable(reason.to_owned()));
        }
    }

    /// Ready once no lane is left, or the run has to end.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        if self.lanes.get() == 0 || self.stopped.get() {
            return Poll::Ready(());
        }
        self.root.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Takes up to `wanted` requests that are due at `due` and may be sent; 0 once there are none left.
    #[inline]
    pub(crate) fn take(&self, wanted: u32, due: Nanos) -> u32 {
        if self.closing.get() {
            return 0;
        }
        if self.plan().extent.requests.is_none() {
            return wanted;
        }
        self.take_counted(wanted, due)
    }

    fn take_counted(&self, wanted: u32, due: Nanos) -> u32 {
        // Warm-up is no part of the quota. Judged as its answer will be, by when the request was due: a
        // look at the clock here would take requests from the quota that nobody counts.
        if due < self.measured_from.get() {
            return wanted;
        }
        let short = u64::from(wanted).saturating_sub(self.quota.get());
        if short > 0 {
            let plan = self.plan();
            let total = plan.extent.requests.unwrap_or(0);
            // Small shares of a small quota, so that no thread sits on the rest at the end.
            let parts = u64::from(plan.threads).saturating_mul(32).max(1);
            let share = total.checked_div(parts).unwrap_or(0).clamp(short, SHARE.max(short));
            self.quota.set(self.quota.get() + self.shared.take(share));
        }
        let taken = self.quota.get().min(u64::from(wanted));
        self.quota.set(self.quota.get() - taken);
        u32::try_from(taken).unwrap_or(wanted)
    }

    /// The next request of an open loop that is due, for whoever waits longest: when it was due. `None`
    /// once there are none left.
    pub(crate) fn poll_due(&self, seat: &Rc<Seat>, cx: &Context<'_>) -> Poll<Option<Nanos>> {
        if let Some(due) = seat.granted.take() {
            return Poll::Ready(Some(due));
        }
        if self.closing.get() {
            return Poll::Ready(None);
        }
        if !seat.queued.get() {
            let mut idle = self.idle.borrow_mut();
            if idle.is_empty() && self.schedule.get().due() <= precise_now() {
                drop(idle);
                return Poll::Ready(self.next_due());
            }
            seat.queued.set(true);
            idle.push_back(Rc::clone(seat));
            if let Some(pacer) = self.pacer.take() {
                pacer.wake();
            }
        }
        let mut waker = seat.waker.borrow_mut();
        if waker.as_ref().is_none_or(|old| !old.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Takes the next request off the schedule.
    fn next_due(&self) -> Option<Nanos> {
        let mut schedule = self.schedule.get();
        let due = schedule.due();
        if due >= self.end.get() || self.take(1, due) == 0 {
            self.close();
            return None;
        }
        schedule.advance();
        self.schedule.set(schedule);
        Some(due)
    }

    /// Hands requests to idle lanes as they become due, until there are none left.
    pub(crate) async fn pace(&self) {
        let deadline = Deadline::new();
        poll_fn(|cx| {
            loop {
                if self.closing.get() {
                    return Poll::Ready(());
                }
                if self.idle.borrow().is_empty() {
                    self.pacer.replace(Some(cx.waker().clone()));
                    return Poll::Pending;
                }
                let due = self.schedule.get().due();
                if due > precise_now() {
                    self.pacer.replace(Some(cx.waker().clone()));
                    if deadline.poll_at(due, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
                let Some(due) = self.next_due() else { return Poll::Ready(()) };
                let seat = self.idle.borrow_mut().pop_front();
                if let Some(seat) = seat {
                    seat.queued.set(false);
                    seat.granted.set(Some(due));
                    if let Some(waker) = &*seat.waker.borrow() {
                        waker.wake_by_ref();
                    }
                }
            }
        })
        .await;
    }

    /// Opens a connection to a place. Its other addresses are tried if the one that answered last
    /// does not.
    ///
    /// # Errors
    /// Why none answers, in words.
    pub(crate) async fn open(&self, place: usize, deadline: &Deadline) -> Result<Link, String> {
        self.open_as((place, None), deadline, async |stream| Ok(Link::new(stream))).await
    }

    /// The same for whoever encrypts in another way than the place says, or makes something else of
    /// the connection; `link` may still find out that the server will not do.
    ///
    /// # Errors
    /// Why none answers, in words.
    pub(crate) async fn open_as<L>(
        &self,
        (place, tls): (usize, Option<&TlsClient>),
        deadline: &Deadline,
        link: impl AsyncFn(Stream) -> io::Result<L>,
    ) -> Result<L, String> {
        let plan = self.plan();
        let Some(there) = plan.targets.get(place) else {
            return Err("there is no such target".to_owned());
        };
        let tls = tls.or(there.tls.as_ref());
        let preferred = self.shared.preferred.get(place);
        let first = preferred.map_or(0, |index| index.load(Ordering::Relaxed));
        let mut said = String::new();
        for offset in 0..there.endpoints.len() {
            let index = (first + offset).checked_rem(there.endpoints.len()).unwrap_or(0);
            let Some(endpoint) = there.endpoints.get(index) else { continue };
            let opening = async { link(self.reach(endpoint, tls).await?).await };
            match deadline.limit(plan.timeout, opening).await {
                Ok(Ok(link)) => {
                    if let Some(preferred) = preferred {
                        preferred.store(index, Ordering::Relaxed);
                    }
                    self.shared.connected.store(true, Ordering::Relaxed);
                    return Ok(link);
                }
                Ok(Err(error)) => said = format!("{endpoint}: {error}"),
                Err(_) => said = format!("{endpoint}: no answer within {:?}", plan.timeout),
            }
        }
        Err(said)
    }

    async fn reach(&self, endpoint: &Endpoint, tls: Option<&TlsClient>) -> io::Result<Stream> {
        let stream = connect(endpoint).await?;
        let Some(tls) = tls else { return Ok(stream) };
        let stream = tls.connect(stream).await.map_err(advised)?;
        if let Some(security) = stream.security() {
            if precise_now() >= self.measured_from.get() {
                self.tally.borrow_mut().on_handshake(security.handshake);
            }
            self.shared.agreed.get_or_init(|| security);
        }
        Ok(stream)
    }

    /// Counts requests that failed; if there are none, something went wrong between requests.
    pub(crate) fn fail(
        &self,
        failure: Failure,
        stamps: impl ExactSizeIterator<Item = Stamp>,
        reason: String,
    ) {
        let tally = &mut *self.tally.borrow_mut();
        if stamps.len() == 0 {
            tally.on_trouble(failure);
        }
        let now = precise_now();
        for stamp in stamps {
            if stamp.due >= self.measured_from.get() {
                tally.on_failure(failure, now.saturating_sub(stamp.due));
            }
        }
        tally.explain(failure, || reason);
    }

    /// The server allows so many streams on a connection.
    pub(crate) fn on_streams_allowed(&self, streams: u32) {
        self.shared.allowed.get_or_init(|| streams);
    }
}

/// Says what can be done where a certificate is not accepted.
fn advised(error: HandshakeError) -> io::Error {
    match error.reason {
        Reason::CertificateRefused => io::Error::other(format!(
            "{error} (--ca FILE names certificates to trust, --insecure accepts any)"
        )),
        Reason::Protocol => io::Error::other(format!(
            "{error} (with --http2 that is h2: leave it out to speak HTTP/1.1)"
        )),
        _ => error.into(),
    }
}

/// A duration in the clock's unit.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
