//! From frames to events.

use sluice_message::Fields;

use super::peer::Peer;
use super::{BACKLOG, Connection, DRAIN_PING, Drain, Known, PREFACE, Stage};
use crate::h2::error::{Error, ErrorCode, Reason};
use crate::h2::event::{About, Event, Input, StreamId};
use crate::h2::flood::Flood;
use crate::h2::frame::{self, ACK, HEADER, Header, Kind, LOW_31};
use crate::h2::settings::{FromServer, write_ack};
use crate::h2::streams::{Closed, Half};

/// Where heads and trailers are decoded to.
#[derive(Debug)]
pub(super) struct Target<'t, H> {
    pub(super) head: &'t mut H,
    pub(super) trailers: &'t mut Fields,
    pub(super) now: u64,
}

impl<H: Peer> Connection<H> {
    /// Takes the next event from the input; `None` if there is none before more bytes come. The input
    /// has to hold [`super::LARGEST_FRAME`] bytes if need be, and starts where the one before was
    /// consumed to. `now` is in nanoseconds on any clock that never goes back.
    ///
    /// `head` is filled before [`Event::Head`], `trailers` before [`Event::Trailers`].
    ///
    /// # Errors
    /// What ends the connection. GOAWAY waits in [`Connection::flush`]; afterwards the connection is to
    /// be closed, and its streams have ended with the error.
    #[inline]
    pub fn next(
        &mut self,
        input: &mut Input<'_>,
        now: u64,
        head: &mut H,
        trailers: &mut Fields,
    ) -> Result<Option<Event>, Error> {
        let outcome = self.step(input, &mut Target { head, trailers, now });
        if let Err(error) = outcome {
            self.fail(error);
        }
        outcome
    }

