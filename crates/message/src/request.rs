//! The head of a request, whatever protocol it came by.

use crate::{FieldId, Fields, Method, PathForm, PathProblem, SpaceExhausted, Span, normalize_path};

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
    /// The target as it is forwarded: path and query as the client wrote them, or `*`.
    pub target: Span,
    /// The path as it is matched: escapes of unreserved characters decoded, dot segments and
    /// repeated slashes removed. Equal to the start of `target` for nearly every request.
    pub path: Span,
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
    /// Its path has no normal form.
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
            path: other.path,
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

    /// Asks for another path and query, given in origin form (RFC 9112, 3.2.1): the path is matched in its
    /// normal form, and forwarded as it is given.
    ///
    /// # Errors
    /// [`TargetProblem`]; nothing has changed then.
    pub fn set_target(&mut self, target: &[u8]) -> Result<(), TargetProblem> {
        let allowed = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
        if target.first() != Some(&b'/') || !target.iter().all(allowed) {
            return Err(TargetProblem::Form);
        }
        let length = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let mut normal = Vec::new();
        let form = normalize_path(target.get(..length).unwrap_or_default(), &mut normal)
            .map_err(TargetProblem::Path)?;
        let whole = self.fields.append(target)?;
        let path = match form {
            PathForm::Normal => Span::at(whole.range().start, whole.range().start + length),
            PathForm::Rewritten => self.fields.append(&normal)?,
        };
        let behind = (whole.range().start + length + 1).min(whole.range().end);
        self.form = TargetForm::Origin;
        self.target = whole;
        self.path = path;
        self.query = Span::at(behind, whole.range().end);
        Ok(())
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

    /// The path to match.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        head.set_target(b"/a?b=c?d").unwrap();
        assert_eq!(
            (head.target(), head.path(), head.query()),
            (&b"/a?b=c?d"[..], &b"/a"[..], &b"b=c?d"[..])
        );
        head.set_target(b"//x/../%61?").unwrap();
        assert_eq!(
            (head.target(), head.path(), head.query()),
            (&b"//x/../%61?"[..], &b"/a"[..], &b""[..])
        );
        head.set_target(b"/").unwrap();
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
            (b"/%00", TargetProblem::Path(PathProblem::EncodedNul)),
            (&vec![b'/'; 300 * 1024], TargetProblem::Space),
        ] {
            assert_eq!(head.set_target(target), Err(problem), "{}", target.escape_ascii());
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
