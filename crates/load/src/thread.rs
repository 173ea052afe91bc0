//! What one thread of a run does from its beginning to its end.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sluice_net::process::thread_cpu;
use sluice_net::{Deadline, Mailbox, Nanos, Post, precise_now, spawn, wake_on_time};

use crate::h2::{StreamLane, StreamRequest};
use crate::histogram::Histogram;
use crate::lane::{Batch, Lane};
use crate::outcome::Mode;
use crate::plan::Work;
use crate::request::Keepalive;
use crate::scripted::ScriptedLane;
use crate::source::{Failure, Requests};
use crate::tally::Tally;
use crate::worker::{Done, News, Shared, Worker};

/// Connections that a thread opens at once: more would overrun the server's queue.
const OPENERS: u32 = 64;

/// How long an open loop that has ended still sends what was due and waits for responses.
const GRACE: Nanos = 1_000_000_000;

/// One second of the clock.
const SECOND: Nanos = 1_000_000_000;

/// What a thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The load begins at this moment.
    Begin(Nanos),
    /// The run ends now.
    Stop,
}

/// Runs thread `number` until its work is done or it is told to stop.
///
/// # Errors
/// If the thread cannot have an event loop.
pub(crate) fn serve(
    shared: Arc<Shared>,
    number: u32,
    post: Post<News>,
    orders: Mailbox<Order>,
) -> std::io::Result<()> {
    if shared.plan.offered().is_some() {
        wake_on_time();
    }
    let (worker, last) = sluice_net::run(async move {
        let worker = Rc::new(Worker::new(shared, number, post));
        spawn(obey(Rc::clone(&worker), orders));
        prepare(&worker).await;
        worker.tell(News::Ready);
        let last = measure(&worker).await;
        (worker, last)
    })?;
    // Lanes are gone now, and have left behind what they had in flight.
    worker.tell(News::Done(Box::new(Done { left: worker.left(), ..last })));
    Ok(())
}

async fn obey(worker: Rc<Worker>, mut orders: Mailbox<Order>) {
    while let Some(order) = orders.recv().await {
        match order {
            Order::Begin(start) => worker.begin(start),
            Order::Stop => worker.stop(),
        }
    }
    // Nobody is left to report to.
    worker.stop();
}

/// Opens connections, as far as they are open before the load begins, and starts the lanes.
async fn prepare(worker: &Rc<Worker>) {
    let plan = worker.plan();
    let mine =
        (0..plan.lanes()).filter(|lane| lane.checked_rem(plan.threads) == Some(worker.number));
    let sent = match &plan.work {
        Work::Fixed(prepared) => {
            Sent::Batch(Rc::new(Batch::new(Arc::clone(prepared), plan.pipeline)))
        }
        Work::Streams(request) => Sent::Streams(Arc::clone(request)),
        Work::Scripted(requests) => return start_scripts(worker, requests, mine.collect()).await,
    };
    let users = matches!(plan.mode, Mode::Users { .. });
    if users || plan.keepalive == Keepalive::Off {
        mine.for_each(|number| sent.lane(worker, number).start(worker));
    } else {
        open_all(worker, &sent, mine.collect()).await;
    }
}

/// What all lanes of a thread send.
#[derive(Clone)]
enum Sent {
    Batch(Rc<Batch>),
    Streams(Arc<StreamRequest>),
}

impl Sent {
    fn lane(&self, worker: &Rc<Worker>, number: u32) -> AnyLane {
        let worker = Rc::clone(worker);
        match self {
            Self::Batch(batch) => {
                AnyLane::Batch(Box::new(Lane::new(worker, Rc::clone(batch), number)))
            }
            Self::Streams(request) => {
                AnyLane::Streams(Box::new(StreamLane::new(worker, Arc::clone(request), number)))
            }
        }
    }
}

/// A lane of any protocol.
enum AnyLane {
    Batch(Box<Lane>),
    Streams(Box<StreamLane>),
}

impl AnyLane {
    async fn open(&mut self) -> Result<(), String> {
        match self {
            Self::Batch(lane) => lane.open().await,
            Self::Streams(lane) => lane.open().await,
        }
    }

    fn start(self, worker: &Worker) {
        worker.add_lane();
        match self {
            Self::Batch(lane) => spawn(lane.run()),
            Self::Streams(lane) => spawn(lane.run()),
        }
    }
}

async fn start_scripts(worker: &Rc<Worker>, requests: &Arc<dyn Requests>, lanes: Vec<u32>) {
    if worker.number == 0
        && let Some(source) = requests.warm_up()
    {
        let lane = ScriptedLane::new(Rc::clone(worker), source);
        let root = Rc::clone(worker);
        worker.add_lane();
        spawn(async move {
            lane.warm_up().await;
            root.remove_lane();
        });
        poll_fn(|cx| worker.poll_over(cx)).await;
    }
    for number in lanes {
        worker.add_lane();
        spawn(ScriptedLane::new(Rc::clone(worker), requests.worker(number)).run());
    }
}

