//! Heads of HTTP/1.1 for `silly.net.http`, judged by the parser of the gateway, and frames of WebSocket.

use std::collections::BTreeMap;

use sluice_message::{
    BodyLength, Expectation, FaultKind, Fields, Method, PathRules, Persistence, RequestHead,
    ResponseHead, TargetForm, Version,
    pair::{decoded, query_pairs},
};
use sluice_wire::h1::{Decoded, Limits, decode_request, decode_response};

use crate::frame::{Frame, Reply, native};

native!(native_request, request);
native!(native_response, response);
native!(native_line, line);
native!(native_mask, mask);
native!(native_utf8, utf8);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 5] = [
    ("http_request", native_request),
    ("http_response", native_response),
    ("http_line", native_line),
    ("mask", native_mask),
    ("utf8", native_utf8),
];

/// Heads as scripts may get them; `http.lua` reads no more than that.
pub(crate) const LIMITS: Limits = Limits { head: 64 << 10, fields: 128, target: 16 << 10 };

/// `request(head)`: a table, or nil, a status to answer with and a word.
fn request(frame: &Frame<'_>) -> Reply {
    let mut head = RequestHead::new();
    let judged = frame.bytes(1).ok_or(FaultKind::HeadTooLarge);
    let judged = judged.and_then(|bytes| decode_request(bytes, &LIMITS, &mut head));
    let fault = match judged {
        Ok(Decoded::Complete { .. }) if head.method == Method::Connect => {
            return refuse(frame, 501, "method_not_implemented");
        }
        Ok(Decoded::Complete { .. }) if head.expectation == Expectation::Unknown => {
            return refuse(frame, 417, FaultKind::UnknownExpectation.reason());
        }
        Ok(Decoded::Complete { .. }) if head.read_path(&PathRules::DEFAULT).is_err() => {
            return refuse(frame, 400, "path_refused");
        }
        Ok(Decoded::Complete { .. }) => {
            push_request(frame, &head);
            return Reply::Values(1);
        }
        // What ends with an empty line is whole: this one began with empty lines and nothing else.
        Ok(Decoded::Partial) => return refuse(frame, 400, "malformed"),
        Err(fault) => fault,
    };
    let (status, word) = refusal(fault);
    refuse(frame, status, word)
}

/// What a request that cannot be served is answered with.
pub(crate) fn refusal(fault: FaultKind) -> (u32, &'static str) {
    let status = match fault {
        FaultKind::HeadTooLarge | FaultKind::TooManyFields => 431,
        FaultKind::TargetTooLong => 414,
        FaultKind::MethodNotImplemented => 501,
        _ => 400,
    };
    (status, fault.reason())
}

fn refuse(frame: &Frame<'_>, status: u32, word: &str) -> Reply {
    frame.push_nil();
    frame.push_number(f64::from(status));
    frame.push_bytes(word.as_bytes());
    Reply::Values(3)
}

pub(crate) fn text(frame: &Frame<'_>, name: &[u8], value: &[u8]) {
    frame.push_bytes(value);
    frame.set_field(name);
}

fn truth(frame: &Frame<'_>, name: &[u8], value: bool) {
    frame.push_truth(value);
    frame.set_field(name);
}

pub(crate) fn push_request(frame: &Frame<'_>, head: &RequestHead) {
    frame.push_table(0, 12);
    text(frame, b"method", head.method_text());
    text(frame, b"path", if head.form == TargetForm::Asterisk { b"*" } else { head.path() });
    text(frame, b"target", head.target());
    text(frame, b"host", head.host());
    truth(frame, b"expect", head.expectation == Expectation::Continue);
    frame.push_table(0, 4);
    for (name, value) in query_pairs(head.query()) {
        let value: Vec<u8> = decoded(value).collect();
        frame.push_bytes(&value);
        frame.set_field(&decoded(name).collect::<Vec<u8>>());
    }
    frame.set_field(b"query");
    push_rest(frame, (head.version, head.body, head.persistence), &head.fields);
}

