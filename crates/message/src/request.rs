//! The head of a request, whatever protocol it came by.

use crate::{
    FieldId, Fields, Method, PathCase, PathForm, PathProblem, PathRules, PathSpellings,
    SpaceExhausted, Span,
};

/// Protocol version a message was received in, as far as its meaning depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no chunked coding, no interim responses, closes by default.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2: framed by the protocol itself, no `Connection`, no reason phrase.
    Http2,
}

/// How long a message's content is (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none.
    #[default]
    Empty,
    /// So many bytes.
    Known(u64),
    /// Delimited by the protocol's own frames (chunks in HTTP/1.1); trailers may follow.
    Framed,
    /// Until the connection closes; responses only.
    UntilClose,
}

/// Whether the sender means to go on using the connection (RFC 9112, section 9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// More may follow.
    #[default]
    KeepAlive,
    /// This is the last message.
    Close,
}

/// What the request expects before it sends its content (RFC 9110, 10.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// An interim 100 (Continue), or a final answer.
    Continue,
    /// Something this gateway does not know: 417.
    Unknown,
}

/// The form of the request target (RFC 9112, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, CONNECT only.
    Authority,
    /// `*`, OPTIONS only.
    Asterisk,
}

/// The head of a request. All spans point into `fields.bytes()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The method's text.
    pub method_text: Span,
    /// Form of the target.
    pub form: TargetForm,
    /// The target as it is forwarded: the sent path and the query, or `*`. What the client wrote until its path
    /// is read, and for nearly every request afterwards.
    pub target: Span,
    /// The target as the client wrote it, where it is another one; otherwise empty.
    pub raw_target: Span,
    /// The compared path: what routes, conditions and scripts see. Equal to the start of `target` for nearly
    /// every request.
    pub path: Span,
    /// Whether the path has to be read before it is compared or sent: [`RequestHead::read_path`].
    pub path_form: PathForm,
    /// The query, without its question mark; empty if there is none.
    pub query: Span,
    /// Host and port the client asked for: of the target if absolute, else of `Host`
    /// (RFC 9112, 3.2.2 and 3.3).
    pub authority: Span,
    /// The protocol that an extended CONNECT asks for (RFC 8441, 4); empty for every other request.
    pub protocol: Span,
    /// Received version.
    pub version: Version,
    /// Length of the content that follows.
    pub body: BodyLength,
    /// Whether the client means to go on after this request.
    pub persistence: Persistence,
    /// What the client waits for before it sends content.
    pub expectation: Expectation,
    /// Field lines.
    pub fields: Fields,
}

/// Why a request cannot be given a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetProblem {
    /// It does not begin with a slash, or holds what no target can (RFC 9112, 3.2.1).
    Form,
    /// Its path is refused.
    Path(PathProblem),
    /// The head is full.
    Space,
}

impl From<SpaceExhausted> for TargetProblem {
    fn from(_: SpaceExhausted) -> Self {
        Self::Space
    }
}

