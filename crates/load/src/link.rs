//! One connection to the target: bytes out, answers in.

use std::io;
use std::task::{Context, Poll, ready};

use sluice_message::{FaultKind, Method, Syntax};
use sluice_net::Stream;

use crate::answer::{Answer, AnswerReader, Found, Judge};
use crate::source::Failure;

/// What was read at once, for all connections of a thread: it stays in the processor's cache.
pub(crate) type Scratch = Vec<u8>;

/// Room for one read; what came is looked at before more is read.
const ROOM: usize = 64 * 1024;

/// A connection and the input that makes no sense yet.
#[derive(Debug)]
pub(crate) struct Pipe {
    stream: Stream,
    /// The beginning of a head or a frame.
    carry: Vec<u8>,
}

/// A connection and what is known of the answer that is coming in.
#[derive(Debug)]
pub(crate) struct Link {
    pipe: Pipe,
    reader: AnswerReader,
}

/// Why a connection is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The server closed it while no answer had begun.
    Ended,
    /// Anything else, and what it was.
    Failed(Failure, String),
}

impl Pipe {
    pub(crate) const fn new(stream: Stream) -> Self {
        Self { stream, carry: Vec::new() }
    }

    /// Reads what has come in behind what was carried over. Says how many bytes are new; 0 is the end.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &Context<'_>,
        scratch: &mut Scratch,
    ) -> Poll<Result<usize, Broken>> {
        ready!(self.stream.poll_readable(cx));
        scratch.clear();
        if !self.carry.is_empty() {
            scratch.append(&mut self.carry);
        }
        if scratch.capacity() - scratch.len() < ROOM / 2 {
            scratch.reserve(ROOM);
        }
        match self.stream.poll_read(cx, scratch) {
            Poll::Pending => {
                self.carry.extend_from_slice(scratch);
                Poll::Pending
            }
            Poll::Ready(Ok(length)) => Poll::Ready(Ok(length)),
            Poll::Ready(Err(error)) => {
                Poll::Ready(Err(Broken::Failed(Failure::Read, error.to_string())))
            }
        }
    }

    /// Keeps input for the next read.
    #[inline]
    pub(crate) fn carry(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.carry.extend_from_slice(rest);
        }
    }

    /// Writes some of `bytes`.
    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Broken>> {
        let written = ready!(self.stream.poll_write(cx, bytes));
        Poll::Ready(
            written.map_err(|error: io::Error| Broken::Failed(Failure::Write, error.to_string())),
        )
    }
}

impl Link {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { pipe: Pipe::new(stream), reader: AnswerReader::default() }
    }

    /// Whether something came in while nothing was asked for, most likely the end.
    pub(crate) fn is_stale(&self) -> bool {
        self.pipe.stream.is_stale()
    }

    /// [`Pipe::poll_read`].
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &Context<'_>,
        scratch: &mut Scratch,
    ) -> Poll<Result<usize, Broken>> {
        self.pipe.poll_read(cx, scratch)
    }

    /// [`Pipe::poll_write`].
    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        cx: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Broken>> {
        self.pipe.poll_write(cx, bytes)
    }

    /// [`Pipe::carry`].
    #[inline]
    pub(crate) fn carry(&mut self, rest: &[u8]) {
        self.pipe.carry(rest);
    }

    /// The next answer in `input`.
    #[inline]
    pub(crate) fn next_answer(
        &mut self,
        input: &[u8],
        method: Method,
        judge: &mut Judge,
        gathered: Option<&mut Vec<u8>>,
    ) -> Result<Found, Broken> {
        let found = self.reader.read(input, method, judge, gathered);
        found.map_err(|kind| Broken::Failed(Failure::Protocol, in_words(kind, input)))
    }

    /// The server closed its side: the end of an answer, or of everything.
    pub(crate) fn on_end(&mut self, carried: usize) -> Result<Answer, Broken> {
        let begun = self.reader.has_begun() || carried > 0;
        self.reader.on_end().map_err(|_| match begun {
            true => {
                let what = "the server closed the connection in the middle of an answer";
                Broken::Failed(Failure::Read, what.to_owned())
            }
            false => Broken::Ended,
        })
    }
}

/// So much of an answer that is none is shown.
const SHOWN: usize = 40;

fn in_words(kind: FaultKind, input: &[u8]) -> String {
    let begin = || match input.get(..SHOWN) {
        Some(begin) => format!("it begins with \"{}...\"", begin.escape_ascii()),
        None => format!("it is \"{}\"", input.escape_ascii()),
    };
    match kind {
        FaultKind::Malformed(Syntax::StatusLine) => {
            format!("the answer is no HTTP: {}", begin())
        }
        FaultKind::Malformed(Syntax::Version) => {
            format!("the answer is of another version than HTTP/1.0 and HTTP/1.1: {}", begin())
        }
        FaultKind::Malformed(rule) => {
            format!("the answer breaks a rule of HTTP/1.1: {}", name(rule))
        }
        FaultKind::HeadTooLarge => "the head of the answer does not end".to_owned(),
        FaultKind::TooManyFields => "the answer has too many header fields".to_owned(),
        other => format!("the answer cannot be read: {}", other.reason()),
    }
}

/// What a rule is about, in words.
const fn name(rule: Syntax) -> &'static str {
    match rule {
        Syntax::StatusLine => "its status line",
        Syntax::Version => "its version",
        Syntax::FieldName => "the name of a header field",
        Syntax::FieldValue => "the value of a header field",
        Syntax::FoldedLine => "a folded header line",
        Syntax::LineEnd => "a line without its CRLF",
        Syntax::ContentLength => "Content-Length, no number, repeated or beside Transfer-Encoding",
        Syntax::TransferEncoding => "Transfer-Encoding, unknown or without chunked at its end",
        Syntax::Chunk => "a chunk of its content",
        Syntax::Trailer => "a trailer field",
        Syntax::Frame => "a frame",
        Syntax::Content => "its content, not what it says it is",
        Syntax::Upgrade => "its agreement to another protocol",
        // Of requests only.
        Syntax::RequestLine | Syntax::Target | Syntax::Host | Syntax::Base64 => "its head",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_none_is_shown() {
        let rows: [(&[u8], &str); 5] = [
            (b"SSH-2.0-OpenSSH_9\r\n", "is no HTTP: it is \"SSH-2.0-OpenSSH_9\\r\\n\""),
            (&[b'x'; 99], "it begins with \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\""),
            (b"HTTP/3.0 200 OK\r\n\r\n", "another version"),
            (b"HTTP/1.1 200 OK\r\nA b: 1\r\n\r\n", "the name of a header field"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "Content-Length"),
        ];
        for (input, part) in rows {
            let (mut reader, mut judge) = (AnswerReader::default(), Judge::default());
            let kind = reader.read(input, Method::Get, &mut judge, None).unwrap_err();
            let said = in_words(kind, input);
            assert!(said.contains(part), "{said}");
        }
    }
}
