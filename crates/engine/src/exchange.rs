//! One exchange, from a request head to its answer, whatever protocol carries it.

mod answers;
mod call;
mod filters;
mod outflow;
mod path;
mod record;
mod screen;
mod shown;

use std::net::IpAddr;
use std::rc::Rc;

use sluice_conn::Downstream;
use sluice_message::{
    BodyLength, Expectation, Fault, FaultKind, FieldId, Method, PathCase, PathForm, Persistence,
    RequestHead, ResponseHead, TargetForm,
};
use sluice_route::Match;
use sluice_upstream::{Cluster, Pass, Visit};

use call::Call;
pub(crate) use filters::{ReadAhead, Stand, Suspended};
pub(crate) use outflow::Outflow;
pub(crate) use shown::{OriginShown, Substitute, Unshown};

use crate::admission::{Admission, Ticket};
use crate::connection::Connection;
use crate::forward::{MAX_PASSES, client_address, passes};
use crate::local::{Scope, Worker};
use crate::opening::{check_action, take_connect};
use crate::snapshot::RouteFilters;
use crate::{Action, Proof, Route, TraceMethod};

/// Methods that are forwarded wherever a route does not say which ones are, the value of `Allow`.
const METHODS: &[u8] = b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

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
    /// A filter that was shown the answer has to wait.
    Show(Box<Unshown>),
    /// It cannot be answered as it was meant.
    Stopped(Stop),
}

/// How far an answer of our own came when it was queued.
pub(crate) enum Queued {
    /// All of it; whether another request may follow.
    Whole(Persistence),
    /// Its head: the content goes out as the client takes it.
    Begun(Box<Outflow>),
    /// Nothing yet: a filter that was shown it has to wait.
    Waits(Box<Unshown>),
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
    /// How often the request had passed this process when it came.
    pub(crate) passes: usize,
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
            passes: 0,
            call: None,
            filters: None,
            stand,
        }
    }

    /// Routes the request and answers it, if that needs no waiting.
    // In line although there are two callers: a call costs measurably.
    #[inline(always)]
    pub(crate) fn begin(&mut self) -> Step<'e> {
        if let Some(errand) = &self.connection.errand {
            return self.run(errand);
        }
        if let Err(fault) = self.screen() {
            return Step::Stopped(fault.into());
        }
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
        let rules = &self.scope.listener.path_rules;
        // Nearly every path is in its normal form, which decoders see while they scan.
        if self.request.path_form == PathForm::Normal && rules.case == PathCase::Sensitive {
            return self.look_up(tunnel);
        }
        self.read_path(tunnel)
    }

    /// Looks for the path as it is compared.
    #[inline(always)]
    fn look_up(&self, tunnel: bool) -> Result<&'e Route, Refusal> {
        let routes = &self.scope.listener.routes;
        let fault = |fault| Refusal::Fault(fault);
        match routes.table.find(self.request, self.client) {
            Match::Found(index) => {
                let broken = Fault::internal(FaultKind::Broken);
                let route = routes.routes.get(index).ok_or(fault(broken))?;
                if tunnel {
                    check_action(&route.action).map_err(Refusal::Fault)?;
                }
                // A server that answers it repeats the request, headers the gateway adds included.
                if self.request.method == Method::Trace
                    && self.scope.listener.trace == TraceMethod::Refuse
                {
                    return Err(Refusal::Method(METHODS.to_vec()));
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
        let goes_on =
            route.filters.is_some() || matches!(route.action, Action::Proxy(_) | Action::Handle(_));
        // Clients seldom send `Via`; gateways in front do.
        if goes_on && self.request.fields.lines().iter().any(|line| line.id == FieldId::Via) {
            self.passes = self.passes.max(passes(&self.request.fields));
            if self.passes >= MAX_PASSES {
                return self.break_loop(route);
            }
        }
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

    /// An upstream leads back to this gateway (RFC 5842, 7.2).
    #[cold]
    fn break_loop(&mut self, route: &Route) -> Step<'e> {
        if let Action::Proxy(cluster) = &route.action {
            self.upstream.cluster = self.scope.view.clusters.get(*cluster);
        }
        Step::Stopped(Fault::internal(FaultKind::LoopDetected).into())
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
            Action::Report(report) => {
                let answer = report.report(self.request);
                self.answered(|exchange| exchange.tell(answer))
            }
            Action::Proxy(cluster) => match self.scope.view.clusters.get(self.target(*cluster)) {
                Some(cluster) => Step::Proxy(cluster, self.body_limit(route)),
                None => Step::Stopped(Fault::internal(FaultKind::Broken).into()),
            },
            Action::Handle(handler) | Action::Redirect(handler) => self.handle(route, &**handler),
        }
    }

    /// How a connection ends that is not to go on.
    pub(crate) fn end(&self) -> After {
        let wished = self.request.persistence == Persistence::Close;
        if wished && self.downstream.receiver.is_drained() { After::Finish } else { After::Close }
    }

    #[inline]
    fn check_head(&self) -> Result<(), Fault> {
        if self.request.expectation == Expectation::Unknown {
            return Err(Fault::downstream(FaultKind::UnknownExpectation));
        }
        Ok(())
    }
}

pub(crate) fn exhausted() -> Fault {
    Fault::internal(FaultKind::Exhausted)
}
