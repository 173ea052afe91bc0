//! Calls of browsers, which see no trailers: translated for origins that know nothing of it, and back.

use sluice_filter::{Broken, Pipeline, Transform};
use sluice_message::{
    BodyLength, Dialect, Fault, FaultKind, FieldId, Fields, GrpcStatus, SpaceExhausted, Syntax,
};
use sluice_wire::grpc_web::{NotBase64, TextDecoder, TextEncoder, push_trailers};

use super::upload::Upload;
use crate::WebCalls;
use crate::exchange::{Exchange, exhausted};
use crate::guarded::Guarded;

/// Content of an answer on its way to a browser, with trailers that become content.
#[derive(Debug)]
struct WebAnswer {
    /// If the client reads text.
    text: Option<TextEncoder>,
    /// What the trailers say if none come.
    fallback: GrpcStatus,
}

impl Transform for WebAnswer {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        match &mut self.text {
            Some(text) => text.encode(piece, out),
            None => out.extend_from_slice(piece),
        }
        Ok(())
    }

    /// What came so far is to be read before more comes.
    fn flush(&mut self, out: &mut Vec<u8>) {
        if let Some(text) = &mut self.text {
            text.pad(out);
        }
    }

    fn end(&mut self, trailers: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
        let trailers = trailers.take().unwrap_or_else(|| {
            let mut fields = Fields::new();
            // One short line fits.
            let status = self.fallback.number().to_string();
            let _ = fields.push(b"grpc-status", status.as_bytes());
            fields
        });
        let Some(text) = &mut self.text else {
            push_trailers(&trailers, out);
            return Ok(());
        };
        let mut frame = Vec::new();
        push_trailers(&trailers, &mut frame);
        text.encode(&frame, out);
        text.pad(out);
        Ok(())
    }
}

/// Content of a request as browsers write it.
#[derive(Debug, Default)]
struct WebRequest(TextDecoder);

impl Transform for WebRequest {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.decode(piece, out).map_err(|NotBase64| Broken)
    }

    fn end(&mut self, _: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        self.0.finish().map_err(|NotBase64| Broken)
    }

    fn fault(&self) -> FaultKind {
        FaultKind::Malformed(Syntax::Base64)
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
    pub(super) fn translate_call(&mut self, upload: &mut Upload) -> Result<(), Fault> {
        match self.translated() {
            None => Ok(()),
            Some(dialect) => self.translate_request(dialect, upload),
        }
    }

    #[cold]
    fn translate_request(&mut self, dialect: Dialect, upload: &mut Upload) -> Result<(), Fault> {
        if dialect == Dialect::WebText && self.request.has_content() {
            self.request.body = BodyLength::Framed;
            let pipeline = Pipeline::new(vec![Box::new(WebRequest::default())]);
            upload.transform(Guarded::new(pipeline, &self.connection.worker))?;
        }
        let fields = &mut self.request.fields;
        translate_type(fields, dialect, Dialect::Plain).map_err(|_| exhausted())?;
        // Browsers do not let programs say so; without it some servers do not answer.
        if !fields.lists(FieldId::Te, b"trailers") {
            fields.push(b"te", b"trailers").map_err(|_| exhausted())?;
        }
        Ok(())
    }

    /// Makes the head of the answer one that the browser understands, and says what becomes of the content.
    /// What is no answer of gRPC stays as it is.
    pub(super) fn translate_answer(
        &mut self,
    ) -> Result<Option<Box<dyn Transform>>, SpaceExhausted> {
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
            fallback: self.told_status(None),
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
