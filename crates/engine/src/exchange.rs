//! One exchange, from a request head to its answer, whatever protocol carries it.

mod call;
mod filters;
mod outflow;

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use sluice_conn::Downstream;
use sluice_filter::phrase;
use sluice_message::{
    BodyLength, Expectation, Fault, FaultKind, GrpcStatus, Method, Persistence, RequestHead,
    ResponseHead, TargetForm,
};
use sluice_meter::{AccessRecord, ClientRecord, RouteMeter, TlsRecord};
use sluice_net::tls::{Handshake, Security};
use sluice_net::{now, unix_ms};
use sluice_route::Match;
use sluice_upstream::{Cluster, Pass, Visit};

use call::{Call, meaning};
pub(crate) use filters::{ReadAhead, Stand, Substitute, Suspended};
pub(crate) use outflow::Outflow;

use crate::admission::{Admission, Ticket};
use crate::answer::{Reply, judge};
use crate::connection::Connection;
use crate::forward::client_address;
use crate::local::{Scope, Worker};
use crate::opening::{check_action, take_connect};
use crate::snapshot::RouteFilters;
use crate::{Action, Answer, Proof, Redirect, ReportAnswer, Route};

/// Content of a request that nobody asked for is read up to this size, to keep the connection.
const DISCARD: u64 = 64 * 1024;

/// How one exchange leaves the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Another request may follow.
    Next,
    /// This was the last one; the client may not know.
    Close,
    /// This was the last one by the client's own wish, and nothing of it is left unread.
    Finish,
    /// The answer broke off; the client must notice.
    Abort,
}

/// What a request comes to before anything is waited for.
pub(crate) enum Step<'e> {
    /// The answer is queued, nothing is left to do.
    Answered(After),
    /// The answer is queued, the request's content has to be read off the connection.
    Content,
    /// An origin is to answer; content up to this many bytes may go there.
    Proxy(&'e Rc<Cluster>, u64),
    /// As many requests are under way as may: this one has to wait.
    Wait(&'e Route, &'e Admission),
    /// The answer has begun, and there is more content than goes out with its head.
    Stream(Box<Outflow>),
    /// A filter has to wait.
    Filter(Box<Suspended<'e>>),
    /// It cannot be answered as it was meant.
    Stopped(Stop),
}

/// Why no route was taken.
enum Refusal {
    Fault(Fault),
    /// Routes exist for these methods, the value of `Allow`.
    Method(Vec<u8>),
}

/// An answer that broke off after its head was sent, or that nobody will take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) fault: Fault,
    pub(crate) progress: AnswerProgress,
}

/// How far the answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerProgress {
    NotBegun,
    Begun,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self { fault, progress: AnswerProgress::NotBegun }
    }
}

/// What became of the upstream part, for log and metrics.
#[derive(Default)]
pub(crate) struct UpstreamRecord<'e> {
    pub(crate) cluster: Option<&'e Rc<Cluster>>,
    pub(crate) server: Option<Visit>,
    /// The connection in use.
    pub(crate) connection: Pass,
    pub(crate) nanos: Option<u64>,
    pub(crate) attempts: u32,
}

/// One request and all that its answering needs.
pub(crate) struct Exchange<'e, 'c> {
    pub(crate) worker: &'e Worker,
    pub(crate) scope: &'e Scope,
    pub(crate) connection: &'e Connection,
    pub(crate) downstream: &'e mut Downstream<'c>,
    pub(crate) request: &'e mut RequestHead,
    pub(crate) response: &'e mut ResponseHead,
    pub(crate) upstream: UpstreamRecord<'e>,
    pub(crate) client: IpAddr,
    pub(crate) route: Option<&'e Route>,
    /// What lets it be under way, where that is limited.
    pub(crate) ticket: Ticket<'e>,
    /// Seconds after which a client that is refused may come back.
    pub(crate) retry_after: u64,
    pub(crate) status: u16,
    pub(crate) fault: Option<Fault>,
    /// The call that the request is, once it is known that it is one.
    pub(crate) call: Option<Call>,
    /// The filters of the route, once they have been asked.
    pub(crate) filters: Option<&'e RouteFilters>,
    /// What filters work with.
    pub(crate) stand: &'e mut Stand,
}

