//! A connection that sends one prepared request again and again.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_net::{Deadline, Nanos, precise_now};

use crate::answer::{After, Answer};
use crate::link::{Broken, Link};
use crate::outcome::Mode;
use crate::request::{Keepalive, Prepared};
use crate::source::Failure;
use crate::tally::Stamp;
use crate::worker::{Seat, Worker, nanos};

/// Pauses between attempts to connect again: the first, doubled each time, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Pipelined requests are written from a buffer of so many bytes at least, if there are so many.
const BATCH: usize = 64 * 1024;

/// What lanes of a thread send.
#[derive(Debug)]
pub(crate) struct Batch {
    prepared: Arc<Prepared>,
    /// The request, several times over.
    bytes: Vec<u8>,
}

impl Batch {
    pub(crate) fn new(prepared: Arc<Prepared>, pipeline: u32) -> Self {
        let length = prepared.bytes.len().max(1);
        let fitting = BATCH.checked_div(length).unwrap_or(1).max(1);
        let copies = usize::try_from(pipeline).unwrap_or(1).clamp(1, fitting);
        let bytes = prepared.bytes.repeat(copies);
        Self { prepared, bytes }
    }

    /// The bytes to write next if `unsent` are left of all that are asked for.
    #[inline]
    fn rest(&self, unsent: usize) -> &[u8] {
        let length = self.prepared.bytes.len();
        // Where in a request the writing stopped.
        let left = unsent.checked_rem(length).unwrap_or(0);
        let start = if left == 0 { 0 } else { length - left };
        let end = self.bytes.len().min(start + unsent);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// One connection of a run, or one after the other if it has to be opened again.
pub(crate) struct Lane {
    worker: Rc<Worker>,
    batch: Rc<Batch>,
    seat: Rc<Seat>,
    deadline: Deadline,
    link: Option<Link>,
    /// Requests to be sent.
    waiting: VecDeque<Stamp>,
    /// Requests sent, or being sent, that have no answer.
    flight: VecDeque<Stamp>,
    /// Bytes of those in flight that are not written.
    unsent: usize,
    /// Requests this lane may still send, where it has a number of its own.
    own: u64,
    /// When this lane begins, from the beginning of the load.
    delay: Nanos,
    gathered: Vec<u8>,
    exhausted: bool,
    /// Whether the connection has answered anything.
    answered: bool,
}

/// What became of a connection.
enum Ending {
    /// Everything is sent and answered.
    Finished,
    /// The server closed it as announced, or while nothing was asked of it.
    Closed,
    /// It broke, or was too slow.
    Broken(Failure, String),
}

impl Lane {
    /// Lane `number` of all lanes of the run, with a connection if it has one already.
    pub(crate) fn new(
        worker: Rc<Worker>,
        batch: Rc<Batch>,
        number: u32,
        link: Option<Link>,
    ) -> Self {
        let (own, delay) = match worker.plan().mode {
            Mode::Users { users, requests_each, ramp_seconds } => {
                (requests_each, start_of(number, users, ramp_seconds))
            }
            Mode::Closed | Mode::Open { .. } => (u64::MAX, 0),
        };
        Self {
            worker,
            batch,
            seat: Rc::default(),
            deadline: Deadline::new(),
            link,
            waiting: VecDeque::new(),
            flight: VecDeque::new(),
            unsent: 0,
            own,
            delay,
            gathered: Vec::new(),
            exhausted: false,
            answered: false,
        }
    }

    /// Sends until nothing is left to send.
    pub(crate) async fn run(mut self) {
        let start = self.worker.begun().await;
        let begin = start.saturating_add(self.delay);
        poll_fn(|cx| self.deadline.poll_at(begin, cx)).await;
        while self.link.is_some() || self.connect().await {
            match poll_fn(|cx| self.poll_exchange(cx)).await {
                Ending::Finished => break,
                Ending::Closed => {
                    self.send_again();
                    // A server that closes what it accepts must not be asked without a pause.
                    if !std::mem::take(&mut self.answered) {
                        self.deadline.sleep(PAUSES.0).await;
                    }
                }
                Ending::Broken(failure, reason) => self.fail(failure, reason),
            }
        }
        self.worker.remove_lane();
    }

    /// Opens the connection again. False if there is nothing left to open it for.
    async fn connect(&mut self) -> bool {
        let (mut pause, longest) = PAUSES;
        // In an open loop connections are there before requests are due.
        let ahead = self.seldom_opens() && self.worker.plan().offered().is_some();
        loop {
            if !ahead && !self.claim_one().await {
                return false;
            }
            let error = match self.worker.open(0, &self.deadline).await {
                Ok(link) => {
                    self.link = Some(link);
                    return true;
                }
                Err(error) => error,
            };
            if !self.claim_one().await {
                return false;
            }
            self.worker.on_refused(&error);
            self.flight.append(&mut self.waiting);
            self.fail(Failure::Connect, error);
            self.deadline.sleep(pause).await;
            pause = pause.saturating_mul(2).min(longest);
        }
    }

    /// Makes sure that a request waits. False if there is none left.
    async fn claim_one(&mut self) -> bool {
        if self.waiting.is_empty() {
            poll_fn(|cx| match self.poll_claim(cx, 1, precise_now()) {
                Poll::Pending if !self.exhausted => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
        }
        !self.waiting.is_empty()
    }

    fn seldom_opens(&self) -> bool {
        self.worker.plan().keepalive == Keepalive::On
    }

    /// Claims up to `room` requests, which then wait.
    #[inline]
    fn poll_claim(&mut self, cx: &Context<'_>, room: u32, now: Nanos) -> Poll<()> {
        if self.exhausted {
            return Poll::Pending;
        }
        if self.worker.plan().offered().is_some() {
            return match self.worker.poll_due(&self.seat, cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(due)) => {
                    self.waiting.push_back(Stamp { due, sent: due });
                    Poll::Ready(())
                }
                Poll::Ready(None) => {
                    self.exhausted = true;
                    Poll::Pending
                }
            };
        }
        let room = u32::try_from(self.own).unwrap_or(u32::MAX).min(room);
        let taken = if room == 0 { 0 } else { self.worker.take(room) };
        self.own = self.own.saturating_sub(u64::from(taken));
        if taken == 0 {
            self.exhausted = true;
            return Poll::Pending;
        }
        for _ in 0..taken {
            self.waiting.push_back(Stamp { due: now, sent: now });
        }
        Poll::Ready(())
    }

    /// Requests that may be claimed now: in a closed loop a whole batch once the last one is
    /// answered, else whatever the pipeline has room for.
    #[inline]
    fn room(&self) -> u32 {
        let plan = self.worker.plan();
        let depth = if self.seldom_opens() { plan.pipeline } else { 1 };
        let out = u32::try_from(self.flight.len() + self.waiting.len()).unwrap_or(u32::MAX);
        match plan.offered() {
            None if out > 0 => 0,
            _ => depth.saturating_sub(out),
        }
    }

    /// Sends and receives until the connection is done with.
    fn poll_exchange(&mut self, cx: &Context<'_>) -> Poll<Ending> {
        // Sending begins a turn's measuring; answers move it on.
        let mut now = 0;
        loop {
            let mut moved = false;
            match self.poll_answers(cx, &mut now) {
                Poll::Ready(Ok(After::Keep)) => moved = true,
                Poll::Ready(Ok(After::Close)) => return Poll::Ready(Ending::Closed),
                Poll::Ready(Err(broken)) => return Poll::Ready(self.broken(broken)),
                Poll::Pending => {}
            }
            let room = self.room();
            if room > 0 {
                if now == 0 {
                    now = precise_now();
                }
                moved |= self.poll_claim(cx, room, now).is_ready();
            }
            if self.exhausted && self.flight.is_empty() && self.waiting.is_empty() {
                return Poll::Ready(Ending::Finished);
            }
            match self.poll_send(cx) {
                Ok(sent) => moved |= sent,
                Err(broken) => return Poll::Ready(self.broken(broken)),
            }
            if !moved {
                return self.poll_timeout(cx);
            }
        }
    }

    /// An open loop has to know when a request really goes out; elsewhere it is due when it is sent,
    /// and has been claimed right before.
    fn stamped(&self, stamp: Stamp) -> Stamp {
        match (self.worker.plan().offered(), self.seldom_opens()) {
            (Some(_), _) => Stamp { sent: precise_now(), ..stamp },
            _ => stamp,
        }
    }

    /// Writes what waits. Says whether anything moved.
    #[inline]
    fn poll_send(&mut self, cx: &Context<'_>) -> Result<bool, Broken> {
        while let Some(stamp) = self.waiting.pop_front() {
            let stamp = self.stamped(stamp);
            self.flight.push_back(stamp);
            self.unsent += self.batch.prepared.bytes.len();
        }
        let mut moved = false;
        while self.unsent > 0 {
            let Some(link) = &mut self.link else { break };
            match link.poll_write(cx, self.batch.rest(self.unsent)) {
                Poll::Ready(written) => {
                    let written = written?;
                    self.unsent = self.unsent.saturating_sub(written);
                    self.worker.tally.borrow_mut().sent += wide(written);
                    moved = true;
                }
                Poll::Pending => break,
            }
        }
        Ok(moved)
    }

    /// Takes the answers that have come in. Ready if any input came.
    #[inline]
    fn poll_answers(&mut self, cx: &Context<'_>, now: &mut Nanos) -> Poll<Result<After, Broken>> {
        let Some(link) = &mut self.link else { return Poll::Pending };
        let worker = Rc::clone(&self.worker);
        let scratch = &mut *worker.scratch.borrow_mut();
        let length = match link.poll_read(cx, scratch) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(length)) => length,
            Poll::Ready(Err(broken)) => return Poll::Ready(Err(broken)),
        };
        *now = precise_now();
        worker.tally.borrow_mut().received += wide(length);
        if length == 0 {
            let answer = match link.on_end(scratch.len()) {
                Ok(answer) => answer,
                Err(broken) => return Poll::Ready(Err(broken)),
            };
            self.on_answer(answer, *now);
            return Poll::Ready(Ok(After::Close));
        }
        Poll::Ready(self.take_answers(scratch, *now))
    }

    #[inline]
    fn take_answers(&mut self, input: &[u8], now: Nanos) -> Result<After, Broken> {
        let worker = Rc::clone(&self.worker);
        let judge = &mut *worker.judge.borrow_mut();
        let method = self.batch.prepared.method;
        let looked_into = worker.plan().expected.body.is_some();
        let mut at = 0;
        while at < input.len() {
            let rest = input.get(at..).unwrap_or_default();
            let Some(link) = &mut self.link else { break };
            if self.flight.is_empty() {
                let what = "the server sent more than was asked for";
                return Err(Broken::Failed(Failure::Protocol, what.to_owned()));
            }
            let gathered = looked_into.then_some(&mut self.gathered);
            let found = link.next_answer(rest, method, judge, gathered)?;
            at += found.consumed;
            let Some(answer) = found.answer else {
                link.carry(input.get(at..).unwrap_or_default());
                break;
            };
            if self.on_answer(answer, now) == After::Close {
                return Ok(After::Close);
            }
        }
        Ok(After::Keep)
    }

    /// Counts an answer. Says whether the connection can go on.
    #[inline]
    fn on_answer(&mut self, answer: Answer, now: Nanos) -> After {
        // An answer that came before its request was sent whole leaves the rest of it in the way.
        let whole =
            self.unsent <= self.batch.prepared.bytes.len() * (self.flight.len().saturating_sub(1));
        let Some(stamp) = self.flight.pop_front() else { return After::Close };
        self.answered = true;
        if stamp.due >= self.worker.measured_from.get() {
            let tally = &mut *self.worker.tally.borrow_mut();
            tally.on_answer(answer.status, answer.size, stamp, now);
            if let Some(expected) = &self.worker.plan().expected.body
                && !contains(&self.gathered, expected)
            {
                tally.errors.unexpected_body += 1;
            }
        }
        self.gathered.clear();
        if whole && self.seldom_opens() { answer.after } else { After::Close }
    }

    fn poll_timeout(&self, cx: &Context<'_>) -> Poll<Ending> {
        let Some(oldest) = self.flight.front() else { return Poll::Pending };
        let limit = self.worker.plan().timeout;
        let end = oldest.sent.saturating_add(nanos(limit));
        self.deadline
            .poll_at(end, cx)
            .map(|_| Ending::Broken(Failure::Timeout, format!("no whole answer within {limit:?}")))
    }

    fn broken(&self, broken: Broken) -> Ending {
        match broken {
            Broken::Ended if self.flight.is_empty() => Ending::Closed,
            Broken::Ended => {
                let what = "the server closed the connection instead of answering";
                Ending::Broken(Failure::Read, what.to_owned())
            }
            Broken::Failed(failure, reason) => Ending::Broken(failure, reason),
        }
    }

    /// The connection ended as it may: what was not answered is sent on the next one. Requests behind
    /// an announced end are not looked at by the server (RFC 9112, 9.6).
    fn send_again(&mut self) {
        self.link = None;
        self.unsent = 0;
        self.gathered.clear();
        self.flight.append(&mut self.waiting);
        std::mem::swap(&mut self.flight, &mut self.waiting);
    }

    /// All that was asked of the connection has failed.
    fn fail(&mut self, failure: Failure, reason: String) {
        self.link = None;
        self.unsent = 0;
        self.gathered.clear();
        let tally = &mut *self.worker.tally.borrow_mut();
        if self.flight.is_empty() {
            tally.on_trouble(failure);
        }
        for stamp in self.flight.drain(..) {
            if stamp.due >= self.worker.measured_from.get() {
                tally.on_failure(failure);
            }
        }
        tally.explain(failure, || reason);
    }
}

/// When a user begins, from the beginning of the ramp: all at equal distances.
fn start_of(number: u32, users: u64, ramp_seconds: f64) -> Nanos {
    let ramp = Duration::try_from_secs_f64(ramp_seconds).unwrap_or_default().as_nanos();
    let start = ramp.saturating_mul(u128::from(number)).checked_div(u128::from(users));
    u64::try_from(start.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Whether `text` stands somewhere in `body`.
fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
