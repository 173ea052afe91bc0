//! A connection that speaks HTTP/2: the codec over a socket.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use sluice_message::{Fields, ResponseHead};
use sluice_net::Stream;
use sluice_wire::h1::Limits;
use sluice_wire::h2::{ClientConnection, Config, Event, FloodLimits, Input};

use super::words::{no_http2, not_agreed, silent};
use crate::link::{Broken, Pipe, Scratch};

/// Answers of any server that can be measured have smaller heads.
const LIMITS: Limits = Limits { head: 128 * 1024, fields: 1024, target: 0 };

/// Bytes of content that may be on the way. What comes is looked at at once, so that the client is
/// never what a server waits for.
const WINDOW: u32 = 1 << 30;

/// Output that waits, above which no more is made.
const FULL: usize = 64 * 1024;

/// A server that is measured may say as much as it wants.
const FLOODS: FloodLimits = FloodLimits {
    resets: u32::MAX,
    provoked_resets: u32::MAX,
    settings: u32::MAX,
    pings: u32::MAX,
    empty: u32::MAX,
    windows: u32::MAX,
    priorities: u32::MAX,
    stray: u32::MAX,
    continuations: u32::MAX,
};

/// A connection whose server has greeted.
#[derive(Debug)]
pub(super) struct StreamLink {
    pipe: Pipe,
    pub(super) codec: ClientConnection,
    /// What is to be written, from `written` on.
    pub(super) out: Vec<u8>,
    written: usize,
}

impl StreamLink {
    /// Waits until the server of an open connection has shown that it speaks HTTP/2 (RFC 9113, 3.4).
    ///
    /// # Errors
    /// It does not, in words.
    pub(super) async fn greet(stream: Stream) -> io::Result<Self> {
        if let Some(security) = stream.security()
            && security.protocol.as_deref() != Some(b"h2")
        {
            return Err(io::Error::other(not_agreed(security.protocol.as_deref())));
        }
        let encrypted = stream.is_encrypted();
        let mut link = Self::new(stream);
        let mut input = Scratch::new();
        let greeted = poll_fn(|cx| link.poll_greeting(cx, &mut input)).await;
        greeted.map_err(|broken| match broken {
            Broken::Ended => io::Error::other(silent(encrypted)),
            Broken::Failed(_, why) => io::Error::other(why),
        })?;
        Ok(link)
    }

    fn new(stream: Stream) -> Self {
        let config = Config {
            limits: LIMITS,
            stream_window: WINDOW,
            connection_window: WINDOW,
            floods: FLOODS,
            ..Config::default()
        };
        let (pipe, codec) = (Pipe::new(stream), ClientConnection::client(&config));
        Self { pipe, codec, out: Vec::new(), written: 0 }
    }

    fn poll_greeting(
        &mut self,
        cx: &Context<'_>,
        scratch: &mut Scratch,
    ) -> Poll<Result<(), Broken>> {
        let (mut head, mut trailers) = (ResponseHead::new(), Fields::new());
        loop {
            self.poll_write(cx)?;
            if ready!(self.poll_read(cx, scratch))? == 0 {
                return Poll::Ready(Err(Broken::Ended));
            }
            let mut input = Input::new(scratch);
            // No time has to be told where floods have no limits.
            let event = self.codec.next(&mut input, 0, &mut head, &mut trailers);
            let consumed = input.consumed();
            match event {
                Ok(None) => self.carry(scratch.get(consumed..).unwrap_or_default()),
                Ok(Some(Event::Settings)) => {
                    self.carry(scratch.get(consumed..).unwrap_or_default());
                    return Poll::Ready(Ok(()));
                }
                Ok(Some(_)) | Err(_) => return Poll::Ready(Err(no_http2(scratch))),
            }
        }
    }

    /// [`Pipe::poll_read`].
    #[inline]
    pub(super) fn poll_read(
        &mut self,
        cx: &Context<'_>,
        scratch: &mut Scratch,
    ) -> Poll<Result<usize, Broken>> {
        self.pipe.poll_read(cx, scratch)
    }

    /// [`Pipe::carry`].
    #[inline]
    pub(super) fn carry(&mut self, rest: &[u8]) {
        self.pipe.carry(rest);
    }

    /// Whether as much waits to be written as should.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.out.len() >= FULL
    }

    /// Writes what waits, as far as the socket takes it. Says how many bytes it took.
    #[inline]
    pub(super) fn poll_write(&mut self, cx: &Context<'_>) -> Result<usize, Broken> {
        if !self.is_full() {
            self.codec.flush(&mut self.out);
        }
        let before = self.written;
        while self.written < self.out.len() {
            let rest = self.out.get(self.written..).unwrap_or_default();
            match self.pipe.poll_write(cx, rest) {
                Poll::Ready(length) => self.written += length?,
                Poll::Pending => return Ok(self.written - before),
            }
        }
        let length = self.written - before;
        self.out.clear();
        self.written = 0;
        Ok(length)
    }
}
