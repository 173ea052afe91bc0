//! The threads of a test: their connections, counts and end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use sluice_net::process::thread_cpu;
use sluice_net::{Deadline, Endpoint, Nanos, Post, now, precise_now, spawn, wake_all};

use super::client::{Client, Event, Trouble};
use super::command::{Test, write_digits};
use super::scan::Reply;
use crate::histogram::Histogram;
use crate::outcome::Errors;

/// How often a thread looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How far the beginnings of threads may lie apart.
const MOMENT: Duration = Duration::from_millis(1);
/// How many first words of error replies are told apart.
const WORDS: usize = 64;
/// One second of the clock.
const SECOND: Nanos = 1_000_000_000;

/// One test as all its threads see it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) test: Test,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) greeting: Vec<u8>,
    pub(crate) greetings: u32,
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) pipeline: u32,
    pub(crate) keyspace: Option<u64>,
    pub(crate) timeout: Duration,
    /// When it ends at the latest, counted from its beginning.
    pub(crate) duration: Option<Duration>,
    /// Requests nobody has taken yet.
    pub(crate) left: AtomicU64,
    /// Connections that are not open yet; the load begins when there are none.
    pub(crate) closed: AtomicU64,
    /// The test ends now.
    pub(crate) stopped: AtomicBool,
}

/// What a thread counted in one second, or since then.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) latency: Histogram,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) errors: Errors,
    /// Error replies by their first word.
    pub(crate) replies: BTreeMap<String, u64>,
    /// What the first failure said.
    pub(crate) trouble: Option<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.latency.add(&other.latency);
        self.requests += other.requests;
        self.responses += other.responses;
        self.sent += other.sent;
        self.received += other.received;
        self.errors.connect += other.errors.connect;
        self.errors.read += other.errors.read;
        self.errors.write += other.errors.write;
        self.errors.timeout += other.errors.timeout;
        self.errors.protocol += other.errors.protocol;
        self.errors.unexpected_status += other.errors.unexpected_status;
        for (word, times) in other.replies {
            *self.replies.entry(word).or_default() += times;
        }
        self.trouble = self.trouble.take().or(other.trouble);
    }
}

/// What a thread tells.
#[derive(Debug)]
pub(crate) enum News {
    /// All its connections are open; the load begins at this moment.
    Begun(Nanos),
    /// The counts of one second.
    Second(u32, Box<Counts>),
    /// The last counts, the second they belong to, when it ended, the CPU time it took.
    Done(u32, Box<Counts>, Nanos, Duration),
    /// The thread is gone; if it was not done, it broke.
    Gone,
}

/// One thread of a test.
pub(crate) struct Worker {
    pub(crate) plan: Arc<Plan>,
    counts: RefCell<Counts>,
    random: RefCell<fastrand::Rng>,
    clients: Cell<u32>,
    end: Cell<Nanos>,
    root: RefCell<Option<Waker>>,
}

/// Runs thread `number` until its part of the test is done.
///
/// # Errors
/// If the thread cannot have an event loop.
pub(crate) fn run(plan: Arc<Plan>, number: u32, post: Post<News>) -> std::io::Result<()> {
    sluice_net::run(async move {
        let worker = Rc::new(Worker {
            plan,
            counts: RefCell::default(),
            random: RefCell::new(fastrand::Rng::new()),
            clients: Cell::new(0),
            end: Cell::new(Nanos::MAX),
            root: RefCell::default(),
        });
        spawn(look(Rc::clone(&worker)));
        let clients = worker.open(number).await;
        worker.all_open().await;
        let begun = precise_now();
        let cpu = thread_cpu().unwrap_or_default();
        post.send(News::Begun(begun));
        if let Some(duration) = worker.plan.duration {
            let length = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            worker.end.set(begun.saturating_add(length));
        }
        for client in clients {
            worker.clients.set(worker.clients.get() + 1);
            let worker = Rc::clone(&worker);
            spawn(async move {
                serve(Rc::clone(&worker), client).await;
                worker.leave();
            });
        }
        let second = worker.watch(begun, &post).await;
        let used = thread_cpu().unwrap_or_default().saturating_sub(cpu);
        let counts = Box::new(worker.counts.take());
        post.send(News::Done(second, counts, precise_now(), used));
    })
}

/// Wakes everybody now and then, so that they see the end.
async fn look(worker: Rc<Worker>) {
    let deadline = Deadline::new();
    loop {
        deadline.sleep(LOOK).await;
        if worker.is_over() {
            wake_all();
        }
    }
}

impl Worker {
    async fn open(&self, number: u32) -> Vec<Client> {
        let plan = &self.plan;
        let mut clients = Vec::new();
        for lane in 0..plan.connections {
            if lane.checked_rem(plan.threads) != Some(number) || self.is_over() {
                continue;
            }
            let deadline = Deadline::new();
            let opened = deadline.limit(plan.timeout, self.open_one()).await;
            match opened {
                Ok(Ok(client)) => clients.push(client),
                Ok(Err(trouble)) => self.fail(&trouble),
                Err(_) => self.fail(&Trouble::Connect("connecting took too long".to_owned())),
            }
            plan.closed.fetch_sub(1, Ordering::Relaxed);
        }
        clients
    }

    async fn open_one(&self) -> Result<Client, Trouble> {
        let mut client = Client::open(&self.plan.endpoints).await?;
        let mut refusal = None;
        client
            .exchange(&self.plan.greeting, self.plan.greetings, &mut |event| {
                if let Event::Reply(Reply::Error(_), bytes) = event {
                    refusal = Some(String::from_utf8_lossy(bytes).trim_end().to_owned());
                }
            })
            .await?;
        match refusal {
            Some(words) => Err(Trouble::Connect(format!("the server refuses us: {words}"))),
            None => Ok(client),
        }
    }

