//! The filters of a route, asked on the way there and back.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sluice_filter::{
    Behind, Body, Chain, Content, DoneContext, Filter, Notes, Pause, Paused, Pipeline, Progress,
    Reply, RequestContext, ResponseContext, Resume, Source, Whole,
};
use sluice_message::{
    BodyLength, Expectation, Fault, FaultKind, FieldId, GrpcStatus, Persistence, RequestHead,
    ResponseHead, Span,
};

use super::call::refuse_with;
use super::outflow::{Outflow, Shape};
use super::{Exchange, Refusal, Step, Stop, exhausted};
use crate::Route;
use crate::coroutine::Panicked;
use crate::lent::Lent;
use crate::snapshot::RouteFilters;
use crate::waiting::Unserved;

/// A request is routed anew no more often than this: filters may send it in a circle.
const REROUTES: u8 = 8;

/// What filters work with, used again and again.
#[derive(Default)]
pub(crate) struct Stand {
    pub(crate) notes: Notes,
    /// A head of our own that filters change.
    head: ResponseHead,
    /// The path that the route was found by, if the route has names for parts of it.
    path: Vec<u8>,
    /// Target, path, query and authority as the client wrote them.
    asked: [Span; 4],
    /// Content of an answer that goes on when its head is queued.
    pub(super) outflow: Option<Box<Outflow>>,
    /// Content that was read before the request goes anywhere.
    gathered: Option<Box<ReadAhead>>,
    /// Why a filter refused the request.
    refusal: Option<&'static str>,
    reroutes: u8,
}

/// Content of a request that was read before the request goes anywhere.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    pub(crate) bytes: Vec<u8>,
    /// That is all there is.
    pub(crate) ended: bool,
}

/// A filter panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed;

/// What filters put in the place of an origin's answer.
pub(crate) struct Substitute {
    reply: Box<Reply>,
    shape: Shape,
}

/// An exchange that a filter holds up.
pub(crate) struct Suspended<'e> {
    route: &'e Route,
    filters: &'e RouteFilters,
    asked: Asked,
    paused: Paused,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// The filters.
    Chain,
    /// What answers.
    Handler,
}

impl Stand {
    /// For a request that has a chain to go through.
    fn begin(&mut self, request: &RequestHead) {
        self.notes.clear();
        self.asked = [request.target, request.path, request.query, request.authority];
        self.outflow = None;
        self.gathered = None;
        self.refusal = None;
        self.reroutes = 0;
    }

    fn remember(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
    }
}

