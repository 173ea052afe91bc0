//! Faults by side and reason.

use sluice_message::{Fault, FaultKind, PathProblem, Side, Syntax};

use crate::Counter;

/// One kind for each reason; what broke inside a malformed message makes no reason of its own.
const KINDS: [FaultKind; 31] = [
    FaultKind::Malformed(Syntax::RequestLine),
    FaultKind::HeadTooLarge,
    FaultKind::TooManyFields,
    FaultKind::TargetTooLong,
    FaultKind::BodyTooLarge,
    FaultKind::UnknownExpectation,
    FaultKind::MethodNotImplemented,
    FaultKind::TimedOut,
    FaultKind::Closed,
    FaultKind::Reset,
    FaultKind::NoRoute,
    FaultKind::MethodNotAllowed,
    FaultKind::NoServer,
    FaultKind::ConnectFailed,
    FaultKind::ConnectTimedOut,
    FaultKind::ResponseTimedOut,
    FaultKind::Exhausted,
    FaultKind::Broken,
    FaultKind::Overloaded,
    FaultKind::CircuitOpen,
    FaultKind::ServersBusy,
    FaultKind::TlsUntrusted,
    FaultKind::TlsFailed,
    FaultKind::CertificateRequired,
    FaultKind::ProxyHeader,
    FaultKind::DeadlineExceeded,
    FaultKind::UpgradeRefused,
    FaultKind::NoHttp2,
    FaultKind::StreamRefused,
    FaultKind::LoopDetected,
    FaultKind::PathRefused(PathProblem::BadEscape),
];

/// The place of a kind in [`KINDS`]; a new kind does not compile until it has one.
#[inline]
const fn place(kind: FaultKind) -> usize {
    match kind {
        FaultKind::Malformed(_) => 0,
        FaultKind::HeadTooLarge => 1,
        FaultKind::TooManyFields => 2,
        FaultKind::TargetTooLong => 3,
        FaultKind::BodyTooLarge => 4,
        FaultKind::UnknownExpectation => 5,
        FaultKind::MethodNotImplemented => 6,
        FaultKind::TimedOut => 7,
        FaultKind::Closed => 8,
        FaultKind::Reset => 9,
        FaultKind::NoRoute => 10,
        FaultKind::MethodNotAllowed => 11,
        FaultKind::NoServer => 12,
        FaultKind::ConnectFailed => 13,
        FaultKind::ConnectTimedOut => 14,
        FaultKind::ResponseTimedOut => 15,
        FaultKind::Exhausted => 16,
        FaultKind::Broken => 17,
        FaultKind::Overloaded => 18,
        FaultKind::CircuitOpen => 19,
        FaultKind::ServersBusy => 20,
        FaultKind::TlsUntrusted => 21,
        FaultKind::TlsFailed => 22,
        FaultKind::CertificateRequired => 23,
        FaultKind::ProxyHeader => 24,
        FaultKind::DeadlineExceeded => 25,
        FaultKind::UpgradeRefused => 26,
        FaultKind::NoHttp2 => 27,
        FaultKind::StreamRefused => 28,
        FaultKind::LoopDetected => 29,
        FaultKind::PathRefused(_) => 30,
    }
}

/// A counter for each reason of a fault.
#[derive(Debug, Default)]
pub struct ReasonCounters([Counter; KINDS.len()]);

impl ReasonCounters {
    /// Counts a fault of this kind.
    pub fn on_kind(&self, kind: FaultKind) {
        if let Some(counter) = self.0.get(place(kind)) {
            counter.increment();
        }
    }

    /// How many faults had this reason.
    #[must_use]
    pub fn value(&self, kind: FaultKind) -> u64 {
        self.0.get(place(kind)).map_or(0, Counter::value)
    }
}

/// Every reason there is, each by one of its kinds.
pub(crate) fn kinds() -> impl Iterator<Item = FaultKind> {
    KINDS.into_iter()
}

/// The sides and their label values.
pub(crate) const SIDES: [(Side, &str); 3] =
    [(Side::Downstream, "downstream"), (Side::Upstream, "upstream"), (Side::Internal, "internal")];

/// One worker's faults by side and reason.
#[derive(Debug, Default)]
pub struct FaultMeter {
    downstream: ReasonCounters,
    upstream: ReasonCounters,
    internal: ReasonCounters,
}

impl FaultMeter {
    /// Counts a fault.
    pub fn on_fault(&self, fault: Fault) {
        self.side(fault.side).on_kind(fault.kind);
    }

    /// How many faults of this side had the reason of `kind`.
    #[must_use]
    pub fn value(&self, side: Side, kind: FaultKind) -> u64 {
        self.side(side).value(kind)
    }

    const fn side(&self, side: Side) -> &ReasonCounters {
        match side {
            Side::Downstream => &self.downstream,
            Side::Upstream => &self.upstream,
            Side::Internal => &self.internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_its_place_and_reason() {
        for (at, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(place(kind), at, "{kind:?}");
        }
        let reasons: BTreeSet<&str> = kinds().map(FaultKind::reason).collect();
        assert_eq!(reasons.len(), KINDS.len());
    }

    #[test]
    fn faults_count_by_side_and_reason() {
        let meter = FaultMeter::default();
        meter.on_fault(Fault::downstream(FaultKind::Malformed(Syntax::Host)));
        meter.on_fault(Fault::downstream(FaultKind::Malformed(Syntax::Chunk)));
        meter.on_fault(Fault::internal(FaultKind::Broken));
        let malformed = FaultKind::Malformed(Syntax::Target);
        assert_eq!(meter.value(Side::Downstream, malformed), 2);
        assert_eq!(meter.value(Side::Upstream, malformed), 0);
        assert_eq!(meter.value(Side::Internal, FaultKind::Broken), 1);
    }
}
