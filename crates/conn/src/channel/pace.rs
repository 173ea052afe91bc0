//! Bandwidth that connections are held to: buckets that what a client sends and gets has to wait for.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_message::FaultKind;
use sluice_net::{Deadline, Nanos, now};

use super::Channel;

/// Bytes that go in one step, at most: messages that share a bucket take turns.
const STEP: u64 = 16 * 1024;

const SECOND: u128 = 1_000_000_000;

/// Lets so many bytes a second through: in any span of time no more than go in it at this rate, and one burst.
///
/// Time is all it knows: bytes that are let through move the point in time until which all is used up, and
/// that point is never further away than the burst lasts. Whoever comes gets its turn behind all before it.
pub struct Bucket {
    /// Bytes a second, never 0.
    rate: u64,
    /// How long the burst lasts.
    depth: Nanos,
    /// Bytes of one step.
    step: usize,
    /// Until when all is used up.
    until: Cell<Nanos>,
    /// Told of each wait.
    on_wait: Box<dyn Fn(Nanos)>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl Bucket {
    /// For `rate` bytes a second, of which `burst` may go at once. What goes in a tenth of a second does in any
    /// case: a clock that ticks late would cost bandwidth otherwise. `on_wait` is told how long a step has to
    /// wait.
    #[must_use]
    pub fn new(rate: u64, burst: u64, on_wait: Box<dyn Fn(Nanos)>) -> Self {
        let rate = rate.max(1);
        let burst = burst.max(rate / 10).max(1);
        let step = usize::try_from(burst.min(STEP)).unwrap_or(usize::MAX);
        Self { rate, depth: time_of(burst, rate), step, until: Cell::new(0), on_wait }
    }

    /// When these bytes may go; they count from now on.
    fn reserve(&self, bytes: usize, now: Nanos) -> Nanos {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let until = self.until.get().max(now).saturating_add(time_of(bytes, self.rate));
        self.until.set(until);
        until.saturating_sub(self.depth)
    }

    /// Whether it is as good as new.
    fn is_full(&self, now: Nanos) -> bool {
        self.until.get() <= now
    }
}

/// How long so many bytes take; never less than that.
fn time_of(bytes: u64, rate: u64) -> Nanos {
    let nanos = (u128::from(bytes) * SECOND).div_ceil(u128::from(rate));
    Nanos::try_from(nanos).unwrap_or(Nanos::MAX)
}

/// The buckets of a connection for both of its directions.
#[derive(Debug, Default)]
pub struct Line {
    /// For what the client gets.
    pub download: Option<Bucket>,
    /// For what it sends.
    pub upload: Option<Bucket>,
}

impl Line {
    /// Whether forgetting it would change nothing.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let now = now();
        [&self.download, &self.upload].into_iter().flatten().all(|bucket| bucket.is_full(now))
    }