    /// Waits until the connections of all threads are open, so that all begin together.
    async fn all_open(&self) {
        let deadline = Deadline::new();
        while self.plan.closed.load(Ordering::Relaxed) > 0 && !self.is_over() {
            deadline.sleep(MOMENT).await;
        }
    }

    /// Tells the counts of each second until nobody is left; says which second it is then.
    async fn watch(&self, begun: Nanos, post: &Post<News>) -> u32 {
        let deadline = Deadline::new();
        let mut second = 0;
        loop {
            let at = begun.saturating_add(SECOND.saturating_mul(u64::from(second) + 1));
            let ended = poll_fn(|cx| {
                *self.root.borrow_mut() = Some(cx.waker().clone());
                if self.clients.get() == 0 {
                    return Poll::Ready(true);
                }
                deadline.poll_at(at, cx).map(|_| false)
            })
            .await;
            if ended {
                return second;
            }
            post.send(News::Second(second, Box::new(self.counts.take())));
            second = second.saturating_add(1);
        }
    }

    fn leave(&self) {
        self.clients.set(self.clients.get().saturating_sub(1));
        if self.clients.get() == 0
            && let Some(waker) = self.root.borrow().as_ref()
        {
            waker.wake_by_ref();
        }
    }

    fn is_over(&self) -> bool {
        self.plan.stopped.load(Ordering::Relaxed) || now() >= self.end.get()
    }

    /// Takes up to `most` requests from what is left.
    pub(crate) fn take(&self, most: u64) -> u64 {
        if self.is_over() {
            return 0;
        }
        let mut taken = 0;
        // Never refused: the closure always has a new value.
        let _ = self.plan.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            taken = left.min(most);
            Some(left - taken)
        });
        taken
    }

    /// The work's result, or nothing if the test ends first.
    pub(crate) async fn or_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.plan.stopped.load(Ordering::Relaxed) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    pub(crate) fn requested(&self, count: u64) {
        self.counts.borrow_mut().requests += count;
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.counts.borrow_mut().sent += u64::try_from(bytes).unwrap_or(0);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.counts.borrow_mut().received += u64::try_from(bytes).unwrap_or(0);
    }

    /// Counts a reply that took so many nanoseconds.
    pub(crate) fn answered(&self, reply: &Reply, nanos: Nanos) {
        let counts = &mut *self.counts.borrow_mut();
        counts.responses += 1;
        counts.latency.record(nanos.div_ceil(1000));
        if let Reply::Error(word) = reply {
            counts.errors.unexpected_status += 1;
            // A server that makes words up must not fill the memory.
            let known = counts.replies.len() < WORDS || counts.replies.contains_key(word);
            let word = if known { word } else { "other" };
            match counts.replies.get_mut(word) {
                Some(times) => *times += 1,
                None => drop(counts.replies.insert(word.to_owned(), 1)),
            }
        }
    }

    /// Counts a connection that is lost, and ends the test: its figures would be those of fewer.
    pub(crate) fn fail(&self, trouble: &Trouble) {
        let counts = &mut *self.counts.borrow_mut();
        let errors = &mut counts.errors;
        *match trouble {
            Trouble::Connect(_) => &mut errors.connect,
            Trouble::Read(_) => &mut errors.read,
            Trouble::Write(_) => &mut errors.write,
            Trouble::Timeout(_) => &mut errors.timeout,
            Trouble::Protocol(_) => &mut errors.protocol,
        } += 1;
        counts.trouble.get_or_insert_with(|| trouble.words().to_owned());
        self.plan.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn random(&self, below: u64) -> u64 {
        self.random.borrow_mut().u64(..below.max(1))
    }
}

/// Carries out one connection's part of a test.
async fn serve(worker: Rc<Worker>, client: Client) {
    let mut client = client;
    let deadline = Deadline::new();
    let depth = u64::from(worker.plan.pipeline);
    let length = worker.plan.test.request.len();
    let mut batch = worker.plan.test.request.repeat(usize::try_from(depth).unwrap_or(1));
    loop {
        let count = worker.take(depth);
        let Ok(replies) = u32::try_from(count) else { return };
        if replies == 0 {
            return;
        }
        let end = usize::try_from(count).unwrap_or(1).saturating_mul(length);
        randomise(&worker, &mut batch, length);
        let requests = batch.get(..end).unwrap_or_default();
        let sent = precise_now();
        let mut read_at = sent;
        let mut on_event = |event: Event<'_>| match event {
            Event::Sent(bytes) => worker.sent(bytes),
            Event::Read(bytes) => {
                read_at = precise_now();
                worker.received(bytes);
            }
            Event::Part(_) => {}
            Event::Reply(reply, _) => worker.answered(reply, read_at.saturating_sub(sent)),
        };
        worker.requested(count);
        let exchange = client.exchange(requests, replies, &mut on_event);
        let result = match deadline.limit(worker.plan.timeout, worker.or_stop(exchange)).await {
            Ok(Some(result)) => result,
            Ok(None) => return,
            Err(_) => {
                let words = format!("no reply within {:?}", worker.plan.timeout);
                Err(Trouble::Timeout(words))
            }
        };
        if let Err(trouble) = result {
            return worker.fail(&trouble);
        }
    }
}

/// Gives every key of a batch a new number.
fn randomise(worker: &Worker, batch: &mut [u8], length: usize) {
    let Some(keyspace) = worker.plan.keyspace else { return };
    if worker.plan.test.places.is_empty() {
        return;
    }
    for request in batch.chunks_mut(length.max(1)) {
        for place in &worker.plan.test.places {
            write_digits(request, *place, worker.random(keyspace));
        }
    }
}
