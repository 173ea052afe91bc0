//! One check of one server.

mod call;

use std::fmt;
use std::future::poll_fn;
use std::io;

use sluice_conn::h2::Http2Client;
use sluice_conn::{Content, ORIGIN_LIMITS, OriginChannel, Receiver, Reuse, Sender, Upstream};
use sluice_message::{FaultKind, GrpcStatus, Method, RequestHead, ResponseHead};
use sluice_net::tls::{Reason as TlsReason, TlsClient};
use sluice_net::{Deadline, Elapsed, Endpoint, Stream};
use sluice_wire::h1::{Upgrade, decode_request};
use sluice_wire::proxy::{Owner, Version, encode};

use call::{Serving, fields, message, serves};

use super::rule::{CheckRule, HttpProbe, Probe};
use crate::server::{connect_with, is_exhaustion};
use crate::{Protocol, ServerPlan};

/// How much content is searched for what it has to hold. An origin may send more, but not to us.
const SEARCHED: usize = 64 * 1024;

/// Interim answers to one check; an origin that sends more is broken.
const INTERIMS: u32 = 16;

/// Why a check failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Nobody listens.
    Refused,
    /// No way leads there, or there is no such socket.
    Unreachable,
    /// Not done in time.
    TimedOut,
    /// The connection ended before the answer did.
    Closed,
    /// The connection was reset.
    Reset,
    /// The answer breaks the rules.
    Malformed,
    /// No encryption could be agreed upon.
    Tls(TlsReason),
    /// The server does not speak the protocol it is configured for.
    NoHttp2,
    /// A status that was not to come.
    Status(u16),
    /// The content does not hold what it has to.
    Body,
    /// The call that checks failed.
    Call(GrpcStatus),
    /// The server says that it does not serve.
    Serving(Serving),
    /// We have no descriptor or port left, which says nothing about the server.
    Exhausted,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("connection refused"),
            Self::Unreachable => f.write_str("unreachable"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Closed => f.write_str("connection closed before the end of the answer"),
            Self::Reset => f.write_str("connection reset"),
            Self::Malformed => f.write_str("malformed answer"),
            Self::Tls(reason) => write!(f, "TLS handshake failed: {}", reason.phrase()),
            Self::NoHttp2 => f.write_str("the server does not speak HTTP/2"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Body => f.write_str("body mismatch"),
            Self::Call(status) => write!(f, "gRPC status {}", status.name()),
            Self::Serving(serving) => f.write_str(serving.phrase()),
            Self::Exhausted => f.write_str("no descriptors left to check with"),
        }
    }
}

impl From<FaultKind> for Reason {
    fn from(kind: FaultKind) -> Self {
        match kind {
            FaultKind::Closed => Self::Closed,
            FaultKind::Reset => Self::Reset,
            _ => Self::Malformed,
        }
    }
}

/// What is asked where, worked out once for all checks of a server.
#[derive(Debug)]
pub(crate) struct Question {
    place: Endpoint,
    tls: Option<TlsClient>,
    protocol: Protocol,
    /// What the connection begins with.
    header: Vec<u8>,
    request: Vec<u8>,
    /// The same for a stream.
    head: Box<RequestHead>,
    /// What follows it.
    content: Vec<u8>,
}

impl Question {
    pub(crate) fn new(
        rule: &CheckRule,
        server: &ServerPlan,
        proxy_protocol: Option<Version>,
    ) -> Self {
        let mut header = Vec::new();
        // Somebody else may listen at a port that is there for checks alone.
        if let (Some(version), None) = (proxy_protocol, rule.port) {
            encode(&mut header, version, Owner::Sender);
        }
        let mut place = server.endpoint.clone();
        if let (Endpoint::Tcp(address), Some(port)) = (&mut place, rule.port) {
            address.set_port(port);
        }
        let request = match &rule.probe {
            Probe::Tcp => Vec::new(),
            Probe::Http(http) => request(http, &server.endpoint),
        };
        let mut head = Box::<RequestHead>::default();
        // What was made here can be read here; without a request there is nothing to read.
        let _ = decode_request(&request, &ORIGIN_LIMITS, &mut head);
        let content = match &rule.probe {
            Probe::Http(HttpProbe { service: Some(service), .. }) => message(service),
            _ => Vec::new(),
        };
        let (tls, protocol) = (server.tls.clone(), server.protocol);
        Self { place, tls, protocol, header, request, head, content }
    }
}

/// The bytes of the request.
fn request(probe: &HttpProbe, server: &Endpoint) -> Vec<u8> {
    let host = match (&probe.host, server) {
        (Some(host), _) => host.to_string(),
        (None, Endpoint::Tcp(address)) => address.to_string(),
        (None, Endpoint::Unix(_)) => "localhost".to_owned(),
    };
    let fields = match (&*probe.method, &probe.service) {
        (_, Some(service)) => fields(service),
        // A method that usually has content states that there is none (RFC 9110, 8.6).
        ("POST" | "PUT" | "PATCH", _) => "content-length: 0\r\n".to_owned(),
        _ => String::new(),
    };
    format!(
        "{} {} HTTP/1.1\r\nhost: {host}\r\nuser-agent: sluice-health\r\naccept: */*\r\n{fields}\
         connection: close\r\n\r\n",
        probe.method, probe.target
    )
    .into_bytes()
}

