//! The streams of a connection, found by their identifiers, and the ones that closed lately.

use sluice_message::Method;

use super::flow::{ReceiveWindow, SendWindow};

/// A half of a stream (RFC 9113, 5.1): what one side still may send on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// No final head yet.
    Head,
    /// Content, or trailers.
    Body,
    /// END_STREAM was sent.
    Done,
}

/// One stream. An identifier of 0 marks an empty place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Whatever the caller wants to find the stream by.
    pub(super) tag: u32,
    pub(super) remote: Half,
    pub(super) local: Half,
    /// The request this side sent: it decides what the answer's content is.
    pub(super) request: Method,
    pub(super) send: SendWindow,
    pub(super) receive: ReceiveWindow,
    /// Bytes of content still to come, if the peer said how many.
    pub(super) left: Option<u64>,
}

/// How a stream came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// This side reset it: frames on their way are ignored (RFC 9113, 5.1).
    ByReset,
    /// The peer reset it.
    ByPeer,
    /// Both sides finished.
    Finished,
}

/// How many closed streams are remembered.
const REMEMBERED: usize = 64;

/// Marks a remembered identifier as one the peer reset.
const BY_PEER: u32 = 1 << 31;

/// A table with a power of two of places; a stream is at the first free place from its number on.
///
/// Identifiers grow by two, so neighbours hardly ever meet: finding one is a look at one place.
#[derive(Debug)]
pub(super) struct Streams {
    places: Vec<Stream>,
    count: usize,
    /// Streams that are not at the place of their number, because another one is there.
    displaced: usize,
    /// Those that finished or that the peer reset.
    closed: [u32; REMEMBERED],
    next_closed: usize,
    /// Those this side reset, apart so that they are not forgotten because others finish.
    reset: [u32; REMEMBERED],
    next_reset: usize,
}

impl Streams {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            count: 0,
            displaced: 0,
            closed: [0; REMEMBERED],
            next_closed: 0,
            reset: [0; REMEMBERED],
            next_reset: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn home(&self, id: u32) -> usize {
        usize::try_from(id >> 1).unwrap_or(0) & self.places.len().wrapping_sub(1)
    }

