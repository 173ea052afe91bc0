//! From heads to header blocks, whatever protocol the head came by.

use sluice_message::{
    BodyLength, Expectation, FieldId, Fields, Method, RequestHead, ResponseHead, TargetForm,
};

use super::End;
use crate::h1::encode::{accepts_trailers, is_nominated, nominated_lines};
use crate::h2::hpack::{Encoder, Name};

/// The scheme of a request (RFC 9110, 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

/// Whether a request opens a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunnel {
    /// As its head says.
    #[default]
    AsInHead,
    /// For WebSocket, by an extended CONNECT (RFC 8441, 5), although its head is a GET.
    WebSocket,
}

/// How a request is sent upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOptions {
    /// `:scheme`.
    pub scheme: Scheme,
    /// The content that will follow: a known length is stated.
    pub body: BodyLength,
    /// Whether the client's `Expect` lines are sent on: not if this is [`Expectation::None`].
    pub expectation: Expectation,
    /// Whether nothing follows the head.
    pub end: End,
    /// Whether it opens a tunnel.
    pub tunnel: Tunnel,
}

/// How a response is sent downstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseOptions<'a> {
    /// Method of the request.
    pub request: Method,
    /// The content that will follow. A known length is stated, for an answer to HEAD and for 304 too;
    /// with [`BodyLength::Empty`] these send the `Content-Length` of the head on.
    pub body: BodyLength,
    /// Value of the `date` field, sent if the head has none and is not interim.
    pub date: Option<&'a [u8]>,
    /// Value of the `strict-transport-security` field, sent if the head has none and is not interim.
    pub strict_transport: Option<&'static str>,
    /// Whether nothing follows the head; an interim one never ends a stream.
    pub end: End,
}

/// Static entries (RFC 7541, appendix A).
const GET: u8 = 2;
const POST: u8 = 3;
const ROOT: u8 = 4;
const HTTP: u8 = 6;
const HTTPS: u8 = 7;
const CONTENT_LENGTH: u8 = 28;

const fn pseudo(text: &[u8]) -> Name<'_> {
    Name { id: FieldId::Other, text }
}

/// Appends the header block of a request. Lines that belong to one hop (RFC 9110, 7.6.1), their
/// nominees and `Host` are left out; `TE` says no more than `trailers` (RFC 9113, 8.2.2).
pub(in crate::h2) fn write_request(
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
    head: &RequestHead,
    options: &RequestOptions,
) {
    encoder.begin(out);
    match options.tunnel {
        Tunnel::AsInHead => {
            write_pseudo(encoder, out, head, (head.method_text(), options.scheme));
            write_protocol(encoder, out, head.protocol());
        }
        Tunnel::WebSocket => {
            write_pseudo(encoder, out, head, (b"CONNECT", options.scheme));
            write_protocol(encoder, out, b"websocket");
        }
    }
    let fields = &head.fields;
    let nominees = nominees(fields);
    let mut trailers = false;
    for (index, line) in fields.lines().iter().enumerate() {
        let kept = match line.id {
            FieldId::Other => {
                options.tunnel == Tunnel::AsInHead || !is_key(fields.slice(line.name))
            }
            FieldId::Host | FieldId::ContentLength => false,
            FieldId::Expect => options.expectation != Expectation::None,
            FieldId::Te => {
                trailers |= accepts_trailers(fields.slice(line.value));
                false
            }
            id => !id.is_hop_by_hop(),
        };
        if kept && !(index < nominees && is_nominated(fields, line)) {
            let name = Name { id: line.id, text: fields.slice(line.name) };
            encoder.field(out, name, fields.slice(line.value));
        }
    }
    if trailers {
        encoder.field(out, Name { id: FieldId::Te, text: b"te" }, b"trailers");
    }
    if let BodyLength::Known(length) = options.body {
        write_length(encoder, out, length);
    }
}

/// What proves over HTTP/1.1 that the other end knows WebSocket is not sent (RFC 8441, 5).
#[cold]
fn is_key(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"sec-websocket-key")
}

fn write_protocol(encoder: &mut Encoder, out: &mut Vec<u8>, protocol: &[u8]) {
    if !protocol.is_empty() {
        encoder.field(out, pseudo(b":protocol"), protocol);
    }
}

