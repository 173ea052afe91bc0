//! Frames by hand, and what a connection says to them, as text.
#![allow(dead_code, reason = "not every test uses everything")]

use std::fmt::Write as _;

use sluice_message::{Fields, RequestHead, ResponseHead};
use sluice_wire::h2::{Connection, End, Event, Input, PREFACE, Peer};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// END_STREAM, END_HEADERS and both; an ACK is 1 too.
pub(crate) const END: u8 = 1;
pub(crate) const WHOLE: u8 = 4;
pub(crate) const BOTH: u8 = 5;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header block of literals without indexing.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            out.push(u8::try_from(text.len()).unwrap());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
pub(crate) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a")];

/// HEADERS of a whole request without content.
pub(crate) fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, BOTH, stream, block(&GET))
}

/// HEADERS of a request whose content follows.
pub(crate) fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, block(&POST))
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, payload)
}

/// What a client begins with.
pub(crate) fn hello() -> Vec<u8> {
    [PREFACE, &settings(&[])].concat()
}

/// A head that can be shown.
pub(crate) trait Shown: Peer + Default {
    fn shown(&self) -> String;
}

impl Shown for RequestHead {
    fn shown(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!(
            "{} {} at {}",
            text(self.method_text()),
            text(self.target()),
            text(self.authority())
        )
    }
}

impl Shown for ResponseHead {
    fn shown(&self) -> String {
        self.status.to_string()
    }
}

/// Feeds the input in pieces of so many bytes; says in lines what came of it. Neighbouring pieces of
/// content are one line, as the input's pieces are no meaning of it.
pub(crate) fn converse<H: Shown>(
    connection: &mut Connection<H>,
    bytes: &[u8],
    piece: usize,
) -> String {
    let (mut head, mut trailers) = (H::default(), Fields::new());
    let mut lines: Vec<String> = Vec::new();
    let mut waiting: Vec<u8> = Vec::new();
    for part in bytes.chunks(piece.max(1)) {
        waiting.extend_from_slice(part);
        let mut input = Input::new(&waiting);
        loop {
            match connection.next(&mut input, 0, &mut head, &mut trailers) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    let line = show(&event, &input, &head, &trailers);
                    match lines.last().and_then(|last| joined(last, &line)) {
                        Some(both) => *lines.last_mut().unwrap() = both,
                        None => lines.push(line),
                    }
                }
                Err(error) => {
                    lines.push(format!("error {} {}", error.code.name(), error.reason.name()));
                    return lines.join("\n");
                }
            }
        }
        let consumed = input.consumed();
        waiting.drain(..consumed);
    }
    lines.join("\n")
}

/// Two lines `data STREAM LENGTH [end]` as one, if both are of one stream.
fn joined(last: &str, line: &str) -> Option<String> {
    let (a, b): (Vec<&str>, Vec<&str>) = (last.split(' ').collect(), line.split(' ').collect());
    if a[0] != "data" || a.len() != 3 || b[0] != "data" || a[1] != b[1] {
        return None;
    }
    let sum = a[2].parse::<usize>().unwrap() + b[2].parse::<usize>().unwrap();
    Some(format!("data {} {sum}{}", a[1], if b.len() > 3 { " end" } else { "" }))
}

fn show<H: Shown>(event: &Event, input: &Input<'_>, head: &H, trailers: &Fields) -> String {
    let ended = |end: &End| if *end == End::Stream { " end" } else { "" };
    match event {
        Event::Head { about, end } => {
            format!("head {} {}{}", about.stream.get(), head.shown(), ended(end))
        }
        Event::Unacceptable { about, kind, end } => {
            format!("unacceptable {} {}{}", about.stream.get(), kind.reason(), ended(end))
        }
        Event::Data { about, data, end } => {
            assert!(data.end <= input.bytes().len());
            format!("data {} {}{}", about.stream.get(), data.len(), ended(end))
        }
        Event::Trailers { about } => {
            let mut text = format!("trailers {}", about.stream.get());
            for (name, _) in trailers.iter() {
                write!(text, " {}", String::from_utf8_lossy(name)).unwrap();
            }
            text
        }
        Event::Reset { about, code } => format!("reset {} {}", about.stream.get(), code.name()),
        Event::Failed { about, error, .. } => {
            format!("failed {} {} {}", about.stream.get(), error.code.name(), error.reason.name())
        }
        Event::Window { about } => {
            format!("window {}", about.map_or(0, |about| about.stream.get()))
        }
        Event::Settings => "settings".into(),
        Event::Pong { data } => format!("pong {}", String::from_utf8_lossy(data)),
        Event::GoAway { last, code } => format!("goaway {} {}", last.get(), code.name()),
    }
}

/// The frames of an output, as `KIND FLAGS STREAM PAYLOAD` in short.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    bytes = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    while let Some((header, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let (payload, rest) = rest.split_at(usize::try_from(length).unwrap());
        frames.push((header[3], header[4], stream, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "whole frames");
    frames
}