fn push_rest(
    frame: &Frame<'_>,
    (version, body, persistence): (Version, BodyLength, Persistence),
    fields: &Fields,
) {
    let version: &[u8] = if version == Version::Http10 { b"HTTP/1.0" } else { b"HTTP/1.1" };
    text(frame, b"version", version);
    truth(frame, b"keepalive", persistence == Persistence::KeepAlive);
    match body {
        BodyLength::Empty => frame.push_count(0),
        BodyLength::Known(length) => frame.push_count(length),
        BodyLength::Framed => frame.push_bytes(b"chunked"),
        BodyLength::UntilClose => frame.push_bytes(b"close"),
    }
    frame.set_field(b"length");
    push_fields(frame, fields);
    frame.set_field(b"header");
}

/// Lines of one name are one value (RFC 9110, 5.3), but for `Set-Cookie`, which becomes a table when there are several.
pub(crate) fn push_fields(frame: &Frame<'_>, fields: &Fields) {
    let mut all: BTreeMap<Vec<u8>, Vec<&[u8]>> = BTreeMap::new();
    for (name, value) in fields.iter() {
        all.entry(name.to_ascii_lowercase()).or_default().push(value);
    }
    frame.push_table(0, i32::try_from(all.len()).unwrap_or(0));
    for (name, values) in all {
        if name == b"set-cookie" && values.len() > 1 {
            frame.push_table(2, 0);
            for (index, value) in (1..).zip(values) {
                frame.push_bytes(value);
                frame.set_element(index);
            }
        } else {
            let between: &[u8] = if name == b"cookie" { b"; " } else { b", " };
            frame.push_bytes(&values.join(between));
        }
        frame.set_field(&name);
    }
}

/// `response(head, method)`: a table, or nil and a word.
fn response(frame: &Frame<'_>) -> Reply {
    let (Some(bytes), Some(method)) = (frame.bytes(1), frame.bytes(2)) else {
        return frame.raise("a head and a method are expected");
    };
    let mut head = ResponseHead::new();
    match decode_response(bytes, &LIMITS, Method::of(method), &mut head) {
        Ok(Decoded::Complete { .. }) => {}
        Ok(Decoded::Partial) => return frame.fail(b"malformed"),
        Err(fault) => return frame.fail(fault.reason().as_bytes()),
    }
    push_response(frame, &head);
    Reply::Values(1)
}

pub(crate) fn push_response(frame: &Frame<'_>, head: &ResponseHead) {
    frame.push_table(0, 8);
    frame.push_count(u64::from(head.status));
    frame.set_field(b"status");
    truth(frame, b"interim", head.is_interim());
    push_rest(frame, (head.version, head.body, head.persistence), &head.fields);
}

/// `line(name, value)`: a field line, or nil if it cannot be one (RFC 9110, 5.1 and 5.5).
fn line(frame: &Frame<'_>) -> Reply {
    let (Some(name), Some(value)) = (frame.bytes(1), frame.bytes(2)) else {
        frame.push_nil();
        return Reply::Values(1);
    };
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_text = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) {
        frame.push_nil();
        return Reply::Values(1);
    }
    frame.push_bytes(&[name, b": ", value.trim_ascii(), b"\r\n"].concat());
    Reply::Values(1)
}

/// `mask(text, key)`: RFC 6455, 5.3; twice is not at all.
fn mask(frame: &Frame<'_>) -> Reply {
    let (Some(text), Some(key)) = (frame.bytes(1), frame.bytes(2)) else {
        return frame.raise("a text and a key are expected");
    };
    let masked: Vec<u8> = text.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b).collect();
    frame.push_bytes(&masked);
    Reply::Values(1)
}

/// `utf8(text)`: whether it is UTF-8.
fn utf8(frame: &Frame<'_>) -> Reply {
    frame.push_truth(frame.bytes(1).is_some_and(|text| std::str::from_utf8(text).is_ok()));
    Reply::Values(1)
}
