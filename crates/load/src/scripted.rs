//! A connection's worth of requests that a script makes, one after the other.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sluice_net::{Deadline, Nanos, precise_now};

use crate::answer::{After, Answer, Judge};
use crate::link::{Broken, Link};
use crate::source::{Content, Failure, Reply, RequestMeta, RequestSource, Step, Verdict};
use crate::tally::{Counted, Stamp};
use crate::worker::{Seat, Worker, nanos};

/// Whether what happens is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Yes,
    No,
}

/// Whoever carries out a script: it has a connection to each target it needs.
pub(crate) struct ScriptedLane {
    worker: Rc<Worker>,
    source: Box<dyn RequestSource>,
    links: Vec<Option<Link>>,
    judge: Judge,
    deadline: Deadline,
    seat: Rc<Seat>,
    request: Vec<u8>,
    body: Vec<u8>,
    count: Count,
    /// The request that was claimed and has not ended.
    claimed: Option<Claimed>,
}

/// How far a request has come that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimed {
    /// It is not made yet: the script pauses.
    Due(Nanos),
    /// It is sent, or waits for its connection.
    InFlight(Nanos),
}

impl ScriptedLane {
    pub(crate) fn new(worker: Rc<Worker>, source: Box<dyn RequestSource>) -> Self {
        let links = worker.plan().targets.iter().map(|_| None).collect();
        Self {
            worker,
            source,
            links,
            judge: Judge::default(),
            deadline: Deadline::new(),
            seat: Rc::default(),
            request: Vec::new(),
            body: Vec::new(),
            count: Count::Yes,
            claimed: None,
        }
    }

    /// Carries out the script until it or the run ends.
    pub(crate) async fn run(mut self) {
        let start = self.worker.begun().await;
        poll_fn(|cx| self.deadline.poll_at(start, cx)).await;
        loop {
            // A request is claimed before it is made: what it says of the time is true when it goes.
            let claimed = match self.claimed {
                Some(Claimed::Due(due)) => due,
                _ => match self.claim().await {
                    Some(claimed) => claimed,
                    None => break,
                },
            };
            self.claimed = Some(Claimed::Due(claimed));
            self.request.clear();
            match self.source.next(&mut self.request) {
                Step::End => break,
                Step::Pause(pause) => self.deadline.sleep(pause).await,
                Step::Send(meta) => {
                    self.claimed = Some(Claimed::InFlight(claimed));
                    self.exchange(meta, claimed).await;
                    self.claimed = None;
                }
            }
        }
        self.claimed = None;
        self.worker.remove_lane();
    }

    /// Carries out a script before the run, uncounted.
    pub(crate) async fn warm_up(mut self) {
        self.count = Count::No;
        loop {
            self.request.clear();
            match self.source.next(&mut self.request) {
                Step::End => return,
                Step::Pause(pause) => self.deadline.sleep(pause).await,
                Step::Send(meta) => self.exchange(meta, precise_now()).await,
            }
        }
    }

    /// Waits for the next request that may be sent: when it was due.
    async fn claim(&self) -> Option<Nanos> {
        if self.worker.plan().offered().is_some() {
            return poll_fn(|cx| self.worker.poll_due(&self.seat, cx)).await;
        }
        let now = precise_now();
        (self.worker.take(1, now) > 0).then_some(now)
    }

    /// Sends a request and takes what comes of it.
    async fn exchange(&mut self, meta: RequestMeta, due: Nanos) {
        let place = usize::try_from(meta.target).unwrap_or(usize::MAX);
        let kept = self.links.get_mut(place).and_then(Option::take);
        let link = match kept.filter(|link| !link.is_stale()) {
            Some(link) => Ok(link),
            None => self.worker.open(place, &self.deadline).await,
        };
        let mut link = match link {
            Ok(link) => link,
            Err(reason) => {
                self.worker.on_refused(&reason);
                return self.fail(meta, due, Failure::Connect, reason);
            }
        };
        let sent = precise_now();
        self.body.clear();
        let mut progress = Progress { written: 0, received: 0, wants_body: meta.content };
        let result = self.carry_out(&mut link, meta, sent, &mut progress).await;
        if self.count == Count::Yes {
            let tally = &mut *self.worker.tally.borrow_mut();
            tally.sent += wide(progress.written);
            tally.received += wide(progress.received);
        }
        match result {
            Ok(answer) => {
                if answer.after == After::Keep
                    && let Some(slot) = self.links.get_mut(place)
                {
                    *slot = Some(link);
                }
                self.succeed(meta, Stamp { due, sent }, answer);
            }
            Err((failure, reason)) => self.fail(meta, due, failure, reason),
        }
    }

