//! Calls of browsers, which see no trailers: translated for origins that know nothing of it, and back.

use std::task::{Context, Poll};

use sluice_conn::{Content, Relay, RelayFault};
use sluice_message::{BodyLength, Dialect, FieldId, Fields, GrpcStatus, SpaceExhausted};
use sluice_wire::grpc_web::{TextEncoder, push_trailers};

use super::upload::Upload;
use crate::WebCalls;
use crate::exchange::Exchange;

/// Content that is translated at once, so that no more waits than a peer takes at a time.
const SHARE: usize = 16 * 1024;

/// Content of an answer on its way, with trailers that become content.
#[derive(Debug)]
pub(super) struct WebAnswer {
    /// If the client reads text.
    text: Option<TextEncoder>,
    /// What is translated, and how much of it is sent.
    bytes: Vec<u8>,
    sent: usize,
    /// What the trailers say if none come.
    fallback: GrpcStatus,
    ended: bool,
}

impl WebAnswer {
    /// Moves content until its end was written, or neither side can go on.
    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        relay: &mut Relay<'_>,
    ) -> Poll<Result<(), RelayFault>> {
        loop {
            while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
                match relay.sender.poll_piece(relay.sink, cx, rest) {
                    Poll::Ready(Ok(taken)) => self.sent += taken,
                    Poll::Ready(Err(kind)) => return Poll::Ready(Err(RelayFault::Sink(kind))),
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.bytes.clear();
            self.sent = 0;
            if self.ended {
                relay.sender.finish(None);
                return Poll::Ready(Ok(()));
            }
            match relay.receiver.poll_content(relay.source, cx) {
                Poll::Ready(Ok(Content::Piece)) => {
                    let piece = relay.receiver.piece();
                    let share = piece.get(..SHARE).unwrap_or(piece);
                    let taken = share.len();
                    match &mut self.text {
                        Some(text) => text.encode(share, &mut self.bytes),
                        None => self.bytes.extend_from_slice(share),
                    }
                    relay.receiver.advance(taken);
                }
                Poll::Ready(Ok(Content::End)) => self.end(relay.receiver.trailers()),
                Poll::Ready(Err(kind)) => return Poll::Ready(Err(RelayFault::Source(kind))),
                Poll::Pending => {
                    // What came so far is to be read before more comes.
                    if let Some(text) = &mut self.text {
                        text.pad(&mut self.bytes);
                    }
                    if self.bytes.is_empty() {
                        return match relay.sender.poll_flush(relay.sink, cx) {
                            Poll::Ready(Err(kind)) => Poll::Ready(Err(RelayFault::Sink(kind))),
                            _ => Poll::Pending,
                        };
                    }
                }
            }
        }
    }

    /// Whether something waits for the client to take it.
    pub(super) fn is_owing(&self) -> bool {
        self.sent < self.bytes.len()
    }

    fn end(&mut self, trailers: Option<&Fields>) {
        let mut frame = Vec::new();
        match trailers {
            Some(trailers) => push_trailers(trailers, &mut frame),
            None => {
                let mut fields = Fields::new();
                // One short line fits.
                let status = self.fallback.number().to_string();
                let _ = fields.push(b"grpc-status", status.as_bytes());
                push_trailers(&fields, &mut frame);
            }
        }
        match &mut self.text {
            Some(text) => {
                text.encode(&frame, &mut self.bytes);
                text.pad(&mut self.bytes);
            }
            None => self.bytes.append(&mut frame),
        }
        self.ended = true;
    }
}

impl Exchange<'_, '_> {
    /// The dialect of a call that is translated.
    #[inline]
    fn translated(&self) -> Option<Dialect> {
        let dialect = self.call.as_ref()?.dialect();
        let wanted = self.route.is_some_and(|route| route.calls.web == WebCalls::Translated);
        (wanted && dialect != Dialect::Plain).then_some(dialect)
    }

    /// Makes the request one that servers of gRPC understand, if it is one of a browser.
    #[inline]
    pub(super) fn translate_call(&mut self, upload: &mut Upload) -> Result<(), SpaceExhausted> {
        match self.translated() {
            None => Ok(()),
            Some(dialect) => self.translate_request(dialect, upload),
        }
    }

    #[cold]
    fn translate_request(
        &mut self,
        dialect: Dialect,
        upload: &mut Upload,
    ) -> Result<(), SpaceExhausted> {
        if dialect == Dialect::WebText && self.request.has_content() {
            self.request.body = BodyLength::Framed;
            upload.decode_text();
        }
        let fields = &mut self.request.fields;
        translate_type(fields, dialect, Dialect::Plain)?;
        // Browsers do not let programs say so; without it some servers do not answer.
        if !fields.lists(FieldId::Te, b"trailers") {
            fields.push(b"te", b"trailers")?;
        }
        Ok(())
    }

    /// Makes the head of the answer one that the browser understands, and says what becomes of the content.
    /// What is no answer of gRPC stays as it is.
    pub(super) fn translate_answer(&mut self) -> Result<Option<Box<WebAnswer>>, SpaceExhausted> {
        let Some(dialect) = self.translated() else { return Ok(None) };
        let kind = self.response.fields.value(FieldId::ContentType).and_then(Dialect::of);
        if kind != Some(Dialect::Plain) {
            return Ok(None);
        }
        translate_type(&mut self.response.fields, Dialect::Plain, dialect)?;
        if self.status_alone().is_some() {
            return Ok(None);
        }
        if self.response.body != BodyLength::UntilClose {
            self.response.body = BodyLength::Framed;
        }
        Ok(Some(Box::new(WebAnswer {
            text: (dialect == Dialect::WebText).then(TextEncoder::default),
            bytes: Vec::new(),
            sent: 0,
            fallback: self.told_status(None),
            ended: false,
        })))
    }
}

/// Changes the content type and keeps what says how messages are written, such as `+proto`.
fn translate_type(fields: &mut Fields, from: Dialect, to: Dialect) -> Result<(), SpaceExhausted> {
    let old = fields.value(FieldId::ContentType).unwrap_or_default();
    let rest = old.get(from.content_type().len()..).unwrap_or_default();
    let new = [to.content_type().as_bytes(), rest].concat();
    fields.remove(FieldId::ContentType);
    fields.push(b"content-type", &new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_keep_what_they_say_of_messages() {
        use Dialect::{Plain, Web, WebText};
        let rows = [
            ("application/grpc-web+proto", Web, Plain, "application/grpc+proto"),
            ("Application/gRPC-Web-Text", WebText, Plain, "application/grpc"),
            ("application/grpc+proto", Plain, WebText, "application/grpc-web-text+proto"),
            ("application/grpc; a=b", Plain, Web, "application/grpc-web; a=b"),
        ];
        for (old, from, to, new) in rows {
            let mut fields = Fields::new();
            fields.push(b"content-type", old.as_bytes()).unwrap();
            translate_type(&mut fields, from, to).unwrap();
            let values: Vec<_> = fields.values(FieldId::ContentType).collect();
            assert_eq!(values, [new.as_bytes()]);
        }
    }
}