async fn open_all(worker: &Rc<Worker>, sent: &Sent, lanes: Vec<u32>) {
    let lanes = Rc::new(Cell::new(lanes));
    let openers = Rc::new(Cell::new(0_u32));
    for _ in 0..OPENERS {
        openers.set(openers.get() + 1);
        let (worker, sent) = (Rc::clone(worker), sent.clone());
        let (lanes, openers) = (Rc::clone(&lanes), Rc::clone(&openers));
        // A lane of its own until it has opened its share: the thread is not empty meanwhile.
        worker.add_lane();
        spawn(async move {
            while let Some(number) = next(&lanes) {
                let mut lane = sent.lane(&worker, number);
                match lane.open().await {
                    Ok(()) => worker.tell(News::Opened(1)),
                    Err(reason) => {
                        worker.on_refused(&reason);
                        let tally = &mut *worker.tally.borrow_mut();
                        tally.on_trouble(Failure::Connect);
                        tally.explain(Failure::Connect, || reason);
                    }
                }
                lane.start(&worker);
            }
            openers.set(openers.get() - 1);
            worker.remove_lane();
            worker.wake_root();
        });
    }
    poll_fn(|cx| match openers.get() {
        0 => Poll::Ready(()),
        _ => worker.poll_over(cx),
    })
    .await;
}

fn next(lanes: &Cell<Vec<u32>>) -> Option<u32> {
    let mut left = lanes.take();
    let lane = left.pop();
    lanes.set(left);
    lane
}

/// Waits for the end; what was counted by then.
async fn measure(worker: &Rc<Worker>) -> Done {
    poll_fn(|cx| match worker.has_begun() {
        true => Poll::Ready(()),
        false => worker.poll_stopped(cx),
    })
    .await;
    if worker.plan().offered().is_some() {
        let pacer = Rc::clone(worker);
        spawn(async move { pacer.pace().await });
    }
    let clock = Rc::new(Clock::default());
    spawn(tick(Rc::clone(worker), Rc::clone(&clock)));
    let deadline = Deadline::new();
    let end = worker.end.get();
    poll_fn(|cx| match worker.poll_over(cx) {
        Poll::Pending => deadline.poll_at(end, cx).map(|_| ()),
        over => over,
    })
    .await;
    let mut ended = precise_now();
    let behind = worker.backlog(ended.min(end));
    if worker.plan().offered().is_some() && !worker.is_stopped() {
        if !worker.is_behind() {
            worker.close();
        }
        let last = ended.saturating_add(GRACE);
        poll_fn(|cx| match worker.poll_over(cx) {
            Poll::Pending => deadline.poll_at(last, cx).map(|_| ()),
            over => over,
        })
        .await;
        ended = precise_now();
    }
    worker.end_at(ended);
    let unsent = worker.backlog(ended.min(end));
    worker.leave_backlog(unsent);
    let mut tally = worker.tally.replace(Tally::new(&worker.plan().mode));
    if ended < worker.measured_from.get() {
        // Stopped within the warm-up, which is no part of the figures.
        (tally.sent, tally.received) = (0, 0);
    }
    let cpu = thread_cpu().unwrap_or_default().saturating_sub(clock.cpu.get());
    Done {
        tally,
        second: clock.second.get(),
        ended: ended.min(end),
        cpu,
        left: Histogram::new(),
        overdue: behind.saturating_sub(unsent),
    }
}

/// What the ticker of a thread has seen.
#[derive(Debug, Default)]
struct Clock {
    second: Cell<u32>,
    cpu: Cell<Duration>,
}

/// Tells the counts of each second but the last.
async fn tick(worker: Rc<Worker>, clock: Rc<Clock>) {
    let deadline = Deadline::new();
    let from = worker.measured_from.get();
    clock.cpu.set(thread_cpu().unwrap_or_default());
    poll_fn(|cx| deadline.poll_at(from, cx)).await;
    clock.cpu.set(thread_cpu().unwrap_or_default());
    if worker.plan().warmup > Duration::ZERO {
        // Bytes of the warm-up; its requests have not been counted in the first place.
        let tally = &mut *worker.tally.borrow_mut();
        (tally.sent, tally.received) = (0, 0);
    }
    loop {
        let second = clock.second.get();
        let at = from.saturating_add(SECOND.saturating_mul(u64::from(second) + 1));
        if at >= worker.end.get() {
            return;
        }
        poll_fn(|cx| deadline.poll_at(at, cx)).await;
        let tally = worker.tally.replace(Tally::new(&worker.plan().mode));
        worker.tell(News::Interval(second, Box::new(tally)));
        clock.second.set(second + 1);
    }
}