impl<'e> Exchange<'e, '_> {
    /// The request as the client wrote it, if filters have changed its target: nothing they do takes bytes of
    /// a head away.
    pub(super) fn as_asked(&self) -> Option<RequestHead> {
        let [target, path, query, authority] = self.stand.asked;
        let now = &self.request;
        if [now.target, now.path, now.query, now.authority] == self.stand.asked {
            return None;
        }
        let mut head = RequestHead::new();
        head.copy_from(now);
        (head.target, head.path, head.query, head.authority) = (target, path, query, authority);
        Some(head)
    }

    /// Lets the request name the host that its client asked for, if filters have changed that; says which one
    /// it named.
    pub(crate) fn name_host_as_asked(&mut self) -> Option<Span> {
        self.filters?;
        let [.., asked] = self.stand.asked;
        let named = std::mem::replace(&mut self.request.authority, asked);
        (named != asked).then_some(named)
    }

    /// Asks the filters of the route before anything else is done for the request.
    #[inline(never)]
    pub(super) fn filter(&mut self, route: &'e Route, filters: &'e RouteFilters) -> Step<'e> {
        // A request that was routed anew keeps what was found out.
        if self.filters.is_none() {
            self.stand.begin(self.request);
        }
        if filters.captures.is_some() {
            self.stand.remember(self.request.path());
        }
        self.filters = Some(filters);
        let progress = self.ask(route, filters, |chain, context| chain.begin(context));
        self.follow((route, filters, Asked::Chain), progress)
    }

    /// Asks what answers the requests of the route.
    #[inline(never)]
    pub(super) fn handle(&mut self, route: &'e Route, handler: &dyn Filter) -> Step<'e> {
        let Some(filters) = self.filters else {
            return Step::Stopped(Fault::internal(FaultKind::Broken).into());
        };
        let progress = self
            .ask(route, filters, |_, context| Progress::of_last(handler.on_request_head(context)));
        self.follow((route, filters, Asked::Handler), progress)
    }

    /// Goes on where a filter held the exchange up.
    pub(crate) async fn go_on(&mut self, suspended: Suspended<'e>) -> Step<'e> {
        let Suspended { route, filters, asked, paused } = suspended;
        let (next, pause) = paused.split();
        let resume = match pause {
            Pause::Future(waiting) => self.await_filter(waiting).await,
            Pause::Content(most, resume) => self.gather(route, most).await.map(|()| resume),
        };
        let progress = match resume {
            Ok(resume) => {
                self.ask(route, filters, |chain, context| chain.resume(next, resume, context))
            }
            Err(stop) => return Step::Stopped(stop),
        };
        self.follow((route, filters, asked), progress)
    }

    fn follow(
        &mut self,
        (route, filters, asked): (&'e Route, &'e RouteFilters, Asked),
        progress: Result<Progress, Fault>,
    ) -> Step<'e> {
        if self.stand.notes.has_new_throttles() {
            self.hold_to_bandwidth();
        }
        match progress {
            Ok(Progress::Respond(reply)) => self.answered(|exchange| exchange.give(*reply)),
            Ok(Progress::Paused(paused)) => {
                Step::Filter(Box::new(Suspended { route, filters, asked, paused }))
            }
            // Nobody else is there to answer, and its permits are those of this route.
            Ok(Progress::Done | Progress::Reroute) if asked == Asked::Handler => {
                Step::Stopped(Fault::internal(FaultKind::Broken).into())
            }
            Ok(Progress::Done) => self.admit(route),
            Ok(Progress::Reroute) => self.route_anew(),
            Err(fault) => Step::Stopped(fault.into()),
        }
    }

    /// What filters have said of the bandwidth of the connection.
    #[cold]
    fn hold_to_bandwidth(&mut self) {
        let (lines, worker) = (self.connection.lines(), self.worker.index);
        for throttle in self.stand.notes.heed_throttles() {
            self.downstream.hold_to(&lines.of(throttle, worker));
        }
    }

    /// Calls filters. A panic of one costs this request, which is answered with 500.
    #[inline]
    fn ask(
        &mut self,
        route: &Route,
        filters: &RouteFilters,
        call: impl FnOnce(&Chain, &mut RequestContext<'_>) -> Progress,
    ) -> Result<Progress, Fault> {
        let Stand { notes, path, gathered, .. } = &mut *self.stand;
        let lent = Lent {
            worker: self.worker,
            scope: self.scope,
            connection: self.connection,
            route,
            filters,
            path,
        };
        let content = gathered.as_deref().map_or_else(Content::default, |gathered| Content {
            bytes: &gathered.bytes,
            more: !gathered.ended,
        });
        let mut context = RequestContext {
            request: &mut *self.request,
            client: self.client,
            notes,
            gateway: &lent,
            content,
        };
        // What a panic leaves half-changed is dropped with the request, or made anew for the next.
        let asked = catch_unwind(AssertUnwindSafe(|| call(&filters.chain, &mut context)));
        asked.map_err(|payload| {
            self.worker.on_panic(&Panicked(payload));
            Fault::internal(FaultKind::Broken)
        })
    }

    /// Looks for a route for what the request has become.
    #[cold]
    fn route_anew(&mut self) -> Step<'e> {
        self.stand.reroutes += 1;
        if self.stand.reroutes > REROUTES {
            return Step::Stopped(Fault::internal(FaultKind::Broken).into());
        }
        self.stand.notes.restart();
        match self.find_route() {
            Ok(route) => self.act(route),
            Err(Refusal::Fault(fault)) => Step::Stopped(fault.into()),
            Err(Refusal::Method(allow)) => self.answered(|exchange| exchange.refuse_method(&allow)),
        }
    }

    /// Waits for what a filter waits for. A client that leaves meanwhile is not waited for.
    async fn await_filter(
        &mut self,
        waiting: impl Future<Output = Resume>,
    ) -> Result<Resume, Stop> {
        let mut waiting = pin!(waiting);
        let guarded =
            poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| waiting.as_mut().poll(cx))) {
                Ok(Poll::Ready(resume)) => Poll::Ready(Ok(resume)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(payload) => Poll::Ready(Err(Panicked(payload))),
            });
        match self.wait_for(Duration::MAX, guarded).await {
            Ok(Ok(resume)) => Ok(resume),
            Ok(Err(panicked)) => {
                self.worker.on_panic(&panicked);
                Err(Fault::internal(FaultKind::Broken).into())
            }
            Err(Unserved::Gone(fault)) => Err(fault.into()),
            Err(Unserved::Refused(_)) => Err(Fault::downstream(FaultKind::DeadlineExceeded).into()),
        }
    }

    /// Reads content until there are `most` bytes of it, or no more.
    async fn gather(&mut self, route: &Route, most: usize) -> Result<(), Stop> {
        let limit = self.body_limit(route);
        let mut gathered = self.stand.gathered.take().unwrap_or_default();
        if !self.request.has_content() {
            gathered.ended = true;
        } else if self.request.expectation == Expectation::Continue {
            self.invite_content();
        }
        while !gathered.ended && gathered.bytes.len() < most {
            match self.downstream.read_content().await? {
                sluice_conn::Content::End => gathered.ended = true,
                sluice_conn::Content::Piece => {
                    let receiver = &mut *self.downstream.receiver;
                    let room = most.saturating_sub(gathered.bytes.len());
                    let piece = receiver.piece();
                    let piece = piece.get(..room).unwrap_or(piece);
                    gathered.bytes.extend_from_slice(piece);
                    let taken = piece.len();
                    receiver.advance(taken);
                    if receiver.content() > limit {
                        return Err(Fault::downstream(FaultKind::BodyTooLarge).into());
                    }
                }
            }
        }
        self.stand.gathered = Some(gathered);
        Ok(())
    }

    /// Says 100 (Continue) itself (RFC 9110, 10.1.1): no origin has been asked.
    #[cold]
    fn invite_content(&mut self) {
        let head = ResponseHead { status: 100, ..ResponseHead::default() };
        self.downstream.send_interim(&head);
        self.request.expectation = Expectation::None;
        self.request.fields.remove(FieldId::Expect);
    }

    /// Content that was read already, for whom the request goes to.
    #[inline]
    pub(crate) fn take_gathered(&mut self) -> Option<Box<ReadAhead>> {
        match self.filters {
            None => None,
            Some(_) => self.stand.gathered.take(),
        }
    }

    /// The upstream that is to answer.
    #[inline]
    pub(super) fn target(&self, cluster: usize) -> usize {
        match self.filters {
            None => cluster,
            Some(_) => self.stand.notes.target().unwrap_or(cluster),
        }
    }

    /// Bytes of content that may follow.
    #[inline]
    pub(super) fn body_limit(&self, route: &Route) -> u64 {
        match self.filters {
            None => route.body_limit,
            Some(_) => self.stand.notes.body_limit().unwrap_or(u64::MAX).min(route.body_limit),
        }
    }

    /// Why a filter refused the request.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.filters.and(self.stand.refusal)
    }

    /// Gives an answer of a filter.
    fn give(&mut self, reply: Reply) -> Result<Persistence, Fault> {
        let persistence = self.persistence_after_content();
        self.stand.refusal = reply.reason;
        self.find_call();
        if let (Some(call), Some(reason)) = (self.call, reply.reason) {
            let status = GrpcStatus::of_http(reply.status);
            self.note_call(status);
            let mut head = self.trailers_only(call)?;
            refuse_with(&mut head.fields, status, (reply.status, reason))
                .map_err(|_| exhausted())?;
            let persistence = self.send(&head, b"", persistence);
            *self.response = head;
            return Ok(persistence);
        }
        let mut head = std::mem::take(self.response);
        head.fields.clear();
        head =
            ResponseHead { status: reply.status, fields: head.fields, ..ResponseHead::default() };
        head.fields.push_all(&reply.fields).map_err(|_| exhausted())?;
        let (body, shape) = match self.filters {
            Some(filters) if filters.chain.sees_responses() => {
                let source = self.source();
                head.body = length_of(&reply.body);
                let whole = Whole::of(&reply.body);
                let (replaced, shape) = self.show_or_fail(filters, &mut head, (source, whole));
                (replaced.map_or(reply.body, |reply| reply.body), shape)
            }
            _ => (reply.body, Shape::Kept),
        };
        let persistence = self.begin_reply(&head, (body, shape), persistence);
        *self.response = head;
        Ok(persistence)
    }

    /// Who gives an answer of our own.
    fn source(&self) -> Source {
        let fault = self.fault.is_some() || self.stand.refusal.is_some();
        if fault { Source::Fault } else { Source::Gateway }
    }

    /// Queues an answer that is in memory after the filters have seen it.
    #[inline(never)]
    pub(super) fn send_through(
        &mut self,
        filters: &'e RouteFilters,
        (head, body): (&ResponseHead, &[u8]),
        persistence: Persistence,
    ) -> Persistence {
        if !filters.chain.sees_responses() {
            self.deliver(head, body, persistence);
            return persistence;
        }
        let mut own = std::mem::take(&mut self.stand.head);
        own.copy_from(head);
        own.body = BodyLength::Known(u64::try_from(body.len()).unwrap_or(u64::MAX));
        let source = self.source();
        let shown = self.show_or_fail(filters, &mut own, (source, Whole::Bytes(body)));
        let persistence = match shown {
            (None, Shape::Kept) => {
                self.deliver(&own, body, persistence);
                persistence
            }
            (None, shape) => self.begin_reply(&own, (body.to_vec().into(), shape), persistence),
            (Some(reply), shape) => self.begin_reply(&own, (reply.body, shape), persistence),
        };
        self.stand.head = own;
        persistence
    }

    /// Shows a head that nothing follows to the filters. If one of them fails, it stays as it is: it tells of a
    /// fault already.
    pub(super) fn show_own(&mut self, head: &mut ResponseHead) {
        let filters = self.filters.filter(|filters| filters.chain.sees_responses());
        if let Some(filters) = filters
            && let Err(Failed) = self.show(filters, head, (Source::Fault, Whole::Unknown))
        {
            self.note(Fault::internal(FaultKind::Broken));
        }
    }

    /// The same as [`Exchange::show`], with 500 instead of the answer if a filter failed: what it was to do with
    /// the answer may be what the answer must not go without.
    fn show_or_fail(
        &mut self,
        filters: &'e RouteFilters,
        head: &mut ResponseHead,
        answer: (Source, Whole<'_>),
    ) -> (Option<Box<Reply>>, Shape) {
        self.show(filters, head, answer).unwrap_or_else(|Failed| {
            self.note(Fault::internal(FaultKind::Broken));
            let reply = Reply::refusal(500, "a filter failed");
            head.status = reply.status;
            head.reason = Span::default();
            head.fields = reply.fields.clone();
            (Some(Box::new(reply)), Shape::Kept)
        })
    }

    /// Shows the head of an answer to the filters. What replaces it, and what its content goes through.
    fn show(
        &mut self,
        filters: &'e RouteFilters,
        head: &mut ResponseHead,
        (source, whole): (Source, Whole<'_>),
    ) -> Result<(Option<Box<Reply>>, Shape), Failed> {
        let Some(route) = self.route else { return Ok((None, Shape::Kept)) };
        let wants_content = self.downstream.wants_content(head.status);
        let Stand { notes, path, .. } = &mut *self.stand;
        let lent = Lent {
            worker: self.worker,
            scope: self.scope,
            connection: self.connection,
            route,
            filters,
            path,
        };
        let mut context = ResponseContext {
            request: &*self.request,
            response: head,
            source,
            whole,
            behind: Behind::Nothing,
            client: self.client,
            notes,
            gateway: &lent,
        };
        let shown = catch_unwind(AssertUnwindSafe(|| {
            let replaced = filters.chain.show_response(&mut context);
            let transforms = match context.response.status {
                101 => Vec::new(),
                _ => filters.chain.response_transforms(&mut context),
            };
            (replaced, transforms)
        }));
        let (replaced, transforms) = shown.map_err(|payload| {
            self.worker.on_panic(&Panicked(payload));
            Failed
        })?;
        if self.stand.notes.has_new_throttles() {
            self.hold_to_bandwidth();
        }
        if let Some(reply) = &replaced
            && reply.reason.is_some()
        {
            self.stand.refusal = reply.reason;
        }
        if transforms.is_empty() {
            return Ok((replaced, Shape::Kept));
        }
        let pipeline = Pipeline::new(transforms);
        if !pipeline.keeps_content() {
            // Its length is not what it was; to a client that gets a head alone it is not stated.
            head.fields.remove(FieldId::ContentLength);
        }
        let pipeline = wants_content.then(|| Box::new(pipeline));
        Ok((replaced, Shape::Changed(pipeline)))
    }

    /// Shows the head of the origin's answer to the filters.
    #[inline]
    pub(crate) fn show_answer(&mut self) -> (Option<Substitute>, Option<Box<Pipeline>>) {
        match self.filters {
            Some(filters) if filters.chain.sees_responses() => self.show_origin(filters),
            _ => (None, None),
        }
    }

    #[inline(never)]
    fn show_origin(
        &mut self,
        filters: &'e RouteFilters,
    ) -> (Option<Substitute>, Option<Box<Pipeline>>) {
        let mut head = std::mem::take(self.response);
        let status = head.status;
        let whole = (Source::Origin, Whole::Unknown);
        let (replaced, shape) = self.show_or_fail(filters, &mut head, whole);
        if status == 101 && replaced.is_none() {
            // The connection to the origin is a pipe already, whatever is said of it.
            head.status = status;
        }
        if let Some(mut reply) = replaced {
            // The filters behind the one that replaced it have seen and changed what is in the head.
            reply.status = head.status;
            reply.fields = head.fields.clone();
            *self.response = head;
            return (Some(Substitute { reply, shape }), None);
        }
        let pipeline = match shape {
            Shape::Kept => None,
            Shape::Changed(pipeline) => pipeline,
        };
        let changed = pipeline.as_ref().is_some_and(|pipeline| !pipeline.keeps_content());
        if changed && head.body != BodyLength::UntilClose {
            head.body = BodyLength::Framed;
        }
        *self.response = head;
        (None, pipeline)
    }

    /// Gives the client this instead of the origin's answer. As for the rest, [`Exchange::begin_reply`].
    pub(crate) fn send_substitute(
        &mut self,
        substitute: Substitute,
        persistence: Persistence,
    ) -> Persistence {
        let Substitute { reply, shape } = substitute;
        let mut head = std::mem::take(&mut self.stand.head);
        head.fields.clear();
        head =
            ResponseHead { status: reply.status, fields: head.fields, ..ResponseHead::default() };
        // It was in a head before.
        let _ = head.fields.push_all(&reply.fields);
        let persistence = self.begin_reply(&head, (reply.body, shape), persistence);
        self.stand.head = head;
        persistence
    }

    /// What the content of the request has to go through.
    #[inline]
    pub(crate) fn request_pipeline(&mut self) -> Result<Option<Box<Pipeline>>, Fault> {
        match (self.filters, self.route) {
            (Some(filters), Some(route)) if filters.chain.sees_request_bodies() => {
                self.make_request_pipeline(route, filters)
            }
            _ => Ok(None),
        }
    }

    #[inline(never)]
    fn make_request_pipeline(
        &mut self,
        route: &'e Route,
        filters: &'e RouteFilters,
    ) -> Result<Option<Box<Pipeline>>, Fault> {
        if !self.request.has_content() {
            return Ok(None);
        }
        let mut transforms = Vec::new();
        self.ask(route, filters, |chain, context| {
            transforms = chain.request_transforms(context);
            Progress::Done
        })?;
        if transforms.is_empty() {
            return Ok(None);
        }
        self.request.body = BodyLength::Framed;
        Ok(Some(Box::new(Pipeline::new(transforms))))
    }

    /// Tells the filters of the end. What they hold is free when it is over: an exchange that is dropped in the
    /// middle releases it with its notes.
    #[inline]
    pub(super) fn end_filters(&mut self, filters: &RouteFilters, nanos: u64) {
        if filters.chain.sees_ends() {
            self.tell_end(filters, nanos);
        }
        if self.stand.notes.holds() {
            self.stand.notes.release();
        }
    }

    #[inline(never)]
    fn tell_end(&self, filters: &RouteFilters, nanos: u64) {
        let done = DoneContext {
            status: self.status,
            nanos,
            upstream_nanos: self.upstream.nanos,
            notes: &self.stand.notes,
            worker: self.worker.index,
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| filters.chain.end(&done))) {
            self.worker.on_panic(&Panicked(payload));
        }
    }
}

/// How long content of ours is.
fn length_of(body: &Body) -> BodyLength {
    body.length().map_or(BodyLength::Framed, BodyLength::Known)
}
