//! A strict parser of HTTP/1.1 responses: what the gateway sends must be right to the byte.

use std::fmt;

/// Field lines in their order; names as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// The first value of a field; the name's case does not matter.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Every value of a field in its order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Whether a comma-separated field holds this token.
    #[must_use]
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.all(name).flat_map(|v| v.split(',')).any(|t| t.trim().eq_ignore_ascii_case(token))
    }
}

/// What kind of request an answer belongs to; it decides whether there is a body (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Anything but HEAD and CONNECT.
    Get,
    /// The answer has no body, whatever its fields say.
    Head,
    /// A 2xx answer turns the connection into a tunnel.
    Connect,
}

/// How the end of the body was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body can follow: HEAD, 1xx, 204, 304, a tunnel.
    None,
    /// By Content-Length.
    Length,
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// A 1xx answer before the final one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interim {
    /// 100..=199 except 101.
    pub status: u16,
    /// Its field lines.
    pub fields: Fields,
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// 0 for HTTP/1.0, 1 for HTTP/1.1.
    pub minor: u8,
    /// The final status, or 101.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The header section.
    pub fields: Fields,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Fields after a chunked body.
    pub trailers: Fields,
    /// 1xx answers that came before.
    pub interim: Vec<Interim>,
    /// How the body ended.
    pub framing: Framing,
}

impl Response {
    /// The body as text, for assertions.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Whether more bytes can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection is open.
    More,
    /// These are all.
    Eof,
}

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A whole response and the number of bytes it took.
    Whole(Box<Response>, usize),
    /// The beginning of one.
    Part,
}

/// Why bytes are no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed response: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

fn wrong<T>(why: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(why.into()))
}

/// Reads one response, with the interim ones before it, from the beginning of `bytes`.
///
/// # Errors
/// When the bytes break RFC 9112 in any way a strict recipient may refuse.
pub fn parse(bytes: &[u8], asked: Asked, end: End) -> Result<Parsed, Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    let mut interim = Vec::new();
    let (head, framing) = loop {
        let Some(head) = parse_head(&mut cursor)? else { return unfinished(end, bytes) };
        let framing = framing(&head, asked)?;
        if (100..200).contains(&head.status) && head.status != 101 {
            interim.push(Interim { status: head.status, fields: head.fields });
        } else {
            break (head, framing);
        }
    };
    let Some((body, trailers)) = parse_body(&mut cursor, framing, end)? else {
        return unfinished(end, bytes);
    };
    let Head { minor, status, reason, fields } = head;
    let framing = framing.kind();
    let response = Response { minor, status, reason, fields, body, trailers, interim, framing };
    Ok(Parsed::Whole(Box::new(response), cursor.at))
}

fn unfinished(end: End, bytes: &[u8]) -> Result<Parsed, Malformed> {
    match end {
        End::Eof if !bytes.is_empty() => wrong("the connection ended within it"),
        _ => Ok(Parsed::Part),
    }
}

struct Head {
    minor: u8,
    status: u16,
    reason: String,
    fields: Fields,
}

#[derive(Clone, Copy)]
enum BodyEnd {
    None,
    Length(usize),
    Chunked,
    UntilClose,
}