    async fn carry_out(
        &mut self,
        link: &mut Link,
        meta: RequestMeta,
        sent: Nanos,
        progress: &mut Progress,
    ) -> Result<Answer, (Failure, String)> {
        let limit = self.worker.plan().timeout;
        let end = sent.saturating_add(nanos(limit));
        poll_fn(|cx| {
            let result = self.poll_answer(link, meta, progress, cx);
            if result.is_pending() && self.deadline.poll_at(end, cx).is_ready() {
                let reason = format!("no whole answer within {limit:?}");
                return Poll::Ready(Err((Failure::Timeout, reason)));
            }
            result.map_err(|broken| match broken {
                Broken::Failed(failure, reason) => (failure, reason),
                Broken::Ended => {
                    let what = "the server closed the connection instead of answering";
                    (Failure::Read, what.to_owned())
                }
            })
        })
        .await
    }

    fn poll_answer(
        &mut self,
        link: &mut Link,
        meta: RequestMeta,
        progress: &mut Progress,
        cx: &Context<'_>,
    ) -> Poll<Result<Answer, Broken>> {
        while let Some(rest) = self.request.get(progress.written..).filter(|it| !it.is_empty()) {
            match link.poll_write(cx, rest)? {
                Poll::Ready(written) => progress.written += written,
                // An answer may come before all is sent: an error, most likely.
                Poll::Pending => break,
            }
        }
        let worker = Rc::clone(&self.worker);
        let scratch = &mut *worker.scratch.borrow_mut();
        loop {
            let length = ready!(link.poll_read(cx, scratch))?;
            progress.received += length;
            if length == 0 {
                return Poll::Ready(link.on_end(scratch.len()));
            }
            let gathered = (progress.wants_body == Content::Gather).then_some(&mut self.body);
            let found = link.next_answer(scratch, meta.method, &mut self.judge, gathered)?;
            let rest = scratch.get(found.consumed..).unwrap_or_default();
            let Some(mut answer) = found.answer else {
                link.carry(rest);
                continue;
            };
            // What lies behind the answer, or is left of the request, would be in the next one's way.
            if !rest.is_empty() || progress.written < self.request.len() {
                answer.after = After::Close;
            }
            return Poll::Ready(Ok(answer));
        }
    }

    fn succeed(&mut self, meta: RequestMeta, stamp: Stamp, answer: Answer) {
        let now = precise_now();
        let reply = Reply {
            head: self.judge.head(),
            body: &self.body,
            body_length: answer.content,
            elapsed: now.saturating_sub(stamp.sent),
        };
        let verdict = self.source.on_response(meta, &reply);
        if self.is_counted(stamp.due) {
            let verdict = match verdict {
                Verdict::Expected => self.worker.plan().expected.judge(answer.status, &self.body),
                unexpected => unexpected,
            };
            let counted = Counted { status: answer.status, size: answer.size, verdict };
            self.worker.tally.borrow_mut().on_response(counted, stamp, now);
        }
    }

    fn fail(&mut self, meta: RequestMeta, due: Nanos, failure: Failure, reason: String) {
        self.source.on_failure(meta, failure);
        if self.is_counted(due) {
            let tally = &mut *self.worker.tally.borrow_mut();
            tally.on_failure(failure, precise_now().saturating_sub(due));
            tally.explain(failure, || reason);
        }
    }

    fn is_counted(&self, due: Nanos) -> bool {
        self.count == Count::Yes && due >= self.worker.measured_from.get()
    }
}

impl Drop for ScriptedLane {
    /// What is in flight when the run is over stands in the report as well.
    fn drop(&mut self) {
        let due = match self.claimed {
            Some(Claimed::InFlight(due)) => Some(due),
            // In a closed loop nothing is due while the script pauses.
            Some(Claimed::Due(due)) if self.worker.plan().offered().is_some() => Some(due),
            Some(Claimed::Due(_)) | None => None,
        };
        let due = due.or_else(|| self.seat.granted());
        self.worker.leave(due.map(|due| Stamp { due, sent: due }).into_iter());
    }
}

/// How far an exchange has come.
struct Progress {
    written: usize,
    received: usize,
    wants_body: Content,
}

fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