    #[inline(always)]
    fn step(
        &mut self,
        input: &mut Input<'_>,
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        loop {
            if self.data.is_some() {
                match self.take_data(input) {
                    None if self.data.is_some() => return Ok(None),
                    None => continue,
                    event => return Ok(event),
                }
            }
            if (self.stage != Stage::Open || self.peer_last.is_some())
                && let Some(outcome) = self.unusual(input)
            {
                return outcome;
            }
            let rest = input.rest();
            let Some(bytes) = rest.first_chunk::<HEADER>() else { return Ok(None) };
            let header = Header::read(bytes);
            header.check()?;
            self.check_order(&header)?;
            if header.kind == Kind::Data {
                match self.begin_data(&header, input, target.now)? {
                    data_begun @ Some(_) => return Ok(data_begun),
                    None if self.data.is_none() => return Ok(None),
                    None => continue,
                }
            }
            let Some(payload) = rest.get(HEADER..HEADER + header.length) else { return Ok(None) };
            input.take(HEADER + header.length);
            let event = self.take_frame(&header, payload, target)?;
            if self.control.len() > BACKLOG {
                return Err(Flood::Backlog.into());
            }
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// RFC 9113, 3.4 and 6.10: SETTINGS first; a header block in one piece.
    #[inline(always)]
    fn check_order(&self, header: &Header) -> Result<(), Error> {
        let continued = self.block.as_ref().map(|block| block.stream);
        let wanted = (header.kind == Kind::Continuation).then_some(header.stream);
        if continued != wanted {
            return Err(Error::protocol(Reason::Continuation));
        }
        let settings = header.kind == Kind::Settings && !header.has(ACK);
        if self.stage != Stage::Open && !settings {
            return Err(Error::protocol(Reason::Preface));
        }
        Ok(())
    }

    /// What is not the case in nearly every call; `None` to go on.
    #[cold]
    fn unusual(&mut self, input: &mut Input<'_>) -> Option<Result<Option<Event>, Error>> {
        match self.stage {
            Stage::Failed(error) => return Some(Err(error)),
            Stage::Preface => {
                let rest = input.rest();
                let length = rest.len().min(PREFACE.len());
                if rest.get(..length) != PREFACE.get(..length) {
                    return Some(Err(Error::protocol(Reason::Preface)));
                }
                if length < PREFACE.len() {
                    return Some(Ok(None));
                }
                input.take(length);
                self.stage = Stage::FirstSettings;
            }
            Stage::FirstSettings | Stage::Open => {}
        }
        // RFC 9113, 6.8: streams above the last one of GOAWAY were not processed.
        let last = self.peer_last.filter(|_| H::FROM == FromServer::Yes)?;
        let refused = self.streams.iter().find(|stream| stream.id > last)?.id;
        let about = self.about(refused);
        self.streams.remove(refused, Closed::ByPeer);
        Some(Ok(Some(Event::Reset { about, code: ErrorCode::REFUSED_STREAM })))
    }

    #[inline(always)]
    fn take_frame(
        &mut self,
        header: &Header,
        payload: &[u8],
        target: &mut Target<'_, H>,
    ) -> Result<Option<Event>, Error> {
        match header.kind {
            Kind::Headers => self.take_headers(header, payload, target),
            Kind::WindowUpdate => self.take_window_update(header, payload, target.now),
            Kind::Continuation => self.take_continuation(header, payload, target),
            _ => self.take_rare(header, payload, target.now),
        }
    }

    #[inline(never)]
    fn take_rare(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event>, Error> {
        match header.kind {
            Kind::Reset => self.take_reset(header.stream, ErrorCode(frame::number(payload)), now),
            Kind::Settings => self.take_settings(header, payload, now),
            Kind::Ping => self.take_ping(header, payload, now),
            Kind::GoAway => {
                self.floods.count(Flood::Stray, now)?;
                Ok(Some(self.take_go_away(payload)))
            }
            Kind::Priority => self.take_priority(header.stream, payload, now),
            _ => {
                self.floods.count(Flood::Priorities, now)?;
                Ok(None)
            }
        }
    }

    /// RFC 9113, 6.4.
    fn take_reset(&mut self, id: u32, code: ErrorCode, now: u64) -> Result<Option<Event>, Error> {
        if self.is_idle(id) {
            return Err(Error::protocol(Reason::StreamState));
        }
        let about = self.about(id);
        if self.streams.remove(id, Closed::ByPeer).is_none() {
            return self.stray(now);
        }
        if H::FROM == FromServer::No {
            self.floods.count(Flood::Resets, now)?;
        }
        Ok(Some(Event::Reset { about, code }))
    }

    /// RFC 9113, 6.5.
    fn take_settings(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event>, Error> {
        self.floods.count(Flood::Settings, now)?;
        if header.has(ACK) {
            let limit = usize::try_from(self.config.header_table).unwrap_or(usize::MAX);
            self.decoder.set_limit(limit);
            self.known = Known::Yes;
            return Ok(None);
        }
        self.stage = Stage::Open;
        let before = self.peer;
        self.peer.apply(payload, H::FROM)?;
        if self.peer.header_table != before.header_table {
            self.encoder.set_limit(self.peer.header_table);
        }
        let change = i64::from(self.peer.window) - i64::from(before.window);
        if change != 0 {
            // RFC 9113, 6.9.2: of all streams, and not of the connection.
            self.streams.iter_mut().try_for_each(|stream| stream.send.shift(change))?;
        }
        write_ack(&mut self.control);
        Ok(Some(Event::Settings))
    }

    /// RFC 9113, 6.7.
    fn take_ping(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event>, Error> {
        let data = payload.first_chunk().copied().unwrap_or_default();
        if header.has(ACK) {
            if data == DRAIN_PING && self.drain == Drain::Announced {
                self.end_drain();
                return Ok(None);
            }
            self.floods.count(Flood::Stray, now)?;
            return Ok(Some(Event::Pong { data }));
        }
        self.floods.count(Flood::Pings, now)?;
        frame::write(&mut self.control, (Kind::Ping, ACK), 0, &data);
        Ok(None)
    }

    /// RFC 9113, 6.8.
    fn take_go_away(&mut self, payload: &[u8]) -> Event {
        let last = frame::number(payload) & LOW_31;
        let code = ErrorCode(frame::number(payload.get(4..).unwrap_or_default()));
        // It may only go down.
        self.peer_last = Some(self.peer_last.map_or(last, |before| before.min(last)));
        Event::GoAway { last: StreamId(last), code }
    }

    /// RFC 9113, 6.3: its meaning is gone, its rules are not.
    fn take_priority(&mut self, id: u32, payload: &[u8], now: u64) -> Result<Option<Event>, Error> {
        self.floods.count(Flood::Priorities, now)?;
        let error = match <&[u8; 5]>::try_from(payload) {
            Err(_) => Error::size(),
            Ok(fields) if frame::dependency(fields) == id => Error::protocol(Reason::Dependency),
            Ok(_) => return Ok(None),
        };
        // There is no other way to tell the peer on a stream that is not open.
        if self.streams.get(id).is_none() { Err(error) } else { self.fail_stream(id, error, now) }
    }

    /// RFC 9113, 6.9.
    #[inline]
    fn take_window_update(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: u64,
    ) -> Result<Option<Event>, Error> {
        const ZERO: Error = Error::protocol(Reason::Window);
        self.floods.count(Flood::Windows, now)?;
        let increment = frame::number(payload) & LOW_31;
        let id = header.stream;
        if id == 0 {
            if increment == 0 {
                return Err(ZERO);
            }
            let before = self.send.room();
            self.send.widen(increment)?;
            let opened = before == 0 && self.send.room() > 0;
            return Ok(opened.then_some(Event::Window { about: None }));
        }
        if self.is_idle(id) {
            return Err(Error::protocol(Reason::StreamState));
        }
        // A stream that is closed needs no window.
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let before = stream.send.room();
        let outcome = if increment == 0 { Err(ZERO) } else { stream.send.widen(increment) };
        if let Err(error) = outcome {
            return self.fail_stream(id, error, now);
        }
        let opened = before == 0 && stream.send.room() > 0 && stream.local != Half::Done;
        let about = About { stream: StreamId(id), tag: stream.tag };
        Ok(opened.then_some(Event::Window { about: Some(about) }))
    }

    /// A frame of a client for a stream that is gone. What servers send for requests that were given up
    /// was on its way: it is nobody's fault.
    #[cold]
    pub(super) fn stray(&mut self, now: u64) -> Result<Option<Event>, Error> {
        if H::FROM == FromServer::No {
            self.floods.count(Flood::Stray, now)?;
        }
        Ok(None)
    }

    /// Whether nobody has opened a stream yet (RFC 9113, 5.1.1). A server never opens any here.
    #[inline(always)]
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2)
            || if H::FROM == FromServer::No { id > self.last } else { id >= self.next }
    }

    /// Resets a stream because of what the peer did (RFC 9113, 5.4.2).
    #[cold]
    pub(super) fn fail_stream(
        &mut self,
        id: u32,
        error: Error,
        now: u64,
    ) -> Result<Option<Event>, Error> {
        // Too many streams are no offence of who was not told yet how many there may be; but who never
        // acknowledges the settings could go on for ever.
        let told = error.code != ErrorCode::REFUSED_STREAM || self.known == Known::Yes;
        self.floods.count(if told { Flood::ProvokedResets } else { Flood::Stray }, now)?;
        let about = self.about(id);
        if self.streams.remove(id, Closed::ByReset).is_none() {
            self.streams.remember(id, Closed::ByReset);
        }
        frame::write_reset(&mut self.control, id, error.code);
        Ok(Some(Event::Failed { about, error, kind: None }))
    }

    /// A frame that opens or continues a message came for a stream that is not there.
    #[cold]
    pub(super) fn judge_missing(&self, id: u32, kind: Kind) -> Result<(), Error> {
        if self.is_idle(id) {
            return Err(Error::protocol(Reason::StreamState));
        }
        match self.streams.closed(id) {
            // It was on its way (RFC 9113, 5.1).
            Some(Closed::ByReset) => Ok(()),
            Some(Closed::Finished) => {
                Err(Error::new(ErrorCode::STREAM_CLOSED, Reason::StreamState))
            }
            // A new stream below one that is there already (RFC 9113, 5.1.1). To a client it is an answer
            // to a request that was given up so long ago that nobody remembers it.
            None if kind == Kind::Headers && H::FROM == FromServer::No => {
                Err(Error::protocol(Reason::StreamId))
            }
            Some(Closed::ByPeer) | None => Ok(()),
        }
    }
}