fn write_pseudo(
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
    head: &RequestHead,
    (method, scheme): (&[u8], Scheme),
) {
    match method {
        b"GET" => encoder.fixed(out, GET),
        b"POST" => encoder.fixed(out, POST),
        _ => encoder.field(out, pseudo(b":method"), method),
    }
    // RFC 9113, 8.5: CONNECT has an authority alone, unless extended (RFC 8441, 4).
    if head.form != TargetForm::Authority {
        encoder.fixed(out, if scheme == Scheme::Http { HTTP } else { HTTPS });
        match head.target() {
            b"/" => encoder.fixed(out, ROOT),
            target => encoder.field(out, pseudo(b":path"), target),
        }
    }
    // What HTTP/1.1 would say in `Host` (RFC 9113, 8.3.1), which need not be what the client asked for.
    let authority = head.fields.value(FieldId::Host).unwrap_or_else(|| head.authority());
    encoder.field(out, pseudo(b":authority"), authority);
}

/// Appends the header block of a response; what belongs to one hop is left out.
pub(in crate::h2) fn write_response(
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
    head: &ResponseHead,
    options: &ResponseOptions<'_>,
) {
    encoder.begin(out);
    encoder.status(out, head.status);
    let fields = &head.fields;
    let nominees = nominees(fields);
    let length = stated_length(head.status, options);
    let mut date = options.date.filter(|_| !head.is_interim());
    for (index, line) in fields.lines().iter().enumerate() {
        let value = fields.slice(line.value);
        let kept = match line.id {
            FieldId::Other => true,
            FieldId::Date => {
                date = None;
                true
            }
            FieldId::ContentLength => {
                if length == Length::AsInHead || (length == Length::ZeroAsInHead && value == b"0") {
                    encoder.unindexed(out, CONTENT_LENGTH, value);
                }
                false
            }
            id => !id.is_hop_by_hop(),
        };
        if kept && !(index < nominees && is_nominated(fields, line)) {
            encoder.field(out, Name { id: line.id, text: fields.slice(line.name) }, value);
        }
    }
    if let Some(date) = date {
        encoder.field(out, Name { id: FieldId::Date, text: b"date" }, date);
    }
    if let Some(value) = options.strict_transport {
        write_strict_transport(encoder, out, head, value);
    }
    if let Length::Stated(length) = length {
        write_length(encoder, out, length);
    }
}

/// RFC 6797, 6.1. Browsers heed the first such field, so the origin's own word stays alone.
#[cold]
fn write_strict_transport(
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
    head: &ResponseHead,
    value: &str,
) {
    const NAME: &[u8] = b"strict-transport-security";
    if !head.is_interim() && head.fields.values_of(NAME).next().is_none() {
        encoder.field(out, Name { id: FieldId::Other, text: NAME }, value.as_bytes());
    }
}

/// Appends the header block of a trailer section; what may not trail is left out.
pub(in crate::h2) fn write_trailers(encoder: &mut Encoder, out: &mut Vec<u8>, fields: &Fields) {
    encoder.begin(out);
    for line in fields.lines() {
        let framing = matches!(line.id, FieldId::ContentLength | FieldId::Host | FieldId::Trailer);
        if !line.id.is_hop_by_hop() && !framing {
            let name = Name { id: line.id, text: fields.slice(line.name) };
            encoder.field(out, name, fields.slice(line.value));
        }
    }
}

/// What a response says about the length of its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    None,
    /// That of the answer to GET (RFC 9110, 8.6 and 9.3.2).
    AsInHead,
    /// There is no content; a length that says so may stay.
    ZeroAsInHead,
    Stated(u64),
}

const fn stated_length(status: u16, options: &ResponseOptions<'_>) -> Length {
    match (status, options.request, options.body) {
        // RFC 9110, 8.6: not in 1xx and 204, nor in 2xx to CONNECT.
        (100..=199 | 204, _, _) | (200..=299, Method::Connect, _) => Length::None,
        (_, _, BodyLength::Known(length)) => Length::Stated(length),
        (_, _, BodyLength::Framed | BodyLength::UntilClose) => Length::None,
        (_, Method::Head, BodyLength::Empty) | (304, _, BodyLength::Empty) => Length::AsInHead,
        (_, _, BodyLength::Empty) => Length::ZeroAsInHead,
    }
}

fn write_length(encoder: &mut Encoder, out: &mut Vec<u8>, length: u64) {
    // 20 digits: u64::MAX.
    let mut text = [0_u8; 20];
    let mut start = text.len();
    let mut left = length;
    for slot in text.iter_mut().rev() {
        *slot = b'0' + u8::try_from(left % 10).unwrap_or(0);
        start -= 1;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    encoder.unindexed(out, CONTENT_LENGTH, text.get(start..).unwrap_or_default());
}

/// How many lines `Connection` may nominate: hardly ever any.
#[inline(always)]
fn nominees(fields: &Fields) -> usize {
    let connection = fields.lines().iter().any(|line| line.id == FieldId::Connection);
    if connection { nominated_lines(fields) } else { 0 }
}
