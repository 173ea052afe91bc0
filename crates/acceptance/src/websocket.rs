//! WebSocket for tests: frames as bytes, an origin that echoes, and clients of both versions of HTTP.

use std::io::{self, Read, Write};

use sluice_testkit::{After, Asked, ByteScript, Exchange, Stream};
use sluice_wire::h2::{End, ErrorCode, StreamId};
use sluice_wire::websocket::accept;

use crate::http2::Http2Client;

/// A key as clients send it.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// What a frame is (RFC 6455, 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// More of a message that has begun.
    Continuation,
    /// A message of text, or its beginning.
    Text,
    /// A message of bytes, or its beginning.
    Binary,
    /// The end.
    Close,
    /// A question whether somebody is there.
    Ping,
    /// The answer to it.
    Pong,
}

const OPCODES: [(Opcode, u8); 6] = [
    (Opcode::Continuation, 0),
    (Opcode::Text, 1),
    (Opcode::Binary, 2),
    (Opcode::Close, 8),
    (Opcode::Ping, 9),
    (Opcode::Pong, 10),
];

/// Whether a message goes on behind a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// This is its last frame.
    No,
    /// Others follow.
    Yes,
}

/// One frame as it was read, its mask taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub opcode: Opcode,
    /// Whether its message goes on.
    pub more: More,
    /// Whether it came masked, as those of clients have to.
    pub masked: bool,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// The bytes of a frame; those of clients are masked.
#[must_use]
pub fn frame((opcode, more): (Opcode, More), payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let code = OPCODES.iter().find(|(known, _)| *known == opcode).map_or(0, |(_, code)| *code);
    let mut bytes = vec![code | if more == More::No { 0x80 } else { 0 }];
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..=125), _) => bytes.push(masked | length),
        (_, Ok(length)) => {
            bytes.push(masked | 126);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            bytes.push(masked | 127);
            let length = u64::try_from(payload.len()).unwrap_or(u64::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
    }
    match mask {
        None => bytes.extend_from_slice(payload),
        Some(mask) => {
            bytes.extend_from_slice(&mask);
            bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        }
    }
    bytes
}

/// Reads one frame by means of `take`, which gives so many bytes.
///
/// # Errors
/// Those of `take`, and frames that are none.
pub fn read_frame(mut take: impl FnMut(usize) -> io::Result<Vec<u8>>) -> io::Result<Frame> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let two: [u8; 2] = take(2)?.try_into().map_err(|_| bad())?;
    let known = OPCODES.iter().find(|(_, code)| *code == two[0] & 0x0F);
    let (opcode, _) = *known.ok_or_else(bad)?;
    let length = match two[1] & 0x7F {
        126 => take(2)?,
        127 => take(8)?,
        length => vec![length],
    };
    let length = length.iter().fold(0, |sum: u64, byte| (sum << 8) | u64::from(*byte));
    let masked = two[1] & 0x80 != 0;
    let mask = if masked { take(4)? } else { vec![0; 4] };
    let payload = take(usize::try_from(length).map_err(|_| bad())?)?;
    let payload = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    let more = if two[0] & 0x80 == 0 { More::Yes } else { More::No };
    Ok(Frame { opcode, more, masked, payload })
}

/// Agrees to WebSocket; further lines without CRLF.
///
/// # Errors
/// When the gateway has gone.
pub fn agree(exchange: &mut Exchange, fields: &[&str]) -> io::Result<()> {
    let key = exchange.head().fields.first("sec-websocket-key").unwrap_or_default().to_owned();
    let accept = String::from_utf8_lossy(&accept(key.as_bytes())).into_owned();
    let accept = format!("Sec-WebSocket-Accept: {accept}");
    let mut lines = vec!["Connection: Upgrade", "Upgrade: websocket", &accept];
    lines.extend_from_slice(fields);
    exchange.then(After::Close);
    exchange.answer(101, &lines, "")
}

/// Takes so many bytes of what an origin was sent.
///
/// # Errors
/// When the gateway has gone.
pub fn take(exchange: &mut Exchange, count: usize) -> io::Result<Vec<u8>> {
    let (stream, early) = exchange.raw();
    let mut bytes: Vec<u8> = early.drain(..count.min(early.len())).collect();
    let begun = bytes.len();
    bytes.resize(count, 0);
    stream.read_exact(bytes.get_mut(begun..).unwrap_or_default())?;
    Ok(bytes)
}

/// An origin that returns messages frame by frame, answers pings and ends when it is asked to.
///
/// # Errors
/// When the gateway has gone.
pub fn echo(exchange: &mut Exchange) -> io::Result<()> {
    agree(exchange, &[])?;
    loop {
        let Frame { opcode, more, masked, payload } = read_frame(|count| take(exchange, count))?;
        assert!(masked, "clients mask what they send");
        let opcode = if opcode == Opcode::Ping { Opcode::Pong } else { opcode };
        exchange.raw().0.write_all(&frame((opcode, more), &payload, None))?;
        if opcode == Opcode::Close {
            return Ok(());
        }
    }
}

