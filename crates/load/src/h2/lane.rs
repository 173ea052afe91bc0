//! A connection of HTTP/2 that has several requests under way.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_net::{Nanos, precise_now};
use sluice_wire::h2::{ErrorCode, Input};

use super::StreamRequest;
use super::flights::{Flights, Incoming, Silence};
use super::link::StreamLink;
use super::words;
use crate::claims::{Claims, Ending, wide};
use crate::link::Broken;
use crate::source::Failure;
use crate::worker::{Worker, nanos};

/// One connection of a run, or one after the other if it has to be opened again.
pub(crate) struct StreamLane {
    worker: Rc<Worker>,
    claims: Claims,
    link: Option<StreamLink>,
    flights: Flights,
    /// Requests that may be under way at once.
    depth: u32,
    /// When anything came in last.
    heard: Nanos,
}

impl StreamLane {
    /// Lane `number` of all lanes of the run.
    pub(crate) fn new(worker: Rc<Worker>, request: Arc<StreamRequest>, number: u32) -> Self {
        let claims = Claims::new(Rc::clone(&worker), number);
        let depth = if claims.seldom_opens() { worker.plan().pipeline.max(1) } else { 1 };
        let flights = Flights::new(Rc::clone(&worker), request, depth);
        Self { worker, claims, link: None, flights, depth, heard: 0 }
    }

