//! Origins that lie in a known way, and what a client is left with: a whole response or a broken one.

use std::fmt::Write as _;

use sluice_coding::{Bounds, Coding, Decoder};
use sluice_message::BodyLength;
use sluice_testkit::http2::Http2Client;
use sluice_testkit::{After, Asked, ByteScript, Exchange, Framing};
use sluice_wire::h2::End;

/// Bytes that no client may ever see: lies put them where a response must have ended.
pub(crate) const POISON: &str = "POISON-POISON";

/// A whole response that an origin sends behind the one that was requested.
pub(crate) const POISONED_RESPONSE: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nPOISON-POISON";

/// The body that a target has: each line names the target, so that no two bodies are alike.
#[must_use]
pub(crate) fn truth(target: &str) -> Vec<u8> {
    let mut body = String::new();
    for line in 0..300 {
        let _ = writeln!(body, "{line:04} of {target}: {:016x}", spread(line));
    }
    body.into_bytes()
}

/// A number that looks random, the same in every run.
#[must_use]
pub(crate) const fn spread(seed: u64) -> u64 {
    let mixed = (seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (mixed >> 32)
}

/// What a client is left with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A response whose end the protocol confirmed; its content without its content coding.
    Whole {
        /// The status code.
        status: u16,
        /// The content; `None` if its content coding is broken.
        content: Option<Vec<u8>>,
    },
    /// A response that the client knows to be incomplete, or none, and how it knows.
    Broken(String),
}

/// A request of the test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'r> {
    /// The method.
    pub(crate) method: &'r str,
    /// The target.
    pub(crate) target: &'r str,
    /// Its body; empty for none.
    pub(crate) body: &'r [u8],
}

/// A client that keeps its connection as long as it can.
pub(crate) trait Client {
    /// Sends the request and waits for what comes of it.
    fn send(&mut self, request: Request<'_>) -> Outcome;
}

/// A client that speaks HTTP/1.1 and accepts gzip.
#[derive(Debug)]
pub(crate) struct Http1 {
    address: String,
    kept: Option<ByteScript>,
}

impl Http1 {
    /// A client of the gateway at this address.
    #[must_use]
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), kept: None }
    }
}

impl Client for Http1 {
    fn send(&mut self, request: Request<'_>) -> Outcome {
        let mut script = self.kept.take().unwrap_or_else(|| ByteScript::connect(&self.address));
        let Request { method, target, body } = request;
        let length = match body {
            [] => String::new(),
            body => format!("Content-Length: {}\r\n", body.len()),
        };
        script.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: a.example\r\nAccept-Encoding: gzip\r\n{length}\r\n"
        ));
        // A response may come, and the connection end, before all is sent.
        let _ = script.send_pieces(body, 16 * 1024);
        let asked = if method == "HEAD" { Asked::Head } else { Asked::Get };
        let response = match script.read_response(asked) {
            Ok(response) => response,
            Err(failure) => return Outcome::Broken(failure.to_string()),
        };
        // The end of a connection confirms nothing: a client of HTTP/1.1 is owed better framing.
        if response.framing == Framing::UntilClose {
            return Outcome::Broken("its end is that of the connection".to_owned());
        }
        if !response.fields.has_token("connection", "close") {
            self.kept = Some(script);
        }
        let coding = response.fields.first("content-encoding");
        Outcome::Whole { status: response.status, content: decoded(coding, response.body) }
    }
}

/// A client that speaks HTTP/2 and accepts gzip.
#[derive(Debug)]
pub(crate) struct Http2 {
    address: String,
    kept: Option<Http2Client>,
}

impl Http2 {
    /// A client of the gateway at this address.
    #[must_use]
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), kept: None }
    }
}

impl Client for Http2 {
    fn send(&mut self, request: Request<'_>) -> Outcome {
        let mut client = self.kept.take().unwrap_or_else(|| Http2Client::connect(&self.address));
        let length = match request.body {
            [] => BodyLength::Empty,
            body => BodyLength::Known(u64::try_from(body.len()).unwrap_or(u64::MAX)),
        };
        let stream =
            client.begin((request.method, request.target), &[("accept-encoding", "gzip")], length);
        let mut at = 0;
        while at < request.body.len() && !client.is_over(stream) {
            let end = request.body.len().min(at + 16 * 1024);
            let last = if end == request.body.len() { End::Stream } else { End::More };
            if !client.try_send(stream, request.body.get(at..end).unwrap_or_default(), last) {
                break;
            }
            at = end;
        }
        let response = client.wait(stream);
        if client.goodbye.is_none() {
            self.kept = Some(client);
        }
        // A reset with NO_ERROR behind a whole response only ends the request (RFC 9113, 8.1).
        if !response.is_whole() {
            return Outcome::Broken(format!("reset with {:?}", response.reset));
        }
        let coding = response.field("content-encoding").map(str::to_owned);
        let status = response.status();
        Outcome::Whole { status, content: decoded(coding.as_deref(), response.content) }
    }
}

