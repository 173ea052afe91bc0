//! A connection that sends one prepared request again and again.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_net::{Nanos, precise_now};

use crate::answer::{After, Answer};
use crate::claims::{Claims, Ending, wide};
use crate::link::{Broken, Link};
use crate::request::Prepared;
use crate::source::Failure;
use crate::tally::{Counted, Stamp};
use crate::worker::{Worker, nanos};

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
    claims: Claims,
    link: Option<Link>,
    /// Requests sent, or being sent, that have no answer.
    flight: VecDeque<Stamp>,
    /// Bytes of those in flight that are not written.
    unsent: usize,
    gathered: Vec<u8>,
    /// Whether the connection has answered anything.
    answered: bool,
}

impl Lane {
    /// Lane `number` of all lanes of the run.
    pub(crate) fn new(worker: Rc<Worker>, batch: Rc<Batch>, number: u32) -> Self {
        let claims = Claims::new(Rc::clone(&worker), number);
        Self {
            worker,
            batch,
            claims,
            link: None,
            flight: VecDeque::new(),
            unsent: 0,
            gathered: Vec::new(),
            answered: false,
        }
    }

    /// Opens the connection before the load begins.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) async fn open(&mut self) -> Result<(), String> {
        self.link = Some(self.claims.open(async |stream| Ok(Link::new(stream))).await?);
        Ok(())
    }

    /// Sends until nothing is left to send.
    pub(crate) async fn run(mut self) {
        self.claims.begin().await;
        while self.link.is_some() || self.connect().await {
            match poll_fn(|cx| self.poll_exchange(cx)).await {
                Ending::Finished => break,
                Ending::Closed => {
                    self.send_again();
                    if !std::mem::take(&mut self.answered) {
                        self.claims.pause().await;
                    }
                }
                Ending::Broken(failure, reason) => self.fail(failure, reason),
            }
        }
        self.worker.remove_lane();
    }

    /// Opens the connection again. False if there is nothing left to open it for.
    async fn connect(&mut self) -> bool {
        self.link = self.claims.connect(async |stream| Ok(Link::new(stream))).await;
        self.link.is_some()
    }

    /// Requests that may be claimed now: in a closed loop a whole batch once the last one is
    /// answered, else whatever the pipeline has room for.
    #[inline]
    fn room(&self) -> u32 {
        let plan = self.worker.plan();
        let depth = if self.claims.seldom_opens() { plan.pipeline } else { 1 };
        let out = u32::try_from(self.flight.len() + self.claims.waiting.len()).unwrap_or(u32::MAX);
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
                moved |= self.claims.poll_claim(cx, room, now).is_ready();
            }
            let idle = self.flight.is_empty() && self.claims.waiting.is_empty();
            if idle && self.claims.is_exhausted() {
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

    /// Writes what waits. Says whether anything moved.
    #[inline]
    fn poll_send(&mut self, cx: &Context<'_>) -> Result<bool, Broken> {
        while let Some(stamp) = self.claims.waiting.pop_front() {
            let stamp = self.claims.stamped(stamp);
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
            let verdict = self.worker.plan().expected.judge(answer.status, &self.gathered);
            let counted = Counted { status: answer.status, size: answer.size, verdict };
            self.worker.tally.borrow_mut().on_response(counted, stamp, now);
        }
        self.gathered.clear();
        if whole && self.claims.seldom_opens() { answer.after } else { After::Close }
    }

    fn poll_timeout(&self, cx: &Context<'_>) -> Poll<Ending> {
        let Some(oldest) = self.flight.front() else { return Poll::Pending };
        let limit = self.worker.plan().timeout;
        let end = oldest.sent.saturating_add(nanos(limit));
        self.claims
            .deadline
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
        self.flight.append(&mut self.claims.waiting);
        std::mem::swap(&mut self.flight, &mut self.claims.waiting);
    }

    /// All that was asked of the connection has failed.
    fn fail(&mut self, failure: Failure, reason: String) {
        self.link = None;
        self.unsent = 0;
        self.gathered.clear();
        self.worker.fail(failure, self.flight.drain(..), reason);
    }
}

impl Drop for Lane {
    /// What is in flight when the run is over stands in the report as well.
    fn drop(&mut self) {
        self.worker.leave(self.flight.iter().copied());
    }
}
