//! What is counted and logged of an exchange.

use std::fmt;

use sluice_filter::REQUEST_ID;
use sluice_message::{Fault, FaultKind, GrpcStatus, Side};
use sluice_meter::{AccessRecord, ClientRecord, RouteMeter, TlsRecord};
use sluice_net::tls::{Handshake, Security};
use sluice_net::{now, unix_ms};

use super::Exchange;
use super::call::{Call, meaning};
use crate::answer::judge;

impl Exchange<'_, '_> {
    pub(super) fn note(&mut self, fault: Fault) {
        self.fault = Some(fault);
        if fault.side == Side::Downstream && self.connection.errand.is_some() {
            // There is no client whose fault it could be.
            return;
        }
        self.worker.meters.faults().worker(self.worker.index).on_fault(fault);
        self.worker.fault_log.write(judge(fault).level, FaultLine { fault, exchange: self });
    }

    /// Counts and logs what became of the request.
    #[inline]
    pub(crate) fn record(&mut self) {
        if self.connection.errand.is_some() {
            return self.end_errand();
        }
        let nanos = now().saturating_sub(self.downstream.started());
        let (received, sent) = (self.downstream.receiver.received(), self.downstream.sender.sent());
        let meter: &RouteMeter = match self.route {
            Some(route) => route.meter.worker(self.worker.index),
            None => self.scope.listener.routes.unmatched.worker(self.worker.index),
        };
        meter.on_response(self.status, nanos, received, sent);
        if let Some(status) = self.call.as_ref().and_then(Call::status) {
            meter.calls.on_status(status);
        }
        self.scope.listener.meter.worker(self.worker.index).requests.increment();
        if let Some(filters) = self.filters {
            self.end_filters(filters, nanos);
        }
        if self.scope.view.snapshot.access.is_some() {
            self.log(nanos, received, sent);
        }
    }

    /// Tells filters that what was done for one of them is over: no client has asked for it, so it is counted by them
    /// and by those who answered alone.
    #[cold]
    fn end_errand(&mut self) {
        let nanos = now().saturating_sub(self.downstream.started());
        if let Some(filters) = self.filters {
            self.end_filters(filters, nanos);
        }
    }

    #[cold]
    fn log(&self, nanos: u64, received: u64, sent: u64) {
        let Some(log) = &self.scope.view.snapshot.access else { return };
        let readable = !self.request.fields.bytes().is_empty();
        let asked = self.filters.and_then(|_| self.as_asked());
        let head = asked.as_ref().unwrap_or(self.request);
        let masked = log.secrets.masked(head);
        let upstream = &self.upstream;
        let record = AccessRecord {
            client: self.client,
            unix_ms: unix_ms().saturating_sub(nanos / 1_000_000),
            head: readable.then_some(masked.as_ref().unwrap_or(head)),
            status: self.status,
            received_bytes: received,
            sent_bytes: sent,
            duration_nanos: nanos,
            route: self.route.map_or("-", |route| &route.name),
            listener: &self.scope.listener.name,
            tls: self.connection.security.as_deref().map(tls_record),
            upstream: upstream.cluster.as_ref().map_or("-", |cluster| &cluster.plan().name),
            upstream_address: upstream.server.as_ref().map_or("-", |server| server.label()),
            upstream_nanos: upstream.nanos,
            attempts: upstream.attempts,
            grpc_status: self.call.as_ref().and_then(Call::status).map(GrpcStatus::name),
            fault: self.fault.map(|fault| fault.kind.reason()).or(self.refusal()),
            user: self.filters.and_then(|_| self.stand.notes.user()),
            variant: self.filters.and_then(|_| self.stand.notes.variant()),
        };
        self.worker.access.write(log, &record);
    }
}

fn tls_record(security: &Security) -> TlsRecord<'_> {
    TlsRecord {
        version: security.version.name(),
        suite: security.suite,
        group: security.group.unwrap_or_default(),
        resumed: if security.handshake == Handshake::Resumed { "yes" } else { "no" },
        server_name: security.server_name.as_deref().unwrap_or_default(),
        client: security.peer_certificate.as_ref().map(|shown| ClientRecord {
            subject: &shown.subject,
            names: &shown.names,
            fingerprint: &shown.fingerprint,
        }),
    }
}

/// A fault in the words of the log.
struct FaultLine<'l, 'e, 'c> {
    fault: Fault,
    exchange: &'l Exchange<'e, 'c>,
}

impl fmt::Display for FaultLine<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (exchange, fault) = (self.exchange, self.fault);
        // What stands first is to blame, or nearest to it.
        let listener = &exchange.scope.listener.name;
        match fault.side {
            Side::Upstream if exchange.upstream.cluster.is_some() => self.write_upstream(f)?,
            _ => write!(f, "listener {listener}")?,
        }
        write!(f, ": {}", fault.kind.reason())?;
        self.write_cause(f)?;
        write!(f, ", client {}", exchange.client)?;
        self.write_request(f)?;
        if let Some(route) = exchange.route {
            write!(f, ", route {}", route.name)?;
        }
        if exchange.upstream.cluster.is_some() {
            if fault.side == Side::Upstream {
                write!(f, ", listener {listener}")?;
            } else {
                f.write_str(", ")?;
                self.write_upstream(f)?;
            }
        }
        if exchange.connection.errand.is_some() {
            return write!(f, ", in the background");
        }
        write!(f, ", answered {}", judge(fault).status)?;
        match exchange.call {
            Some(_) => write!(f, " as {}", meaning(fault).name()),
            None => Ok(()),
        }
    }
}

/// Longer paths and identifiers are cut in a fault's line, in bytes.
const LONGEST: usize = 256;

impl FaultLine<'_, '_, '_> {
    fn write_upstream(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upstream = &self.exchange.upstream;
        let Some(cluster) = &upstream.cluster else { return Ok(()) };
        write!(f, "upstream {}", cluster.plan().name)?;
        match &upstream.server {
            Some(server) => write!(f, " at {}", server.label()),
            None => Ok(()),
        }
    }

    /// What the system or the codec says.
    fn write_cause(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault.kind {
            FaultKind::Malformed(syntax) => write!(f, " ({syntax:?})"),
            FaultKind::PathRefused(problem) => {
                // As it came: no normal form shows what is wrong with it.
                let target = self.exchange.request.raw_target();
                let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
                write!(f, " ({} in \"{}\")", problem.text(), cut(path).escape_ascii())
            }
            FaultKind::ConnectFailed
            | FaultKind::TlsUntrusted
            | FaultKind::TlsFailed
            | FaultKind::NoHttp2 => match &self.exchange.upstream.server {
                Some(server) => write!(f, " ({})", server.complaint()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Method, path and identifier of the request, as far as it could be read. The query stays out: it may hold
    /// secrets.
    fn write_request(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exchange = self.exchange;
        let request = &*exchange.request;
        if request.fields.bytes().is_empty() || request.method_text().is_empty() {
            return Ok(());
        }
        let asked = exchange.filters.and_then(|_| exchange.as_asked());
        let request = asked.as_ref().unwrap_or(request);
        let (method, path) = (cut(request.method_text()), cut(request.path()));
        write!(f, ", request \"{} {}\"", method.escape_ascii(), path.escape_ascii())?;
        match exchange.filters.and_then(|_| exchange.stand.notes.get(REQUEST_ID)) {
            Some(id) => write!(f, ", request id {}", cut(id).escape_ascii()),
            None => Ok(()),
        }
    }
}

fn cut(text: &[u8]) -> &[u8] {
    text.get(..LONGEST).unwrap_or(text)
}