fn decoded(coding: Option<&str>, body: Vec<u8>) -> Option<Vec<u8>> {
    let Some(coding) = coding else { return Some(body) };
    let coding = Coding::of(coding.as_bytes())?;
    let mut decoder = Decoder::new(coding, Bounds { most: 1 << 24, expansion: 10_000 });
    let mut content = Vec::new();
    decoder.push(&body, &mut content).ok()?;
    decoder.finish().ok()?;
    Some(content)
}

/// What may come of a lie, beside the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Nothing: it is no lie, or one that does no harm.
    Truth,
    /// A response of the gateway that says that the origin failed (502, 503, 504).
    Failure,
    /// That, or a response that is visibly broken.
    FailureOrBroken,
    /// What the origin declared to be all: the content without its last bytes.
    Shortened,
    /// 204, which has no content, whatever the origin sends behind it (RFC 9112, 6.3).
    NoContent,
}

/// Bytes that [`Allowed::Shortened`] lacks.
pub(crate) const SHORTENED_BY: usize = 100;

/// A way of lying.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lie {
    /// The first segment of the targets that get it.
    pub(crate) name: &'static str,
    /// What may come of it.
    pub(crate) allowed: Allowed,
    /// Whether the origin lies before it has read the request's body.
    pub(crate) early: bool,
    /// What the origin sends instead of this head and this content.
    pub(crate) bytes: fn(content: &[u8]) -> Vec<u8>,
    /// What it does with the connection then.
    pub(crate) after: After,
}

fn with_length(length: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=600\r\n\
         Content-Length: {length}\r\n\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(content);
    bytes
}

/// The honest response.
#[must_use]
pub(crate) fn honest(content: &[u8]) -> Vec<u8> {
    with_length(content.len(), content)
}

fn half(content: &[u8]) -> &[u8] {
    content.get(..content.len() / 2).unwrap_or_default()
}

/// Chunks of 1000 bytes, and whatever comes behind them.
fn chunked(content: &[u8], end: &str) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
        Cache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    for chunk in content.chunks(1000) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(end.as_bytes());
    bytes
}

fn until_close(content: &[u8]) -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=600\r\n\
        Connection: close\r\n\r\n";
    [&head[..], content].concat()
}

fn behind(mut bytes: Vec<u8>, more: &str) -> Vec<u8> {
    bytes.extend_from_slice(more.as_bytes());
    bytes
}

const fn lie(
    name: &'static str,
    allowed: Allowed,
    bytes: fn(&[u8]) -> Vec<u8>,
    after: After,
) -> Lie {
    Lie { name, allowed, early: false, bytes, after }
}

