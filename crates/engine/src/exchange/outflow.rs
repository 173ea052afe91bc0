//! Content of our own answers that is sent as the client takes it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_conn::{Channel, Sender};
use sluice_filter::{Body, BodySource, Broken, Piece, Pipeline, SharedBytes};
use sluice_message::{BodyLength, Fault, FaultKind, Lines, Persistence, ResponseHead};
use sluice_net::disk::{DiskFile, Reading};

use super::{After, AnswerProgress, Exchange, Queued, Stop};
use crate::coroutine::Panicked;
use crate::patience::Patience;

/// Content in memory goes out with its head up to this size; of more there would be a copy for each client.
const AT_ONCE: usize = 16 * 1024;

/// Shared content that goes out with its head, without a copy, on a connection of its own.
const SHARED_AT_ONCE: usize = 64 * 1024;

/// From this size on a copy costs more than what is done to avoid it.
const COPIED: usize = 4096;

/// Content that is changed at once, so that no more waits than a client takes at a time.
const SHARE: usize = 16 * 1024;

/// So often content is changed before others have their turn.
const SHARES: usize = 4;

/// What filters make of the content of an answer.
pub(crate) enum Shape {
    /// It stays as it is.
    Kept,
    /// It becomes something whose length nobody knows before. The pipeline is absent where nobody wants it.
    Changed(Option<Box<Pipeline>>),
}

/// Content under way.
pub(crate) struct Outflow {
    source: Option<Box<dyn BodySource>>,
    /// The piece that is being sent, and how much of it is.
    chunk: Chunk,
    at: usize,
    /// The part of a file that is being sent.
    file: Option<Part>,
    reading: Reading,
    pipeline: Option<Box<Pipeline>>,
    /// Whether the pipeline may hold back what can be had without more coming in.
    begun: bool,
    /// What came out of the pipeline, and how much of it is sent.
    changed: Vec<u8>,
    sent: usize,
    /// Bytes that are still to come from the source, if it has said how many it makes.
    owed: Option<u64>,
    /// No more comes from the source.
    over: bool,
    /// No more comes out of the pipeline.
    ended: bool,
    /// Whether something in the pipeline can take nothing more for now.
    full: bool,
    /// Whether the connection goes on afterwards.
    persistence: Persistence,
}

enum Chunk {
    Bytes(Vec<u8>),
    Shared(SharedBytes),
}

struct Part {
    file: Arc<DiskFile>,
    offset: u64,
    length: u64,
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

const BROKEN: Fault = Fault::internal(FaultKind::Broken);

impl Outflow {
    fn new(body: Body, pipeline: Option<Box<Pipeline>>, persistence: Persistence) -> Self {
        let owed = body.length();
        let (source, chunk) = match body {
            Body::Bytes(bytes) => (None, Chunk::Bytes(bytes)),
            Body::Shared(bytes) => (None, Chunk::Shared(bytes)),
            Body::Stream(source) => (Some(source), Chunk::Bytes(Vec::new())),
        };
        let mut outflow = Self {
            source,
            chunk,
            at: 0,
            file: None,
            reading: Reading::default(),
            pipeline,
            begun: false,
            changed: Vec::new(),
            sent: 0,
            owed,
            over: false,
            ended: false,
            full: false,
            persistence,
        };
        // What is in memory is there.
        outflow.owed = outflow.owed.filter(|_| outflow.source.is_some());
        outflow
    }

