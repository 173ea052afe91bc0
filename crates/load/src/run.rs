//! One run: threads are started, their counts added up, and the outcome is made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_net::process::{Usage, start_thread, wall_clock};
use sluice_net::{Mailbox, Nanos, Post, mailbox, precise_now};

use crate::figures::float;
use crate::histogram::Histogram;
use crate::outcome::{Bottleneck, Outcome, Second, TlsFigures};
use crate::plan::Plan;
use crate::source;
use crate::tally::Tally;
use crate::thread::{Order, serve};
use crate::worker::{Done, News, Shared, nanos};

#[cfg(test)]
#[expect(clippy::as_conversions, reason = "small numbers of tests")]
mod tests;

/// Between the order to begin and the beginning, so that all threads begin together.
const HEAD_START: Nanos = 1_000_000;

/// One second of the clock.
const SECOND: Nanos = 1_000_000_000;

/// A thread that is busy for more than this share of the time may be what is measured.
const SATURATED: f64 = 0.95;

/// A rate that is missed by more than this share is not sustained.
const MISSED: f64 = 0.01;

/// A request that is in flight when a run is over is a time-out only if it has waited for this long,
/// in microseconds ...
const LONG: u64 = 1_000_000;
/// ... and, in a closed loop, so many times as long as the slowest response took.
const TIMES_AS_LONG: u64 = 2;

/// A finished run.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its figures.
    pub outcome: Outcome,
    /// What the first failure of each kind said.
    pub reasons: BTreeMap<&'static str, String>,
}

/// Why there is nothing to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not one connection could be opened.
    Unreachable(String),
    /// This machine does not have what is needed, something broke, or the run was stopped before its
    /// first connection was open.
    Broken(String),
}

/// How a run is getting on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is going on.
    pub phase: Phase,
    /// Answers so far.
    pub responses: u64,
    /// Errors so far.
    pub errors: u64,
}

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Connections are being opened; so many of all are.
    Opening {
        /// Opened.
        open: u32,
        /// To be opened.
        all: u32,
    },
    /// A second has passed.
    Running {
        /// The last second that all threads have reported.
        second: Second,
        /// Time left, if that is known.
        left: Option<Duration>,
    },
}

/// Ends runs early. Clones end the same ones.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Mutex<Stopping>>);

#[derive(Debug, Default)]
struct Stopping {
    stopped: bool,
    post: Option<Post<News>>,
}

impl Stopper {
    /// Ends the run that is going on and all that would follow.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        if let Some(post) = &state.post {
            post.send(News::Stop);
        }
    }

    /// Whether it was used.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    fn attach(&self, post: Option<Post<News>>) {
        let mut state = self.lock();
        if let (true, Some(post)) = (state.stopped, &post) {
            post.send(News::Stop);
        }
        state.post = post;
    }

    fn lock(&self) -> MutexGuard<'_, Stopping> {
        // Nothing under the lock can leave it half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever watches a run.
pub type Watcher = Box<dyn FnMut(&Progress)>;

/// Carries a plan out.
///
/// # Errors
/// [`Failure`]; failed requests are no failure of the run.
pub fn run(plan: Plan, stopper: &Stopper, watcher: Watcher) -> Result<Finished, Failure> {
    if stopper.is_stopped() {
        return Err(stopped());
    }
    let (post, news) = mailbox();
    stopper.attach(Some(post.clone()));
    let shared = Arc::new(Shared::new(plan));
    let orders = start_threads(&shared, &post);
    let result = orders.and_then(|orders| {
        let conductor = Conductor::new(shared, orders, watcher);
        sluice_net::run(conductor.conduct(news)).map_err(|error| broken(&error))?
    });
    stopper.attach(None);
    result
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::Broken(format!("cannot start: {error}"))
}

fn stopped() -> Failure {
    let what = "the run was stopped before a connection was open: nothing was measured";
    Failure::Broken(what.to_owned())
}

