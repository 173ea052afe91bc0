//! The state of one connection, for both roles.

mod blocks;
mod data;
mod peer;
mod receive;
mod send;

use std::marker::PhantomData;

use sluice_message::{RequestHead, ResponseHead};

use super::error::{Error, ErrorCode};
use super::event::{About, NO_TAG, StreamId};
use super::flood::{FloodLimits, Floods};
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::{self, Kind, LOW_31, MAX_PAYLOAD};
use super::head::{Connect, RequestReader, ResponseWriter};
use super::hpack::{Decoder, Encoder};
use super::settings::{DEFAULT_WINDOW, OwnSettings, PeerSettings};
use super::streams::{Closed, Half, Streams};
use crate::h1::Limits;

pub use peer::Peer;
pub use send::{Gone, OpenError};

/// What every client sends first (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The input a connection may ask to be gathered: one frame with its header, in bytes.
pub const LARGEST_FRAME: usize = frame::HEADER + MAX_PAYLOAD;

/// Bytes of answers to control frames that are kept while the peer does not read.
const BACKLOG: usize = 16 * 1024;

/// What this side asks of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What a head may be at most; `head` counts as `SETTINGS_MAX_HEADER_LIST_SIZE` does.
    pub limits: Limits,
    /// Bytes of the dynamic table the peer may use.
    pub header_table: u32,
    /// Streams a client may have open at once.
    pub streams: u32,
    /// Bytes a peer may send on a stream before any are consumed; at most 2^31-1.
    pub stream_window: u32,
    /// Bytes a peer may send on all streams before any are consumed; 65535 at least.
    pub connection_window: u32,
    /// Whether a server takes extended CONNECT.
    pub connect: Connect,
    /// Limits against floods.
    pub floods: FloodLimits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits { head: 32 * 1024, fields: 100, target: 8 * 1024 },
            header_table: 4096,
            streams: 128,
            stream_window: 256 * 1024,
            connection_window: 1024 * 1024,
            connect: Connect::Plain,
            floods: FloodLimits::default(),
        }
    }
}

/// The server's side: takes requests.
pub type ServerConnection = Connection<RequestHead>;

/// The client's side: takes responses.
pub type ClientConnection = Connection<ResponseHead>;

/// One connection. See the [module](super) for how to drive it.
#[derive(Debug)]
pub struct Connection<H> {
    config: Config,
    stage: Stage,
    decoder: Decoder,
    encoder: Encoder,
    reader: RequestReader,
    writer: ResponseWriter,
    streams: Streams,
    peer: PeerSettings,
    send: SendWindow,
    receive: ReceiveWindow,
    floods: Floods,
    /// Frames that nobody asked for: acknowledgements, resets, window updates.
    control: Vec<u8>,
    /// The DATA frame whose payload is coming in.
    data: Option<data::Incoming>,
    /// The header block whose continuation is coming in.
    block: Option<blocks::Open>,
    fragments: Vec<u8>,
    /// The highest stream the peer has opened.
    last: u32,
    /// The next stream this side opens.
    next: u32,
    drain: Drain,
    /// Whether the peer knows the settings of this side.
    known: Known,
    /// The peer takes no streams above this one.
    peer_last: Option<u32>,
    role: PhantomData<fn(H)>,
}

/// How far the connection's beginning came (RFC 9113, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preface,
    FirstSettings,
    Open,
    Failed(Error),
}

/// Whether settings were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    No,
    Yes,
}

/// How far shutting down came (RFC 9113, 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    No,
    /// GOAWAY was sent, streams on their way are still taken.
    Announced,
    /// Streams above `last` as it was then are refused.
    Final(u32),
}

impl Connection<RequestHead> {
    /// The server's side of a new connection. Its SETTINGS wait in [`Connection::flush`].
    #[must_use]
    pub fn server(config: &Config) -> Self {
        let mut connection = Self::new(config, Stage::Preface);
        connection.greet(OwnSettings {
            header_table: config.header_table,
            window: config.stream_window.min(LOW_31),
            streams: Some(config.streams),
            header_list: u32::try_from(config.limits.head).unwrap_or(u32::MAX),
            connect_protocol: config.connect == Connect::Extended,
            no_push: false,
        });
        connection
    }
}

impl Connection<ResponseHead> {
    /// The client's side of a new connection. Preface and SETTINGS wait in [`Connection::flush`].
    #[must_use]
    pub fn client(config: &Config) -> Self {
        let mut connection = Self::new(config, Stage::FirstSettings);
        connection.control.extend_from_slice(PREFACE);
        connection.greet(OwnSettings {
            header_table: config.header_table,
            window: config.stream_window.min(LOW_31),
            streams: None,
            header_list: u32::try_from(config.limits.head).unwrap_or(u32::MAX),
            connect_protocol: false,
            no_push: true,
        });
        connection
    }
}

impl<H> Connection<H> {
    fn new(config: &Config, stage: Stage) -> Self {
        let mut config = *config;
        config.stream_window = config.stream_window.min(LOW_31);
        config.connection_window = config.connection_window.clamp(DEFAULT_WINDOW, LOW_31);
        Self {
            stage,
            // Every connection begins with this size; another one is agreed on by SETTINGS.
            decoder: Decoder::new(4096),
            encoder: Encoder::new(),
            reader: RequestReader::default(),
            writer: ResponseWriter::default(),
            streams: Streams::new(),
            peer: PeerSettings::INITIAL,
            send: SendWindow::new(DEFAULT_WINDOW),
            receive: ReceiveWindow::new(config.connection_window),
            floods: Floods::new(&config.floods),
            control: Vec::new(),
            data: None,
            block: None,
            fragments: Vec::new(),
            last: 0,
            next: 1,
            drain: Drain::No,
            known: Known::No,
            peer_last: None,
            role: PhantomData,
            config,
        }
    }