    /// Sends until all is queued, or the client or the source has to be waited for.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        channel: Channel<'_>,
        sender: &mut Sender,
    ) -> Poll<Result<(), Fault>> {
        let mut shares = 0;
        loop {
            while let Some(rest) = self.changed.get(self.sent..).filter(|rest| !rest.is_empty()) {
                let taken = ready!(sender.poll_piece(channel, cx, rest));
                self.sent += taken.map_err(Fault::downstream)?;
            }
            self.changed.clear();
            self.sent = 0;
            if self.ended {
                sender.finish(None);
                return Poll::Ready(Ok(()));
            }
            if self.pipeline.is_some() && self.is_held_up(cx) {
                if let Poll::Ready(Err(kind)) = sender.poll_flush(channel, cx) {
                    return Poll::Ready(Err(Fault::downstream(kind)));
                }
                return Poll::Pending;
            }
            if self.over {
                ready!(self.poll_end(cx, channel, sender))?;
            } else if self.at < self.chunk.bytes().len() {
                if self.pipeline.is_some() {
                    if shares == SHARES {
                        // Others have their turn: changing content may take long.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    shares += 1;
                }
                ready!(self.poll_chunk(cx, channel, sender))?;
            } else if self.file.is_some() {
                ready!(self.poll_file(cx, channel, sender))?;
            } else {
                ready!(self.poll_source(cx, channel, sender))?;
            }
        }
    }

    /// Whether something that content goes through can take nothing more for now.
    fn is_held_up(&mut self, cx: &Context<'_>) -> bool {
        let full = self.pipeline.as_mut().is_some_and(|pipeline| pipeline.is_full(cx.waker()));
        let before = std::mem::replace(&mut self.full, full);
        // What has come out meanwhile is not to wait for what comes in.
        self.begun |= before && !full;
        full
    }

    /// No more comes from the source.
    fn poll_end(
        &mut self,
        cx: &Context<'_>,
        channel: Channel<'_>,
        sender: &mut Sender,
    ) -> Poll<Result<(), Fault>> {
        if let Some(pipeline) = &mut self.pipeline {
            match pipeline.poll_end(cx.waker(), &mut None, &mut self.changed) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Broken)) => return Poll::Ready(Err(BROKEN)),
                Poll::Pending => {
                    let flushed = sender.poll_flush(channel, cx);
                    if let Poll::Ready(Err(kind)) = flushed {
                        return Poll::Ready(Err(Fault::downstream(kind)));
                    }
                    return Poll::Pending;
                }
            }
        }
        self.ended = true;
        Poll::Ready(Ok(()))
    }

    /// Sends some of the piece.
    fn poll_chunk(
        &mut self,
        cx: &Context<'_>,
        channel: Channel<'_>,
        sender: &mut Sender,
    ) -> Poll<Result<(), Fault>> {
        let rest = self.chunk.bytes().get(self.at..).unwrap_or_default();
        self.at += match &mut self.pipeline {
            None => {
                let taken = ready!(sender.poll_piece(channel, cx, rest));
                taken.map_err(Fault::downstream)?
            }
            Some(pipeline) => {
                let share = rest.get(..SHARE).unwrap_or(rest);
                pipeline.push(share, &mut self.changed).map_err(|_| BROKEN)?;
                self.begun = true;
                share.len()
            }
        };
        Poll::Ready(Ok(()))
    }

    /// Sends some of the part of a file, or reads some of it.
    fn poll_file(
        &mut self,
        cx: &mut Context<'_>,
        channel: Channel<'_>,
        sender: &mut Sender,
    ) -> Poll<Result<(), Fault>> {
        let Some(part) = &mut self.file else { return Poll::Ready(Ok(())) };
        if part.length == 0 {
            self.file = None;
            return Poll::Ready(Ok(()));
        }
        let place = (part.offset, part.length);
        let moved = if self.pipeline.is_none() && sender.takes_files(channel) {
            let reading = &mut self.reading;
            let sent = ready!(sender.poll_file(channel, cx, (&part.file, reading), place));
            sent.map_err(|kind| match kind {
                FaultKind::Broken => BROKEN,
                kind => Fault::downstream(kind),
            })?
        } else {
            let mut window = match &mut self.chunk {
                Chunk::Bytes(bytes) => std::mem::take(bytes),
                Chunk::Shared(_) => Vec::new(),
            };
            let read = self.reading.poll_window(cx, &part.file, place, &mut window);
            let length = u64::try_from(window.len()).unwrap_or(u64::MAX);
            (self.chunk, self.at) = (Chunk::Bytes(window), 0);
            if read.is_pending() {
                // Nothing of it is there yet.
                self.at = self.chunk.bytes().len();
            }
            ready!(read).map_err(|_| BROKEN)?;
            length
        };
        // It has become shorter than it was when its length was stated.
        if moved == 0 {
            return Poll::Ready(Err(BROKEN));
        }
        part.offset += moved;
        part.length -= moved.min(part.length);
        Poll::Ready(Ok(()))
    }

    /// Gets the next piece.
    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
        channel: Channel<'_>,
        sender: &mut Sender,
    ) -> Poll<Result<(), Fault>> {
        let piece = match &mut self.source {
            None => Poll::Ready(Ok(Piece::End)),
            Some(source) => source.poll_piece(cx),
        };
        let Poll::Ready(piece) = piece else {
            // What came so far is to be read before more comes.
            if std::mem::take(&mut self.begun)
                && let Some(pipeline) = &mut self.pipeline
            {
                pipeline.flush(&mut self.changed).map_err(|_| BROKEN)?;
                if !self.changed.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
            if let Poll::Ready(Err(kind)) = sender.poll_flush(channel, cx) {
                return Poll::Ready(Err(Fault::downstream(kind)));
            }
            return Poll::Pending;
        };
        Poll::Ready(self.take(piece.map_err(|_| BROKEN)?))
    }

    /// The next piece is this.
    fn take(&mut self, piece: Piece) -> Result<(), Fault> {
        let size = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let length = match piece {
            Piece::Bytes(bytes) => {
                let length = size(bytes.len());
                (self.chunk, self.at) = (Chunk::Bytes(bytes), 0);
                length
            }
            Piece::Shared(bytes) => {
                let length = size(bytes.len());
                (self.chunk, self.at) = (Chunk::Shared(bytes), 0);
                length
            }
            Piece::File { file, offset, length } => {
                self.file = Some(Part { file, offset, length });
                length
            }
            Piece::End => {
                self.over = true;
                // Half is not to be taken for the whole.
                if self.owed.is_some_and(|owed| owed > 0) {
                    return Err(BROKEN);
                }
                0
            }
        };
        match &mut self.owed {
            None => Ok(()),
            // More than was stated would be taken for the next answer.
            Some(owed) if *owed < length => Err(BROKEN),
            Some(owed) => {
                *owed -= length;
                Ok(())
            }
        }
    }

    /// Whether something is there that the client has not taken.
    fn is_owing(&self) -> bool {
        self.at < self.chunk.bytes().len() || self.sent < self.changed.len() || self.file.is_some()
    }
}

