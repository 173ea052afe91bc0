//! The sending half of a connection: heads and content in, bytes out.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::channel::{Channel, Paced};
use crate::h2::SharedStream;
use sluice_message::{BodyLength, FaultKind, Fields};
use sluice_net::Stream;
use sluice_net::disk::{DiskFile, Reading};
use sluice_wire::h1::{CHUNK_END, encode_chunk_start, encode_last_chunk};
use sluice_wire::h2::{End, Peer};

use crate::buffer::Buffer;
use crate::receive::broken;

/// Pieces from this size on go to the socket without being copied, if the framing allows it.
pub(crate) const DIRECT: usize = 8 * 1024;

/// Output that waits for the socket before more is taken.
const ENOUGH: usize = 64 * 1024;

/// Output of a connection and the framing of the content that goes into it.
#[derive(Debug)]
pub struct Sender {
    output: Buffer,
    /// Content that goes out behind the output, without having been copied into it.
    behind: Option<Behind>,
    body: BodyLength,
    sent: u64,
    ending: Ending,
}

/// A part of bytes that others may send, too.
#[derive(Debug)]
struct Behind {
    bytes: Arc<[u8]>,
    part: Range<usize>,
}

impl Behind {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.part.clone()).unwrap_or_default()
    }
}

/// How far the end of what a stream carries is; a connection of its own has no such end.
#[derive(Debug)]
enum Ending {
    /// It is stated by the bytes themselves, or was stated by the head.
    Stated,
    /// More content may come.
    Open,
    /// The stream ends behind the output, with these trailers.
    Wanted(Option<Box<Fields>>),
}

/// What goes wrong between a file and a socket: [`FaultKind::Broken`] if it is the file.
fn fault_of_file(error: &io::Error) -> FaultKind {
    use io::ErrorKind as K;
    match error.kind() {
        K::ConnectionReset
        | K::ConnectionAborted
        | K::BrokenPipe
        | K::NotConnected
        | K::TimedOut
        | K::HostUnreachable
        | K::NetworkUnreachable => broken(error),
        _ => FaultKind::Broken,
    }
}

impl Default for Sender {
    fn default() -> Self {
        Self::new()
    }
}

