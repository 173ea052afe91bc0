//! What the streams of a connection share: codec, output, and a place for what arrived for each.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker, ready};

use slab::Slab;
use sluice_message::{FaultKind, Fields, RequestHead, ResponseHead, Syntax};
use sluice_net::{Nanos, Stream, now};
use sluice_wire::h2::{
    About, Connection, End, Error, ErrorCode, Event, Input, Peer, Scheme, StreamId,
};

use crate::buffer::{Buffer, Pressure};
use crate::receive::broken;

/// Output that waits for the socket before streams have to wait, in bytes.
const ENOUGH: usize = 64 * 1024;

/// Answers to one request that wait to be taken. Interim ones that nobody takes come from an origin that
/// is broken.
const ANSWERS: usize = 64;

/// Heads kept for reuse per connection.
const HEADS: usize = 16;

/// Heads larger than this give their memory back.
const HEAD_KEPT: usize = 16 * 1024;

/// All that the streams of a connection share. `H` is the head its peer sends.
pub(super) type Shared<H> = RefCell<State<H>>;

/// What a connection knows of its streams.
#[derive(Debug)]
pub(super) struct State<H> {
    pub(super) codec: Connection<H>,
    pub(super) slots: Slab<Slot>,
    input: Buffer,
    pressure: Pressure,
    pub(super) output: Buffer,
    trailers: Fields,
    /// Streams that wait for room in the output, the first first.
    waiting: VecDeque<usize>,
    driver: Option<Waker>,
    /// Who runs: while it is the driver nobody has to wake it.
    turn: Turn,
    /// Why nothing goes on any more.
    pub(super) gone: Option<FaultKind>,
    /// Bytes read and written: changes with all progress.
    pub(super) moved: u64,
    /// Bytes read.
    pub(super) read: u64,
    /// Whether the peer has said what it allows.
    pub(super) greeted: bool,
    /// Who waits for that.
    pub(super) opener: Option<Waker>,
    /// Whether the connection ends with its last stream.
    pub(super) parting: Parting,
    /// Whether it is to get no more requests, although its peer would take them.
    pub(super) retired: bool,
    /// When the last stream ended.
    pub(super) idle_since: Nanos,
    role: Role,
    /// What requests say of the connection they go over.
    pub(super) scheme: Scheme,
    /// Heads of answers that are in no use.
    #[allow(clippy::vec_box, reason = "heads change places between here and a stream by pointer")]
    free: Vec<Box<ResponseHead>>,
}

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Server,
    Client,
}

/// Whether a connection ends with its last stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    No,
    Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Driver,
    Streams,
}

/// What is kept for one stream.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: StreamId,
    /// Content that arrived and was not taken.
    pub(super) inbound: Buffer,
    /// Bytes taken whose window was not given back.
    pub(super) owed: usize,
    pub(super) arrival: Inbound,
    pub(super) trailers: Option<Box<Fields>>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// The answer's head, interim or final, once it is there and until it is taken.
    answer: Option<Box<ResponseHead>>,
    /// Those behind it.
    #[allow(clippy::vec_box, reason = "heads change places by pointer")]
    answers: Vec<Box<ResponseHead>>,
    /// Bytes that had come over the connection when the request was sent.
    pub(super) asked_at: u64,
    /// Why no answer can be had although one came.
    pub(super) refusal: Option<FaultKind>,
}

/// How far the peer's half of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inbound {
    Open,
    Ended,
    Reset,
    /// The peer did nothing of what was asked (RFC 9113, 8.7).
    Refused,
}

impl Slot {
    pub(super) fn new(id: StreamId, end: End) -> Self {
        Self {
            id,
            inbound: Buffer::new(),
            owed: 0,
            arrival: if end == End::Stream { Inbound::Ended } else { Inbound::Open },
            trailers: None,
            reader: None,
            writer: None,
            answer: None,
            answers: Vec::new(),
            asked_at: 0,
            refusal: None,
        }
    }

    /// Whether the peer gave it up.
    pub(super) const fn is_given_up(&self) -> bool {
        matches!(self.arrival, Inbound::Reset | Inbound::Refused)
    }