/// Asks once, within the time the rule gives.
///
/// # Errors
/// Why the server is not well, or why that cannot be told.
pub(crate) async fn ask(
    rule: &CheckRule,
    question: &Question,
    deadline: &Deadline,
) -> Result<(), Reason> {
    match deadline.limit(rule.timeout, attempt(rule, question)).await {
        Ok(result) => result,
        Err(Elapsed) => Err(Reason::TimedOut),
    }
}

async fn attempt(rule: &CheckRule, question: &Question) -> Result<(), Reason> {
    let connected = connect_with(&question.place, &question.header).await;
    let stream = connected.map_err(|error| unconnected(&error))?;
    let Probe::Http(probe) = &rule.probe else { return Ok(()) };
    let stream = match &question.tls {
        None => stream,
        Some(tls) => {
            let done = Box::pin(tls.connect(stream)).await;
            done.map_err(|error| Reason::Tls(error.reason))?
        }
    };
    let (channel, _client) = open(question, stream).await?;
    let (mut receiver, mut sender) = (Receiver::new(), Sender::new());
    let mut upstream = Upstream::new(channel, (&mut receiver, &mut sender), Reuse::Fresh);
    match upstream.channel {
        // Calls are made over HTTP/2 (gRPC over HTTP/2).
        OriginChannel::Own(_) if probe.service.is_some() => return Err(Reason::NoHttp2),
        OriginChannel::Own(_) => upstream.sender.push(&question.request),
        OriginChannel::Shared(_) => {
            upstream.send_head(&question.head, Upgrade::No);
            upstream.sender.push(&question.content);
            upstream.sender.finish(None);
        }
    }
    poll_fn(|cx| upstream.sender.poll_flush(upstream.channel.lend(), cx)).await?;
    let head = final_head(probe, &mut upstream).await?;
    if !probe.statuses.iter().any(|range| range.contains(&head.status)) {
        return Err(Reason::Status(head.status));
    }
    if probe.service.is_some() {
        return serves(&head, &mut upstream).await;
    }
    match &probe.body {
        Some(wanted) => search(&mut upstream, wanted).await,
        None => Ok(()),
    }
}

/// What the request goes over: the connection itself, or a stream of it where HTTP/2 is spoken.
async fn open(
    question: &Question,
    stream: Stream,
) -> Result<(OriginChannel, Option<Http2Client>), Reason> {
    let config = match question.protocol {
        Protocol::Http1 => return Ok((OriginChannel::Own(stream), None)),
        Protocol::Negotiated(_) if !stream.speaks_http2() => {
            return Ok((OriginChannel::Own(stream), None));
        }
        Protocol::Http2(_) if stream.is_encrypted() && !stream.speaks_http2() => {
            return Err(Reason::NoHttp2);
        }
        Protocol::Http2(config) | Protocol::Negotiated(config) => config,
    };
    let client = Http2Client::start(stream, &config);
    poll_fn(|cx| client.poll_ready(cx)).await.map_err(|_| Reason::NoHttp2)?;
    let channel = client.open().ok_or(Reason::NoHttp2)?;
    Ok((OriginChannel::Shared(channel), Some(client)))
}

fn unconnected(error: &io::Error) -> Reason {
    match error.kind() {
        _ if is_exhaustion(error) => Reason::Exhausted,
        io::ErrorKind::ConnectionRefused => Reason::Refused,
        io::ErrorKind::ConnectionReset => Reason::Reset,
        _ => Reason::Unreachable,
    }
}

async fn final_head(
    probe: &HttpProbe,
    upstream: &mut Upstream<'_>,
) -> Result<ResponseHead, Reason> {
    let method = Method::of(probe.method.as_bytes());
    let mut head = ResponseHead::new();
    for _ in 0..INTERIMS {
        let arrival = poll_fn(|cx| upstream.poll_head(cx, method, &mut head)).await;
        arrival.map_err(|fault| Reason::from(fault.kind))?;
        if !head.is_interim() {
            return Ok(head);
        }
    }
    Err(Reason::Malformed)
}

/// Whether the content holds these bytes.
async fn search(upstream: &mut Upstream<'_>, wanted: &[u8]) -> Result<(), Reason> {
    let mut seen: Vec<u8> = Vec::new();
    let found =
        |seen: &[u8]| wanted.is_empty() || seen.windows(wanted.len()).any(|it| it == wanted);
    loop {
        let content =
            poll_fn(|cx| upstream.receiver.poll_content(upstream.channel.lend(), cx)).await?;
        if content == Content::Piece {
            let piece = upstream.receiver.piece();
            let piece = piece.get(..piece.len().min(SEARCHED - seen.len())).unwrap_or_default();
            seen.extend_from_slice(piece);
            let length = upstream.receiver.piece().len();
            upstream.receiver.advance(length);
        }
        if found(&seen) {
            return Ok(());
        }
        if content == Content::End || seen.len() >= SEARCHED {
            return Err(Reason::Body);
        }
    }
}
