//! Requests under way on one connection of HTTP/2, and what becomes of them.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use sluice_message::ResponseHead;
use sluice_net::Nanos;
use sluice_wire::h2::{About, End, ErrorCode, Event, StreamId};

use super::StreamRequest;
use super::link::StreamLink;
use super::words;
use crate::claims::{Claims, wide};
use crate::source::Failure;
use crate::tally::{Counted, Stamp};
use crate::worker::{Worker, nanos};

/// Content that a request sends before it is the next one's turn.
const PIECE: usize = 16 * 1024;

/// Content of one answer that is kept for looking into; the rest is only counted.
const GATHERED: usize = 64 * 1024 * 1024;

/// All requests under way.
pub(super) struct Flights {
    worker: Rc<Worker>,
    request: Arc<StreamRequest>,
    /// As many as may be under way at once; a stream's tag is its place.
    slots: Vec<Slot>,
    /// Slots that are not in use.
    free: Vec<u32>,
    /// Those whose content is not sent whole.
    uploading: VecDeque<About>,
    /// Those the server said it has not looked at.
    refused: Vec<Stamp>,
    /// The server takes no more on this connection, and why.
    pub(super) leaving: Option<ErrorCode>,
    /// No request before this moment has run out of time; 0 if none is under way.
    pub(super) watch: Nanos,
    /// Whether the connection has answered anything.
    pub(super) answered: bool,
}

/// One request under way.
#[derive(Debug)]
struct Slot {
    stamp: Stamp,
    /// Absent if the slot is free.
    stream: Option<StreamId>,
    /// Bytes of content handed to the connection.
    sent: usize,
    /// 0 before the head.
    status: u16,
    /// Bytes of the answer's frames.
    size: u64,
    gathered: Vec<u8>,
}

/// An event and what it cost.
pub(super) struct Incoming<'i> {
    pub(super) event: Event,
    /// The input that ranges of content point into.
    pub(super) bytes: &'i [u8],
    /// Bytes of the frames behind it.
    pub(super) size: usize,
    pub(super) head: &'i ResponseHead,
    pub(super) now: Nanos,
}