impl Exchange<'_, '_> {
    /// Queues an answer, or its head if the client has to take the content bit by bit.
    #[inline(never)]
    pub(super) fn begin_reply(
        &mut self,
        head: &ResponseHead,
        (body, shape): (Body, Shape),
        persistence: Persistence,
    ) -> Queued {
        let length = match &shape {
            Shape::Kept => body.length(),
            Shape::Changed(_) => None,
        };
        if !self.downstream.wants_content(head.status) {
            let length = length_without_content(head, length);
            self.queue_head((head, Lines::Unknown), length, persistence);
            self.downstream.sender.finish(None);
            return Queued::Whole(persistence);
        }
        let pipeline = match shape {
            Shape::Kept => None,
            Shape::Changed(pipeline) => pipeline,
        };
        if pipeline.is_none() {
            match &body {
                Body::Bytes(bytes) if bytes.len() <= AT_ONCE => {
                    self.deliver((head, Lines::Unknown), bytes, persistence);
                    return Queued::Whole(persistence);
                }
                Body::Shared(bytes) if self.takes_at_once(bytes) => {
                    self.deliver_shared((head, Lines::Unknown), bytes, persistence);
                    return Queued::Whole(persistence);
                }
                _ => {}
            }
        }
        let framed = length.map_or(BodyLength::Framed, BodyLength::Known);
        let framed = self.downstream.body_for_client(head.status, framed);
        let persistence =
            if framed == BodyLength::UntilClose { Persistence::Close } else { persistence };
        self.queue_head((head, Lines::Unknown), framed, persistence);
        Queued::Begun(Box::new(Outflow::new(body, pipeline, persistence)))
    }

    /// Whether shared content goes out with its head.
    #[inline]
    pub(super) fn takes_at_once(&self, body: &SharedBytes) -> bool {
        body.len() <= AT_ONCE || body.len() <= SHARED_AT_ONCE && self.downstream.is_own()
    }