impl<'e, 'c> Exchange<'e, 'c> {
    pub(crate) fn new(
        worker: &'e Worker,
        scope: &'e Scope,
        connection: &'e Connection,
        downstream: &'e mut Downstream<'c>,
        (request, response, stand): (&'e mut RequestHead, &'e mut ResponseHead, &'e mut Stand),
    ) -> Self {
        Self {
            worker,
            scope,
            connection,
            downstream,
            request,
            response,
            upstream: UpstreamRecord::default(),
            client: connection.peer,
            route: None,
            ticket: Ticket::default(),
            retry_after: 1,
            status: 0,
            fault: None,
            call: None,
            filters: None,
            stand,
        }
    }

    /// Routes the request and answers it, if that needs no waiting.
    // In line although there are two callers: a call costs measurably.
    #[inline(always)]
    pub(crate) fn begin(&mut self) -> Step<'e> {
        let trusted = &self.scope.view.snapshot.trusted_proxies;
        if !trusted.is_empty() {
            self.client = client_address(self.request, self.connection.peer, trusted);
        }
        // Nearly every target has a path: the question costs one comparison.
        if self.request.form == TargetForm::Asterisk {
            return self.answered(Self::describe_server);
        }
        match self.find_route() {
            Ok(route) => self.act(route),
            Err(Refusal::Fault(fault)) => Step::Stopped(fault.into()),
            Err(Refusal::Method(_)) if self.is_call() => {
                Step::Stopped(Fault::downstream(FaultKind::MethodNotAllowed).into())
            }
            Err(Refusal::Method(allow)) => self.answered(|exchange| exchange.refuse_method(&allow)),
        }
    }

    /// Makes sure that nothing of the request before is told of one that could not be read.
    pub(crate) fn forget_request(&mut self) {
        self.request.fields.clear();
        self.request.body = BodyLength::Empty;
        self.request.persistence = Persistence::Close;
    }