fn start_threads(shared: &Arc<Shared>, post: &Post<News>) -> Result<Vec<Post<Order>>, Failure> {
    let mut all = Vec::new();
    for number in 0..shared.plan.threads {
        let (order, orders) = mailbox();
        all.push(order);
        let (shared, own, last) = (Arc::clone(shared), post.clone(), post.clone());
        let name = format!("sluice-load-{number}");
        // An error shows as a thread that is gone before it is done.
        let body = move || serve(shared, number, own, orders).is_ok();
        start_thread(&name, body, move |_| last.send(News::Gone)).map_err(|e| broken(&e))?;
    }
    Ok(all)
}

/// Leads the threads of a run and adds up what they tell.
struct Conductor {
    shared: Arc<Shared>,
    orders: Vec<Post<Order>>,
    watcher: Watcher,
    total: Tally,
    seconds: BTreeMap<u32, Part>,
    series: Vec<Second>,
    opened: u32,
    /// When the opening was shown last.
    shown: Nanos,
    ready: u32,
    /// For each thread that is done the last second it has told of.
    done: Vec<u32>,
    gone: u32,
    begun: Option<Begun>,
    ended: Nanos,
    busiest: Duration,
    /// How long requests have waited that have no response at the end.
    left: Histogram,
    /// Requests that were sent after the end of an open loop because they were late.
    overdue: u64,
    interrupted: bool,
    unreachable: Option<String>,
}

/// One second as far as threads have reported it.
#[derive(Default)]
struct Part {
    latency: Histogram,
    responses: u64,
    errors: u64,
    reports: usize,
}

/// The beginning of the load.
#[derive(Clone, Copy)]
struct Begun {
    measured_from: Nanos,
    unix_ms: u64,
    cpu: Duration,
}

impl Conductor {
    fn new(shared: Arc<Shared>, orders: Vec<Post<Order>>, watcher: Watcher) -> Self {
        let total = Tally::new(&shared.plan.mode);
        Self {
            shared,
            orders,
            watcher,
            total,
            seconds: BTreeMap::new(),
            series: Vec::new(),
            opened: 0,
            shown: precise_now(),
            ready: 0,
            done: Vec::new(),
            gone: 0,
            begun: None,
            ended: 0,
            busiest: Duration::ZERO,
            left: Histogram::new(),
            overdue: 0,
            interrupted: false,
            unreachable: None,
        }
    }

