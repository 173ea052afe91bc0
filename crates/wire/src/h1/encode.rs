//! From heads to bytes: lines as they stand in runs as long as possible, framing made anew.

use sluice_message::{
    BodyLength, Expectation, Field, FieldId, Fields, Lines as Known, Method, Persistence,
    RequestHead, ResponseHead, Span, Version, may_be_read_as,
};

use super::number::{write_decimal, write_hex};
use super::status;

/// Ends the data of a chunk (RFC 9112, 7.1).
pub const CHUNK_END: &[u8] = b"\r\n";

/// The interim answer to `Expect: 100-continue` (RFC 9110, 10.1.1 and 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether a head asks to change the protocol, or agrees to it (RFC 9110, 7.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upgrade {
    /// Its `Upgrade` lines are dropped.
    #[default]
    No,
    /// Its `Upgrade` lines are sent on, nominated by `Connection`.
    Yes,
}

/// How a request is sent upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFraming {
    /// The content that will follow; [`BodyLength::UntilClose`] has no meaning in a request and is
    /// sent as [`BodyLength::Framed`].
    pub body: BodyLength,
    /// Whether the request asks for another protocol.
    pub upgrade: Upgrade,
    /// Whether the client's `Expect` lines are sent on: not if this is [`Expectation::None`],
    /// because the gateway answers them itself.
    pub expectation: Expectation,
}

/// How a response is sent downstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseFraming<'a> {
    /// Version of the client's request.
    pub version: Version,
    /// The content that will follow. [`BodyLength::Framed`] is for HTTP/1.1 clients alone. For an
    /// answer to HEAD and for 304 a known length is stated though no content follows, and
    /// [`BodyLength::Empty`] sends the `Content-Length` of the head on.
    pub body: BodyLength,
    /// Whether the connection stays open behind this response. It is stated where the version's
    /// default differs, and closing always for [`BodyLength::UntilClose`].
    pub persistence: Persistence,
    /// Value of the `Date` line, sent if the head has none and is not interim.
    pub date: Option<&'a [u8]>,
    /// Method of the request.
    pub request: Method,
    /// Whether the response agrees to another protocol, or asks for one (426).
    pub upgrade: Upgrade,
    /// Value of the `Strict-Transport-Security` line, sent if the head has none and is not interim.
    pub strict_transport: Option<&'static str>,
    /// What is known of the lines of the head.
    pub lines: Known,
}

impl ResponseFraming<'_> {
    /// The same for a head of whose lines this is known.
    #[must_use]
    #[inline]
    pub const fn with_lines(mut self, lines: Known) -> Self {
        self.lines = lines;
        self
    }
}