/// An origin that agrees and returns every byte as it is.
///
/// # Errors
/// When the gateway has gone.
pub fn repeat(exchange: &mut Exchange) -> io::Result<()> {
    agree(exchange, &[])?;
    let (stream, early) = exchange.raw();
    stream.write_all(&std::mem::take(early))?;
    let mut piece = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => stream.write_all(piece.get(..count).unwrap_or_default())?,
        }
    }
}

/// What ended a tunnel, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The other side has sent all it meant to.
    Well,
    /// It broke.
    Broken,
}

/// A client that has asked for WebSocket.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few of them")]
pub enum Client {
    /// Over HTTP/1.1.
    Old(ByteScript),
    /// Over HTTP/2.
    New(Http2Client, StreamId),
}

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over HTTP/1.1, with `Upgrade`.
    Old,
    /// Over HTTP/2, with an extended CONNECT.
    New,
}

/// Both ways.
pub const WAYS: [Way; 2] = [Way::Old, Way::New];

impl Client {
    /// Asks for WebSocket; the status and the fields of the answer.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn ask(
        way: Way,
        address: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> (Self, u16, Vec<(String, String)>) {
        match way {
            Way::Old => {
                let mut script = ByteScript::connect(address);
                let lines: String = fields.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
                script.send(format!(
                    "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\
                     {lines}\r\n"
                ));
                let answer = script.read_response(Asked::Get).expect("an answer");
                let lower = |name: &String| name.to_ascii_lowercase();
                let fields = answer.fields.0.iter().map(|(n, v)| (lower(n), v.clone())).collect();
                (Self::Old(script), answer.status, fields)
            }
            Way::New => {
                let mut client = Http2Client::connect(address);
                client.settle();
                assert!(client.takes_extended_connect(), "it is announced");
                let mut all = vec![("sec-websocket-version", "13")];
                all.extend_from_slice(fields);
                let stream = client.begin_extended(path, "websocket", &all);
                let status = client.wait_for_head(stream);
                let fields = client.fields(stream);
                (Self::New(client, stream), status, fields)
            }
        }
    }

    /// Opens a tunnel.
    ///
    /// # Panics
    /// When the gateway does not agree.
    #[must_use]
    pub fn open(way: Way, address: &str) -> Self {
        let (client, status, fields) = Self::ask(way, address, "/chat", &[]);
        assert_eq!(status, if way == Way::Old { 101 } else { 200 }, "{fields:?}");
        client
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Old(script) => _ = script.send(bytes),
            Self::New(client, stream) => client.send(*stream, bytes, End::More),
        }
    }

    /// Sends a frame, masked.
    pub fn send_frame(&mut self, opcode: Opcode, more: More, payload: &[u8]) {
        self.send(&frame((opcode, more), payload, Some([0x12, 0x34, 0x56, 0x78])));
    }

    /// Reads so many bytes.
    ///
    /// # Panics
    /// When they do not come.
    pub fn read(&mut self, count: usize) -> Vec<u8> {
        match self {
            Self::Old(script) => script.read_exactly(count).expect("bytes"),
            Self::New(client, stream) => client.read(*stream, count),
        }
    }

    /// Reads a frame.
    ///
    /// # Panics
    /// When none comes.
    pub fn read_frame(&mut self) -> Frame {
        read_frame(|count| Ok(self.read(count))).expect("a frame")
    }

    /// Sends no more.
    pub fn finish(&mut self) {
        match self {
            Self::Old(script) => _ = script.finish_sending(),
            Self::New(client, stream) => client.send(*stream, &[], End::Stream),
        }
    }

    /// Gives the tunnel up.
    pub fn reset(self) {
        match self {
            Self::Old(script) => script.reset(),
            Self::New(mut client, stream) => client.reset(stream),
        }
    }

    /// Everything until the end, and how it ended.
    ///
    /// # Panics
    /// When it does not.
    pub fn read_to_end(&mut self) -> (Vec<u8>, Ended) {
        match self {
            Self::Old(script) => {
                let (bytes, state) = script.read_to_end();
                assert_ne!(state, sluice_testkit::State::Open, "it ends");
                let well = state == sluice_testkit::State::Closed;
                (bytes, if well { Ended::Well } else { Ended::Broken })
            }
            Self::New(client, stream) => {
                let answer = client.wait(*stream);
                let ended = match answer.reset {
                    None | Some(ErrorCode::NO_ERROR) => Ended::Well,
                    Some(_) => Ended::Broken,
                };
                (answer.content, ended)
            }
        }
    }
}

/// The socket of an origin, for those who write in a way of their own.
#[must_use]
pub fn socket(exchange: &mut Exchange) -> &mut Stream {
    exchange.raw().0
}
