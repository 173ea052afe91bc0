//! Requests of one lane that wait to be sent: taken from the quota, the schedule or a number of its own.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_net::tls::TlsClient;
use sluice_net::{Deadline, Nanos, Stream, precise_now};

use crate::outcome::Mode;
use crate::request::Keepalive;
use crate::source::Failure;
use crate::tally::Stamp;
use crate::worker::{Seat, Worker};

/// Pauses between attempts to connect again: the first, doubled each time, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// What became of a connection.
pub(crate) enum Ending {
    /// Everything is sent and answered.
    Finished,
    /// The server closed it as announced, or while nothing was asked of it.
    Closed,
    /// It broke, or was too slow.
    Broken(Failure, String),
}

/// What a lane has to do, and its connections to do it over.
pub(crate) struct Claims {
    worker: Rc<Worker>,
    seat: Rc<Seat>,
    pub(crate) deadline: Deadline,
    /// Requests to be sent.
    pub(crate) waiting: VecDeque<Stamp>,
    /// Requests this lane may still send, where it has a number of its own.
    own: u64,
    /// When this lane begins, from the beginning of the load.
    delay: Nanos,
    exhausted: bool,
    /// How this lane encrypts, where it keeps tickets of its own.
    tls: Option<TlsClient>,
}

impl Claims {
    /// Those of lane `number` of all lanes of the run.
    pub(crate) fn new(worker: Rc<Worker>, number: u32) -> Self {
        let (own, delay) = match worker.plan().mode {
            Mode::Users { users, requests_each, ramp_seconds } => {
                (requests_each, start_of(number, users, ramp_seconds))
            }
            Mode::Closed | Mode::Open { .. } => (u64::MAX, 0),
        };
        let tls = worker.plan().targets.first().and_then(|place| place.tls_with_own_tickets());
        Self {
            worker,
            seat: Rc::default(),
            deadline: Deadline::new(),
            waiting: VecDeque::new(),
            own,
            delay,
            exhausted: false,
            tls,
        }
    }

    /// Waits until this lane begins.
    pub(crate) async fn begin(&self) {
        let begin = self.worker.begun().await.saturating_add(self.delay);
        poll_fn(|cx| self.deadline.poll_at(begin, cx)).await;
    }

    /// Whether nothing is left to claim.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Whether a connection serves more than one request.
    #[inline]
    pub(crate) fn seldom_opens(&self) -> bool {
        self.worker.plan().keepalive == Keepalive::On
    }

    /// Opens a connection once.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) async fn open<L>(
        &self,
        link: impl AsyncFn(Stream) -> io::Result<L>,
    ) -> Result<L, String> {
        self.worker.open_as((0, self.tls.as_ref()), &self.deadline, link).await
    }

    /// Opens a connection, as often as it takes. `None` if there is nothing left to open it for.
    pub(crate) async fn connect<L>(
        &mut self,
        link: impl AsyncFn(Stream) -> io::Result<L>,
    ) -> Option<L> {
        let (mut pause, longest) = PAUSES;
        // In an open loop connections are there before requests are due.
        let ahead = self.seldom_opens() && self.worker.plan().offered().is_some();
        loop {
            if !ahead && !self.claim_one().await {
                return None;
            }
            let error = match self.open(&link).await {
                Ok(link) => return Some(link),
                Err(error) => error,
            };
            if !self.claim_one().await {
                return None;
            }
            self.worker.on_refused(&error);
            self.worker.fail(Failure::Connect, self.waiting.drain(..), error);
            self.deadline.sleep(pause).await;
            pause = pause.saturating_mul(2).min(longest);
        }
    }

    /// A server that closes what it accepts must not be asked without a pause.
    pub(crate) async fn pause(&self) {
        self.deadline.sleep(PAUSES.0).await;
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

    /// Claims up to `room` requests, which then wait.
    #[inline]
    pub(crate) fn poll_claim(&mut self, cx: &Context<'_>, room: u32, now: Nanos) -> Poll<()> {
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
        let taken = if room == 0 { 0 } else { self.worker.take(room, now) };
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

    /// An open loop has to know when a request really goes out; elsewhere it is due when it is sent,
    /// and has been claimed right before.
    #[inline]
    pub(crate) fn stamped(&self, stamp: Stamp) -> Stamp {
        match self.worker.plan().offered() {
            Some(_) => Stamp { sent: precise_now(), ..stamp },
            None => stamp,
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let granted = self.seat.granted().map(|due| Stamp { due, sent: due });
        self.worker.leave(self.waiting.iter().copied().chain(granted));
    }
}

/// When a user begins, from the beginning of the ramp: all at equal distances.
fn start_of(number: u32, users: u64, ramp_seconds: f64) -> Nanos {
    let ramp = Duration::try_from_secs_f64(ramp_seconds).unwrap_or_default().as_nanos();
    let start = ramp.saturating_mul(u128::from(number)).checked_div(u128::from(users));
    u64::try_from(start.unwrap_or(0)).unwrap_or(u64::MAX)
}

pub(crate) fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