/// Appends a request head as it goes upstream, always HTTP/1.1.
///
/// Lines that belong to this hop (RFC 9110, 7.6.1), their nominees and the framing are left out;
/// framing is stated anew. `Host` is added from the authority if the head has none (RFC 9112, 3.2).
pub fn encode_request(out: &mut Vec<u8>, head: &RequestHead, framing: RequestFraming) {
    let fields = &head.fields;
    out.reserve(fields.bytes().len() + 64);
    let mut lines = Lines::new(out, fields);
    lines.request_line(head);
    let mut host = false;
    let mut trailers = false;
    lines.keep_all(|line| match line.id {
        FieldId::Other => true,
        FieldId::Host => {
            host = true;
            true
        }
        FieldId::ContentLength => false,
        FieldId::Upgrade => framing.upgrade == Upgrade::Yes,
        FieldId::Expect => framing.expectation != Expectation::None,
        FieldId::Te => {
            trailers |= accepts_trailers(fields.slice(line.value));
            false
        }
        id => !id.is_hop_by_hop(),
    });
    if !host {
        write_line(out, b"host: ", head.authority());
    }
    write_connection(out, framing.upgrade, trailers);
    match framing.body {
        BodyLength::Empty => {}
        BodyLength::Known(length) => write_length(out, length),
        BodyLength::Framed | BodyLength::UntilClose => out.extend_from_slice(CHUNKED),
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a response head as it goes downstream, always HTTP/1.1 in name (RFC 9110, 2.5).
///
/// An interim head (1xx but 101) writes nothing for an HTTP/1.0 client (RFC 9110, 15.2), else no
/// framing, `Date` or `Connection`. A head without content states `content-length: 0` where its
/// absence would mean content until the connection closes.
pub fn encode_response(out: &mut Vec<u8>, head: &ResponseHead, framing: &ResponseFraming<'_>) {
    let interim = head.is_interim();
    if interim && framing.version == Version::Http10 {
        return;
    }
    let fields = &head.fields;
    out.reserve(fields.bytes().len() + 192);
    let content = content(head.status, framing);
    let mut date = framing.date.filter(|_| !interim);
    let mut lines = Lines::new(out, fields);
    lines.status_line(head);
    match framing.lines {
        Known::Unknown => lines.keep_all(|line| match line.id {
            FieldId::Other => true,
            FieldId::Date => {
                date = None;
                true
            }
            FieldId::ContentLength => content == Content::AsInHead,
            FieldId::Upgrade => framing.upgrade == Upgrade::Yes,
            id => !id.is_hop_by_hop(),
        }),
        Known::Plain => lines.out.extend_from_slice(fields.bytes()),
        Known::Dated => {
            date = None;
            lines.out.extend_from_slice(fields.bytes());
        }
    }
    if let Some(date) = date {
        write_line(out, b"date: ", date);
    }
    if let Some(value) = framing.strict_transport {
        write_strict_transport(out, head, value);
    }
    match content {
        Content::None | Content::AsInHead => {}
        Content::Length(length) => write_length(out, length),
        Content::Chunked => out.extend_from_slice(CHUNKED),
    }
    if !interim {
        write_persistence(out, framing);
    }
    out.extend_from_slice(b"\r\n");
}

/// RFC 6797, 6.1. Browsers heed the first such line, so the origin's own word stays alone.
#[cold]
fn write_strict_transport(out: &mut Vec<u8>, head: &ResponseHead, value: &str) {
    const NAME: &[u8] = b"strict-transport-security";
    if !head.is_interim() && head.fields.values_of(NAME).next().is_none() {
        write_line(out, b"strict-transport-security: ", value.as_bytes());
    }
}

/// Appends the line before a chunk of `length` bytes; nothing for 0, which would end the content.
#[inline]
pub fn encode_chunk_start(out: &mut Vec<u8>, length: usize) {
    if length > 0 {
        write_hex(out, u64::try_from(length).unwrap_or(u64::MAX), *b"\r\n");
    }
}

/// Appends the last chunk, the trailers that may be sent on, and the empty line (RFC 9112, 7.1.2).
pub fn encode_last_chunk(out: &mut Vec<u8>, trailers: Option<&Fields>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(fields) = trailers {
        let mut lines = Lines::new(out, fields);
        let framing = |id| matches!(id, FieldId::ContentLength | FieldId::Host | FieldId::Trailer);
        for line in fields.lines() {
            if !line.id.is_hop_by_hop() && !framing(line.id) {
                lines.keep(line);
            }
        }
        lines.flush();
    }
    out.extend_from_slice(b"\r\n");
}

const CHUNKED: &[u8] = b"transfer-encoding: chunked\r\n";

/// Lines on their way out. Neighbours are written together: with nothing dropped a head is one copy.
struct Lines<'a> {
    out: &'a mut Vec<u8>,
    fields: &'a Fields,
    run: Span,
}

impl<'a> Lines<'a> {
    #[inline(always)]
    const fn new(out: &'a mut Vec<u8>, fields: &'a Fields) -> Self {
        Self { out, fields, run: Span::new(0, 0) }
    }

    #[inline(always)]
    fn keep(&mut self, line: &Field) {
        if line.name.start == self.run.end {
            self.run.end = line.line_end;
        } else {
            self.flush();
            self.run = line.line();
        }
    }

    #[inline(always)]
    fn flush(&mut self) {
        self.out.extend_from_slice(self.fields.slice(self.run));
    }

    /// Writes the lines that `keep` lets through and `Connection` does not nominate.
    #[inline(always)]
    fn keep_all(&mut self, mut keep: impl FnMut(&Field) -> bool) {
        let (written, run) = (self.out.len(), self.run);
        let mut nominees = 0;
        let mut lines = self.fields.lines().iter().enumerate();
        while let Some((index, line)) = lines.next() {
            if line.id == FieldId::Connection
                && nominees == 0
                && !is_usual(self.fields.slice(line.value))
            {
                nominees = nominated_lines(self.fields);
                if nominees > 0 {
                    // Lines before this one may be nominated, too.
                    self.out.truncate(written);
                    self.run = run;
                    lines = self.fields.lines().iter().enumerate();
                    continue;
                }
            }
            if keep(line) && !(index < nominees && is_nominated(self.fields, line)) {
                self.keep(line);
            }
        }
        self.flush();
    }

    /// Starts the run with the status line if it stands as it has to be sent, else writes it.
    #[inline(always)]
    fn status_line(&mut self, head: &ResponseHead) {
        match status::line(head.status) {
            Some(line) if head.reason.is_empty() => self.out.extend_from_slice(line),
            _ if is_written(head) => self.run = Span::new(0, head.reason.end.saturating_add(2)),
            _ => write_status_line(self.out, head),
        }
    }

    /// Starts the run with the request line if it stands as it has to be sent.
    #[inline(always)]
    fn request_line(&mut self, head: &RequestHead) {
        const REST: &[u8] = b" HTTP/1.1\r\n";
        const REST_LENGTH: u32 = 11;
        let Span { start, end } = head.target;
        let after = end.saturating_add(REST_LENGTH);
        let plain = head.method_text.start == 0
            && head.method_text.end.checked_add(1) == Some(start)
            && self.fields.slice(Span::new(end, after)) == REST;
        if plain {
            self.run = Span::new(0, after);
            return;
        }
        self.out.extend_from_slice(head.method_text());
        self.out.push(b' ');
        self.out.extend_from_slice(head.target());
        self.out.extend_from_slice(REST);
    }
}

/// Whether a `Connection` value nominates nothing, as nearly everybody writes it.
#[inline(always)]
fn is_usual(value: &[u8]) -> bool {
    matches!(value, b"keep-alive" | b"Keep-Alive" | b"close" | b"Upgrade")
}

/// How many lines from the first on `Connection` may nominate; 0 if it nominates none.
///
/// Only lines the sender itself wrote, which are those that follow one another without a gap: a
/// client that nominates `X-Forwarded-For` must not take away what the gateway says about it.
#[inline(never)]
pub(crate) fn nominated_lines(fields: &Fields) -> usize {
    const OPTIONS: [&[u8]; 5] = [b"keep-alive", b"close", b"upgrade", b"te", b""];
    let nominates = connection_options(fields)
        .any(|token| !OPTIONS.iter().any(|option| token.eq_ignore_ascii_case(option)));
    if !nominates {
        return 0;
    }
    let mut end = fields.lines().first().map(|line| line.name.start);
    fields
        .lines()
        .iter()
        .take_while(|line| end.replace(line.line_end) == Some(line.name.start))
        .count()
}

/// RFC 9110, 7.6.1: nominated lines are for this hop, and so are those that the next one may take for them. `Host` is not to be nominated (it is meant for
/// all recipients); a request that lost it would mean something else upstream.
#[cold]
#[inline(never)]
pub(crate) fn is_nominated(fields: &Fields, line: &Field) -> bool {
    let name = fields.slice(line.name);
    line.id != FieldId::Host && connection_options(fields).any(|token| may_be_read_as(name, token))
}

fn connection_options(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    fields
        .values(FieldId::Connection)
        .flat_map(|value| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
}

/// Whether a `TE` value has the member `trailers` (RFC 9110, 10.1.4).
pub(crate) fn accepts_trailers(value: &[u8]) -> bool {
    value
        .split(|&byte| byte == b',')
        .any(|member| member.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

#[inline(always)]
fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[inline(always)]
fn write_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    write_decimal(out, length, *b"\r\n");
}

/// RFC 9110, 7.6.1 and 10.1.4: `Connection` nominates what is meant for the next hop alone.
#[inline(always)]
fn write_connection(out: &mut Vec<u8>, upgrade: Upgrade, trailers: bool) {
    match (upgrade, trailers) {
        (Upgrade::No, false) => {}
        (Upgrade::No, true) => out.extend_from_slice(b"connection: te\r\nte: trailers\r\n"),
        (Upgrade::Yes, false) => out.extend_from_slice(b"connection: upgrade\r\n"),
        (Upgrade::Yes, true) => {
            out.extend_from_slice(b"connection: upgrade, te\r\nte: trailers\r\n");
        }
    }
}

#[inline(always)]
fn write_persistence(out: &mut Vec<u8>, framing: &ResponseFraming<'_>) {
    let closes = framing.persistence == Persistence::Close
        || framing.body == BodyLength::UntilClose && framing.upgrade == Upgrade::No;
    let line: &[u8] = match (framing.upgrade, closes, framing.version) {
        (Upgrade::No, false, Version::Http11 | Version::Http2) => return,
        (Upgrade::No, true, _) => b"connection: close\r\n",
        (Upgrade::No, false, Version::Http10) => b"connection: keep-alive\r\n",
        (Upgrade::Yes, true, _) => b"connection: upgrade, close\r\n",
        (Upgrade::Yes, false, _) => b"connection: upgrade\r\n",
    };
    out.extend_from_slice(line);
}

/// Whether the bytes of the head begin with the status line as it has to be sent.
#[inline(always)]
fn is_written(head: &ResponseHead) -> bool {
    let Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1', b' ', digits @ .., b' ']) =
        head.fields.bytes().first_chunk::<13>()
    else {
        return false;
    };
    let number = digits.iter().fold(0, |number, digit| number * 10 + u16::from(*digit));
    let reason = usize::try_from(head.reason.start) == Ok(13);
    reason && number.wrapping_sub(u16::from(b'0') * 111) == head.status
}

#[inline(never)]
fn write_status_line(out: &mut Vec<u8>, head: &ResponseHead) {
    out.extend_from_slice(b"HTTP/1.1 ");
    for digit in [head.status / 100, head.status / 10, head.status] {
        out.push(b'0' + u8::try_from(digit % 10).unwrap_or(0));
    }
    out.push(b' ');
    out.extend_from_slice(head.fields.slice(head.reason));
    out.extend_from_slice(b"\r\n");
}

/// What a response head says about its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    None,
    /// The origin's `Content-Length`: that of the answer to GET (RFC 9110, 8.6 and 9.3.2).
    AsInHead,
    Length(u64),
    Chunked,
}

#[inline(always)]
const fn content(status: u16, framing: &ResponseFraming<'_>) -> Content {
    match (status, framing.request, framing.body) {
        // RFC 9110, 8.6 and RFC 9112, 6.1: no framing in 1xx and 204, nor in 2xx to CONNECT.
        (100..=199 | 204, _, _) | (200..=299, Method::Connect, _) => Content::None,
        (_, _, BodyLength::UntilClose) => Content::None,
        // RFC 9110, 8.6: the length that a 304 states is that of what it confirms.
        (_, Method::Head, BodyLength::Empty)
        | (304, _, BodyLength::Empty | BodyLength::Known(0)) => Content::AsInHead,
        (_, _, BodyLength::Empty) => Content::Length(0),
        (_, _, BodyLength::Known(length)) => Content::Length(length),
        (_, _, BodyLength::Framed) => Content::Chunked,
    }
}