    /// Queues a whole answer with content that others have, too.
    #[inline(always)]
    pub(super) fn deliver_shared(
        &mut self,
        (head, lines): (&ResponseHead, Lines),
        body: &SharedBytes,
        persistence: Persistence,
    ) {
        match body.len() {
            0..COPIED => self.deliver((head, lines), body, persistence),
            _ => self.deliver_uncopied((head, lines), body.clone(), persistence),
        }
    }

    /// The same for who has no more use for the content.
    #[inline(always)]
    pub(super) fn deliver_last(
        &mut self,
        (head, lines): (&ResponseHead, Lines),
        body: SharedBytes,
        persistence: Persistence,
    ) {
        match body.len() {
            0..COPIED => self.deliver((head, lines), &body, persistence),
            _ => self.deliver_uncopied((head, lines), body, persistence),
        }
    }

    #[inline(never)]
    fn deliver_uncopied(
        &mut self,
        (head, lines): (&ResponseHead, Lines),
        body: SharedBytes,
        persistence: Persistence,
    ) {
        let length = BodyLength::Known(u64::try_from(body.len()).unwrap_or(u64::MAX));
        self.queue_head((head, lines), length, persistence);
        let downstream = &mut *self.downstream;
        if downstream.wants_content(head.status) {
            let (all, part) = body.into_place();
            downstream.sender.push_shared(downstream.channel, all, part);
        }
        downstream.sender.finish(None);
    }

    fn queue_head(
        &mut self,
        (head, lines): (&ResponseHead, Lines),
        length: BodyLength,
        persistence: Persistence,
    ) {
        self.status = head.status;
        let downstream = &mut *self.downstream;
        self.worker.with_date(|date| {
            let framing = downstream.framing(length, persistence, Some(date)).with_lines(lines);
            downstream.send_head(head, &framing);
        });
    }

    /// Sends the rest of an answer, as fast as the client takes it.
    pub(crate) async fn pour(&mut self, mut outflow: Box<Outflow>) -> Result<After, Stop> {
        let mut patience = Patience::until(self.end_of_call());
        let (worker, downstream) = (self.worker, &mut *self.downstream);
        let poured = poll_fn(|cx| {
            let place = (downstream.channel, &mut *downstream.sender);
            // What makes the content or changes it may panic; it is not asked again then.
            match catch_unwind(AssertUnwindSafe(|| outflow.poll(cx, place.0, place.1))) {
                Ok(Poll::Ready(sent)) => return Poll::Ready(sent),
                Ok(Poll::Pending) => {}
                Err(payload) => {
                    worker.on_panic(&Panicked(payload));
                    return Poll::Ready(Err(BROKEN));
                }
            }
            let owing = outflow.is_owing();
            // A client that has closed its sending side gets what is there. A source may have nothing to say for
            // hours, and a stream is given up by those who want it no longer.
            if (!owing || !downstream.is_own())
                && let Poll::Ready(gone) = downstream.poll_gone(cx)
            {
                return Poll::Ready(Err(gone));
            }
            let limit = if owing { downstream.timeouts().write } else { std::time::Duration::MAX };
            let position = downstream.progress();
            let late = Fault::downstream(FaultKind::TimedOut);
            patience.poll(cx, downstream.deadline, (position, limit)).map(|()| Err(late))
        })
        .await;
        poured.map_err(|fault| self.overdue(Stop { fault, progress: AnswerProgress::Begun }))?;
        Ok(match self.after(outflow.persistence) {
            Some(after) => after,
            None => self.skip_content().await,
        })
    }
}

/// What an answer says of the length of content that does not follow (RFC 9110, 8.6): what it would be, or what
/// its head says, or nothing.
fn length_without_content(head: &ResponseHead, length: Option<u64>) -> BodyLength {
    let stated = head.fields.value(sluice_message::FieldId::ContentLength).is_some();
    match length {
        // Nothing was looked at to say this.
        Some(0) | None if stated || head.status == 304 => BodyLength::Empty,
        Some(length) if head.status != 304 => BodyLength::Known(length),
        _ => BodyLength::Empty,
    }
}