impl Flights {
    pub(super) fn new(worker: Rc<Worker>, request: Arc<StreamRequest>, depth: u32) -> Self {
        let none = Stamp { due: 0, sent: 0 };
        let slot = |_| Slot {
            stamp: none,
            stream: None,
            sent: 0,
            status: 0,
            size: 0,
            gathered: Vec::new(),
        };
        Self {
            worker,
            request,
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).rev().collect(),
            uploading: VecDeque::new(),
            refused: Vec::new(),
            leaving: None,
            watch: 0,
            answered: false,
        }
    }

    /// Requests under way.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// When a request sent at this moment has run out of time.
    fn end_of(&self, sent: Nanos) -> Nanos {
        sent.saturating_add(nanos(self.worker.plan().timeout))
    }

    /// Opens streams for what waits, as far as the server and the output have room.
    #[inline]
    pub(super) fn start(&mut self, claims: &mut Claims, link: &mut StreamLink) {
        while let (Some(stamp), Some(&tag), false) =
            (claims.waiting.front(), self.free.last(), link.is_full())
        {
            let stamp = claims.stamped(*stamp);
            let opened =
                link.codec.request(&mut link.out, &self.request.head, &self.request.options);
            let Ok(stream) = opened else { return };
            claims.waiting.pop_front();
            self.free.pop();
            link.codec.set_tag(stream, tag);
            if self.watch == 0 {
                self.watch = self.end_of(stamp.sent);
            }
            if self.request.options.end == End::More {
                self.uploading.push_back(About { stream, tag });
            }
            if let Some(slot) = self.slot(tag) {
                (slot.stamp, slot.stream) = (stamp, Some(stream));
                (slot.sent, slot.status, slot.size) = (0, 0, 0);
                slot.gathered.clear();
            }
        }
    }

    fn slot(&mut self, tag: u32) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(tag).ok()?)
    }

    /// The slot of a stream that is under way.
    #[inline]
    fn flying(&mut self, about: About) -> Option<&mut Slot> {
        self.slot(about.tag).filter(|slot| slot.stream == Some(about.stream))
    }

    /// Sends content in turns, as far as windows and the output have room.
    pub(super) fn upload(&mut self, link: &mut StreamLink) {
        let request = Arc::clone(&self.request);
        for _ in 0..self.uploading.len() {
            if link.is_full() {
                return;
            }
            let Some(about) = self.uploading.pop_front() else { return };
            let Some(slot) = self.flying(about) else { continue };
            let rest = request.body.get(slot.sent..).unwrap_or_default();
            let piece = rest.get(..PIECE).unwrap_or(rest);
            let end = if piece.len() == rest.len() { End::Stream } else { End::More };
            // A stream that is gone has told so by an event.
            let Ok(taken) = link.codec.data(&mut link.out, about.stream, piece, end) else {
                continue;
            };
            slot.sent += taken;
            if taken < rest.len() {
                self.uploading.push_back(about);
            }
        }
    }

    /// Takes an event of the connection.
    #[inline]
    pub(super) fn take(&mut self, link: &mut StreamLink, incoming: Incoming<'_>) {
        let Incoming { event, bytes, size, head, now } = incoming;
        match event {
            Event::Head { about, end } => {
                let Some(slot) = self.flying(about) else { return };
                slot.size += wide(size);
                if !head.is_interim() {
                    slot.status = head.status;
                }
                if end == End::Stream {
                    self.finish(link, about, now);
                }
            }
            Event::Data { about, data, end } => {
                link.codec.consume(about.stream, data.len());
                let looked_into = self.worker.plan().expected.body.is_some();
                let Some(slot) = self.flying(about) else { return };
                slot.size += wide(size);
                if looked_into && slot.gathered.len() < GATHERED {
                    slot.gathered.extend_from_slice(bytes.get(data).unwrap_or_default());
                }
                if end == End::Stream {
                    self.finish(link, about, now);
                }
            }
            other => self.take_rare(link, other, (size, now)),
        }
    }

    #[cold]
    fn take_rare(&mut self, link: &mut StreamLink, event: Event, (size, now): (usize, Nanos)) {
        match event {
            Event::Trailers { about } => {
                if let Some(slot) = self.flying(about) {
                    slot.size += wide(size);
                    self.finish(link, about, now);
                }
            }
            Event::Reset { about, code } => self.on_reset(about, code),
            Event::Failed { about, error, .. } => {
                self.fail_one(about, Failure::Protocol, || words::rule(error));
            }
            Event::Unacceptable { about, .. } => {
                let what = || "the head of the answer is too large".to_owned();
                self.fail_one(about, Failure::Protocol, what);
            }
            Event::GoAway { code, .. } => self.leaving = Some(code),
            // Windows and the number of streams are asked for where they matter.
            _ => {}
        }
    }

    /// An answer is whole.
    #[inline]
    fn finish(&mut self, link: &mut StreamLink, about: About, now: Nanos) {
        let worker = Rc::clone(&self.worker);
        let length = self.request.body.len();
        let Some(slot) = self.flying(about) else { return };
        slot.stream = None;
        if slot.sent < length {
            // Nobody wants the rest of the request (RFC 9113, 8.1).
            link.codec.reset(about.stream, ErrorCode::CANCEL);
        }
        if slot.stamp.due >= worker.measured_from.get() {
            let verdict = worker.plan().expected.judge(slot.status, &slot.gathered);
            let counted = Counted { status: slot.status, size: slot.size, verdict };
            worker.tally.borrow_mut().on_response(counted, slot.stamp, now);
        }
        self.answered = true;
        self.land(about.tag);
    }

    /// A slot is free again.
    #[inline]
    fn land(&mut self, tag: u32) {
        self.free.push(tag);
        if self.len() == 0 {
            self.watch = 0;
        }
    }

    /// The server gave a stream up, or has not looked at it before it leaves (RFC 9113, 6.8).
    fn on_reset(&mut self, about: About, code: ErrorCode) {
        match self.leaving {
            Some(ErrorCode::NO_ERROR) if code == ErrorCode::REFUSED_STREAM && self.answered => {
                if let Some(slot) = self.flying(about) {
                    slot.stream = None;
                    let stamp = slot.stamp;
                    self.refused.push(stamp);
                    self.land(about.tag);
                }
            }
            Some(why) if code == ErrorCode::REFUSED_STREAM => {
                self.fail_one(about, Failure::Read, || words::goodbye(why));
            }
            _ => self.fail_one(about, Failure::Read, || words::reset(code)),
        }
    }

    /// One request has failed.
    fn fail_one(&mut self, about: About, failure: Failure, reason: impl FnOnce() -> String) {
        let worker = Rc::clone(&self.worker);
        if let Some(slot) = self.flying(about) {
            slot.stream = None;
            worker.fail(failure, std::iter::once(slot.stamp), reason());
            self.land(about.tag);
        }
    }

    /// Gives up requests that have run out of time. Says whether the server was silent for as long as
    /// that: then the whole connection is of no use.
    pub(super) fn expire(
        &mut self,
        link: &mut StreamLink,
        (now, heard): (Nanos, Nanos),
    ) -> Silence {
        let mut next = 0;
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get(index) else { break };
            let (Some(stream), sent) = (slot.stream, slot.stamp.sent) else { continue };
            let end = self.end_of(sent);
            if end > now {
                next = if next == 0 { end } else { end.min(next) };
            } else if heard <= sent {
                return Silence::Total;
            } else {
                link.codec.reset(stream, ErrorCode::CANCEL);
                let about = About { stream, tag: u32::try_from(index).unwrap_or(u32::MAX) };
                let limit = self.worker.plan().timeout;
                let what = || format!("no whole answer within {limit:?}");
                self.fail_one(about, Failure::Timeout, what);
            }
        }
        self.watch = next;
        Silence::Partial
    }

    /// What the server has not looked at waits again, before everything else.
    pub(super) fn send_again(&mut self, claims: &mut Claims) {
        while let Some(stamp) = self.refused.pop() {
            claims.waiting.push_front(stamp);
        }
    }

    /// Whether the head of any answer has come.
    pub(super) fn has_begun(&self) -> bool {
        self.slots.iter().any(|slot| slot.stream.is_some() && slot.status > 0)
    }

    /// The connection is gone: nothing is under way.
    pub(super) fn clear(&mut self) -> Vec<Stamp> {
        let mut left = Vec::new();
        for (tag, slot) in (0..).zip(&mut self.slots) {
            if slot.stream.take().is_some() {
                left.push(slot.stamp);
                self.free.push(tag);
            }
        }
        self.uploading.clear();
        self.leaving = None;
        self.watch = 0;
        left
    }
}

impl Drop for Flights {
    /// What is in flight when the run is over stands in the report as well.
    fn drop(&mut self) {
        let flying = self.slots.iter().filter(|slot| slot.stream.is_some());
        self.worker.leave(flying.map(|slot| slot.stamp).chain(self.refused.iter().copied()));
    }
}

/// How silent a server was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// It said something.
    Partial,
    /// Nothing came in for as long as a request may take.
    Total,
}
