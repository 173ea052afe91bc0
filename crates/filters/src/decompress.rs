//! The decompress filter: plain content for those who have to read it.

use std::sync::Arc;

use sluice_coding::{Bounds, Coding, Decoder, Undecodable, Wish, codings_of, wish};
use sluice_filter::{
    Broken, Filter, Owner, Phases, Reply, RequestContext, ResponseContext, ResponseVerdict,
    Transform, Verdict,
};
use sluice_message::{FaultKind, Fields, Method, Syntax};
use sluice_meter::FilterMeter;

use crate::altered::{
    drop_digests, forget_bytes, has_directive, vary_by_encoding, weaken, weaken_known,
};
use crate::media_range::{is_call, media_type};

/// What becomes of content of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// It is made plain, or refused.
    Decoded,
    /// It stays as it is.
    Left,
}

/// What becomes of content of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Responses {
    /// It is made plain.
    Decoded,
    /// It is made plain for clients that do not accept it as it is.
    DecodedIfRefused,
    /// It stays as it is.
    Left,
}

/// What is made plain, and how much may come of it.
#[derive(Clone, Copy, Debug)]
pub struct DecompressOptions {
    /// Of requests.
    pub requests: Requests,
    /// Of answers.
    pub responses: Responses,
    /// What may come out of content of a request.
    pub request_bounds: Bounds,
    /// What may come out of content of an answer.
    pub response_bounds: Bounds,
}

/// See the module.
#[derive(Debug)]
pub struct Decompress {
    options: DecompressOptions,
    owner: Owner,
    meter: Arc<FilterMeter>,
}

/// Content that went through more codings than this is left as it is: nobody does that who means well.
const MOST_CODINGS: usize = 2;

/// Places among [`Decompress::OUTCOMES`].
const REQUEST: usize = 0;
const REFUSED: usize = 1;
const RESPONSE: usize = 2;
const PLAIN: usize = 3;
const ACCEPTED: usize = 4;
const UNKNOWN: usize = 5;
const NO_TRANSFORM: usize = 6;
const PARTIAL: usize = 7;

impl Decompress {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &[
        "request",
        "refused",
        "response",
        "plain",
        "accepted",
        "unknown",
        "no_transform",
        "partial",
    ];

    /// With these options.
    #[must_use]
    pub fn new(options: DecompressOptions, meter: Arc<FilterMeter>) -> Self {
        Self { options, owner: Owner::new(), meter }
    }

    fn judge_answer(&self, context: &ResponseContext<'_>) -> Result<Vec<Coding>, usize> {
        let fields = &context.response.fields;
        if self.options.responses == Responses::Left {
            return Err(PLAIN);
        }
        let codings = match layers(fields) {
            None => return Err(UNKNOWN),
            Some(codings) if codings.is_empty() => return Err(PLAIN),
            Some(codings) => codings,
        };
        match context.response.status {
            206 => return Err(PARTIAL),
            204 | 205 | 304 => return Err(PLAIN),
            _ => {}
        }
        if is_call(media_type(fields)) {
            return Err(PLAIN);
        }
        if has_directive(fields, b"no-transform") {
            return Err(NO_TRANSFORM);
        }
        let accepts = |coding: &Coding| {
            let values = context.request.fields.values_of(b"accept-encoding");
            wish(values, &[*coding]) != Wish::Plain
        };
        if self.options.responses == Responses::DecodedIfRefused && codings.iter().all(accepts) {
            return Err(ACCEPTED);
        }
        Ok(codings)
    }
}

impl Filter for Decompress {
    fn phases(&self) -> Phases {
        let mut phases = Phases::NONE;
        if self.options.requests == Requests::Decoded {
            phases = phases | Phases::REQUEST_HEAD | Phases::REQUEST_BODY;
        }
        if self.options.responses != Responses::Left {
            phases = phases | Phases::RESPONSE_HEAD | Phases::RESPONSE_BODY;
        }
        phases
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        if !context.request.has_content() || layers(&context.request.fields).is_some() {
            return Verdict::Continue;
        }
        self.meter.count(context.gateway.worker(), REFUSED);
        // Who relies on plain content must not be got round by a coding that is not known here. The client is
        // told what is (RFC 9110, 12.5.3 and 15.5.16).
        let reply = Reply::refusal(415, "unknown content coding");
        match reply.with_field(b"accept-encoding", b"gzip, br, zstd, deflate") {
            Ok(reply) => Verdict::Respond(Box::new(reply)),
            Err(_) => Verdict::refuse(415, "unknown content coding"),
        }
    }