impl RequestHead {
    /// An empty head, to be filled by a decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Becomes a copy of `other` within the memory there is.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.copy_from(&other.fields);
        *self = Self {
            method: other.method,
            method_text: other.method_text,
            form: other.form,
            target: other.target,
            raw_target: other.raw_target,
            path: other.path,
            path_form: other.path_form,
            query: other.query,
            authority: other.authority,
            protocol: other.protocol,
            version: other.version,
            body: other.body,
            persistence: other.persistence,
            expectation: other.expectation,
            fields,
        };
    }

    /// Asks for another path and query, given in origin form (RFC 9112, 3.2.1), whose path is read by these rules.
    ///
    /// # Errors
    /// [`TargetProblem`]; nothing has changed then.
    pub fn set_target(&mut self, target: &[u8], rules: &PathRules) -> Result<(), TargetProblem> {
        let length = origin_path(target)?;
        let path = target.get(..length).unwrap_or_default();
        let mut spellings = PathSpellings::default();
        rules.read(path, &mut spellings).map_err(TargetProblem::Path)?;
        spellings.check().map_err(TargetProblem::Path)?;
        let raw = self.written_target();
        let whole = match spellings.sent == path {
            true => self.fields.append(target)?,
            false => self
                .fields
                .append(&[&spellings.sent, target.get(length..).unwrap_or_default()].concat())?,
        };
        let compared = self.append_compared(whole, &spellings)?;
        self.raw_target = raw;
        self.form = TargetForm::Origin;
        // Another route may have other rules.
        self.path_form = PathForm::of(path);
        self.target = whole;
        self.path = compared;
        self.query = Span::at(
            whole.range().end - (target.len() - length).saturating_sub(1),
            whole.range().end,
        );
        Ok(())
    }

    /// Asks for another path and query, given in origin form, as they are written. Not for requests of clients: the
    /// path is not read.
    ///
    /// # Errors
    /// [`TargetProblem`]; nothing has changed then.
    pub fn set_written_target(&mut self, target: &[u8]) -> Result<(), TargetProblem> {
        let length = origin_path(target)?;
        let whole = self.fields.append(target)?;
        let end = whole.range().end;
        let path_end = whole.range().start + length;
        self.form = TargetForm::Origin;
        self.path_form = PathForm::of(target.get(..length).unwrap_or_default());
        self.target = whole;
        self.path = Span::at(whole.range().start, path_end);
        self.query = Span::at(end.min(path_end + 1), end);
        Ok(())
    }

    /// Reads the path by these rules, and compares and sends it as they say. For whoever takes requests from a
    /// decoder and has no routes.
    ///
    /// # Errors
    /// [`TargetProblem`]: the request is to be refused.
    pub fn read_path(&mut self, rules: &PathRules) -> Result<(), TargetProblem> {
        if self.path_form == PathForm::Normal && rules.case == PathCase::Sensitive {
            return Ok(());
        }
        let mut spellings = PathSpellings::default();
        rules.read(self.sent_path(), &mut spellings).map_err(TargetProblem::Path)?;
        spellings.check().map_err(TargetProblem::Path)?;
        self.set_compared_path(&spellings)?;
        Ok(self.set_sent_path(&spellings)?)
    }

    /// Compares the path in this spelling, which was read of [`RequestHead::sent_path`].
    ///
    /// # Errors
    /// [`SpaceExhausted`] if it does not fit.
    pub fn set_compared_path(&mut self, spellings: &PathSpellings) -> Result<(), SpaceExhausted> {
        self.path = self.append_compared(self.target, spellings)?;
        Ok(())
    }

    /// Sends the path in this spelling. A path that is in it already is not copied.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if it does not fit.
    pub fn set_sent_path(&mut self, spellings: &PathSpellings) -> Result<(), SpaceExhausted> {
        let length = self.sent_path().len();
        if self.sent_path() == spellings.sent {
            return Ok(());
        }
        let rest = self.target().get(length..).unwrap_or_default();
        let target = [&spellings.sent, rest].concat();
        let query = rest.len().saturating_sub(1);
        self.raw_target = self.written_target();
        self.target = self.fields.append(&target)?;
        let end = self.target.range().end;
        self.query = Span::at(end - query, end);
        Ok(())
    }

    /// The span of the compared path, in the target if it is the same there.
    fn append_compared(
        &mut self,
        target: Span,
        spellings: &PathSpellings,
    ) -> Result<Span, SpaceExhausted> {
        let start = target.range().start;
        let end = start + spellings.compared.len();
        let whole = self.fields.slice(target);
        let same = whole.strip_prefix(spellings.compared.as_slice());
        if same.is_some_and(|rest| matches!(rest, [] | [b'?', ..])) {
            return Ok(Span::at(start, end));
        }
        self.fields.append(&spellings.compared)
    }

    /// The span of the target as the client wrote it.
    fn written_target(&self) -> Span {
        if self.raw_target.is_empty() { self.target } else { self.raw_target }
    }

    /// Asks by another method, given as it is sent.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if it does not fit.
    pub fn set_method(&mut self, method: &[u8]) -> Result<(), SpaceExhausted> {
        self.method_text = self.fields.append(method)?;
        self.method = Method::of(method);
        Ok(())
    }

    /// Asks another host: `Host` says so too (RFC 9112, 3.2). The authority has to be valid.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if it does not fit.
    pub fn set_authority(&mut self, authority: &[u8]) -> Result<(), SpaceExhausted> {
        self.fields.remove(FieldId::Host);
        self.fields.push(b"host", authority)?;
        if let Some(line) = self.fields.lines().last() {
            self.authority = line.value;
        }
        Ok(())
    }

    /// Whether content follows.
    #[must_use]
    #[inline]
    pub const fn has_content(&self) -> bool {
        !matches!(self.body, BodyLength::Empty | BodyLength::Known(0))
    }

    /// The method as it was sent.
    #[must_use]
    pub fn method_text(&self) -> &[u8] {
        self.fields.slice(self.method_text)
    }

    /// The target to forward.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        self.fields.slice(self.target)
    }

    /// The target as the client wrote it.
    #[must_use]
    pub fn raw_target(&self) -> &[u8] {
        self.fields.slice(self.written_target())
    }

    /// The path to forward: the target without its query.
    #[must_use]
    pub fn sent_path(&self) -> &[u8] {
        let target = self.target();
        let length = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        target.get(..length).unwrap_or_default()
    }

    /// The path to compare.
    #[must_use]
    #[inline]
    pub fn path(&self) -> &[u8] {
        self.fields.slice(self.path)
    }

    /// The query without its question mark.
    #[must_use]
    pub fn query(&self) -> &[u8] {
        self.fields.slice(self.query)
    }

    /// Host and port the client asked for.
    #[must_use]
    #[inline]
    pub fn authority(&self) -> &[u8] {
        self.fields.slice(self.authority)
    }

    /// The protocol that an extended CONNECT asks for; empty for every other request.
    #[must_use]
    pub fn protocol(&self) -> &[u8] {
        self.fields.slice(self.protocol)
    }

    /// The host of the authority without port; an IPv6 address keeps its brackets.
    #[must_use]
    #[inline]
    pub fn host(&self) -> &[u8] {
        let authority = self.authority();
        let after_address = authority.iter().rposition(|&byte| byte == b']').map_or(0, |at| at + 1);
        let port = authority
            .get(after_address..)
            .and_then(|rest| rest.iter().position(|&byte| byte == b':'))
            .map_or(authority.len(), |colon| after_address + colon);
        authority.get(..port).unwrap_or_default()
    }
}