    fn greet(&mut self, settings: OwnSettings) {
        settings.write(&mut self.control);
        let more = self.config.connection_window - DEFAULT_WINDOW;
        if more > 0 {
            frame::write_window_update(&mut self.control, 0, more);
        }
    }

    /// Appends what has to be sent on this connection's own account. To be called whenever there is
    /// room for output, and only then: what a peer that does not read makes pile up stays in here,
    /// where it is bounded.
    #[inline]
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if !self.control.is_empty() {
            out.append(&mut self.control);
        }
    }

    /// Whether [`Connection::flush`] has anything to append.
    #[must_use]
    #[inline]
    pub const fn wants_flush(&self) -> bool {
        !self.control.is_empty()
    }

    /// Streams that are open.
    #[must_use]
    pub const fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The open stream of this number.
    #[must_use]
    pub fn stream(&self, number: u32) -> Option<StreamId> {
        self.streams.get(number).map(|stream| StreamId(stream.id))
    }

    /// What the peer has set.
    #[must_use]
    pub const fn peer_settings(&self) -> &PeerSettings {
        &self.peer
    }

    /// Gives a stream the number its events will carry.
    pub fn set_tag(&mut self, stream: StreamId, tag: u32) {
        if let Some(stream) = self.streams.get_mut(stream.0) {
            stream.tag = tag;
        }
    }

    /// A stream's tag; `None` if the stream is gone.
    #[must_use]
    pub fn tag(&self, stream: StreamId) -> Option<u32> {
        self.streams.get(stream.0).map(|stream| stream.tag)
    }

    /// Bytes of content received on a stream have been consumed, or thrown away: the peer may send as
    /// many more. Every byte of [`super::Event::Data`] has to be given back here once, even if its
    /// stream is gone.
    #[inline]
    pub fn consume(&mut self, stream: StreamId, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.give_back(bytes);
        if let Some(found) = self.streams.get_mut(stream.0)
            && let Some(increment) = found.receive.consume(bytes)
            && found.remote != Half::Done
        {
            frame::write_window_update(&mut self.control, stream.0, increment);
        }
    }

    /// The connection's part of a window.
    #[inline]
    fn give_back(&mut self, bytes: u32) {
        if let Some(increment) = self.receive.consume(bytes) {
            frame::write_window_update(&mut self.control, 0, increment);
        }
    }

    /// Resets a stream; nothing if it is gone already.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.streams.remove(stream.0, Closed::ByReset).is_some() {
            frame::write_reset(&mut self.control, stream.0, code);
            self.drop_data(stream.0);
        }
    }

    /// Sends a ping with this payload; [`super::Event::Pong`] will answer it.
    pub fn ping(&mut self, data: [u8; 8]) {
        frame::write(&mut self.control, (Kind::Ping, 0), 0, &data);
    }

    /// Begins a graceful end (RFC 9113, 6.8): the peer is asked for no more streams, those on their way
    /// are still taken. A ping tells when the peer knows; then, or by [`Connection::end_drain`], the
    /// last stream is named.
    pub fn drain(&mut self) {
        if self.drain == Drain::No {
            self.drain = Drain::Announced;
            frame::write_go_away(&mut self.control, LOW_31, ErrorCode::NO_ERROR);
            self.ping(DRAIN_PING);
        }
    }

    /// Names the last stream that is served; streams after it are refused.
    pub fn end_drain(&mut self) {
        if !matches!(self.drain, Drain::Final(_)) {
            self.drain = Drain::Final(self.last);
            frame::write_go_away(&mut self.control, self.last, ErrorCode::NO_ERROR);
        }
    }

    /// Whether the last stream was named and all have ended: the connection can be closed.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        matches!(self.drain, Drain::Final(_)) && self.streams.len() == 0
    }

    /// Ends the connection with an error: GOAWAY waits in [`Connection::flush`], then it is to be closed.
    pub fn fail(&mut self, error: Error) {
        if !matches!(self.stage, Stage::Failed(_)) {
            self.stage = Stage::Failed(error);
            self.data = None;
            frame::write_go_away(&mut self.control, self.last, error.code);
        }
    }

    fn about(&self, id: u32) -> About {
        let tag = self.streams.get(id).map_or(NO_TAG, |stream| stream.tag);
        About { stream: StreamId(id), tag }
    }

    /// The peer has ended its half of a stream.
    #[inline(always)]
    fn end_remote(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.remote = Half::Done;
            if stream.local == Half::Done {
                self.finish(id);
            }
        }
    }

    /// This side has ended its half of a stream.
    #[inline(always)]
    fn end_local(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.local = Half::Done;
            if stream.remote == Half::Done {
                self.finish(id);
            }
        }
    }

    #[inline(always)]
    fn finish(&mut self, id: u32) {
        self.streams.remove(id, Closed::Finished);
        self.floods.finished();
    }
}

/// The payload of the ping that follows GOAWAY.
const DRAIN_PING: [u8; 8] = *b"draining";