    const fn bucket(&self, way: Way) -> Option<&Bucket> {
        match way {
            Way::Download => self.download.as_ref(),
            Way::Upload => self.upload.as_ref(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Download,
    Upload,
}

/// One direction of a message: what it may send next, and when.
#[derive(Debug)]
struct Turn {
    way: Way,
    /// Bytes that count already and did not go yet.
    bytes: Cell<usize>,
    /// When they may.
    at: Cell<Nanos>,
    /// Apart from that of the task, which goes on with limits of time in other directions.
    deadline: Deadline,
    /// How often something had to wait.
    waits: Cell<u64>,
}

impl Turn {
    fn new(way: Way) -> Self {
        let bytes = Cell::new(0);
        Self { way, bytes, at: Cell::new(0), deadline: Deadline::new(), waits: Cell::new(0) }
    }

    /// How many of `wanted` bytes may go now.
    fn poll(&self, lines: &[Rc<Line>], cx: &Context<'_>, wanted: usize) -> Poll<usize> {
        let buckets = || lines.iter().filter_map(|line| line.bucket(self.way));
        if self.bytes.get() == 0 {
            let Some(step) = buckets().map(|bucket| bucket.step).min() else {
                return Poll::Ready(wanted);
            };
            self.bytes.set(step.min(wanted));
            self.at.set(0);
            for bucket in buckets() {
                let at = bucket.reserve(step.min(wanted), now());
                if at > now() {
                    (bucket.on_wait)(at.saturating_sub(now()));
                }
                self.at.set(self.at.get().max(at));
            }
        }
        if self.at.get() > now() && self.deadline.poll_at(self.at.get(), cx).is_pending() {
            self.waits.set(self.waits.get().wrapping_add(1));
            return Poll::Pending;
        }
        Poll::Ready(self.bytes.get().min(wanted))
    }

    /// So many bytes have gone.
    fn spend(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// So many bytes have gone without having been asked about: others wait for them.
    fn charge(&self, lines: &[Rc<Line>], bytes: usize) {
        for bucket in lines.iter().filter_map(|line| line.bucket(self.way)) {
            bucket.reserve(bytes, now());
        }
    }
}

/// What a message travels over, held to a bandwidth.
#[derive(Debug)]
pub struct Paced<'c> {
    below: Channel<'c>,
    lines: RefCell<Vec<Rc<Line>>>,
    /// Whether the lines are those of a message that is over.
    left: Cell<bool>,
    /// Bytes of output that were there before the message was held to anything.
    exempt: Cell<usize>,
    download: Turn,
    upload: Turn,
}

impl<'c> Paced<'c> {
    fn new(below: Channel<'c>) -> Self {
        Self {
            below,
            lines: RefCell::default(),
            left: Cell::new(false),
            exempt: Cell::new(0),
            download: Turn::new(Way::Download),
            upload: Turn::new(Way::Upload),
        }
    }

    /// The same without a limit.
    pub(crate) const fn below(&self) -> Channel<'c> {
        self.below
    }

    /// How many of `wanted` bytes may go to the client.
    ///
    /// # Errors
    /// There is no client any more.
    pub(crate) fn poll_download(
        &self,
        cx: &Context<'_>,
        wanted: usize,
    ) -> Poll<Result<usize, FaultKind>> {
        match self.exempt.get() {
            0 => self.poll(&self.download, cx, wanted),
            exempt => Poll::Ready(Ok(exempt.min(wanted))),
        }
    }

    /// How many of `wanted` bytes may be taken from the client.
    ///
    /// # Errors
    /// There is no client any more.
    pub(crate) fn poll_upload(
        &self,
        cx: &Context<'_>,
        wanted: usize,
    ) -> Poll<Result<usize, FaultKind>> {
        self.poll(&self.upload, cx, wanted)
    }

    fn poll(&self, turn: &Turn, cx: &Context<'_>, wanted: usize) -> Poll<Result<usize, FaultKind>> {
        if let Poll::Ready(bytes) = turn.poll(&self.lines.borrow(), cx, wanted) {
            return Poll::Ready(Ok(bytes));
        }
        // The turn of a stream may be far away. A connection of its own is touched with each step, and may be
        // closed in one direction only.
        match self.below {
            Channel::Shared(_) => self.below.poll_closed(cx).map(|()| Err(FaultKind::Closed)),
            _ => Poll::Pending,
        }
    }

    /// They went.
    pub(crate) fn on_download(&self, bytes: usize) {
        match self.exempt.get() {
            0 => self.download.spend(bytes),
            exempt => self.exempt.set(exempt.saturating_sub(bytes)),
        }
    }

    /// They were taken.
    pub(crate) fn on_upload(&self, bytes: usize) {
        self.upload.spend(bytes);
    }

    /// These went to the client by another way.
    pub(crate) fn charge_download(&self, bytes: usize) {
        self.download.charge(&self.lines.borrow(), bytes);
    }

    /// Changes whenever something has to wait.
    pub(crate) const fn waits(&self) -> u64 {
        self.download.waits.get().wrapping_add(self.upload.waits.get())
    }

    /// From now on this line holds, beside the others of the message.
    fn hold_to(&self, line: &Rc<Line>) {
        let mut lines = self.lines.borrow_mut();
        if self.left.replace(false) && !matches!(&**lines, [only] if Rc::ptr_eq(only, line)) {
            // What counted already counted for others.
            lines.clear();
            self.download.bytes.set(0);
            self.upload.bytes.set(0);
        }
        if !lines.iter().any(|known| Rc::ptr_eq(known, line)) {
            lines.push(Rc::clone(line));
        }
    }
}

/// A place for what holds a connection to a bandwidth, should that be wanted while it has something to say.
#[derive(Debug, Default)]
pub struct Pacing<'c>(OnceCell<Box<Paced<'c>>>);

impl<'c> Pacing<'c> {
    /// Nothing is limited.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceCell::new())
    }