/// The length of the path of a target in origin form (RFC 9112, 3.2.1).
fn origin_path(target: &[u8]) -> Result<usize, TargetProblem> {
    let allowed = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
    if target.first() != Some(&b'/') || !target.iter().all(allowed) {
        return Err(TargetProblem::Form);
    }
    Ok(target.iter().position(|&byte| byte == b'?').unwrap_or(target.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &PathRules = &PathRules::DEFAULT;

    #[test]
    fn host_leaves_the_port_out() {
        let cases = [
            ("a.example", "a.example"),
            ("a.example:80", "a.example"),
            ("[::1]", "[::1]"),
            ("[::1]:8080", "[::1]"),
            ("", ""),
        ];
        for (authority, host) in cases {
            let mut head = RequestHead::new();
            head.authority = head.fields.append(authority.as_bytes()).unwrap();
            assert_eq!(head.host(), host.as_bytes(), "{authority}");
        }
    }
    #[test]
    fn targets_are_changed_whole_or_not_at_all() {
        let mut head = RequestHead::new();
        head.set_target(b"/a?b=c?d", RULES).unwrap();
        assert_eq!(
            (head.target(), head.path(), head.query()),
            (&b"/a?b=c?d"[..], &b"/a"[..], &b"b=c?d"[..])
        );
        head.set_target(b"//x/../%61?", RULES).unwrap();
        assert_eq!((head.target(), head.path(), head.query()), (&b"/a?"[..], &b"/a"[..], &b""[..]));
        head.set_target(b"/", RULES).unwrap();
        let before = head.clone();
        for (target, problem) in [
            (&b""[..], TargetProblem::Form),
            (b"a", TargetProblem::Form),
            (b"http://a/", TargetProblem::Form),
            (b"/a b", TargetProblem::Form),
            (b"/a\r\nx: y", TargetProblem::Form),
            (b"/a#b", TargetProblem::Form),
            (b"/caf\xc3\xa9", TargetProblem::Form),
            (b"/%zz", TargetProblem::Path(PathProblem::BadEscape)),
            (b"/%00", TargetProblem::Path(PathProblem::ControlCharacter)),
            (&[&b"/"[..], &vec![b'a'; 300 * 1024]].concat(), TargetProblem::Space),
        ] {
            assert_eq!(head.set_target(target, RULES), Err(problem), "{}", target.escape_ascii());
            assert_eq!(head, before);
        }
    }

    #[test]
    fn a_new_authority_is_the_only_one() {
        let mut head = RequestHead::new();
        head.fields.push(b"Host", b"a.example").unwrap();
        head.fields.push(b"x", b"y").unwrap();
        head.set_authority(b"b.example:81").unwrap();
        assert_eq!((head.authority(), head.host()), (&b"b.example:81"[..], &b"b.example"[..]));
        assert_eq!(head.fields.values(FieldId::Host).collect::<Vec<_>>(), [b"b.example:81"]);
    }
}
