//! One request at an origin, and everything an origin can do with it.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::records::Shared;
use crate::request::{Body, Extent, Inbox, Received};
use crate::response::Fields;
use crate::stream::Stream;

/// What happens to the connection when the behaviour returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// An unread body is read away, then the next request is awaited.
    Next,
    /// FIN.
    Close,
    /// RST.
    Reset,
}

/// A request that waits for what the behaviour does.
#[derive(Debug)]
pub struct Exchange {
    pub(crate) received: Received,
    pub(crate) inbox: Inbox,
    pub(crate) left: Left,
    pub(crate) after: After,
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    /// Whether the gateway waits for `100 Continue` before it sends the body.
    pub(crate) awaited: bool,
}

/// What of the request's body is still to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    Bytes(u64),
    /// Within a chunk, this much of it.
    Chunk(u64),
    NextChunk,
}

impl From<Extent> for Left {
    fn from(extent: Extent) -> Self {
        match extent {
            Extent::Nothing | Extent::Length(0) => Self::Nothing,
            Extent::Length(length) => Self::Bytes(length),
            Extent::Chunked => Self::NextChunk,
        }
    }
}

impl Exchange {
    /// The request's head.
    #[must_use]
    pub fn head(&self) -> &Received {
        &self.received
    }

    /// Sends bytes as they are. A gateway that has gone ends the exchange at its next read.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.inbox.stream.write_all(bytes.as_ref())
    }

    /// Sends a whole answer with Content-Length; `fields` are lines without CRLF.
    ///
    /// # Errors
    /// When the gateway has gone.
    pub fn answer(
        &mut self,
        status: u16,
        fields: &[&str],
        body: impl AsRef<[u8]>,
    ) -> io::Result<()> {
        let body = body.as_ref();
        let mut bytes = format!("HTTP/1.1 {status} Status\r\n").into_bytes();
        for field in fields {
            bytes.extend_from_slice(field.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        if status >= 200 && status != 204 {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        if self.received.method != "HEAD" {
            bytes.extend_from_slice(body);
        }
        self.write(bytes)
    }

    /// The next part of the request's body as it comes off the socket; `None` at its end. Trailers are
    /// appended to `trailers`.
    ///
    /// # Errors
    /// When the gateway goes away within the body, or its framing is wrong.
    pub fn read_some(&mut self, trailers: &mut Fields) -> io::Result<Option<Vec<u8>>> {
        // RFC 9110 10.1.1: an origin that is about to read says so to whoever asked for it.
        if std::mem::take(&mut self.awaited) && self.left != Left::Nothing {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        loop {
            match self.left {
                Left::Nothing => return Ok(None),
                Left::Bytes(left) => {
                    let bytes = self.inbox.some(left)?;
                    let left = left - bytes.len() as u64;
                    self.left = if left == 0 { Left::Nothing } else { Left::Bytes(left) };
                    self.note_end();
                    return Ok(Some(bytes));
                }
                Left::Chunk(0) => {
                    let rest = self.line()?;
                    if !rest.is_empty() {
                        return Err(self.fail(format!("after a chunk: {rest:?}")));
                    }
                    self.left = Left::NextChunk;
                }
                Left::Chunk(left) => {
                    let bytes = self.inbox.some(left)?;
                    self.left = Left::Chunk(left - bytes.len() as u64);
                    return Ok(Some(bytes));
                }
                Left::NextChunk => self.read_chunk_line(trailers)?,
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let line = self.inbox.until(b"\r\n")?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    fn read_chunk_line(&mut self, trailers: &mut Fields) -> io::Result<()> {
        let line = self.line()?;
        let size = line.split(';').next().unwrap_or_default();
        let strict = !size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit());
        let Some(size) = u64::from_str_radix(size, 16).ok().filter(|_| strict) else {
            return Err(self.fail(format!("chunk size: {line:?}")));
        };
        self.left = Left::Chunk(size);
        if size == 0 { self.read_trailers(trailers) } else { Ok(()) }
    }

    fn read_trailers(&mut self, trailers: &mut Fields) -> io::Result<()> {
        loop {
            let line = self.line()?;
            if line.is_empty() {
                self.left = Left::Nothing;
                self.note_end();
                return Ok(());
            }
            let Some((name, value)) = line.split_once(':') else {
                return Err(self.fail(format!("trailer: {line:?}")));
            };
            trailers.0.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    fn fail(&self, why: String) -> io::Error {
        self.shared.complain(&why);
        io::Error::new(io::ErrorKind::InvalidData, why)
    }

    /// Marks the request as complete in the origin's records once its body has ended.
    pub(crate) fn note_end(&self) {
        if self.left == Left::Nothing {
            self.shared.note_complete(self.index);
        }
    }

    /// The whole body of the request.
    ///
    /// # Errors
    /// As [`Self::read_some`].
    pub fn read_body(&mut self) -> io::Result<Body> {
        let mut body = Body::default();
        while let Some(bytes) = self.read_some(&mut body.trailers)? {
            body.chunks.push(bytes.len());
            body.bytes.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    /// Reads the body away, counts it in the origin's `sunk` and returns its length.
    ///
    /// # Errors
    /// As [`Self::read_some`].
    pub fn sink_body(&mut self) -> io::Result<u64> {
        let mut count = 0;
        while let Some(bytes) = self.read_some(&mut Fields::default())? {
            count += bytes.len() as u64;
            self.shared.add_sunk(bytes.len() as u64);
        }
        Ok(count)
    }

    /// Waits, or until the origin is dropped.
    pub fn pause(&self, wait: Duration) {
        self.shared.pause(wait);
    }

    /// Says what happens to the connection afterwards; [`After::Next`] when never called.
    pub fn then(&mut self, after: After) {
        self.after = after;
    }

    /// The socket and the bytes that were read beyond the head, for protocols after an upgrade.
    #[must_use]
    pub fn raw(&mut self) -> (&mut Stream, &mut Vec<u8>) {
        (&mut self.inbox.stream, &mut self.inbox.buffer)
    }
}
