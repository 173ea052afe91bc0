//! Remote procedure calls: requests whose answers say in a status of their own how they ended.

use std::time::Duration;

use sluice_message::{
    BodyLength, Dialect, Fault, FaultKind, FieldId, Fields, GrpcStatus, Persistence, ResponseHead,
    Side, SpaceExhausted, parse_grpc_timeout, write_grpc_timeout,
};
use sluice_net::{Nanos, now};
use sluice_upstream::{Cluster, Server};

use super::{After, Exchange, Queued, Stop, exhausted};
use crate::answer::judge;
use sluice_filter::phrase;

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    dialect: Dialect,
    /// When all of it has to be over.
    end: Nanos,
    /// How it ended.
    status: Option<GrpcStatus>,
}

impl Call {
    /// How it is laid into its messages.
    pub(crate) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// How it ended, as far as that is known.
    pub(crate) const fn status(&self) -> Option<GrpcStatus> {
        self.status
    }
}

impl Exchange<'_, '_> {
    /// Finds out whether the request is a call.
    #[inline(always)]
    pub(crate) fn find_call(&mut self) {
        if let Some(dialect) = Dialect::of_request(self.request) {
            self.begin_call(dialect);
        }
    }

    #[cold]
    fn begin_call(&mut self, dialect: Dialect) {
        let asked = self.request.fields.values_of(TIMEOUT).next().and_then(parse_grpc_timeout);
        let most = self.route.and_then(|route| route.calls.most);
        let limit = asked.into_iter().chain(most).min();
        let end = limit
            .map_or(Nanos::MAX, |limit| self.downstream.started().saturating_add(nanos(limit)));
        self.call = Some(Call { dialect, end, status: None });
    }

    /// When all has to be over, by the wish of the client.
    #[inline]
    pub(crate) fn end_of_call(&self) -> Nanos {
        self.call.as_ref().map_or(Nanos::MAX, |call| call.end)
    }

    /// What is left of `limit` when the call has to be over before.
    #[inline]
    pub(crate) fn within_call(&self, limit: Option<Duration>) -> Option<Duration> {
        match self.end_of_call() {
            Nanos::MAX => limit,
            end => {
                let left = Duration::from_nanos(end.saturating_sub(now()));
                Some(limit.map_or(left, |limit| limit.min(left)))
            }
        }
    }

    /// Tells the origin how long it has, at most.
    #[inline]
    pub(crate) fn pass_deadline_on(&mut self) -> Result<(), Fault> {
        match self.end_of_call() {
            Nanos::MAX => Ok(()),
            end => self.write_deadline(end),
        }
    }

    #[cold]
    fn write_deadline(&mut self, end: Nanos) -> Result<(), Fault> {
        let left = end.saturating_sub(now());
        if left == 0 {
            return Err(LATE);
        }
        let fields = &mut self.request.fields;
        fields.remove_read_as(TIMEOUT);
        let value = write_grpc_timeout(Duration::from_nanos(left));
        fields.push(TIMEOUT, value.as_bytes()).map_err(|_| exhausted())
    }

    /// Whatever failed when the time of the call is over, failed because of that.
    pub(crate) fn overdue(&self, stop: Stop) -> Stop {
        let left = stop.fault.side == Side::Downstream
            && matches!(stop.fault.kind, FaultKind::Closed | FaultKind::Reset);
        let late = self.end_of_call() <= now();
        if late && !left { Stop { fault: LATE, ..stop } } else { stop }
    }

    /// Takes note of what a fault means for a call.
    pub(crate) fn fail_call(&mut self, fault: Fault) {
        if let Some(call) = &mut self.call {
            call.status = Some(meaning(fault));
        }
    }

    /// Answers a call that failed here: with a head alone, whose status is the call's
    /// (gRPC over HTTP/2, "Trailers-Only").
    pub(crate) fn refuse_call(
        &mut self,
        (call, fault): (Call, Fault),
        persistence: Persistence,
    ) -> Result<Queued, Fault> {
        let mut head = self.trailers_only(call)?;
        say(&mut head.fields, fault).map_err(|_| exhausted())?;
        Ok(self.send_alone(head, persistence))
    }

    /// The recycled response head, begun as that of an answer which is a head alone.
    pub(super) fn trailers_only(&mut self, call: Call) -> Result<ResponseHead, Fault> {
        let mut head = std::mem::take(self.response);
        head.fields.clear();
        head = ResponseHead { status: 200, fields: head.fields, ..ResponseHead::default() };
        let kind = call.dialect.content_type().as_bytes();
        head.fields.push(b"content-type", kind).map_err(|_| exhausted())?;
        Ok(head)
    }

    /// Takes note of how the call ends.
    pub(super) fn note_call(&mut self, status: GrpcStatus) {
        if let Some(call) = &mut self.call {
            call.status = Some(status);
        }
    }

    /// Ends an answer that has begun and cannot go on. A call is told why: whoever has half a message
    /// sees by its length that it is no whole one.
    pub(crate) fn break_off(&mut self, fault: Fault) -> After {
        let heard = fault.side != Side::Downstream || fault.kind == FaultKind::DeadlineExceeded;
        let plain = self.call.is_some_and(|call| call.dialect == Dialect::Plain);
        let mut trailers = Fields::new();
        if !(heard && plain && self.downstream.sender.takes_trailers())
            || say(&mut trailers, fault).is_err()
        {
            return After::Abort;
        }
        self.downstream.sender.finish(Some(&trailers));
        After::Close
    }