    /// Opens the connection before the load begins.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) async fn open(&mut self) -> Result<(), String> {
        let link = self.claims.open(StreamLink::greet).await?;
        self.begin(link);
        Ok(())
    }

    fn begin(&mut self, link: StreamLink) {
        self.worker.on_streams_allowed(link.codec.peer_settings().streams);
        self.link = Some(link);
    }

    /// Sends until nothing is left to send.
    pub(crate) async fn run(mut self) {
        self.claims.begin().await;
        while self.link.is_some() || self.connect().await {
            let ending = poll_fn(|cx| self.poll_exchange(cx)).await;
            self.link = None;
            self.flights.send_again(&mut self.claims);
            let left = self.flights.clear();
            let answered = std::mem::take(&mut self.flights.answered);
            match ending {
                Ending::Finished => break,
                Ending::Closed if !answered => self.claims.pause().await,
                Ending::Closed => {}
                Ending::Broken(failure, reason) => {
                    self.worker.fail(failure, left.into_iter(), reason);
                }
            }
        }
        self.worker.remove_lane();
    }

    /// Opens the connection again. False if there is nothing left to open it for.
    async fn connect(&mut self) -> bool {
        if let Some(link) = self.claims.connect(StreamLink::greet).await {
            self.begin(link);
        }
        self.link.is_some()
    }

    /// Sends and receives until the connection is done with.
    fn poll_exchange(&mut self, cx: &Context<'_>) -> Poll<Ending> {
        // Sending begins a turn's measuring; answers move it on.
        let mut now = 0;
        loop {
            let Some(link) = &mut self.link else { return Poll::Ready(Ending::Closed) };
            let came = match Self::poll_events(link, &mut self.flights, (cx, &self.worker)) {
                Poll::Ready(Ok(at)) => {
                    (now, self.heard) = (at, at);
                    true
                }
                Poll::Ready(Err(broken)) => return Poll::Ready(self.broken(broken)),
                Poll::Pending => false,
            };
            if self.is_spent() {
                return Poll::Ready(Ending::Closed);
            }
            self.claim(cx, &mut now);
            let Some(link) = &mut self.link else { return Poll::Ready(Ending::Closed) };
            let idle = self.flights.len() == 0 && self.claims.waiting.is_empty();
            if idle && self.claims.is_exhausted() {
                return Poll::Ready(Ending::Finished);
            }
            self.flights.start(&mut self.claims, link);
            self.flights.upload(link);
            let written = match link.poll_write(cx) {
                Ok(written) => written,
                Err(broken) => return Poll::Ready(self.broken(broken)),
            };
            self.worker.tally.borrow_mut().sent += wide(written);
            if !came && written == 0 {
                match self.poll_timeout(cx) {
                    Poll::Ready(Some(ending)) => return Poll::Ready(ending),
                    Poll::Ready(None) => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        }
    }

    /// Whether the connection has served its time: it was for one request, or the server takes no more.
    fn is_spent(&self) -> bool {
        let served = self.flights.answered && !self.claims.seldom_opens();
        // Identifiers are used up, which nobody says.
        let used_up = self.flights.answered
            && self.link.as_ref().is_some_and(|link| link.codec.can_open() == 0);
        let ended = served || used_up || self.flights.leaving.is_some();
        ended && self.flights.len() == 0
    }

    /// Claims as many requests as may be under way besides those that are.
    fn claim(&mut self, cx: &Context<'_>, now: &mut Nanos) {
        let Some(link) = &self.link else { return };
        if self.flights.leaving.is_some() {
            return;
        }
        let flying = self.flights.len();
        // One waits even where the server lets none be opened, so that this does not go unnoticed.
        let allowed = (flying + link.codec.can_open()).max(1);
        let most = u32::try_from(allowed).unwrap_or(u32::MAX).min(self.depth);
        loop {
            let out = u32::try_from(flying + self.claims.waiting.len()).unwrap_or(u32::MAX);
            if out >= most || self.claims.is_exhausted() {
                return;
            }
            if *now == 0 {
                *now = precise_now();
            }
            if self.claims.poll_claim(cx, most - out, *now).is_pending() {
                return;
            }
        }
    }

    /// Takes what has come in. Ready, with the moment, if any input came.
    fn poll_events(
        link: &mut StreamLink,
        flights: &mut Flights,
        (cx, worker): (&Context<'_>, &Rc<Worker>),
    ) -> Poll<Result<Nanos, Broken>> {
        let scratch = &mut *worker.scratch.borrow_mut();
        let length = match link.poll_read(cx, scratch) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(length) => length?,
        };
        let now = precise_now();
        worker.tally.borrow_mut().received += wide(length);
        if length == 0 {
            return Poll::Ready(Err(Broken::Ended));
        }
        let (head, trailers) = &mut *worker.sheet.borrow_mut();
        let mut input = Input::new(scratch);
        loop {
            let before = input.consumed();
            let event = match link.codec.next(&mut input, now, head, trailers) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    // The server is told why; nobody waits for it to arrive.
                    let _ = link.poll_write(cx);
                    return Poll::Ready(Err(Broken::Failed(Failure::Protocol, words::rule(error))));
                }
            };
            let size = input.consumed() - before;
            flights.take(link, Incoming { event, bytes: input.bytes(), size, head, now });
        }
        let consumed = input.consumed();
        link.carry(scratch.get(consumed..).unwrap_or_default());
        Poll::Ready(Ok(now))
    }

    /// Ready once time has run out: with an ending for the whole connection, or without.
    fn poll_timeout(&mut self, cx: &Context<'_>) -> Poll<Option<Ending>> {
        let limit = self.worker.plan().timeout;
        let end = match (self.flights.watch, self.claims.waiting.front()) {
            (0, None) => return Poll::Pending,
            (0, Some(stamp)) => stamp.sent.saturating_add(nanos(limit)),
            (watch, _) => watch,
        };
        if self.claims.deadline.poll_at(end, cx).is_pending() {
            return Poll::Pending;
        }
        let what = format!("no whole answer within {limit:?}");
        if self.flights.len() == 0 {
            let what = format!("the server let no stream be opened within {limit:?}");
            self.worker.fail(Failure::Timeout, self.claims.waiting.drain(..), what);
            return Poll::Ready(Some(Ending::Closed));
        }
        let Some(link) = &mut self.link else { return Poll::Ready(Some(Ending::Closed)) };
        Poll::Ready(match self.flights.expire(link, (precise_now(), self.heard)) {
            Silence::Total => Some(Ending::Broken(Failure::Timeout, what)),
            Silence::Partial => None,
        })
    }

    fn broken(&self, broken: Broken) -> Ending {
        match (broken, self.flights.leaving) {
            (Broken::Ended, _) if self.flights.len() == 0 => Ending::Closed,
            (Broken::Ended, Some(code)) if code != ErrorCode::NO_ERROR => {
                Ending::Broken(Failure::Read, words::goodbye(code))
            }
            (Broken::Ended, _) => {
                let what = match self.flights.has_begun() {
                    true => "the server closed the connection in the middle of an answer",
                    false => "the server closed the connection instead of answering",
                };
                Ending::Broken(Failure::Read, what.to_owned())
            }
            (Broken::Failed(failure, reason), _) => Ending::Broken(failure, reason),
        }
    }
}