    fn request_body(&self, context: &mut RequestContext<'_>) -> Option<Box<dyn Transform>> {
        let fields = &mut context.request.fields;
        let codings = layers(fields).filter(|codings| !codings.is_empty())?;
        self.meter.count(context.gateway.worker(), REQUEST);
        remove_encoding(fields);
        drop_digests(fields);
        Some(Box::new(Decoding::new(&codings, self.options.request_bounds)))
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let judged = self.judge_answer(context);
        let outcome = judged.as_ref().err().copied().unwrap_or(RESPONSE);
        self.meter.count(context.gateway.worker(), outcome);
        let varies = self.options.responses == Responses::DecodedIfRefused;
        let fields = &mut context.response.fields;
        if varies && matches!(outcome, RESPONSE | ACCEPTED) {
            // A client that gets it plain can use it whatever is said of others.
            let _ = vary_by_encoding(fields);
        }
        let codings = judged.unwrap_or_default();
        if !codings.is_empty() {
            remove_encoding(fields);
            forget_bytes(fields);
            weaken(fields);
        } else if context.response.status == 304 {
            weaken_known(&context.request.fields, fields);
        }
        context.notes.keep(self.owner, numbers(&codings));
        ResponseVerdict::Continue
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let codings = codings(context.notes.kept(self.owner)?);
        if codings.is_empty() {
            return None;
        }
        let bounds = match context.request.method {
            // Nothing comes, and less than nothing is allowed.
            Method::Head => Bounds { most: 0, expansion: 0 },
            _ => self.options.response_bounds,
        };
        Some(Box::new(Decoding::new(&codings, bounds)))
    }
}

/// The codings of content, in the order they were applied, if all of them are known.
fn layers(fields: &Fields) -> Option<Vec<Coding>> {
    let codings = codings_of(fields.values_of(b"content-encoding"))?;
    (codings.len() <= MOST_CODINGS).then_some(codings)
}

fn remove_encoding(fields: &mut Fields) {
    fields.remove_read_as(b"content-encoding");
}

fn numbers(codings: &[Coding]) -> [u32; 4] {
    let mut numbers = [0; 4];
    for (number, coding) in numbers.iter_mut().zip(codings) {
        let place = Coding::ALL.iter().position(|known| known == coding).unwrap_or(0);
        *number = u32::try_from(place + 1).unwrap_or(0);
    }
    numbers
}

fn codings(numbers: [u32; 4]) -> Vec<Coding> {
    let places = numbers.iter().filter_map(|number| usize::try_from(*number).ok()?.checked_sub(1));
    places.filter_map(|place| Coding::ALL.get(place).copied()).collect()
}

/// Content that is made plain while it passes.
#[derive(Debug)]
struct Decoding {
    /// The coding that was applied last is undone first.
    decoders: Vec<Decoder>,
    buffer: Vec<u8>,
    fault: FaultKind,
}

impl Decoding {
    fn new(codings: &[Coding], bounds: Bounds) -> Self {
        let decoders = codings.iter().rev().map(|coding| Decoder::new(*coding, bounds)).collect();
        Self { decoders, buffer: Vec::new(), fault: FaultKind::Malformed(Syntax::Content) }
    }

    fn fail(&mut self, why: Undecodable) -> Broken {
        if why == Undecodable::TooLarge {
            self.fault = FaultKind::BodyTooLarge;
        }
        Broken
    }
}

impl Transform for Decoding {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let Self { decoders, buffer, .. } = self;
        let pushed = match decoders.as_mut_slice() {
            [only] => only.push(piece, out),
            [first, second] => {
                buffer.clear();
                let between = first.push(piece, buffer);
                between.and_then(|()| second.push(buffer, out))
            }
            _ => Err(Undecodable::Malformed),
        };
        pushed.map_err(|why| self.fail(why))
    }

    fn end(&mut self, _: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        let ended = self.decoders.iter_mut().try_for_each(Decoder::finish);
        ended.map_err(|why| self.fail(why))
    }

    fn fault(&self) -> FaultKind {
        self.fault
    }
}

#[cfg(test)]
mod tests;
