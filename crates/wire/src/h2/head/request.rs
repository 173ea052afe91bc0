//! From header blocks to request heads (RFC 9113, 8.3.1; RFC 8441).

use sluice_message::{
    BodyLength, Expectation, FaultKind, FieldId, Method, Persistence, RequestHead, Span, Syntax,
    TargetForm, Version,
};

use super::sheet::{Sheet, connection_specific};
use super::{End, Refusal};
use crate::h1::Limits;
use crate::h1::authority::{has_port, is_authority, is_same_authority};
use crate::h1::head::{Stop, expectation, span};
use crate::h1::scan::is_token;
use crate::h1::target::{Made, extent, judge};
use crate::h2::hpack::{Class, Decoder, Invalid, Line};

/// Whether extended CONNECT (RFC 8441) was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// `:protocol` is malformed.
    Plain,
    /// `:protocol` is understood.
    Extended,
}

/// Reads the requests of a connection; holds what has to wait until its place in the head is known.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Values of pseudo-header fields.
    pseudo: Vec<u8>,
    /// Crumbs, joined.
    cookies: Vec<u8>,
}

/// Memory that is kept for the next request.
const KEPT: usize = 4096;

impl Parser {
    /// Reads a whole header block. Even if the request is refused the whole block is read, since it
    /// may change the table.
    ///
    /// # Errors
    /// What is wrong with the block itself, which ends the connection.
    pub(super) fn read(
        &mut self,
        decoder: &mut Decoder,
        (block, end): (&[u8], End),
        (limits, connect): (&Limits, Connect),
        head: &mut RequestHead,
    ) -> Result<Result<(), Refusal>, Invalid> {
        self.pseudo.clear();
        self.cookies.clear();
        let mut fields = std::mem::take(&mut head.fields);
        let mut request = Request {
            sheet: Sheet::new(fields.parts_mut(), limits),
            reader: self,
            head,
            target: limits.target,
            connect,
            seen: 0,
            parts: Parts::default(),
            made: Made::Nothing,
            host: Span::default(),
            default_port: b"443",
        };
        let mut refusal = Ok(());
        decoder.decode(block, |line| {
            if refusal.is_ok() {
                refusal = request.take(line);
            }
        })?;
        let refusal = refusal.and_then(|()| request.finish(end));
        let made = request.made;
        head.fields = fields;
        if self.pseudo.capacity() + self.cookies.capacity() > KEPT {
            *self = Self::default();
        }
        Ok(refusal
            .and_then(|()| made.append_to(head).map_err(Refusal::Refused))
            .inspect_err(|_| clear(head)))
    }
}

/// Leaves nothing of a request that was refused.
#[cold]
fn clear(head: &mut RequestHead) {
    let mut fields = std::mem::take(&mut head.fields);
    fields.clear();
    *head = RequestHead { fields, ..RequestHead::default() };
}

/// Where the values of pseudo-header fields are in [`Parser::pseudo`].
#[derive(Default)]
struct Parts {
    /// Of a method other than GET.
    method: Span,
    path: Span,
    /// `: value CRLF`.
    authority: Span,
    protocol: Span,
}

struct Request<'a> {
    sheet: Sheet<'a>,
    reader: &'a mut Parser,
    head: &'a mut RequestHead,
    /// Longest target.
    target: usize,
    connect: Connect,
    /// The pseudo-header fields seen, as bits; [`STARTED`] once the first other one was.
    seen: u8,
    parts: Parts,
    made: Made,
    /// Value of the `host` line.
    host: Span,
    /// Of the scheme.
    default_port: &'static [u8],
}

const METHOD: u8 = 1;
const SCHEME: u8 = 2;
const AUTHORITY: u8 = 4;
const PATH: u8 = 8;
const PROTOCOL: u8 = 16;
const STARTED: u8 = 32;