    async fn conduct(mut self, mut news: Mailbox<News>) -> Result<Finished, Failure> {
        let threads = self.shared.plan.threads;
        while self.gone < threads {
            let Some(news) = news.recv().await else { break };
            self.on_news(news);
        }
        if let Some(reason) = self.unreachable {
            return Err(Failure::Unreachable(reason));
        }
        if self.done() < threads {
            return Err(Failure::Broken("a thread of the load generator broke".to_owned()));
        }
        if self.interrupted && !self.shared.was_reached() {
            return Err(stopped());
        }
        Ok(self.finish())
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Opened(count) => self.on_opened(count),
            News::Ready => self.on_ready(),
            News::Unreachable(reason) => {
                self.unreachable.get_or_insert(reason);
                self.order(Order::Stop);
            }
            News::Interval(second, tally) => self.on_counts(second, &tally),
            News::Done(done) => self.on_done(&done),
            News::Gone => {
                self.gone += 1;
                // One that broke takes the others along.
                if self.gone > self.done() {
                    self.order(Order::Stop);
                }
            }
            News::Stop => {
                self.interrupted = true;
                self.order(Order::Stop);
            }
        }
    }

    fn order(&self, order: Order) {
        self.orders.iter().for_each(|post| post.send(order));
    }

    fn on_opened(&mut self, count: u32) {
        let all = self.shared.plan.lanes();
        self.opened += count;
        // Only where it takes long enough to be seen.
        let now = precise_now();
        if now >= self.shown.saturating_add(SECOND) {
            self.shown = now;
            self.show(Phase::Opening { open: self.opened, all });
        }
    }

    fn on_ready(&mut self) {
        self.ready += 1;
        if self.ready < self.shared.plan.threads || self.unreachable.is_some() {
            return;
        }
        let start = precise_now().saturating_add(HEAD_START);
        let warmup = self.shared.plan.warmup;
        let unix_ms = (wall_clock() + warmup).as_millis();
        self.begun = Some(Begun {
            measured_from: start.saturating_add(nanos(warmup)),
            unix_ms: u64::try_from(unix_ms).unwrap_or(0),
            cpu: Usage::now().cpu.unwrap_or_default(),
        });
        self.order(Order::Begin(start));
    }

    fn on_counts(&mut self, second: u32, tally: &Tally) {
        self.total.add(tally);
        let errors = tally.errors.total();
        let part = self.seconds.entry(second).or_default();
        part.latency.add(&tally.latency);
        part.responses += tally.responses;
        part.errors += errors;
        part.reports += 1;
        let earlier = self.done.iter().filter(|last| **last < second).count();
        let told = earlier + part.reports;
        if told >= self.orders.len() {
            self.emit(second);
        }
    }

    fn done(&self) -> u32 {
        u32::try_from(self.done.len()).unwrap_or(u32::MAX)
    }

    fn on_done(&mut self, done: &Done) {
        self.ended = self.ended.max(done.ended);
        self.busiest = self.busiest.max(done.cpu);
        self.left.add(&done.left);
        self.overdue += done.overdue;
        self.on_counts(done.second, &done.tally);
        self.done.push(done.second);
        if self.done() == self.shared.plan.threads
            && let Some((&last, _)) = self.seconds.last_key_value()
        {
            self.emit(last);
        }
    }

    /// Closes the books of this second and all before it.
    fn emit(&mut self, last: u32) {
        while let Some(entry) = self.seconds.first_entry() {
            if *entry.key() > last {
                return;
            }
            let (offset, part) = entry.remove_entry();
            // The end may fall on the end of a second: nothing is left for another.
            if part.responses == 0 && part.errors == 0 && offset > 0 && self.is_past(offset) {
                continue;
            }
            let second = Second {
                offset,
                responses: part.responses,
                errors: part.errors,
                p50_micros: part.latency.percentile(50.0),
                p99_micros: part.latency.percentile(99.0),
            };
            self.series.push(second);
            // The last second is usually cut short, and the report follows at once.
            if self.ended == 0 {
                self.show(Phase::Running { second, left: self.left() });
            }
        }
    }

    /// Whether this second begins where the run ended.
    fn is_past(&self, offset: u32) -> bool {
        let Some(begun) = self.begun else { return true };
        let start = begun.measured_from.saturating_add(u64::from(offset) * SECOND);
        // Threads look at the clock a little after it has struck.
        self.ended > 0 && start.saturating_add(SECOND / 100) >= self.ended
    }

    fn left(&self) -> Option<Duration> {
        let duration = self.shared.plan.extent.duration?;
        let begun = self.begun?;
        let passed = Duration::from_nanos(precise_now().saturating_sub(begun.measured_from));
        Some(duration.saturating_sub(passed))
    }

    fn show(&mut self, phase: Phase) {
        // A line of zeros says nothing where nobody was there to ask: the reason follows.
        if !self.shared.was_reached() {
            return;
        }
        let errors = self.total.errors.total();
        (self.watcher)(&Progress { phase, responses: self.total.responses, errors });
    }

    /// Sorts what has no response at the end into time-outs and what the end just cut off. The
    /// latter is returned.
    fn settle(&mut self) -> Histogram {
        let left = std::mem::take(&mut self.left);
        let open = self.total.uncorrected.is_some();
        let slowest = self.total.latency.percentile(100.0);
        let patience = match (open, self.interrupted) {
            // Everything had its time: whatever is left has been waited for.
            (true, false) => 0,
            (true, true) => LONG,
            (false, false) => LONG.max(slowest.saturating_mul(TIMES_AS_LONG)),
            // Nobody knows how long it would have taken.
            (false, true) => return left,
        };
        let late = left.at_least(patience);
        if late.count() > 0 {
            let waited = Duration::from_micros(late.percentile(100.0));
            self.total.on_unanswered(&late);
            self.total.explain(source::Failure::Timeout, || {
                format!("no response by the end of the run, after {waited:.1?}")
            });
        }
        left.below(patience)
    }

    fn finish(mut self) -> Finished {
        let in_flight = self.settle();
        let plan = &self.shared.plan;
        let begun =
            self.begun.unwrap_or(Begun { measured_from: 0, unix_ms: 0, cpu: Duration::ZERO });
        let elapsed = Duration::from_nanos(self.ended.saturating_sub(begun.measured_from));
        let seconds = if begun.measured_from == 0 { 0.0 } else { elapsed.as_secs_f64() };
        let per_second = |count: u64| if seconds > 0.0 { float(count) / seconds } else { 0.0 };
        let total = &self.total;
        let cpu = Usage::now().cpu.unwrap_or_default().saturating_sub(begun.cpu);
        let timely = total.responses.saturating_sub(self.overdue);
        let mut outcome = Outcome {
            tool: concat!("sluice ", env!("CARGO_PKG_VERSION")).to_owned(),
            target: plan.shown.clone(),
            mode: plan.mode.clone(),
            connections: plan.lanes(),
            threads: plan.threads,
            pipeline: plan.pipelining(),
            started_unix_ms: begun.unix_ms,
            seconds,
            requests: total.requests,
            responses: total.responses,
            bytes_received: total.received,
            bytes_sent: total.sent,
            statuses: total.statuses(),
            errors: total.errors,
            in_flight: in_flight.count(),
            oldest_in_flight_micros: in_flight.percentile(100.0),
            rate: per_second(timely),
            sustained: plan.offered().map(|rate| {
                let slack = plan_slack(total);
                is_sustained(plan, rate, seconds, (timely, slack))
            }),
            bottleneck: None,
            latency: total.latency.latency(),
            uncorrected: total.uncorrected.as_ref().map(Histogram::latency),
            unexpected: total.unexpected.as_ref().map(|unexpected| unexpected.latency()),
            series: self.series,
            client_cpu_seconds: cpu.as_secs_f64(),
            client_saturated: self.busiest.as_secs_f64() > SATURATED * seconds && seconds > 0.0,
            interrupted: self.interrupted,
            reply_bytes: (total.responses > 0).then_some(total.sizes),
            protocol: Some(plan.protocol().to_owned()),
            streams: plan.streams(),
            streams_allowed: self.shared.allowed.get().copied().filter(|most| *most < u32::MAX),
            tls: self.shared.agreed.get().map(|security| TlsFigures {
                version: security.version.name().to_owned(),
                suite: security.suite.to_owned(),
                group: security.group.map(str::to_owned),
                full_handshakes: total.handshakes.0,
                resumed_handshakes: total.handshakes.1,
                full_rate: per_second(total.handshakes.0),
                resumed_rate: per_second(total.handshakes.1),
            }),
        };
        outcome.bottleneck = Bottleneck::of(&outcome);
        Finished { outcome, reasons: self.total.reasons }
    }
}

/// Whether as many answers came as were asked for in this time, but for one in a hundred. What ended
/// with its number of requests has kept up if it did not need much longer than planned.
fn is_sustained(plan: &Plan, rate: f64, seconds: f64, (responses, slack): (u64, f64)) -> bool {
    let timely = rate * seconds;
    let offered = match plan.extent.requests {
        Some(count) => {
            let planned = float(count) / rate;
            let late = planned * MISSED + slack;
            if seconds > planned + late && plan.extent.duration.is_none() {
                return false;
            }
            timely.min(float(count))
        }
        None => timely,
    };
    float(responses) >= (offered * (1.0 - MISSED)).floor()
}

/// The last answer comes after the last request by about this long, in seconds.
fn plan_slack(total: &Tally) -> f64 {
    float(total.latency.percentile(99.0)) / 1e6
}
