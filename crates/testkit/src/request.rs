//! What an origin received: request heads as they came, and bodies.

use std::io::{self, Read};

use crate::response::Fields;
use crate::stream::Stream;

/// The head of one request as the origin got it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The target, byte for byte.
    pub target: String,
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    pub minor: u8,
    /// The field lines.
    pub fields: Fields,
    /// Every line of the head as it came, request line first, without CRLF.
    pub lines: Vec<String>,
    /// Which connection it came on, counted from 1 over the origin's life.
    pub connection: usize,
    /// Which request of that connection it was, counted from 1.
    pub number: usize,
    /// Whether its body came to its end.
    pub complete: bool,
}

/// A request's body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// The bytes without their framing.
    pub bytes: Vec<u8>,
    /// Sizes of the chunks as they came; empty with Content-Length.
    pub chunks: Vec<usize>,
    /// Fields after the last chunk.
    pub trailers: Fields,
}

/// How the body of a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Nothing,
    Length(u64),
    Chunked,
}

impl Received {
    /// Reads the head; whoever sends an origin anything but plain, unambiguous HTTP/1.1 fails the test.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(head);
        let lines: Vec<String> = text.split("\r\n").map(String::from).collect();
        if let Some(bad) = lines.iter().find(|line| line.contains(['\r', '\n', '\0'])) {
            return Err(format!("a bare CR, LF or NUL reached the origin: {bad:?}"));
        }
        let request_line = lines.first().cloned().unwrap_or_default();
        let parts: Vec<&str> = request_line.split(' ').collect();
        let [method, target, version] = parts.as_slice() else {
            return Err(format!("request line at the origin: {request_line:?}"));
        };
        let minor = match *version {
            "HTTP/1.1" => 1,
            "HTTP/1.0" => 0,
            other => return Err(format!("version at the origin: {other:?}")),
        };
        let mut fields = Fields::default();
        for line in lines.iter().skip(1) {
            let Some((name, value)) = line.split_once(':') else {
                return Err(format!("field line at the origin: {line:?}"));
            };
            if name.is_empty() || !name.bytes().all(crate::response::is_token_char) {
                return Err(format!("field name at the origin: {line:?}"));
            }
            fields.0.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        let (method, target) = ((*method).to_owned(), (*target).to_owned());
        Ok(Self { method, target, minor, fields, lines, ..Self::default() })
    }

    pub(crate) fn extent(&self) -> Result<Extent, String> {
        let lengths: Vec<&str> = self.fields.all("content-length").collect();
        let codings: Vec<&str> = self.fields.all("transfer-encoding").collect();
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(Extent::Nothing),
            ([length], []) => match length.parse::<u64>() {
                Ok(value) if value.to_string() == *length => Ok(Extent::Length(value)),
                _ => Err(format!("Content-Length at the origin: {length:?}")),
            },
            ([], ["chunked"]) => Ok(Extent::Chunked),
            _ => Err(format!("framing at the origin: {lengths:?} {codings:?}")),
        }
    }
}

/// Bytes from the gateway, buffered.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) stream: Stream,
    pub(crate) buffer: Vec<u8>,
}

impl Inbox {
    fn fill(&mut self) -> io::Result<usize> {
        let mut piece = [0; 65_536];
        let count = self.stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    /// Everything before `mark`; `None` when the connection ended first.
    pub(crate) fn until(&mut self, mark: &[u8]) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.buffer.windows(mark.len()).position(|w| w == mark) {
                let found = self.buffer.drain(..at).collect();
                self.buffer.drain(..mark.len());
                return Ok(Some(found));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// At least one and at most `limit` bytes; an early end is an error.
    pub(crate) fn some(&mut self, limit: u64) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() && self.fill()? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(self.buffer.drain(..limit.min(self.buffer.len())).collect())
    }
}