impl Request<'_> {
    #[inline(always)]
    fn take(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        self.sheet.admit(line)?;
        if line.mark().class != Class::Field {
            return self.take_pseudo(line);
        }
        if self.seen & STARTED == 0 {
            self.start()?;
        }
        match line.mark().id {
            FieldId::Other | FieldId::UserAgent => self.sheet.push(line),
            FieldId::Cookie => {
                self.take_crumb(line.value());
                Ok(())
            }
            _ => self.take_known(line),
        }
    }

    /// RFC 9113, 8.3: each once at most, all before the first field.
    #[inline(always)]
    fn take_pseudo(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        let start = self.reader.pseudo.len();
        let mut value = line.value();
        let here = span(start, start + value.len());
        let bit = match line.mark().class {
            Class::Method => {
                if value == b"GET" {
                    self.head.method = Method::Get;
                    value = b"";
                } else {
                    self.head.method = Method::of(value);
                    self.parts.method = here;
                }
                METHOD
            }
            Class::Path => {
                self.parts.path = here;
                PATH
            }
            Class::Authority => {
                value = line.tail();
                self.parts.authority = span(start, start + value.len());
                AUTHORITY
            }
            Class::Scheme => {
                // As in HTTP/1.1's absolute form no others are served.
                if !matches!(value, b"https" | b"http") && !is_http(value) {
                    return Err(Syntax::Target.into());
                }
                if value.len() == 4 {
                    self.default_port = b"80";
                }
                value = b"";
                SCHEME
            }
            Class::Protocol => {
                self.parts.protocol = here;
                PROTOCOL
            }
            Class::Ambiguous => return self.take_ambiguous(line),
            _ => return Err(Syntax::FieldName.into()),
        };
        if self.seen & (bit | STARTED) != 0 {
            return Err(Syntax::RequestLine.into());
        }
        self.seen |= bit;
        if !value.is_empty() {
            self.reader.pseudo.extend_from_slice(value);
        }
        Ok(())
    }

    /// Takes an ordinary field whose name origins may take for another one.
    #[cold]
    #[inline(never)]
    fn take_ambiguous(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        if self.seen & STARTED == 0 {
            self.start()?;
        }
        *self.sheet.ambiguous = true;
        self.sheet.push(line)
    }

    /// Cookies are joined to one line, which HTTP/1.1 asks for (RFC 9113, 8.2.3).
    fn take_crumb(&mut self, value: &[u8]) {
        if !self.reader.cookies.is_empty() {
            self.reader.cookies.extend_from_slice(b"; ");
        }
        self.reader.cookies.extend_from_slice(value);
    }

    fn take_known(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        match line.mark().id {
            FieldId::Host => return self.take_host(line),
            FieldId::ContentLength => self.sheet.note_length(line.value())?,
            FieldId::Expect => {
                self.head.expectation = expectation(self.head.expectation, line.value());
            }
            _ => connection_specific(line)?,
        }
        self.sheet.push(line)
    }

    /// RFC 9113, 8.3.1: `Host` says what `:authority` says, both in their normal form, or stands alone.
    fn take_host(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        if !self.host.is_empty() {
            let host = self.host.of(self.sheet.bytes);
            let same = is_same_authority(host, line.value(), self.default_port);
            return if same && self.seen & AUTHORITY != 0 {
                Ok(())
            } else {
                Err(Syntax::Host.into())
            };
        }
        self.sheet.push(line)?;
        self.judge_host(line.value().len())
    }

    /// Judges the value, of this length, of the line that was just added.
    #[inline(always)]
    fn judge_host(&mut self, length: usize) -> Result<(), Refusal> {
        let start = self.sheet.bytes.len() - length - 2;
        let rest = self.sheet.bytes.get(start..).unwrap_or_default();
        if !is_authority(rest, length) {
            return Err(Refusal::Refused(FaultKind::Malformed(Syntax::Host)));
        }
        self.host = span(start, start + length);
        Ok(())
    }

    /// All pseudo-header fields are there: writes the request line and `host`.
    #[inline(always)]
    fn start(&mut self) -> Result<(), Refusal> {
        const PLAIN: u8 = METHOD | SCHEME | PATH;
        self.head.version = Version::Http2;
        self.head.persistence = Persistence::KeepAlive;
        self.head.expectation = Expectation::None;
        let seen = self.seen & !AUTHORITY;
        self.seen |= STARTED;
        if seen != PLAIN || self.head.method == Method::Connect {
            return self.start_rare(seen);
        }
        self.start_with(self.parts.path)?;
        self.judge_path()
    }

    #[cold]
    #[inline(never)]
    fn start_rare(&mut self, seen: u8) -> Result<(), Refusal> {
        const EXTENDED: u8 = METHOD | SCHEME | PATH | PROTOCOL;
        if self.head.method != Method::Connect || self.seen & AUTHORITY == 0 {
            return Err(Syntax::RequestLine.into());
        }
        match seen {
            // RFC 9113, 8.5: neither scheme nor path.
            METHOD => {
                // The value without its punctuation.
                let Span { start, end } = self.parts.authority;
                self.start_with(Span::new(start + 2, end.saturating_sub(2)))?;
                let authority = self.host.of(self.sheet.bytes);
                if !has_port(authority) {
                    return Err(Refusal::Refused(FaultKind::Malformed(Syntax::Target)));
                }
                self.head.form = TargetForm::Authority;
                self.head.authority = self.head.target;
                (self.head.path, self.head.query) = (Span::default(), Span::default());
                self.head.protocol = Span::default();
                Ok(())
            }
            // RFC 8441, 4: as any other request, but for its method.
            EXTENDED if self.connect == Connect::Extended => {
                self.start_with(self.parts.path)?;
                self.head.method = Method::Get;
                let judged = self.judge_path();
                self.head.method = Method::Connect;
                judged
            }
            _ => Err(Syntax::RequestLine.into()),
        }
    }

    /// Writes the lines that a client of HTTP/1.1 would have begun with.
    #[inline(always)]
    fn start_with(&mut self, target: Span) -> Result<(), Refusal> {
        let pseudo = &self.reader.pseudo;
        let method = match self.head.method {
            Method::Get => b"GET",
            _ => self.parts.method.of(pseudo),
        };
        let target = target.of(pseudo);
        if target.is_empty() {
            return Err(Syntax::Target.into());
        }
        if target.len() > self.target {
            return Err(Refusal::Refused(FaultKind::TargetTooLong));
        }
        if self.head.method == Method::Extension
            && (method.is_empty() || !method.iter().all(|&byte| is_token(byte)))
        {
            return Err(Syntax::RequestLine.into());
        }
        let bytes = &mut *self.sheet.bytes;
        match self.head.method {
            Method::Get => bytes.extend_from_slice(b"GET "),
            _ => {
                bytes.extend_from_slice(method);
                bytes.push(b' ');
            }
        }
        bytes.extend_from_slice(target);
        self.head.method_text = span(0, method.len());
        let end = method.len() + 1 + target.len();
        self.head.target = span(method.len() + 1, end);
        if self.seen & AUTHORITY == 0 {
            bytes.extend_from_slice(b" HTTP/1.1\r\n");
            return Ok(());
        }
        // Few copies of more bytes each: a copy costs more than its bytes do.
        bytes.extend_from_slice(b" HTTP/1.1\r\nhost");
        let authority = self.parts.authority.of(pseudo);
        let length = authority.len();
        bytes.extend_from_slice(authority);
        self.sheet.note(FieldId::Host, end + 11, 4);
        self.judge_host(length.saturating_sub(4))
    }

    /// The judgement HTTP/1.1 has about a target, whose forms here are a path and `*`.
    #[inline(always)]
    fn judge_path(&mut self) -> Result<(), Refusal> {
        let bytes = &*self.sheet.bytes;
        let whole = self.head.target.range();
        let path = bytes.get(whole.clone()).unwrap_or_default();
        let asterisk = path == b"*" && self.head.method == Method::Options;
        if path.first() != Some(&b'/') && !asterisk {
            return Err(Syntax::Target.into());
        }
        let found = extent(bytes, whole.start).map_err(|_| Syntax::Target)?;
        // A byte that no target holds ended it early.
        if found.end != whole.end {
            return Err(Syntax::Target.into());
        }
        judge(bytes, found, &mut self.made, self.head).map_err(|stop| match stop {
            Stop::Partial => Syntax::Target.into(),
            Stop::Fault(kind) => Refusal::Refused(kind),
        })?;
        if self.seen & PROTOCOL != 0 {
            self.keep_protocol()?;
        }
        Ok(())
    }

    /// Puts the value of `:protocol` where no line is: in front of them, behind it nothing is read.
    #[cold]
    fn keep_protocol(&mut self) -> Result<(), Refusal> {
        let protocol = self.parts.protocol.of(&self.reader.pseudo);
        if protocol.is_empty() || !protocol.iter().all(|&byte| is_token(byte)) {
            return Err(Syntax::FieldValue.into());
        }
        let start = self.sheet.bytes.len();
        self.sheet.bytes.extend_from_slice(protocol);
        self.head.protocol = span(start, start + protocol.len());
        Ok(())
    }

    fn finish(&mut self, end: End) -> Result<(), Refusal> {
        if self.seen & STARTED == 0 {
            self.start()?;
        }
        if !self.reader.cookies.is_empty() {
            self.sheet.write(FieldId::Cookie, b"cookie", &self.reader.cookies);
        }
        // RFC 9113, 8.3.1: http and https need an authority, here or in `Host`.
        if self.host.is_empty() {
            return Err(Refusal::Refused(FaultKind::Malformed(Syntax::Host)));
        }
        if self.head.form != TargetForm::Authority {
            self.head.authority = self.host;
        }
        self.head.body = match (end, self.sheet.length) {
            (End::Stream, None) => BodyLength::Empty,
            // RFC 9113, 8.1.1: a length other than that of the content is malformed.
            (End::Stream, Some(1..)) => return Err(Syntax::ContentLength.into()),
            (_, Some(length)) => BodyLength::Known(length),
            (End::More, None) => BodyLength::Framed,
        };
        Ok(())
    }
}

/// Schemes compare without case (RFC 9110, 4.2.3).
#[cold]
fn is_http(scheme: &[u8]) -> bool {
    scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https")
}