    /// Takes note of how the origin ended the call.
    #[cold]
    pub(crate) fn end_call(
        &mut self,
        cluster: &Cluster,
        server: Option<&Server>,
        trailers: Option<&Fields>,
    ) {
        let status = self.told_status(trailers);
        cluster.on_call(server, self.response.status, status);
        if let Some(call) = &mut self.call {
            call.status = Some(status);
        }
    }

    /// What the head of the answer, or what came behind its content, says about how the call ended.
    pub(crate) fn told_status(&self, trailers: Option<&Fields>) -> GrpcStatus {
        let status = |fields: &Fields| fields.values_of(STATUS).next().map(GrpcStatus::of_value);
        let told = trailers.and_then(status).or_else(|| status(&self.response.fields));
        // Somebody on the way has answered who knows nothing of calls.
        told.unwrap_or_else(|| GrpcStatus::of_http(self.response.status))
    }

    /// How the call ended, if that is all that the answer says: nothing of it needs to be passed on then.
    pub(crate) fn status_alone(&self) -> Option<GrpcStatus> {
        let whole = matches!(self.response.body, BodyLength::Empty | BodyLength::Known(0));
        let told = self.response.fields.values_of(STATUS).next()?;
        (whole && self.response.status == 200).then(|| GrpcStatus::of_value(told))
    }

    /// Whether the call failed in a way that says nothing about how fast calls are.
    pub(crate) fn is_failed_call(&self) -> bool {
        let failures = [
            GrpcStatus::UNKNOWN,
            GrpcStatus::RESOURCE_EXHAUSTED,
            GrpcStatus::UNIMPLEMENTED,
            GrpcStatus::INTERNAL,
            GrpcStatus::UNAVAILABLE,
        ];
        let status = self.call.as_ref().and_then(Call::status);
        status.is_some_and(|status| failures.contains(&status))
    }

    /// Whether the request would be a call, for answers that are given before that is found out.
    pub(crate) fn is_call(&self) -> bool {
        self.request.fields.value(FieldId::ContentType).and_then(Dialect::of).is_some()
    }
}

const TIMEOUT: &[u8] = b"grpc-timeout";
const STATUS: &[u8] = b"grpc-status";

/// The time that the client gave is over: that is nobody's fault but says that it waits no longer.
const LATE: Fault = Fault::downstream(FaultKind::DeadlineExceeded);

/// How a call ends that failed here.
pub(crate) fn meaning(fault: Fault) -> GrpcStatus {
    match fault.kind {
        FaultKind::DeadlineExceeded => GrpcStatus::DEADLINE_EXCEEDED,
        // What servers say of messages that are too large.
        FaultKind::BodyTooLarge => GrpcStatus::RESOURCE_EXHAUSTED,
        _ => match judge(fault).status {
            499 => GrpcStatus::CANCELLED,
            status => GrpcStatus::of_http(status),
        },
    }
}

/// The fields that say how a call ended. Reasons and phrases have no character that needs an escape.
fn say(fields: &mut Fields, fault: Fault) -> Result<(), SpaceExhausted> {
    refuse_with(fields, meaning(fault), (judge(fault).status, fault.kind.reason()))
}

/// The same for a status of HTTP and a reason.
pub(super) fn refuse_with(
    fields: &mut Fields,
    call: GrpcStatus,
    (status, reason): (u16, &str),
) -> Result<(), SpaceExhausted> {
    fields.push(STATUS, call.number().to_string().as_bytes())?;
    let message = format!("{status} {}: {reason}", phrase(status));
    fields.push(b"grpc-message", message.as_bytes())
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_message::{Retry, Syntax};

    #[test]
    fn faults_end_calls_with_the_status_they_call_for() {
        let down = Fault::downstream;
        let up = |kind| Fault::upstream(kind, Retry::Never);
        let rows = [
            (down(FaultKind::Malformed(Syntax::Chunk)), "internal"),
            (down(FaultKind::CertificateRequired), "permission_denied"),
            (down(FaultKind::NoRoute), "unimplemented"),
            (down(FaultKind::MethodNotAllowed), "unknown"),
            (down(FaultKind::BodyTooLarge), "resource_exhausted"),
            (down(FaultKind::Closed), "cancelled"),
            (down(FaultKind::DeadlineExceeded), "deadline_exceeded"),
            (up(FaultKind::ConnectFailed), "unavailable"),
            (up(FaultKind::ResponseTimedOut), "unavailable"),
            (up(FaultKind::NoServer), "unavailable"),
            (Fault::internal(FaultKind::Overloaded), "unavailable"),
            (Fault::internal(FaultKind::Broken), "unknown"),
        ];
        for (fault, name) in rows {
            assert_eq!(meaning(fault).name(), name, "{fault:?}");
            let mut fields = Fields::new();
            say(&mut fields, fault).unwrap();
            let message = fields.values_of(b"grpc-message").next().unwrap();
            // Others are to be written as escapes (gRPC over HTTP/2, "Percent-Encoded").
            assert!(message.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'%'));
        }
    }
}