impl Sender {
    /// Without output.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            output: Buffer::new(),
            behind: None,
            body: BodyLength::Empty,
            sent: 0,
            ending: Ending::Stated,
        }
    }

    /// The output to encode into.
    #[inline(always)]
    pub(crate) fn encode(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.settle();
        let tail = self.output.tail();
        let before = tail.len();
        encode(tail);
        self.sent += u64::try_from(tail.len() - before).unwrap_or(u64::MAX);
    }

    /// What follows goes out behind all there is: that is copied after all.
    #[inline(always)]
    fn settle(&mut self) {
        if self.behind.is_some() {
            self.copy_behind();
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_behind(&mut self) {
        if let Some(behind) = self.behind.take() {
            self.output.tail().extend_from_slice(behind.rest());
        }
    }

    /// The content that follows has this length.
    #[inline]
    pub(crate) const fn announce(&mut self, body: BodyLength) {
        self.body = body;
    }

    /// The content that follows goes to a stream, whose head took `head` bytes.
    pub(crate) fn announce_stream(&mut self, head: usize, end: End) {
        self.sent += u64::try_from(head).unwrap_or(u64::MAX);
        (self.body, self.ending) = match end {
            End::Stream => (BodyLength::Empty, Ending::Stated),
            End::More => (BodyLength::UntilClose, Ending::Open),
        };
    }

    /// Bytes put out since [`Sender::restart_count`], some of which may still wait.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Changes whenever output was queued or written.
    #[must_use]
    pub(crate) fn progress(&self) -> u64 {
        let waiting = u64::try_from(self.waiting()).unwrap_or(u64::MAX);
        self.sent.wrapping_mul(2).wrapping_sub(waiting)
    }

    pub(crate) const fn restart_count(&mut self) {
        self.sent = 0;
    }

    /// Bytes that wait for the socket.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.output.len() + self.behind.as_ref().map_or(0, |behind| behind.part.len())
    }

    /// Whether so much output waits that no more should be made.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.output.len() >= ENOUGH
    }

    /// Takes as much of `piece` as it can without piling up output, and says how much.
    ///
    /// # Errors
    /// The connection broke.
    pub fn poll_piece(
        &mut self,
        channel: Channel<'_>,
        cx: &Context<'_>,
        piece: &[u8],
    ) -> Poll<Result<usize, FaultKind>> {
        if piece.len() >= DIRECT && self.body != BodyLength::Framed {
            return self.poll_direct(channel, cx, piece);
        }
        if self.is_full() {
            ready!(self.poll_flush(channel, cx))?;
        }
        self.push(piece);
        Poll::Ready(Ok(piece.len()))
    }

    /// Takes a piece whatever it costs in memory; for content that is in memory anyway.
    #[inline]
    pub fn push(&mut self, piece: &[u8]) {
        let framed = self.body == BodyLength::Framed;
        // An empty chunk would end the content (RFC 9112, 7.1).
        if framed && piece.is_empty() {
            return;
        }
        self.encode(|output| {
            if framed {
                encode_chunk_start(output, piece.len());
            }
            output.extend_from_slice(piece);
            if framed {
                output.extend_from_slice(CHUNK_END);
            }
        });
    }

    /// The same for content that others may send, too: unless it has to be framed, or changed on its way, or more
    /// follows before it is written, nothing is copied.
    #[inline]
    pub fn push_shared(&mut self, channel: Channel<'_>, bytes: Arc<[u8]>, part: Range<usize>) {
        let own = matches!(channel, Channel::Own(_));
        if !own || self.body == BodyLength::Framed || part.end > bytes.len() {
            return self.push(bytes.get(part).unwrap_or_default());
        }
        self.settle();
        self.sent += u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.behind = Some(Behind { bytes, part });
    }

    /// Whether fields can follow the content that is under way.
    #[must_use]
    pub const fn takes_trailers(&self) -> bool {
        match self.body {
            BodyLength::Framed => true,
            BodyLength::UntilClose => matches!(self.ending, Ending::Open),
            BodyLength::Empty | BodyLength::Known(_) => false,
        }
    }

    /// Ends the content.
    #[inline]
    pub fn finish(&mut self, trailers: Option<&Fields>) {
        match self.body {
            BodyLength::Framed => self.encode(|output| encode_last_chunk(output, trailers)),
            BodyLength::UntilClose => self.end_stream(trailers),
            BodyLength::Empty | BodyLength::Known(_) => {}
        }
        self.body = BodyLength::Empty;
    }

    fn end_stream(&mut self, trailers: Option<&Fields>) {
        if matches!(self.ending, Ending::Open) {
            self.ending = Ending::Wanted(trailers.map(|fields| Box::new(fields.clone())));
        }
    }

    /// Sends up to `length` bytes of a file from `offset` on without their coming by here, and says how many; 0
    /// means that the file has ended. Only where [`Sender::takes_files`].
    ///
    /// # Errors
    /// The connection broke, or the file cannot be read.
    pub fn poll_file(
        &mut self,
        channel: Channel<'_>,
        cx: &mut Context<'_>,
        (file, reading): (&Arc<DiskFile>, &mut Reading),
        part: (u64, u64),
    ) -> Poll<Result<u64, FaultKind>> {
        let Channel::Own(stream) = channel else { return Poll::Ready(Err(FaultKind::Broken)) };
        self.settle();
        while !self.output.is_empty() {
            // The head travels with the first of the content.
            let written = ready!(stream.poll_write_more(cx, self.output.content()));
            self.output.consume(written.map_err(|error| broken(&error))?);
        }
        let sent = ready!(stream.poll_send_file(cx, (file, reading), part));
        let sent = sent.map_err(|error| fault_of_file(&error))?;
        self.sent += sent;
        Poll::Ready(Ok(sent))
    }

    /// Whether the kernel can send parts of files itself.
    #[must_use]
    pub const fn takes_files(&self, channel: Channel<'_>) -> bool {
        match channel {
            Channel::Own(stream) => {
                !stream.is_encrypted() && !matches!(self.body, BodyLength::Framed)
            }
            // What is held to a bandwidth comes by here.
            Channel::Shared(_) | Channel::Asked(_) | Channel::Paced(_) => false,
        }
    }

    fn poll_direct(
        &mut self,
        channel: Channel<'_>,
        cx: &Context<'_>,
        piece: &[u8],
    ) -> Poll<Result<usize, FaultKind>> {
        self.settle();
        let stream = match channel {
            Channel::Own(stream) => stream,
            Channel::Shared(stream) => return self.poll_direct_into(stream, cx, piece),
            Channel::Asked(stream) => return self.poll_direct_into(stream, cx, piece),
            Channel::Paced(paced) => return self.poll_direct_paced(paced, cx, piece),
        };
        let waiting = self.output.len();
        let result = if waiting == 0 {
            ready!(stream.poll_write(cx, piece))
        } else {
            ready!(stream.poll_write_two(cx, self.output.content(), piece))
        };
        let written = result.map_err(|error: io::Error| broken(&error))?;
        self.output.consume(written.min(waiting));
        let taken = written.saturating_sub(waiting);
        self.sent += u64::try_from(taken).unwrap_or(u64::MAX);
        Poll::Ready(Ok(taken))
    }

    fn poll_direct_into<H: Peer>(
        &mut self,
        stream: &SharedStream<H>,
        cx: &Context<'_>,
        piece: &[u8],
    ) -> Poll<Result<usize, FaultKind>> {
        ready!(self.poll_flush_into(stream, cx))?;
        let taken = ready!(stream.poll_send(cx, piece, End::More))?;
        self.sent += u64::try_from(taken).unwrap_or(u64::MAX);
        Poll::Ready(Ok(taken))
    }

    /// Writes all output.
    ///
    /// # Errors
    /// The connection broke.
    #[inline]
    pub fn poll_flush(
        &mut self,
        channel: Channel<'_>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), FaultKind>> {
        let stream = match channel {
            Channel::Own(stream) => stream,
            Channel::Shared(stream) => return self.poll_flush_into(stream, cx),
            Channel::Asked(stream) => return self.poll_flush_into(stream, cx),
            Channel::Paced(paced) => return self.poll_flush_paced(paced, cx),
        };
        if self.behind.is_some() {
            return self.poll_flush_both(stream, cx);
        }
        while !self.output.is_empty() {
            let written = ready!(stream.poll_write(cx, self.output.content()));
            self.output.consume(written.map_err(|error| broken(&error))?);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all output and what is behind it.
    #[inline(never)]
    fn poll_flush_both(
        &mut self,
        stream: &Stream,
        cx: &Context<'_>,
    ) -> Poll<Result<(), FaultKind>> {
        while let Some(behind) = &mut self.behind {
            let (first, rest) = (self.output.content(), behind.rest());
            let (waiting, all) = (first.len(), first.len() + rest.len());
            match ready!(stream.poll_write_two(cx, first, rest)) {
                // Nearly always, at once.
                Ok(written) if written == all => {
                    self.output.forget();
                    self.behind = None;
                }
                Ok(written) => {
                    self.output.consume(written.min(waiting));
                    behind.part.start += written.saturating_sub(waiting);
                }
                Err(error) => return Poll::Ready(Err(broken(&error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all output, no faster than the bandwidth allows.
    #[cold]
    fn poll_flush_paced(
        &mut self,
        paced: &Paced<'_>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), FaultKind>> {
        self.settle();
        while !self.output.is_empty() {
            let output = self.output.content();
            let most = ready!(paced.poll_download(cx, output.len()))?;
            let part = output.get(..most).unwrap_or(output);
            let written = match paced.below() {
                Channel::Own(stream) => {
                    ready!(stream.poll_write(cx, part)).map_err(|it| broken(&it))
                }
                Channel::Shared(stream) => ready!(stream.poll_send(cx, part, End::More)),
                Channel::Asked(stream) => ready!(stream.poll_send(cx, part, End::More)),
                Channel::Paced(_) => Err(FaultKind::Broken),
            };
            let written = written?;
            self.output.consume(written);
            paced.on_download(written);
        }
        // The end of a stream.
        self.poll_flush(paced.below(), cx)
    }

    #[cold]
    fn poll_direct_paced(
        &mut self,
        paced: &Paced<'_>,
        cx: &Context<'_>,
        piece: &[u8],
    ) -> Poll<Result<usize, FaultKind>> {
        ready!(self.poll_flush_paced(paced, cx))?;
        let most = ready!(paced.poll_download(cx, piece.len()))?;
        let part = piece.get(..most).unwrap_or(piece);
        let taken = ready!(self.poll_direct(paced.below(), cx, part))?;
        paced.on_download(taken);
        Poll::Ready(Ok(taken))
    }

    /// Hands all output over to the connection of a stream, and its end, if that is due.
    fn poll_flush_into<H: Peer>(
        &mut self,
        stream: &SharedStream<H>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), FaultKind>> {
        self.settle();
        let last = matches!(self.ending, Ending::Wanted(None));
        let end = if last { End::Stream } else { End::More };
        loop {
            let waiting = self.output.len();
            if waiting == 0 {
                break;
            }
            let taken = ready!(stream.poll_send(cx, self.output.content(), end))?;
            self.output.consume(taken);
            if taken == waiting && last {
                self.ending = Ending::Stated;
            }
        }
        match std::mem::replace(&mut self.ending, Ending::Stated) {
            Ending::Open => self.ending = Ending::Open,
            Ending::Stated => {}
            Ending::Wanted(None) => stream.end(),
            Ending::Wanted(Some(trailers)) => stream.send_trailers(&trailers),
        }
        Poll::Ready(Ok(()))
    }

    /// Gives memory back before a wait that may be long.
    pub fn rest(&mut self) {
        self.output.rest();
    }

    /// For the next connection: whatever is left is forgotten.
    #[inline]
    pub fn reset(&mut self) {
        self.behind = None;
        let left = self.output.len();
        self.output.consume(left);
        self.output.shrink();
        self.body = BodyLength::Empty;
        self.sent = 0;
        self.ending = Ending::Stated;
    }
}