    // In line although there are two callers, as all up to where the answer is queued.
    #[inline(always)]
    fn find_route(&mut self) -> Result<&'e Route, Refusal> {
        let tunnel = self.request.method == Method::Connect;
        if tunnel {
            // It is routed as what it becomes.
            take_connect(self.request).map_err(Refusal::Fault)?;
        }
        self.check_head().map_err(Refusal::Fault)?;
        let routes = &self.scope.listener.routes;
        let fault = |fault| Refusal::Fault(fault);
        match routes.table.find(self.request, self.client) {
            Match::Found(index) => {
                let broken = Fault::internal(FaultKind::Broken);
                let route = routes.routes.get(index).ok_or(fault(broken))?;
                if tunnel {
                    check_action(&route.action).map_err(Refusal::Fault)?;
                }
                Ok(route)
            }
            Match::MethodNotAllowed(allow) => {
                let mut methods = Vec::new();
                allow.write(&mut methods);
                Err(Refusal::Method(methods))
            }
            Match::None => Err(fault(Fault::downstream(FaultKind::NoRoute))),
        }
    }

    #[inline(always)]
    fn act(&mut self, route: &'e Route) -> Step<'e> {
        self.route = Some(route);
        if let BodyLength::Known(length) = self.request.body
            && length > route.body_limit
        {
            return Step::Stopped(Fault::downstream(FaultKind::BodyTooLarge).into());
        }
        if route.proof == Proof::Certificate && self.connection.certificate().is_none() {
            return Step::Stopped(Fault::downstream(FaultKind::CertificateRequired).into());
        }
        if let Some(filters) = &route.filters {
            return self.filter(route, filters);
        }
        self.admit(route)
    }

    /// Does what the route says, if as many requests as that are under way.
    #[inline(always)]
    fn admit(&mut self, route: &'e Route) -> Step<'e> {
        if let Some(admission) = &route.admission
            && !admission.try_enter(&mut self.ticket)
        {
            return Step::Wait(route, admission);
        }
        self.perform(route)
    }

    /// Does what the route says.
    #[inline(always)]
    pub(crate) fn perform(&mut self, route: &'e Route) -> Step<'e> {
        match &route.action {
            Action::Respond(answer) => self.answered(|exchange| Ok(exchange.respond(answer))),
            Action::Redirect(redirect) => self.answered(|exchange| exchange.redirect(redirect)),
            Action::Report(report) => {
                let answer = report.report(self.request);
                self.answered(|exchange| exchange.tell(answer))
            }
            Action::Proxy(cluster) => match self.scope.view.clusters.get(self.target(*cluster)) {
                Some(cluster) => Step::Proxy(cluster, self.body_limit(route)),
                None => Step::Stopped(Fault::internal(FaultKind::Broken).into()),
            },
            Action::Handle(handler) => self.handle(route, &**handler),
        }
    }

    /// How a connection ends that is not to go on.
    pub(crate) fn end(&self) -> After {
        let wished = self.request.persistence == Persistence::Close;
        if wished && self.downstream.receiver.is_drained() { After::Finish } else { After::Close }
    }

    /// What is left to do after an answer that did not look at the request's content.
    #[inline]
    fn answered(
        &mut self,
        answer: impl FnOnce(&mut Self) -> Result<Persistence, Fault>,
    ) -> Step<'e> {
        match answer(self) {
            Ok(Persistence::Close) => self.ended(),
            Ok(Persistence::KeepAlive) if self.request.has_content() => Step::Content,
            Ok(Persistence::KeepAlive) => Step::Answered(After::Next),
            Err(fault) => Step::Stopped(fault.into()),
        }
    }

    /// The connection is not to go on, or the answer does.
    #[cold]
    fn ended(&mut self) -> Step<'e> {
        match self.take_outflow() {
            Some(outflow) => Step::Stream(outflow),
            None => Step::Answered(self.end()),
        }
    }

    #[inline]
    fn check_head(&self) -> Result<(), Fault> {
        if self.request.expectation == Expectation::Unknown {
            return Err(Fault::downstream(FaultKind::UnknownExpectation));
        }
        Ok(())
    }

    /// Whether the connection may go on after this answer, as far as can be said when it begins.
    #[inline]
    pub(crate) fn persistence(&self) -> Persistence {
        let wanted = self.request.persistence == Persistence::KeepAlive;
        let allowed = self.connection.served.get() < self.scope.listener.connections.requests
            && !self.worker.is_draining()
            && !self.connection.listener.is_closed();
        if wanted && allowed { Persistence::KeepAlive } else { Persistence::Close }
    }

    #[inline]
    fn respond(&mut self, answer: &Answer) -> Persistence {
        let persistence = self.persistence_after_content();
        self.send(&answer.head, &answer.body, persistence)
    }

    /// An answer that does not need the request's content can only keep the connection if that
    /// content is small enough to be read and forgotten. One that waits for `100 (Continue)` may
    /// come or not: nobody can tell (RFC 9110, 10.1.1).
    #[inline]
    fn persistence_after_content(&self) -> Persistence {
        match self.request.body {
            _ if !self.request.has_content() => self.persistence(),
            _ if self.request.expectation == Expectation::Continue => Persistence::Close,
            BodyLength::Known(length) if length > DISCARD => Persistence::Close,
            _ => self.persistence(),
        }
    }

    /// Queues a whole answer that is in memory. What a filter puts in its place may be more than goes out with
    /// its head: then the answer is [`Persistence::Close`], whose ways out look for the rest.
    #[inline]
    fn send(&mut self, head: &ResponseHead, body: &[u8], persistence: Persistence) -> Persistence {
        match self.filters {
            None => {
                self.deliver(head, body, persistence);
                persistence
            }
            Some(filters) => self.send_through(filters, (head, body), persistence),
        }
    }

    #[inline(always)]
    fn deliver(&mut self, head: &ResponseHead, body: &[u8], persistence: Persistence) {
        self.status = head.status;
        let length = BodyLength::Known(u64::try_from(body.len()).unwrap_or(u64::MAX));
        let downstream = &mut *self.downstream;
        self.worker.with_date(|date| {
            let framing = downstream.framing(length, persistence, Some(date));
            downstream.send_head(head, &framing);
        });
        if downstream.wants_content(head.status) {
            downstream.sender.push(body);
        }
        downstream.sender.finish(None);
    }

    /// Reads content that nobody asked for, so that the next request can be found.
    pub(crate) async fn skip_content(&mut self) -> After {
        // On a stream it stands in nobody's way.
        if !self.downstream.is_own() {
            return After::Next;
        }
        match self.downstream.discard_content(DISCARD).await {
            Persistence::KeepAlive => After::Next,
            Persistence::Close => After::Close,
        }
    }

    fn redirect(&mut self, redirect: &Redirect) -> Result<Persistence, Fault> {
        let location = redirect.location(self.request, self.connection.scheme());
        let body = format!("{}\n", String::from_utf8_lossy(&location));
        let mut head = self.own_head(redirect.status, "text/plain; charset=utf-8")?;
        head.fields.push(b"location", &location).map_err(|_| exhausted())?;
        let persistence = self.persistence_after_content();
        let persistence = self.send(&head, body.as_bytes(), persistence);
        *self.response = head;
        Ok(persistence)
    }

    fn tell(&mut self, answer: ReportAnswer) -> Result<Persistence, Fault> {
        let mut head = self.own_head(answer.status, answer.content_type)?;
        // What the gateway tells about itself is true now and nowhere else.
        head.fields.push(b"cache-control", b"no-store").map_err(|_| exhausted())?;
        let persistence = self.persistence_after_content();
        let persistence = self.send(&head, &answer.body, persistence);
        *self.response = head;
        Ok(persistence)
    }

    /// `OPTIONS *` asks the server itself, which no route stands for (RFC 9110, 9.3.7).
    fn describe_server(&mut self) -> Result<Persistence, Fault> {
        let mut head = self.own_head(204, "text/plain")?;
        head.fields.clear();
        let methods = b"GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH";
        head.fields.push(b"allow", methods).map_err(|_| exhausted())?;
        let persistence = self.persistence_after_content();
        let persistence = self.send(&head, b"", persistence);
        *self.response = head;
        Ok(persistence)
    }

    fn refuse_method(&mut self, allow: &[u8]) -> Result<Persistence, Fault> {
        let fault = Fault::downstream(FaultKind::MethodNotAllowed);
        self.note(fault);
        let mut head = self.own_head(judge(fault).status, "text/plain; charset=utf-8")?;
        head.fields.push(b"allow", allow).map_err(|_| exhausted())?;
        let persistence = self.persistence_after_content();
        let persistence = self.send(&head, &error_body(fault), persistence);
        *self.response = head;
        Ok(persistence)
    }

    /// The recycled response head, emptied and begun anew. It is put back after use.
    fn own_head(&mut self, status: u16, content_type: &str) -> Result<ResponseHead, Fault> {
        let mut head = std::mem::take(self.response);
        head.fields.clear();
        head.status = status;
        head.reason = sluice_message::Span::default();
        head.body = BodyLength::Empty;
        head.fields.push(b"content-type", content_type.as_bytes()).map_err(|_| exhausted())?;
        Ok(head)
    }

    fn note(&mut self, fault: Fault) {
        self.fault = Some(fault);
        self.worker.meters.faults().worker(self.worker.index).on_fault(fault);
        self.worker.fault_log.write(judge(fault).level, FaultLine { fault, exchange: self });
    }

    /// Tells the client of a fault, if that is still possible.
    pub(crate) async fn stop(&mut self, stop: Stop) -> After {
        let stop = self.overdue(stop);
        let verdict = judge(stop.fault);
        self.fail_call(stop.fault);
        self.note(stop.fault);
        if stop.progress == AnswerProgress::Begun {
            return self.break_off(stop.fault);
        }
        self.status = verdict.status;
        if verdict.reply == Reply::Nobody {
            // A client that only closed its sending side sees a plain end, not a reset.
            return After::Finish;
        }
        let persistence = match verdict.persistence {
            Persistence::KeepAlive if self.downstream.receiver.is_done() => self.persistence(),
            // Content that is half-way through cannot be skipped.
            Persistence::KeepAlive if self.downstream.is_untouched() => {
                self.persistence_after_content()
            }
            _ => Persistence::Close,
        };
        let told = match self.call {
            Some(call) => self.refuse_call((call, stop.fault), persistence),
            None => self.refuse(stop.fault, persistence),
        };
        let Ok(persistence) = told else { return After::Abort };
        if let Some(outflow) = self.take_outflow() {
            return match Box::pin(self.pour(outflow)).await {
                Ok(after) => after,
                Err(stop) => {
                    self.note(stop.fault);
                    self.break_off(stop.fault)
                }
            };
        }
        match persistence {
            Persistence::Close => self.end(),
            Persistence::KeepAlive if self.request.has_content() => self.skip_content().await,
            Persistence::KeepAlive => After::Next,
        }
    }

    fn refuse(&mut self, fault: Fault, persistence: Persistence) -> Result<Persistence, Fault> {
        let mut head = self.own_head(judge(fault).status, "text/plain; charset=utf-8")?;
        if matches!(
            fault.kind,
            FaultKind::Overloaded | FaultKind::ServersBusy | FaultKind::CircuitOpen
        ) {
            self.say_when_to_retry(&mut head);
        }
        let persistence = self.send(&head, &error_body(fault), persistence);
        *self.response = head;
        Ok(persistence)
    }

    /// RFC 9110, 10.2.3.
    #[cold]
    fn say_when_to_retry(&self, head: &mut ResponseHead) {
        let seconds = self.retry_after.to_string();
        // The head has one field so far: there is room.
        let _ = head.fields.push(b"retry-after", seconds.as_bytes());
    }

    /// Counts and logs what became of the request.
    #[inline]
    pub(crate) fn record(&mut self) {
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

    #[cold]
    fn log(&self, nanos: u64, received: u64, sent: u64) {
        let Some(log) = &self.scope.view.snapshot.access else { return };
        let readable = !self.request.fields.bytes().is_empty();
        let asked = self.filters.and_then(|_| self.as_asked());
        let upstream = &self.upstream;
        let record = AccessRecord {
            client: self.client,
            unix_ms: unix_ms().saturating_sub(nanos / 1_000_000),
            head: readable.then_some(asked.as_ref().unwrap_or(self.request)),
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

pub(crate) fn exhausted() -> Fault {
    Fault::internal(FaultKind::Exhausted)
}

fn error_body(fault: Fault) -> Vec<u8> {
    let status = judge(fault).status;
    format!("{status} {}: {}\n", phrase(status), fault.kind.reason()).into_bytes()
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
        write!(f, ", client {}", exchange.client)?;
        if let Some(route) = exchange.route {
            write!(f, ", route {}", route.name)?;
        }
        write!(f, ", answered {}", judge(self.fault).status)?;
        match exchange.call {
            Some(_) => write!(f, " as {}", meaning(self.fault).name()),
            None => Ok(()),
        }
    }
}