    /// This channel, held to the line beside those that hold already; `waiting` bytes of output are not.
    #[cold]
    pub(crate) fn hold(
        &'c self,
        channel: Channel<'c>,
        line: &Rc<Line>,
        waiting: usize,
    ) -> Channel<'c> {
        let paced = self.0.get_or_init(|| Box::new(Paced::new(channel)));
        if !matches!(channel, Channel::Paced(_)) {
            paced.exempt.set(waiting);
        }
        paced.hold_to(line);
        Channel::Paced(paced)
    }

    /// The message is over: the channel as it was.
    pub(crate) fn leave(&self, channel: Channel<'c>) -> Channel<'c> {
        match channel {
            Channel::Paced(paced) => {
                paced.left.set(true);
                paced.below()
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(rate: u64, burst: u64) -> Bucket {
        Bucket::new(rate, burst, Box::new(|_| {}))
    }

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let bucket = bucket(1000, 500);
        let start = 7_000 * MS;
        assert_eq!(bucket.reserve(500, start), start);
        assert_eq!(bucket.reserve(1, start), start + MS);
        assert_eq!(bucket.reserve(99, start), start + 100 * MS);
        // Nobody comes for a while: the burst is there again, and no more than that.
        let later = start + 60_000 * MS;
        assert!(bucket.is_full(later));
        assert!(bucket.reserve(500, later) <= later);
        assert_eq!(bucket.reserve(1000, later), later + 1000 * MS);
    }

    #[test]
    fn no_span_of_time_has_more_than_its_share() {
        for (rate, burst) in [(1, 0), (7, 3), (1000, 0), (1000, 5000), (300_000_007, 0)] {
            let bucket = bucket(rate, burst);
            let most = u128::from(burst.max(rate / 10).max(1));
            let (mut now, mut gone) = (MS, Vec::new());
            for step in 0_u32..400 {
                let bytes = usize::try_from(step * 7919 % 997).unwrap().clamp(1, bucket.step);
                let at = bucket.reserve(bytes, now).max(now);
                gone.push((at, u128::try_from(bytes).unwrap()));
                // Some come at once, some late.
                now = if step % 3 == 0 { at + u64::from(step) * MS / 10 } else { now };
            }
            gone.sort_unstable();
            for (first, (from, _)) in gone.iter().enumerate() {
                let mut bytes = 0;
                for (at, more) in &gone[first..] {
                    bytes += more;
                    let span = u128::from(at - from);
                    assert!((bytes - most.min(bytes)) * SECOND <= span * u128::from(rate));
                }
            }
        }
    }

    #[test]
    fn what_was_late_is_made_up_for() {
        let bucket = bucket(1_000_000, 0);
        let (mut now, mut bytes) = (1000 * MS, 0);
        let begun = now;
        while bytes < 10_000_000 {
            let at = bucket.reserve(bucket.step, now);
            bytes += bucket.step;
            // A clock that ticks once in a millisecond.
            now = now.max(at.next_multiple_of(MS));
        }
        let fair = u64::try_from(bytes).unwrap() * 1000;
        let took = now - begun;
        assert!(took <= fair && took >= fair - 100 * MS, "{took} instead of {fair}");
    }

    #[test]
    fn the_slowest_and_the_fastest_do_not_overflow() {
        let slow = bucket(1, 0);
        assert_eq!(slow.step, 1);
        assert_eq!(slow.reserve(1, MS), MS);
        assert_eq!(slow.reserve(1, MS), 1001 * MS);
        slow.reserve(usize::MAX, MS);
        slow.reserve(usize::MAX, MS);
        let fast = bucket(u64::MAX, u64::MAX);
        assert!(fast.reserve(usize::MAX, MS) <= MS + 1000 * MS);
        assert_eq!(fast.step, 16 * 1024);
    }

    fn in_a_loop(work: impl Fn(&Context<'_>) + 'static) {
        let once = std::future::poll_fn(move |cx| {
            work(cx);
            Poll::Ready(())
        });
        sluice_net::run(once).unwrap();
    }

    fn line(rate: u64) -> Rc<Line> {
        Rc::new(Line { download: Some(bucket(rate, 0)), upload: None })
    }

    #[test]
    fn messages_that_share_a_line_take_turns() {
        in_a_loop(|cx| {
            let lines = [line(100_000)];
            let turns = [(); 3].map(|()| Turn::new(Way::Download));
            assert_eq!(turns[0].poll(&lines, cx, 50_000), Poll::Ready(10_000));
            turns[0].spend(10_000);
            assert!(turns.iter().all(|turn| turn.poll(&lines, cx, 50_000).is_pending()));
            let times = turns.each_ref().map(|turn| turn.at.get() - now());
            assert_eq!(times, [100 * MS, 200 * MS, 300 * MS]);
            assert!(turns.iter().all(|turn| turn.waits.get() == 1));
            // Asking again costs nothing more.
            assert!(turns.iter().all(|turn| turn.poll(&lines, cx, 50_000).is_pending()));
            assert_eq!(turns[2].at.get() - now(), 300 * MS);
            let upload = Turn::new(Way::Upload);
            assert_eq!(upload.poll(&lines, cx, 50_000), Poll::Ready(50_000));
        });
    }

    #[test]
    fn small_messages_use_no_more_than_they_are() {
        in_a_loop(|cx| {
            let lines = [line(1000), line(100_000)];
            for _ in 0..10 {
                let turn = Turn::new(Way::Download);
                assert_eq!(turn.poll(&lines, cx, 10), Poll::Ready(10));
                turn.spend(10);
            }
            // The slower of the two decides.
            assert!(Turn::new(Way::Download).poll(&lines, cx, 1).is_pending());
        });
    }
}