    /// The place of a stream. The table is never full, so the search ends.
    #[inline(always)]
    fn place(&self, id: u32) -> Option<usize> {
        let mut place = self.home(id);
        loop {
            match self.places.get(place)?.id {
                found if found == id && id != 0 => return Some(place),
                0 => return None,
                _ => place = (place + 1) & (self.places.len() - 1),
            }
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.places.get(self.place(id)?)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.place(id)?;
        self.places.get_mut(place)
    }

    /// Adds a stream that is not there.
    #[inline]
    pub(super) fn insert(&mut self, stream: Stream) {
        if (self.count + 1) * 2 > self.places.len() {
            self.grow();
        }
        self.put(stream);
        self.count += 1;
    }

    #[inline(always)]
    fn put(&mut self, stream: Stream) {
        let home = self.home(stream.id);
        let mut place = home;
        let mask = self.places.len().wrapping_sub(1);
        while let Some(slot) = self.places.get_mut(place) {
            if slot.id == 0 {
                *slot = stream;
                self.displaced += usize::from(place != home);
                return;
            }
            place = (place + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        const EMPTY: Stream = Stream {
            id: 0,
            tag: 0,
            remote: Half::Done,
            local: Half::Done,
            request: Method::Get,
            send: SendWindow::EMPTY,
            receive: ReceiveWindow::new(0),
            left: None,
        };
        let length = (self.places.len() * 2).max(8);
        self.displaced = 0;
        let before = std::mem::replace(&mut self.places, vec![EMPTY; length]);
        for stream in before.into_iter().filter(|stream| stream.id != 0) {
            self.put(stream);
        }
    }

    /// Takes a stream out and remembers how it ended; `None` if it is not there.
    #[inline]
    pub(super) fn remove(&mut self, id: u32, closed: Closed) -> Option<Stream> {
        let place = self.place(id)?;
        let stream = *self.places.get(place)?;
        if self.displaced == 0 {
            // Nobody was pushed away from its place, so nobody has to come back to it: answers that
            // come in another order than their requests leave many neighbours behind them.
            if let Some(slot) = self.places.get_mut(place) {
                slot.id = 0;
            }
        } else {
            self.displaced -= usize::from(place != self.home(id));
            self.close_gap(place);
        }
        self.count -= 1;
        self.remember(id, closed);
        Some(stream)
    }

    /// Empties a place and moves those behind it up that were pushed away from theirs.
    #[inline(never)]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = gap;
        loop {
            if let Some(slot) = self.places.get_mut(gap) {
                slot.id = 0;
            }
            let moved = loop {
                at = (at + 1) & mask;
                match self.places.get(at) {
                    Some(&stream) if stream.id != 0 => {
                        // It may stay if its home lies behind the gap, round the table.
                        let distance = at.wrapping_sub(self.home(stream.id)) & mask;
                        if distance >= at.wrapping_sub(gap) & mask {
                            break stream;
                        }
                    }
                    _ => return,
                }
            };
            if let Some(slot) = self.places.get_mut(gap) {
                *slot = moved;
            }
            // It was not at home, or it would have stayed.
            self.displaced -= usize::from(gap == self.home(moved.id));
            gap = at;
        }
    }

    /// Remembers a stream that is not in the table.
    #[inline]
    pub(super) fn remember(&mut self, id: u32, closed: Closed) {
        let (ring, next) = match closed {
            Closed::ByReset => (&mut self.reset, &mut self.next_reset),
            Closed::ByPeer | Closed::Finished => (&mut self.closed, &mut self.next_closed),
        };
        if let Some(slot) = ring.get_mut(*next % REMEMBERED) {
            *slot = if closed == Closed::ByPeer { id | BY_PEER } else { id };
        }
        *next = next.wrapping_add(1);
    }

    /// How a stream ended, if that is not too long ago.
    #[cold]
    pub(super) fn closed(&self, id: u32) -> Option<Closed> {
        if self.reset.contains(&id) {
            Some(Closed::ByReset)
        } else if self.closed.contains(&id) {
            Some(Closed::Finished)
        } else {
            self.closed.contains(&(id | BY_PEER)).then_some(Closed::ByPeer)
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.places.iter().filter(|stream| stream.id != 0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter(|stream| stream.id != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u32) -> Stream {
        Stream {
            id,
            tag: id + 1,
            remote: Half::Head,
            local: Half::Head,
            request: Method::Get,
            send: SendWindow::EMPTY,
            receive: ReceiveWindow::new(0),
            left: None,
        }
    }

    /// Against a plain list, with streams that come and go in a random order.
    #[test]
    fn streams_are_found_until_they_are_removed() {
        let (mut streams, mut list) = (Streams::new(), Vec::<u32>::new());
        let (mut next, mut random) = (1_u32, 0x2545_f491_4f6c_dd1d_u64);
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if list.len() < 100 && random % 2 == 0 {
                streams.insert(stream(next));
                list.push(next);
                // Gaps too, so that homes collide.
                next += 2 * u32::try_from(random / 7 % 40 + 1).unwrap();
            } else if !list.is_empty() {
                let id = list.swap_remove(usize::try_from(random >> 20).unwrap() % list.len());
                assert_eq!(streams.remove(id, Closed::Finished).unwrap().id, id);
                assert!(streams.get(id).is_none());
                assert_eq!(streams.closed(id), Some(Closed::Finished));
            }
            assert_eq!(streams.len(), list.len());
            for id in &list {
                assert_eq!(streams.get(*id).unwrap().tag, id + 1);
            }
            assert_eq!(streams.iter().count(), list.len());
            let away = |place: &usize| {
                let id = streams.places[*place].id;
                id != 0 && streams.home(id) != *place
            };
            assert_eq!(streams.displaced, (0..streams.places.len()).filter(away).count());
        }
        assert!(streams.places.len() <= 256);
    }

    #[test]
    fn the_last_closed_are_remembered() {
        let mut streams = Streams::new();
        let kinds = [Closed::ByReset, Closed::ByPeer, Closed::Finished];
        for id in 1..400_u32 {
            streams.insert(stream(id));
            streams.remove(id, kinds[usize::try_from(id % 3).unwrap()]);
        }
        for id in 380..400_u32 {
            assert_eq!(streams.closed(id), Some(kinds[usize::try_from(id % 3).unwrap()]));
        }
        assert_eq!(streams.closed(1), None);
        assert!(streams.remove(399, Closed::Finished).is_none());
        assert!(Streams::new().get(1).is_none());
    }
}