impl BodyEnd {
    fn kind(self) -> Framing {
        match self {
            Self::None => Framing::None,
            Self::Length(_) => Framing::Length,
            Self::Chunked => Framing::Chunked,
            Self::UntilClose => Framing::UntilClose,
        }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next line without its CRLF; a bare CR or LF is an error.
    fn line(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let rest = &self.bytes[self.at..];
        let Some(lf) = rest.iter().position(|b| *b == b'\n') else { return Ok(None) };
        let Some(line) = rest[..lf].strip_suffix(b"\r") else {
            return wrong(format!("a line ends in a bare LF: {}", rest[..lf].escape_ascii()));
        };
        if line.contains(&b'\r') {
            return wrong(format!("a bare CR in a line: {}", line.escape_ascii()));
        }
        self.at += lf + 1;
        Ok(Some(line))
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }
}

fn parse_head(cursor: &mut Cursor<'_>) -> Result<Option<Head>, Malformed> {
    let Some(line) = cursor.line()? else { return Ok(None) };
    let (minor, status, reason) = parse_status_line(line)?;
    let Some(fields) = parse_fields(cursor)? else { return Ok(None) };
    Ok(Some(Head { minor, status, reason, fields }))
}

/// RFC 9112 4: `HTTP/1.x SP 3DIGIT SP [reason]`; the second space is there even without a reason.
fn parse_status_line(line: &[u8]) -> Result<(u8, u16, String), Malformed> {
    let shown = line.escape_ascii().to_string();
    let minor = match line.get(..9) {
        Some(b"HTTP/1.1 ") => 1,
        Some(b"HTTP/1.0 ") => 0,
        _ => return wrong(format!("status line: {shown}")),
    };
    let digits = line.get(9..12).unwrap_or_default();
    let well_placed = line.get(12) == Some(&b' ');
    if !digits.iter().all(u8::is_ascii_digit) || digits.len() != 3 || !well_placed {
        return wrong(format!("status line: {shown}"));
    }
    let reason = &line[13..];
    if reason.iter().any(|b| (*b < 0x20 && *b != b'\t') || *b == 0x7f) {
        return wrong(format!("control character in the reason: {shown}"));
    }
    let status = digits.iter().fold(0, |n, d| n * 10 + u16::from(*d - b'0'));
    if !(100..600).contains(&status) {
        return wrong(format!("status out of range: {shown}"));
    }
    Ok((minor, status, String::from_utf8_lossy(reason).into_owned()))
}

pub(crate) fn is_token_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn parse_fields(cursor: &mut Cursor<'_>) -> Result<Option<Fields>, Malformed> {
    let mut fields = Fields::default();
    loop {
        let Some(line) = cursor.line()? else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some(fields));
        }
        let shown = line.escape_ascii();
        let Some(colon) = line.iter().position(|b| *b == b':') else {
            return wrong(format!("a field line without colon: {shown}"));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // An empty name, space before the colon and obs-fold all fail here.
        if name.is_empty() || !name.iter().all(|b| is_token_char(*b)) {
            return wrong(format!("field name: {shown}"));
        }
        if value.iter().any(|b| (*b < 0x20 && *b != b'\t') || *b == 0x7f) {
            return wrong(format!("control character in a field value: {shown}"));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields.0.push((text(name), text(value)));
    }
}

/// RFC 9112 6.3, with every inconsistency refused.
fn framing(head: &Head, asked: Asked) -> Result<BodyEnd, Malformed> {
    let lengths: Vec<&str> = head.fields.all("content-length").collect();
    let codings: Vec<&str> = head.fields.all("transfer-encoding").collect();
    if !lengths.is_empty() && !codings.is_empty() {
        return wrong("Content-Length together with Transfer-Encoding");
    }
    if lengths.len() > 1 {
        return wrong("more than one Content-Length");
    }
    let interim_or_empty = head.status < 200 || head.status == 204;
    // RFC 9110 8.6 and RFC 9112 6.1: neither field is sent with 1xx and 204.
    if interim_or_empty && !(lengths.is_empty() && codings.is_empty()) {
        return wrong(format!("framing fields in a {}", head.status));
    }
    if asked == Asked::Connect && (200..300).contains(&head.status) {
        return Ok(BodyEnd::None);
    }
    let length = match lengths.first() {
        Some(text) if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) => {
            return wrong(format!("Content-Length: {text}"));
        }
        Some(text) => Some(text.parse().map_err(|e| Malformed(format!("Content-Length: {e}")))?),
        None => None,
    };
    if interim_or_empty || head.status == 304 || asked == Asked::Head {
        return Ok(BodyEnd::None);
    }
    match (codings.as_slice(), length) {
        ([], Some(length)) => Ok(BodyEnd::Length(length)),
        ([], None) => Ok(BodyEnd::UntilClose),
        ([one], _) if one.eq_ignore_ascii_case("chunked") && head.minor == 1 => {
            Ok(BodyEnd::Chunked)
        }
        (other, _) => wrong(format!("Transfer-Encoding: {other:?}")),
    }
}

type Content = (Vec<u8>, Fields);

fn parse_body(
    cursor: &mut Cursor<'_>,
    framing: BodyEnd,
    end: End,
) -> Result<Option<Content>, Malformed> {
    let plain = |bytes: &[u8]| (bytes.to_vec(), Fields::default());
    match framing {
        BodyEnd::None => Ok(Some(plain(&[]))),
        BodyEnd::Length(length) => Ok(cursor.take(length).map(plain)),
        BodyEnd::UntilClose if end == End::More => Ok(None),
        BodyEnd::UntilClose => Ok(cursor.take(cursor.bytes.len() - cursor.at).map(plain)),
        BodyEnd::Chunked => parse_chunks(cursor),
    }
}

/// RFC 9112 7.1, without tolerance.
fn parse_chunks(cursor: &mut Cursor<'_>) -> Result<Option<Content>, Malformed> {
    let mut body = Vec::new();
    loop {
        let Some(line) = cursor.line()? else { return Ok(None) };
        let digits = line.split(|b| *b == b';').next().unwrap_or_default();
        let hex = digits.iter().all(u8::is_ascii_hexdigit) && (1..=16).contains(&digits.len());
        let size = std::str::from_utf8(digits).ok().filter(|_| hex);
        let Some(size) = size.and_then(|text| usize::from_str_radix(text, 16).ok()) else {
            return wrong(format!("chunk size: {}", line.escape_ascii()));
        };
        if size == 0 {
            return Ok(parse_fields(cursor)?.map(|trailers| (body, trailers)));
        }
        let Some(data) = cursor.take(size) else { return Ok(None) };
        body.extend_from_slice(data);
        match cursor.take(2) {
            Some(b"\r\n") => {}
            Some(other) => {
                return wrong(format!("after a chunk: {}", other.escape_ascii()));
            }
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
