//! One connection of a test: sends its share, waits for all replies, again.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use sluice_net::{Endpoint, Stream, connect};

use super::scan::{Reply, Scanner};

/// Room for replies; a line that is cut by the end of a read stays at its beginning.
const ROOM: usize = 16 * 1024;

/// Why a connection ended before its work was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Connect(String),
    Read(String),
    Write(String),
    Timeout(String),
    Protocol(String),
}

impl Trouble {
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Connect(words)
            | Self::Read(words)
            | Self::Write(words)
            | Self::Timeout(words)
            | Self::Protocol(words) => words,
        }
    }
}

/// A connection with what it has read and not yet understood.
pub(crate) struct Client {
    stream: Stream,
    scanner: Scanner,
    input: Vec<u8>,
}

/// How far the sending of some requests and the reading of their replies has come.
struct Exchange<'e> {
    requests: &'e [u8],
    written: usize,
    replies: u32,
}

impl Client {
    /// Opens a connection to the first address that takes it.
    ///
    /// # Errors
    /// What the last address said.
    pub(crate) async fn open(endpoints: &[Endpoint]) -> Result<Self, Trouble> {
        let mut last = "there is no address".to_owned();
        for endpoint in endpoints {
            match connect(endpoint).await {
                Ok(stream) => {
                    let input = Vec::with_capacity(ROOM);
                    return Ok(Self { stream, scanner: Scanner::default(), input });
                }
                Err(error) => last = format!("cannot connect to {endpoint}: {error}"),
            }
        }
        Err(Trouble::Connect(last))
    }

    /// Sends requests and reads as many replies; `on_reply` gets each with the bytes of its last part
    /// and says whether to go on.
    ///
    /// # Errors
    /// The connection ended or broke, or what came is no RESP2.
    pub(crate) async fn exchange(
        &mut self,
        requests: &[u8],
        replies: u32,
        on_reply: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Trouble> {
        let mut exchange = Exchange { requests, written: 0, replies };
        poll_fn(|cx| self.poll_exchange(&mut exchange, on_reply, cx)).await
    }

    fn poll_exchange(
        &mut self,
        exchange: &mut Exchange<'_>,
        on_reply: &mut dyn FnMut(Event<'_>),
        cx: &Context<'_>,
    ) -> Poll<Result<(), Trouble>> {
        while let Some(rest) =
            exchange.requests.get(exchange.written..).filter(|rest| !rest.is_empty())
        {
            match self.stream.poll_write(cx, rest) {
                Poll::Ready(Ok(length)) => {
                    exchange.written += length;
                    on_reply(Event::Sent(length));
                }
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(Trouble::Write(error.to_string())));
                }
                // Replies are read meanwhile: a server that waits for that would never go on.
                Poll::Pending => break,
            }
        }
        while exchange.replies > 0 {
            match ready!(self.stream.poll_read(cx, &mut self.input)) {
                Ok(0) => {
                    let words = "the server closed the connection while a reply was awaited";
                    return Poll::Ready(Err(Trouble::Read(words.to_owned())));
                }
                Ok(length) => on_reply(Event::Read(length)),
                Err(error) => return Poll::Ready(Err(Trouble::Read(error.to_string()))),
            }
            self.take_replies(exchange, on_reply)?;
        }
        Poll::Ready(Ok(()))
    }

    fn take_replies(
        &mut self,
        exchange: &mut Exchange<'_>,
        on_reply: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Trouble> {
        let mut done = 0;
        loop {
            let rest = self.input.get(done..).unwrap_or_default();
            let found = self
                .scanner
                .scan(rest)
                .map_err(|fault| Trouble::Protocol(format!("this is not Redis: {fault}")))?;
            let bytes = rest.get(..found.consumed).unwrap_or_default();
            done += found.consumed;
            let Some(reply) = found.reply else {
                on_reply(Event::Part(bytes));
                break;
            };
            let Some(left) = exchange.replies.checked_sub(1) else {
                return Err(Trouble::Protocol("a reply nobody asked for".to_owned()));
            };
            exchange.replies = left;
            on_reply(Event::Reply(&reply, bytes));
        }
        self.input.drain(..done);
        if self.input.capacity() == self.input.len() {
            // Only a line can be this long, and the scanner bounds it.
            self.input.reserve(ROOM);
        }
        Ok(())
    }
}

/// What an exchange tells while it goes on.
pub(crate) enum Event<'e> {
    /// So many bytes were sent.
    Sent(usize),
    /// So many bytes came.
    Read(usize),
    /// These bytes are part of a reply.
    Part(&'e [u8]),
    /// A reply is whole; the bytes are what came last of it.
    Reply(&'e Reply, &'e [u8]),
}
