//! What the gateway says by itself: fixed answers, and the one place where faults become answers.

use std::sync::Arc;

use sluice_filter::SharedBytes;
use sluice_message::{
    Fault, FaultKind, Fields, Persistence, ResponseHead, SettledHead, Side, SpaceExhausted,
};

/// An answer that is always the same: encoded once, sent many times.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) head: SettledHead,
    pub(crate) body: SharedBytes,
}

impl Answer {
    /// An answer with these fields. Names and values must be valid: they come from a checked
    /// configuration.
    ///
    /// # Errors
    /// [`SpaceExhausted`] if the fields take more than 256 KiB.
    pub fn new<'f>(
        status: u16,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        body: impl Into<Box<[u8]>>,
    ) -> Result<Self, SpaceExhausted> {
        let mut lines = Fields::new();
        for (name, value) in fields {
            lines.push(name.as_bytes(), value.as_bytes())?;
        }
        let head = ResponseHead { status, fields: lines, ..ResponseHead::default() };
        let body = SharedBytes::from(Arc::<[u8]>::from(body.into()));
        Ok(Self { head: head.into(), body })
    }
}

/// How loud a fault is on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Only counted, and named in the access log: a client's everyday doing.
    Silent,
    /// A client that breaks rules.
    Info,
    /// An origin that fails.
    Warn,
    /// We fail.
    Error,
}

/// What a fault comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Status of the answer. 499 stands in logs for a client that did not wait for one.
    pub(crate) status: u16,
    pub(crate) level: Level,
    /// Whether the client's connection can be used further.
    pub(crate) persistence: Persistence,
    pub(crate) reply: Reply,
}

/// Whether anybody is there to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Send,
    Nobody,
}

/// The one function that maps a fault to status and log level.
pub(crate) const fn judge(fault: Fault) -> Verdict {
    use FaultKind as K;
    let (status, level) = match (fault.side, fault.kind) {
        (Side::Downstream, K::Malformed(_)) | (_, K::PathRefused(_)) => (400, Level::Info),
        (Side::Downstream, K::TimedOut) => (408, Level::Silent),
        (Side::Downstream, K::Closed | K::Reset) => (499, Level::Silent),
        (Side::Downstream, K::HeadTooLarge | K::TooManyFields) => (431, Level::Info),
        (_, K::ProxyHeader) => (400, Level::Warn),
        (_, K::CertificateRequired) => (403, Level::Info),
        (_, K::NoRoute) => (404, Level::Silent),
        (_, K::MethodNotAllowed) => (405, Level::Silent),
        (_, K::BodyTooLarge) => (413, Level::Info),
        (_, K::TargetTooLong) => (414, Level::Info),
        (_, K::UnknownExpectation) => (417, Level::Info),
        (_, K::MethodNotImplemented) | (Side::Downstream, K::UpgradeRefused) => (501, Level::Info),
        (_, K::LoopDetected) => (508, Level::Warn),
        (_, K::DeadlineExceeded) => (504, Level::Silent),
        (_, K::ConnectTimedOut | K::ResponseTimedOut) => (504, Level::Warn),
        (Side::Upstream, K::TimedOut) => (504, Level::Warn),
        (_, K::NoServer | K::Overloaded | K::CircuitOpen | K::ServersBusy) => (503, Level::Warn),
        (Side::Upstream, _) => (502, Level::Warn),
        (_, K::Exhausted) => (503, Level::Error),
        (Side::Internal, _)
        | (
            _,
            K::ConnectFailed
            | K::TlsUntrusted
            | K::TlsFailed
            | K::NoHttp2
            | K::StreamRefused
            | K::Broken,
        ) => (500, Level::Error),
    };
    let persistence = match (fault.side, fault.kind) {
        (
            _,
            K::NoRoute
            | K::PathRefused(_)
            | K::MethodNotAllowed
            | K::CertificateRequired
            | K::Overloaded
            | K::CircuitOpen
            | K::DeadlineExceeded
            | K::LoopDetected
            // What failed was the answering: the request and the connection it came over are whole.
            | K::Broken,
        )
        | (Side::Upstream, _) => Persistence::KeepAlive,
        _ => Persistence::Close,
    };
    let reply = if status == 499 { Reply::Nobody } else { Reply::Send };
    Verdict { status, level, persistence, reply }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_message::{PathProblem, Retry, Syntax};

    #[test]
    fn faults_become_the_statuses_their_side_and_kind_call_for() {
        let down = Fault::downstream;
        let up = |kind| Fault::upstream(kind, Retry::Never);
        let cases = [
            (down(FaultKind::Malformed(Syntax::Host)), 400),
            (up(FaultKind::Malformed(Syntax::StatusLine)), 502),
            (down(FaultKind::HeadTooLarge), 431),
            (up(FaultKind::HeadTooLarge), 502),
            (down(FaultKind::TimedOut), 408),
            (up(FaultKind::TimedOut), 504),
            (up(FaultKind::ResponseTimedOut), 504),
            (up(FaultKind::ConnectTimedOut), 504),
            (up(FaultKind::ConnectFailed), 502),
            (up(FaultKind::TlsUntrusted), 502),
            (up(FaultKind::TlsFailed), 502),
            (up(FaultKind::NoHttp2), 502),
            (up(FaultKind::StreamRefused), 502),
            (down(FaultKind::CertificateRequired), 403),
            (up(FaultKind::NoServer), 503),
            (Fault::internal(FaultKind::Exhausted), 503),
            (Fault::internal(FaultKind::Overloaded), 503),
            (Fault::internal(FaultKind::CircuitOpen), 503),
            (up(FaultKind::Overloaded), 503),
            (up(FaultKind::ServersBusy), 503),
            (Fault::internal(FaultKind::Broken), 500),
            (down(FaultKind::NoRoute), 404),
            (down(FaultKind::PathRefused(PathProblem::Backslash)), 400),
            (down(FaultKind::BodyTooLarge), 413),
            (down(FaultKind::DeadlineExceeded), 504),
            (Fault::internal(FaultKind::LoopDetected), 508),
        ];
        for (fault, status) in cases {
            assert_eq!(judge(fault).status, status, "{fault:?}");
        }
    }

    #[test]
    fn nobody_answers_a_client_that_left() {
        assert_eq!(judge(Fault::downstream(FaultKind::Closed)).reply, Reply::Nobody);
    }
}