/// Every lie over HTTP/1.1, and the honest ways of framing.
pub(crate) const LIES: &[Lie] = &[
    lie("honest", Allowed::Truth, honest, After::Next),
    lie("honest-chunked", Allowed::Truth, |it| chunked(it, "0\r\n\r\n"), After::Next),
    lie("honest-until-close", Allowed::Truth, until_close, After::Close),
    lie("close-unanswered", Allowed::Failure, |_| Vec::new(), After::Close),
    lie("reset-unanswered", Allowed::Failure, |_| Vec::new(), After::Reset),
    lie(
        "close-in-head",
        Allowed::Failure,
        |_| b"HTTP/1.1 200 OK\r\nContent".to_vec(),
        After::Close,
    ),
    lie(
        "reset-in-head",
        Allowed::Failure,
        |_| b"HTTP/1.1 200 OK\r\nContent".to_vec(),
        After::Reset,
    ),
    lie(
        "close-in-body",
        Allowed::FailureOrBroken,
        |it| with_length(it.len(), half(it)),
        After::Close,
    ),
    lie(
        "reset-in-body",
        Allowed::FailureOrBroken,
        |it| with_length(it.len(), half(it)),
        After::Reset,
    ),
    lie("long-length", Allowed::FailureOrBroken, |it| with_length(it.len() + 1, it), After::Close),
    lie(
        "short-length",
        Allowed::Shortened,
        |it| with_length(it.len().saturating_sub(SHORTENED_BY), it),
        After::Next,
    ),
    lie(
        "close-in-chunk",
        Allowed::FailureOrBroken,
        |it| chunked(half(it), "400\r\nabc"),
        After::Close,
    ),
    lie(
        "reset-in-chunk",
        Allowed::FailureOrBroken,
        |it| chunked(half(it), "400\r\nabc"),
        After::Reset,
    ),
    lie("close-between-chunks", Allowed::FailureOrBroken, |it| chunked(half(it), ""), After::Close),
    lie("no-last-line", Allowed::FailureOrBroken, |it| chunked(it, "0\r\n"), After::Close),
    lie(
        "broken-chunk-size",
        Allowed::FailureOrBroken,
        |it| chunked(half(it), "zz\r\nPOISON-POISON\r\n0\r\n\r\n"),
        After::Next,
    ),
    lie(
        "chunk-too-long",
        Allowed::FailureOrBroken,
        |it| chunked(half(it), "2\r\nabPOISON-POISON\r\n0\r\n\r\n"),
        After::Next,
    ),
    lie("reset-until-close", Allowed::FailureOrBroken, |it| until_close(half(it)), After::Reset),
    lie("response-behind", Allowed::Truth, |it| behind(honest(it), POISONED_RESPONSE), After::Next),
    lie(
        "response-behind-chunks",
        Allowed::Truth,
        |it| behind(chunked(it, "0\r\n\r\n"), POISONED_RESPONSE),
        After::Next,
    ),
    lie(
        "content-of-204",
        Allowed::NoContent,
        |_| behind(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), POISONED_RESPONSE),
        After::Next,
    ),
    lie("garbage-behind", Allowed::Truth, |it| behind(honest(it), POISON), After::Next),
    lie(
        "many-interim",
        Allowed::Failure,
        |it| {
            let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000).into_bytes();
            [interim, honest(it)].concat()
        },
        After::Close,
    ),
    lie(
        "huge-header",
        Allowed::Failure,
        |it| {
            let head = format!("HTTP/1.1 200 OK\r\nX-Huge: {}\r\n", "a".repeat(200_000));
            behind(head.into_bytes(), &format!("Content-Length: {}\r\n\r\n", it.len()))
        },
        After::Close,
    ),
    Lie { name: "early", allowed: Allowed::Truth, early: true, bytes: honest, after: After::Next },
    Lie {
        name: "early-close",
        allowed: Allowed::FailureOrBroken,
        early: true,
        bytes: honest,
        after: After::Close,
    },
    Lie {
        name: "early-reset",
        allowed: Allowed::FailureOrBroken,
        early: true,
        bytes: |_| Vec::new(),
        after: After::Reset,
    },
];

/// Behaviour of an origin over HTTP/1.1: a target's first segment names the lie, `/cut-M-N/...` cuts
/// the honest response off at a place that N chooses, by closing (M = 0) or resetting (M = 1).
///
/// # Errors
/// When the gateway goes away.
pub(crate) fn answer_with_lie(exchange: &mut Exchange) -> std::io::Result<()> {
    let target = exchange.head().target.clone();
    let name = target.split('/').nth(1).unwrap_or_default().to_owned();
    if name == "silence" {
        exchange.sink_body()?;
        // Until the gateway gives up.
        let _ = std::io::Read::read(&mut exchange.raw().0, &mut [0; 64])?;
        exchange.then(After::Close);
        return Ok(());
    }
    let content = truth(&target);
    if let Some(place) = name.strip_prefix("cut-") {
        exchange.sink_body()?;
        let (reset, seed) = place.split_once('-').unwrap_or(("0", "0"));
        let seed: u64 = seed.parse().unwrap_or(0);
        let whole = match seed % 2 {
            0 => honest(&content),
            _ => chunked(&content, "0\r\n\r\n"),
        };
        let at = usize::try_from(spread(seed)).unwrap_or(0) % whole.len();
        exchange.then(if reset == "1" { After::Reset } else { After::Close });
        return exchange.write(whole.get(..at).unwrap_or_default());
    }
    let lie = LIES.iter().find(|lie| lie.name == name).unwrap_or(&LIES[0]);
    exchange.then(lie.after);
    if !lie.early {
        exchange.sink_body()?;
    }
    exchange.write((lie.bytes)(&content))
}
