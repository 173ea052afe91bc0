//! What goes wrong on the data path, who is to blame, and whether trying again is allowed.

use crate::PathProblem;

/// Who caused a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The client, or the way to it.
    Downstream,
    /// The origin, or the way to it.
    Upstream,
    /// This gateway.
    Internal,
}

/// Whether the same request may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Never.
    Never,
    /// Only if repeating does no harm: the request may have reached the origin.
    IfIdempotent,
    /// Always: not one byte of the request was sent.
    Always,
}

/// The rule of RFC 9112 or 9110 that a message broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// The request line (RFC 9112, 3).
    RequestLine,
    /// The status line (RFC 9112, 4).
    StatusLine,
    /// A version other than HTTP/1.0 and HTTP/1.1 (RFC 9112, 2.3).
    Version,
    /// The request target (RFC 9112, 3.2).
    Target,
    /// A field name, or white space before its colon (RFC 9112, 5.1).
    FieldName,
    /// A field value: NUL, CR, LF or another control character (RFC 9110, 5.5).
    FieldValue,
    /// A line folded by leading white space (RFC 9112, 5.2).
    FoldedLine,
    /// A line that ends without CRLF (RFC 9112, 2.2).
    LineEnd,
    /// `Host` missing, repeated or no host (RFC 9112, 3.2).
    Host,
    /// `Content-Length` that is no number, repeated with other values, or beside
    /// `Transfer-Encoding` (RFC 9112, 6.3).
    ContentLength,
    /// `Transfer-Encoding` that this gateway does not know or that does not end in one `chunked`
    /// (RFC 9112, 6.1).
    TransferEncoding,
    /// A chunk size, extension or end (RFC 9112, 7.1).
    Chunk,
    /// A trailer field that may not be one (RFC 9110, 6.5.1).
    Trailer,
    /// Text that is no Base64 where it has to be (RFC 4648, 4).
    Base64,
    /// Content that is not in the coding it says it is in (RFC 9110, 8.4).
    Content,
    /// An agreement to another protocol that does not fit what was asked (RFC 6455, 4.1).
    Upgrade,
    /// A frame that breaks a rule of a connection of many streams (RFC 9113, 5.4.1).
    Frame,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The message broke a rule.
    Malformed(Syntax),
    /// Head larger than the limit.
    HeadTooLarge,
    /// More fields than the limit.
    TooManyFields,
    /// Request target longer than the limit.
    TargetTooLong,
    /// A path that the rules for paths refuse.
    PathRefused(PathProblem),
    /// Content larger than the route allows.
    BodyTooLarge,
    /// An expectation other than `100-continue`.
    UnknownExpectation,
    /// A method this gateway does not implement (CONNECT).
    MethodNotImplemented,
    /// The head, the content or the taking of the answer made no progress in time.
    TimedOut,
    /// The peer closed or reset the connection in the middle of a message.
    Closed,
    /// The peer reset the connection.
    Reset,
    /// A connection did not begin with the header it has to begin with.
    ProxyHeader,
    /// No route matches.
    NoRoute,
    /// The route is for clients that have shown a certificate, and this one has not.
    CertificateRequired,
    /// A route matches but for its method.
    MethodNotAllowed,
    /// The upstream has no server: none configured, or its name resolves to nothing.
    NoServer,
    /// A connection could not be opened.
    ConnectFailed,
    /// A connection was not opened in time.
    ConnectTimedOut,
    /// The certificate of the origin is not accepted.
    TlsUntrusted,
    /// No encryption could be agreed upon with the origin.
    TlsFailed,
    /// The origin does not speak the protocol it is configured for.
    NoHttp2,
    /// The origin says that it did nothing of what it was asked (RFC 9113, 8.7).
    StreamRefused,
    /// The origin did not begin to answer in time.
    ResponseTimedOut,
    /// The time the client gives the whole exchange is over.
    DeadlineExceeded,
    /// As many requests are under way as may, and no more may wait or this one waited too long.
    Overloaded,
    /// The upstream has as much to do as it may have at a time.
    CircuitOpen,
    /// No server has room for the request, and no more may wait or this one waited too long.
    ServersBusy,
    /// The request has passed this gateway too often: an upstream leads back to it.
    LoopDetected,
    /// The gateway is out of something (file descriptors, space for fields).
    Exhausted,
    /// The client asks for a protocol that is not spoken there, in a way in which every success would
    /// mean that it is.
    UpgradeRefused,
    /// A panic or a broken invariant, caught.
    Broken,
}

impl FaultKind {
    /// The reason as it stands in log and metrics; one word, stable.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::HeadTooLarge => "head_too_large",
            Self::TooManyFields => "too_many_fields",
            Self::TargetTooLong => "target_too_long",
            Self::PathRefused(_) => "path_refused",
            Self::BodyTooLarge => "body_too_large",
            Self::UnknownExpectation => "unknown_expectation",
            Self::MethodNotImplemented => "method_not_implemented",
            Self::TimedOut => "timed_out",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::ProxyHeader => "proxy_header",
            Self::NoRoute => "no_route",
            Self::CertificateRequired => "certificate_required",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::NoServer => "no_server",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimedOut => "connect_timed_out",
            Self::TlsUntrusted => "tls_untrusted",
            Self::TlsFailed => "tls_failed",
            Self::NoHttp2 => "no_http2",
            Self::StreamRefused => "stream_refused",
            Self::ResponseTimedOut => "response_timed_out",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Overloaded => "overloaded",
            Self::CircuitOpen => "circuit_open",
            Self::ServersBusy => "servers_busy",
            Self::LoopDetected => "loop_detected",
            Self::Exhausted => "exhausted",
            Self::UpgradeRefused => "upgrade_refused",
            Self::Broken => "broken",
        }
    }
}

/// A fault on the data path. One function of the engine maps it to status, log level and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Who caused it.
    pub side: Side,
    /// What happened.
    pub kind: FaultKind,
    /// Whether trying again is allowed.
    pub retry: Retry,
}

impl Fault {
    /// The client's fault; never tried again.
    #[must_use]
    pub const fn downstream(kind: FaultKind) -> Self {
        Self { side: Side::Downstream, kind, retry: Retry::Never }
    }

    /// The origin's fault.
    #[must_use]
    pub const fn upstream(kind: FaultKind, retry: Retry) -> Self {
        Self { side: Side::Upstream, kind, retry }
    }

    /// Our own fault; never tried again.
    #[must_use]
    pub const fn internal(kind: FaultKind) -> Self {
        Self { side: Side::Internal, kind, retry: Retry::Never }
    }
}
