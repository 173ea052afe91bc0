//! What the streams of a connection share: codec, output, and a place for what arrived for each.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker, ready};

use slab::Slab;
use sluice_message::{FaultKind, Fields, RequestHead};
use sluice_net::{Nanos, Stream};
use sluice_wire::h2::{About, End, Error, Event, Input, ServerConnection, StreamId};

use crate::buffer::{Buffer, Pressure};
use crate::receive::broken;

/// Output that waits for the socket before streams have to wait, in bytes.
const ENOUGH: usize = 64 * 1024;

/// All that the streams of a connection share.
pub(super) type Shared = RefCell<State>;

/// What a connection knows of its streams.
#[derive(Debug)]
pub(super) struct State {
    pub(super) codec: ServerConnection,
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
}

/// How far the peer's half of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inbound {
    Open,
    Ended,
    Reset,
}

impl Slot {
    fn new(id: StreamId, end: End) -> Self {
        Self {
            id,
            inbound: Buffer::new(),
            owed: 0,
            arrival: if end == End::Stream { Inbound::Ended } else { Inbound::Open },
            trailers: None,
            reader: None,
            writer: None,
        }
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

/// A request that has come in.
pub(super) struct Opened {
    pub(super) slot: usize,
    pub(super) id: StreamId,
    pub(super) end: End,
    /// Why it cannot be served, if it cannot.
    pub(super) refusal: Option<FaultKind>,
}

impl State {
    pub(super) fn new(codec: ServerConnection, received: &[u8]) -> Self {
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
        }
    }

    /// The driver runs.
    pub(super) fn begin_turn(&mut self, cx: &Context<'_>) {
        self.turn = Turn::Driver;
        if self.driver.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            self.driver = Some(cx.waker().clone());
        }
    }

    pub(super) const fn end_turn(&mut self) {
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

    /// The next request in what has come in; whatever is for streams that are open goes there.
    pub(super) fn next_request(
        &mut self,
        now: Nanos,
        head: &mut RequestHead,
    ) -> Result<Option<Opened>, Error> {
        loop {
            let mut input = Input::new(self.input.content());
            let event = self.codec.next(&mut input, now, head, &mut self.trailers)?;
            let consumed = input.consumed();
            let opened = match event {
                None => {
                    self.input.consume(consumed);
                    self.input.rest();
                    return Ok(None);
                }
                Some(Event::Head { about, end }) => Some((about.stream, end, None)),
                Some(Event::Unacceptable { about, end, kind }) => {
                    Some((about.stream, end, Some(kind)))
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
            if let Some((id, end, refusal)) = opened {
                let slot = self.slots.insert(Slot::new(id, end));
                self.codec.set_tag(id, u32::try_from(slot).unwrap_or(u32::MAX));
                return Ok(Some(Opened { slot, id, end, refusal }));
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
                if let Some(slot) = found(&mut self.slots, *about) {
                    slot.arrival = Inbound::Reset;
                    slot.wake_reader();
                    slot.wake_writer();
                }
            }
            Event::Window { about: Some(about) } => {
                if let Some(slot) = found(&mut self.slots, *about) {
                    slot.wake_writer();
                }
            }
            Event::Window { about: None } | Event::Settings => {
                self.slots.iter_mut().for_each(|(_, slot)| slot.wake_writer());
            }
            _ => {}
        }
    }

    /// Reads more; 0 is the end.
    pub(super) fn poll_fill(
        &mut self,
        socket: &Stream,
        cx: &Context<'_>,
    ) -> Poll<Result<usize, FaultKind>> {
        ready!(socket.poll_readable(cx));
        let tail = self.input.tail_with_room(self.pressure);
        let read = ready!(socket.poll_read(cx, tail));
        self.pressure = if tail.len() == tail.capacity() { Pressure::High } else { Pressure::Low };
        Poll::Ready(match read {
            Ok(length) => {
                self.moved += u64::try_from(length).unwrap_or(u64::MAX);
                Ok(length)
            }
            Err(error) => Err(broken(&error)),
        })
    }

    /// Writes all output, and calls streams that waited for room.
    pub(super) fn poll_flush(
        &mut self,
        socket: &Stream,
        cx: &Context<'_>,
    ) -> Poll<Result<(), FaultKind>> {
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
    }
}

/// Content goes to whoever serves its stream; the window of content that nobody wants is given back.
fn deliver(
    slots: &mut Slab<Slot>,
    codec: &mut ServerConnection,
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
