//! Content as it comes in (RFC 9113, 6.1), in pieces as large as the input has them.

use super::Connection;
use super::peer::Peer;
use crate::h2::error::{Error, ErrorCode, Reason};
use crate::h2::event::{About, Event, Input, StreamId};
use crate::h2::flood::Flood;
use crate::h2::frame::{END_STREAM, HEADER, Header, Kind, PADDED};
use crate::h2::head::End;
use crate::h2::settings::FromServer;
use crate::h2::streams::{Closed, Half};

/// DATA frames shorter than this are cheap to send.
const CHEAP: usize = 1024;

/// A frame whose payload is not complete.
#[derive(Debug)]
pub(super) struct Incoming {
    about: About,
    /// Bytes of content still to come.
    left: usize,
    /// Bytes of padding behind it.
    padding: usize,
    end: End,
    /// Whether nobody wants it.
    wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
}

impl<H: Peer> Connection<H> {
    /// Takes the header of a DATA frame. `None` and nothing taken if the input ends too early.
    pub(super) fn begin_data(
        &mut self,
        header: &Header,
        input: &mut Input<'_>,
        now: u64,
    ) -> Result<Option<Event>, Error> {
        let (before, padding) = if header.has(PADDED) {
            if header.length == 0 {
                return Err(Error::size());
            }
            let Some(&padding) = input.rest().get(HEADER) else { return Ok(None) };
            (1, usize::from(padding))
        } else {
            (0, 0)
        };
        let left = (header.length - before)
            .checked_sub(padding)
            .ok_or(Error::protocol(Reason::Padding))?;
        let total = u32::try_from(header.length).unwrap_or(u32::MAX);
        self.receive.take(total)?;
        input.take(HEADER + before);
        let end = if header.has(END_STREAM) { End::Stream } else { End::More };
        let mut incoming =
            Incoming { about: self.about(header.stream), left, padding, end, wanted: Wanted::Yes };
        if let Err(error) = self.admit_data(header, left, end)? {
            incoming.wanted = Wanted::No;
            self.data = Some(incoming);
            // What nobody will read is given back at once.
            self.give_back(total);
            return match error {
                Some(error) => self.fail_stream(header.stream, error, now),
                // Larger ones cost their sender more than the frame that gives the room back.
                None if header.length < CHEAP => self.stray(now),
                None => Ok(None),
            };
        }
        // Padding is consumed as it comes.
        self.consume(StreamId(header.stream), before + padding);
        if left == 0 && end == End::More {
            self.floods.count(Flood::Empty, now)?;
        } else {
            self.floods.content();
        }
        let about = incoming.about;
        self.data = Some(incoming);
        if left == 0 && end == End::Stream {
            self.end_remote(header.stream);
            return Ok(Some(Event::Data { about, data: 0..0, end }));
        }
        Ok(None)
    }

    /// Whether the stream takes so many bytes; the inner error is why not, if the peer is to be told.
    fn admit_data(
        &mut self,
        header: &Header,
        left: usize,
        end: End,
    ) -> Result<Result<(), Option<Error>>, Error> {
        const CLOSED: Error = Error::new(ErrorCode::STREAM_CLOSED, Reason::StreamState);
        const MALFORMED: Error = Error::protocol(Reason::Malformed);
        let Some(stream) = self.streams.get_mut(header.stream) else {
            self.judge_missing(header.stream, Kind::Data)?;
            let given_up = match self.streams.closed(header.stream) {
                Some(Closed::ByReset) => true,
                // To a client: so long ago that nobody remembers it.
                None => H::FROM == FromServer::Yes,
                Some(_) => false,
            };
            return Ok(Err(if given_up { None } else { Some(CLOSED) }));
        };
        match stream.remote {
            Half::Done => return Ok(Err(Some(CLOSED))),
            // Content before its head.
            Half::Head => return Ok(Err(Some(MALFORMED))),
            Half::Body => {}
        }
        if let Err(error) = stream.receive.take(u32::try_from(header.length).unwrap_or(u32::MAX)) {
            return Ok(Err(Some(error)));
        }
        // RFC 9113, 8.1.1: the content is as long as Content-Length says.
        if let Some(expected) = &mut stream.left {
            let length = u64::try_from(left).unwrap_or(u64::MAX);
            match expected.checked_sub(length) {
                Some(0) => *expected = 0,
                Some(rest) if end == End::More => *expected = rest,
                _ => return Ok(Err(Some(MALFORMED))),
            }
        }
        Ok(Ok(()))
    }

    /// Takes what there is of the frame that was begun; `None` if that is nothing to tell.
    #[inline]
    pub(super) fn take_data(&mut self, input: &mut Input<'_>) -> Option<Event> {
        let incoming = self.data.as_mut()?;
        let length = incoming.left.min(input.rest().len());
        let data = input.take(length);
        incoming.left -= length;
        let (about, wanted) = (incoming.about, incoming.wanted);
        let end = if incoming.left == 0 { incoming.end } else { End::More };
        if incoming.left == 0 {
            let padding = incoming.padding.min(input.rest().len());
            input.take(padding);
            incoming.padding -= padding;
            if incoming.padding == 0 {
                self.data = None;
            }
        }
        if length == 0 || wanted == Wanted::No {
            return None;
        }
        if end == End::Stream {
            self.end_remote(about.stream.0);
        }
        Some(Event::Data { about, data, end })
    }
}

impl<H> Connection<H> {
    /// A stream was given up: the rest of a frame on it is not wanted any more.
    pub(super) fn drop_data(&mut self, id: u32) {
        if let Some(incoming) = &mut self.data
            && incoming.about.stream.0 == id
            && incoming.wanted == Wanted::Yes
        {
            incoming.wanted = Wanted::No;
            let left = u32::try_from(incoming.left).unwrap_or(u32::MAX);
            self.give_back(left);
        }
    }
}