    /// The head that came first of those that wait.
    pub(super) fn take_answer(&mut self) -> Option<Box<ResponseHead>> {
        let next = if self.answers.is_empty() { None } else { Some(self.answers.remove(0)) };
        std::mem::replace(&mut self.answer, next)
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

/// A head that has come in.
struct Headed {
    about: About,
    end: End,
    refusal: Option<FaultKind>,
}

/// A request that has come in.
pub(super) struct Opened {
    pub(super) slot: usize,
    pub(super) id: StreamId,
    pub(super) end: End,
    /// Why it cannot be served, if it cannot.
    pub(super) refusal: Option<FaultKind>,
}

/// What driving a connection came to.
pub(super) enum Driven<T> {
    /// The event that was looked for.
    Event(T),
    /// The peer closed the connection.
    Ended,
    Broken(FaultKind),
    /// The peer broke a rule; it has been told, as far as it listens.
    Failed(Error),
}

impl<H: Peer> State<H> {
    pub(super) fn new(codec: Connection<H>, received: &[u8], role: Role) -> Self {
        let mut input = Buffer::new();
        input.tail().extend_from_slice(received);
        Self {
            codec,
            slots: Slab::new(),
            input,
            pressure: Pressure::Low,
            output: Buffer::new(),
            trailers: Fields::new(),
            waiting: VecDeque::new(),
            driver: None,
            turn: Turn::Streams,
            gone: None,
            moved: 0,
            read: 0,
            greeted: false,
            opener: None,
            parting: Parting::No,
            retired: false,
            idle_since: now(),
            role,
            scheme: Scheme::Http,
            free: Vec::new(),
        }
    }

    /// What a stream is reset with whose rest nobody needs.
    pub(super) const fn unwanted(&self) -> ErrorCode {
        match self.role {
            // The rest of a request whose answer is complete (RFC 9113, 8.1).
            Role::Server => ErrorCode::NO_ERROR,
            // Who asked is not there any more.
            Role::Client => ErrorCode::CANCEL,
        }
    }

    /// Takes what comes in, until `next` finds in it what it looks for, and writes what streams leave.
    pub(super) fn poll_drive<T>(
        &mut self,
        (cx, socket): (&Context<'_>, &Stream),
        mut next: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Poll<Driven<T>> {
        self.begin_turn(cx);
        loop {
            // What has come in is not looked at while the peer does not take what is sent.
            if !self.is_full() {
                match next(self) {
                    Ok(Some(event)) => return Poll::Ready(Driven::Event(event)),
                    Ok(None) => match self.poll_fill(socket, cx) {
                        Poll::Ready(Ok(0)) => {
                            self.give_up(FaultKind::Closed);
                            return Poll::Ready(Driven::Ended);
                        }
                        Poll::Ready(Ok(_)) => continue,
                        Poll::Ready(Err(kind)) => return self.fail(kind),
                        Poll::Pending => {}
                    },
                    Err(error) => {
                        // GOAWAY says why; nobody waits for it to arrive.
                        let _ = self.poll_flush(socket, cx);
                        self.give_up(FaultKind::Malformed(Syntax::Frame));
                        return Poll::Ready(Driven::Failed(error));
                    }
                }
            }
            let was_full = self.is_full();
            match self.poll_flush(socket, cx) {
                Poll::Ready(Err(kind)) => return self.fail(kind),
                _ if was_full && !self.is_full() => {}
                _ => {
                    self.end_turn();
                    return Poll::Pending;
                }
            }
        }
    }

    fn fail<T>(&mut self, kind: FaultKind) -> Poll<Driven<T>> {
        self.give_up(kind);
        Poll::Ready(Driven::Broken(kind))
    }

    /// The driver runs.
    fn begin_turn(&mut self, cx: &Context<'_>) {
        self.turn = Turn::Driver;
        if self.driver.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            self.driver = Some(cx.waker().clone());
        }
    }

    const fn end_turn(&mut self) {
        self.turn = Turn::Streams;
    }

    /// A stream has left something to write.
    #[inline]
    pub(super) fn call_driver(&self) {
        if self.turn == Turn::Streams
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }

    /// Whether so much output waits that no more should be made.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.output.len() >= ENOUGH
    }

    /// Whether a frame has begun to arrive and is not complete.
    pub(super) fn is_mid_frame(&self) -> bool {
        !self.input.is_empty()
    }

    /// Has the stream called when there is room in the output.
    pub(super) fn await_room(&mut self, slot: usize, cx: &Context<'_>) {
        let Some(found) = self.slots.get_mut(slot) else { return };
        // Who is awaited already has its place, or is called when its window opens.
        if found.writer.replace(cx.waker().clone()).is_none() {
            self.waiting.push_back(slot);
        }
    }

    /// The next head in what has come in; whatever is for streams that are open goes there.
    #[inline]
    fn next_head(&mut self, now: Nanos, head: &mut H) -> Result<Option<Headed>, Error> {
        loop {
            let mut input = Input::new(self.input.content());
            let event = self.codec.next(&mut input, now, head, &mut self.trailers)?;
            let consumed = input.consumed();
            let headed = match event {
                None => {
                    self.input.consume(consumed);
                    self.input.rest();
                    return Ok(None);
                }
                Some(Event::Head { about, end }) => Some(Headed { about, end, refusal: None }),
                Some(Event::Unacceptable { about, end, kind }) => {
                    Some(Headed { about, end, refusal: Some(kind) })
                }
                Some(Event::Data { about, data, end }) => {
                    let bytes = self.input.content().get(data).unwrap_or_default();
                    deliver(&mut self.slots, &mut self.codec, about, (bytes, end));
                    None
                }
                Some(event) => {
                    self.tell_streams(&event);
                    None
                }
            };
            self.input.consume(consumed);
            if headed.is_some() {
                return Ok(headed);
            }
        }
    }

    #[cold]
    fn tell_streams(&mut self, event: &Event) {
        match event {
            Event::Trailers { about } => {
                let trailers = std::mem::take(&mut self.trailers);
                if let Some(slot) = found(&mut self.slots, *about) {
                    slot.trailers = Some(Box::new(trailers));
                    slot.arrival = Inbound::Ended;
                    slot.wake_reader();
                }
            }
            Event::Reset { about, .. } | Event::Failed { about, .. } => {
                let refused = ErrorCode::REFUSED_STREAM;
                let refused = matches!(event, Event::Reset { code, .. } if *code == refused);
                if let Some(slot) = found(&mut self.slots, *about) {
                    slot.arrival = match slot.arrival {
                        // A complete answer stays one: the rest of the request is not wanted (8.1).
                        Inbound::Ended if self.role == Role::Client => Inbound::Ended,
                        _ if refused => Inbound::Refused,
                        _ => Inbound::Reset,
                    };
                    slot.wake_reader();
                    slot.wake_writer();
                }
            }
            Event::Window { about: Some(about) } => {
                if let Some(slot) = found(&mut self.slots, *about) {
                    slot.wake_writer();
                }
            }
            Event::Window { about: None } => self.wake_writers(),
            Event::Settings => {
                self.wake_writers();
                self.greeted = true;
                self.call_opener();
            }
            _ => {}
        }
    }

    fn wake_writers(&mut self) {
        self.slots.iter_mut().for_each(|(_, slot)| slot.wake_writer());
    }

    fn call_opener(&mut self) {
        if let Some(opener) = self.opener.take() {
            opener.wake();
        }
    }

    /// Reads more; 0 is the end.
    fn poll_fill(&mut self, socket: &Stream, cx: &Context<'_>) -> Poll<Result<usize, FaultKind>> {
        ready!(socket.poll_readable(cx));
        let tail = self.input.tail_with_room(self.pressure);
        let read = ready!(socket.poll_read(cx, tail));
        self.pressure = if tail.len() == tail.capacity() { Pressure::High } else { Pressure::Low };
        Poll::Ready(match read {
            Ok(length) => {
                let read = u64::try_from(length).unwrap_or(u64::MAX);
                self.moved += read;
                self.read += read;
                Ok(length)
            }
            Err(error) => Err(broken(&error)),
        })
    }

    /// Writes all output, and calls streams that waited for room.
    fn poll_flush(&mut self, socket: &Stream, cx: &Context<'_>) -> Poll<Result<(), FaultKind>> {
        let was_full = self.is_full();
        if !was_full && self.codec.wants_flush() {
            self.codec.flush(self.output.tail());
        }
        let outcome = loop {
            if self.output.is_empty() {
                break Poll::Ready(Ok(()));
            }
            match socket.poll_write(cx, self.output.content()) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(Err(error)) => break Poll::Ready(Err(broken(&error))),
                Poll::Ready(Ok(length)) => {
                    self.output.consume(length);
                    self.moved += u64::try_from(length).unwrap_or(u64::MAX);
                }
            }
        };
        self.output.rest();
        if !self.is_full() {
            while let Some(slot) = self.waiting.pop_front() {
                if let Some(slot) = self.slots.get_mut(slot) {
                    slot.wake_writer();
                }
            }
        }
        outcome
    }

    /// Nothing goes on any more: every stream is told.
    pub(super) fn give_up(&mut self, kind: FaultKind) {
        self.gone.get_or_insert(kind);
        for (_, slot) in &mut self.slots {
            if slot.arrival == Inbound::Open {
                slot.arrival = Inbound::Reset;
            }
            slot.wake_reader();
            slot.wake_writer();
        }
        self.call_opener();
    }
}

impl State<RequestHead> {
    /// The next request in what has come in.
    pub(super) fn next_request(&mut self, head: &mut RequestHead) -> Result<Option<Opened>, Error> {
        let Some(Headed { about, end, refusal }) = self.next_head(now(), head)? else {
            return Ok(None);
        };
        let id = about.stream;
        let slot = self.slots.insert(Slot::new(id, end));
        self.codec.set_tag(id, u32::try_from(slot).unwrap_or(u32::MAX));
        Ok(Some(Opened { slot, id, end, refusal }))
    }
}

impl State<ResponseHead> {
    /// Hands all answers that have come in to those who wait for them.
    pub(super) fn take_answers(&mut self) -> Result<(), Error> {
        let mut head = self.free.pop().unwrap_or_default();
        while let Some(headed) = self.next_head(now(), &mut head)? {
            let Some(slot) = found(&mut self.slots, headed.about) else { continue };
            if headed.end == End::Stream {
                slot.arrival = Inbound::Ended;
            }
            // What is too large was reset already (see [`Event::Unacceptable`]).
            if let Some(kind) = headed.refusal {
                slot.refusal = Some(kind);
                slot.arrival = Inbound::Reset;
                slot.wake_reader();
                continue;
            }
            slot.wake_reader();
            let came = std::mem::replace(&mut head, self.free.pop().unwrap_or_default());
            if slot.answer.is_none() {
                slot.answer = Some(came);
            } else if slot.answers.len() < ANSWERS {
                slot.answers.push(came);
            } else {
                slot.arrival = Inbound::Reset;
                self.codec.reset(headed.about.stream, ErrorCode::ENHANCE_YOUR_CALM);
            }
        }
        self.recycle(head);
        Ok(())
    }

    /// Keeps a head that nobody needs for the next answer.
    pub(super) fn recycle(&mut self, mut head: Box<ResponseHead>) {
        if self.free.len() < HEADS {
            head.fields.shrink(HEAD_KEPT);
            self.free.push(head);
        }
    }

    /// Whether nobody wants the connection any more.
    pub(super) fn is_over(&self) -> bool {
        self.parting == Parting::Wanted && self.slots.is_empty() && self.output.is_empty()
    }
}

/// Content goes to whoever serves its stream; the window of content that nobody wants is given back.
fn deliver<H>(
    slots: &mut Slab<Slot>,
    codec: &mut Connection<H>,
    about: About,
    (bytes, end): (&[u8], End),
) {
    let Some(slot) = found(slots, about) else {
        codec.consume(about.stream, bytes.len());
        return;
    };
    slot.inbound.tail().extend_from_slice(bytes);
    if end == End::Stream {
        slot.arrival = Inbound::Ended;
    }
    slot.wake_reader();
}

fn found(slots: &mut Slab<Slot>, about: About) -> Option<&mut Slot> {
    let slot = slots.get_mut(usize::try_from(about.tag).ok()?)?;
    // A place may have been taken by another stream since.
    (slot.id == about.stream).then_some(slot)
}
