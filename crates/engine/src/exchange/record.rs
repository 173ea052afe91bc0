//! What is counted and logged of an exchange.

use std::fmt;

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
        let exchange = self.exchange;
        match (&exchange.upstream.cluster, &exchange.upstream.server) {
            (Some(cluster), Some(server)) => {
                write!(f, "upstream {} at {}: ", cluster.plan().name, server.label())?;
            }
            (Some(cluster), None) => write!(f, "upstream {}: ", cluster.plan().name)?,
            _ => write!(f, "listener {}: ", exchange.scope.listener.name)?,
        }
        write!(f, "{}", self.fault.kind.reason())?;
        if let FaultKind::TlsUntrusted | FaultKind::TlsFailed | FaultKind::NoHttp2 = self.fault.kind
            && let Some(server) = &exchange.upstream.server
        {
            write!(f, " ({})", server.complaint())?;
        }
        if let FaultKind::Malformed(syntax) = self.fault.kind {
            write!(f, " ({syntax:?})")?;
        }
        if let FaultKind::PathRefused(problem) = self.fault.kind {
            // A target is visible ASCII: no byte of it can end or forge a line.
            let target = String::from_utf8_lossy(exchange.request.raw_target());
            write!(f, " ({} in {target:?})", problem.text())?;
        }
        write!(f, ", client {}", exchange.client)?;
        if let Some(route) = exchange.route {
            write!(f, ", route {}", route.name)?;
        }
        if exchange.connection.errand.is_some() {
            return write!(f, ", in the background");
        }
        write!(f, ", answered {}", judge(self.fault).status)?;
        match exchange.call {
            Some(_) => write!(f, " as {}", meaning(self.fault).name()),
            None => Ok(()),
        }
    }
}
