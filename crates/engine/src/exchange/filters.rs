//! The filters of a route, asked before anybody answers.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sluice_filter::{
    Chain, Content, DoneContext, Filter, Notes, Pause, Paused, Pipeline, Progress, RequestContext,
};
use sluice_message::{
    BodyLength, Expectation, Fault, FaultKind, FieldId, PathSpellings, RequestHead, ResponseHead,
    Span,
};

use super::{Exchange, Refusal, Step, Stop};
use crate::Route;
use crate::admission::Ticket;
use crate::coroutine::Panicked;
use crate::errand::{Came, Errand};
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
    pub(super) head: ResponseHead,
    /// The request as it came.
    pub(super) came: Came,
    /// Content that was read before the request goes anywhere.
    gathered: Option<Box<ReadAhead>>,
    /// Why a filter refused the request.
    pub(super) refusal: Option<&'static str>,
    reroutes: u8,
    /// The spellings of a path that has more than one.
    pub(super) spellings: PathSpellings,
}

/// Content of a request that was read before the request goes anywhere.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    pub(crate) bytes: Vec<u8>,
    /// That is all there is.
    pub(crate) ended: bool,
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
    fn begin(&mut self, request: &RequestHead, passes: usize) {
        self.notes.clear();
        self.came.passes = passes;
        self.came.asked = [request.target, request.path, request.query, request.authority];
        self.gathered = None;
        self.refusal = None;
        self.reroutes = 0;
    }

    fn remember(&mut self, path: &[u8]) {
        self.came.path.clear();
        self.came.path.extend_from_slice(path);
    }
}

impl<'e> Exchange<'e, '_> {
    /// The request as it was before filters, if they have changed its target: nothing they do takes bytes of
    /// a head away.
    pub(super) fn as_asked(&self) -> Option<RequestHead> {
        let [target, path, query, authority] = self.stand.came.asked;
        let now = &self.request;
        if [now.target, now.path, now.query, now.authority] == self.stand.came.asked {
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
        let [.., asked] = self.stand.came.asked;
        let named = std::mem::replace(&mut self.request.authority, asked);
        (named != asked).then_some(named)
    }

    /// Asks the filters of the route before anything else is done for the request.
    #[inline(never)]
    pub(super) fn filter(&mut self, route: &'e Route, filters: &'e RouteFilters) -> Step<'e> {
        // A request that was routed anew keeps what was found out.
        if self.filters.is_none() {
            self.stand.begin(self.request, self.passes);
        }
        if filters.captures.is_some() {
            self.stand.remember(self.request.path());
        }
        self.go_through(route, filters)
    }

    /// Does what a connection stands for that no client has.
    #[cold]
    pub(super) fn run(&mut self, errand: &'e Errand) -> Step<'e> {
        let route = &errand.route;
        let Some(filters) = &route.filters else {
            return Step::Stopped(Fault::internal(FaultKind::Broken).into());
        };
        self.request.copy_from(&errand.head);
        self.client = errand.client;
        self.route = Some(route);
        self.passes = errand.came.passes;
        self.stand.begin(self.request, self.passes);
        self.stand.came.clone_from(&errand.came);
        self.stand.notes.inherit(&errand.notes);
        self.go_through(route, filters)
    }

    #[inline(always)]
    fn go_through(&mut self, route: &'e Route, filters: &'e RouteFilters) -> Step<'e> {
        self.filters = Some(filters);
        let progress = match filters.chain.enter(self.request, &mut self.stand.notes) {
            // Nearly always, where filters have conditions: nothing is made ready for nobody.
            None => Ok(Progress::Done),
            Some(entry) => self.ask(route, filters, |chain, context| chain.begin(entry, context)),
        };
        self.follow((route, filters, Asked::Chain), progress)
    }

    /// Asks what answers the requests of the route.
    #[inline(never)]
    pub(super) fn handle(&mut self, route: &'e Route, handler: &dyn Filter) -> Step<'e> {
        let Some(filters) = self.filters else {
            return Step::Stopped(Fault::internal(FaultKind::Broken).into());
        };
        self.stand.notes.leave_chain();
        let progress = self
            .ask(route, filters, |_, context| Progress::of_last(handler.on_request_head(context)));
        self.follow_apart((route, filters, Asked::Handler), progress)
    }

    /// Goes on where a filter held the exchange up.
    pub(crate) async fn go_on(&mut self, suspended: Suspended<'e>) -> Step<'e> {
        let Suspended { route, filters, asked, paused } = suspended;
        let (next, pause) = paused.split();
        let resume = match pause {
            Pause::Future(waiting) => self.await_filter(filters, waiting).await,
            Pause::Content(most, resume) => self.gather(route, most).await.map(|()| resume),
        };
        let progress = match resume {
            Ok(resume) => {
                self.ask(route, filters, |chain, context| chain.resume(next, resume, context))
            }
            Err(stop) => return Step::Stopped(stop),
        };
        self.follow_apart((route, filters, asked), progress)
    }

    /// The same as [`Exchange::follow`], for what happens less often than that a chain is gone through at once.
    #[inline(never)]
    fn follow_apart(
        &mut self,
        asked: (&'e Route, &'e RouteFilters, Asked),
        progress: Result<Progress, Fault>,
    ) -> Step<'e> {
        self.follow(asked, progress)
    }

    // In line: what a chain came to is not handed on through memory.
    #[inline(always)]
    fn follow(
        &mut self,
        (route, filters, asked): (&'e Route, &'e RouteFilters, Asked),
        progress: Result<Progress, Fault>,
    ) -> Step<'e> {
        if self.stand.notes.has_new_throttles() {
            self.hold_to_bandwidth();
        }
        match progress {
            Ok(Progress::Give(ready)) => {
                self.answered(|exchange| exchange.give_ready(filters, ready))
            }
            Ok(Progress::Respond(reply)) => self.answered(|exchange| exchange.give(*reply)),
            Ok(Progress::Paused(paused)) => {
                Step::Filter(Box::new(Suspended { route, filters, asked, paused }))
            }
            // Nobody else is there to answer.
            Ok(Progress::Done) if asked == Asked::Handler => {
                Step::Stopped(Fault::internal(FaultKind::Broken).into())
            }
            Ok(Progress::Done) => self.admit(route),
            Ok(Progress::Reroute) => self.route_anew(),
            Err(fault) => Step::Stopped(fault.into()),
        }
    }

    /// What filters have said of the bandwidth of the connection.
    #[cold]
    pub(super) fn hold_to_bandwidth(&mut self) {
        let (lines, worker) = (self.connection.lines(), self.worker.index);
        for throttle in self.stand.notes.heed_throttles() {
            self.downstream.hold_to(&lines.of(throttle, worker));
        }
    }

    /// What filters may ask of the gateway.
    #[inline]
    pub(super) fn lend<'l>(
        &self,
        route: &'l Route,
        filters: &'l RouteFilters,
        came: &'l Came,
    ) -> Lent<'l>
    where
        'e: 'l,
    {
        let (worker, scope, connection) = (self.worker, self.scope, self.connection);
        Lent { worker, scope, connection, route, filters, came }
    }

    /// Calls filters. A panic of one costs this request, which is answered with 500.
    #[inline]
    fn ask(
        &mut self,
        route: &Route,
        filters: &RouteFilters,
        call: impl FnOnce(&Chain, &mut RequestContext<'_>) -> Progress,
    ) -> Result<Progress, Fault> {
        let lent = self.lend(route, filters, &self.stand.came);
        let content = self.stand.gathered.as_deref().map_or_else(Content::default, |gathered| {
            Content { bytes: &gathered.bytes, more: !gathered.ended }
        });
        let mut context = RequestContext {
            request: &mut *self.request,
            client: self.client,
            notes: &mut self.stand.notes,
            gateway: &lent,
            content,
        };
        // What a panic leaves half-changed is dropped with the request, or made anew for the next.
        let asked = catch_unwind(AssertUnwindSafe(|| call(&filters.chain, &mut context)));
        asked.map_err(|payload| {
            self.on_panic(filters, &Panicked(payload));
            Fault::internal(FaultKind::Broken)
        })
    }

    /// Takes note of a panic of the filter that was asked last.
    #[cold]
    pub(super) fn on_panic(&self, filters: &RouteFilters, panicked: &Panicked) {
        match filters.chain.asked(&self.stand.notes) {
            Some(name) => self.worker.on_filter_panic(name, panicked),
            None => self.worker.on_panic(panicked),
        }
    }

    /// Looks for a route for what the request has become.
    #[cold]
    fn route_anew(&mut self) -> Step<'e> {
        self.stand.reroutes += 1;
        // What is done for a filter is done on its route.
        if self.stand.reroutes > REROUTES || self.connection.errand.is_some() {
            return Step::Stopped(Fault::internal(FaultKind::Broken).into());
        }
        self.stand.notes.restart();
        // What answers a route may give a request away, too: it is one of that route no longer.
        self.ticket = Ticket::default();
        match self.find_route() {
            Ok(route) => self.act(route),
            Err(Refusal::Fault(fault)) => Step::Stopped(fault.into()),
            Err(Refusal::Method(allow)) => self.answered(|exchange| exchange.refuse_method(&allow)),
        }
    }

    /// Waits for what a filter waits for. A client that leaves meanwhile is not waited for.
    pub(super) async fn await_filter<R>(
        &mut self,
        filters: &RouteFilters,
        waiting: impl Future<Output = R>,
    ) -> Result<R, Stop> {
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
                self.on_panic(filters, &panicked);
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
            self.on_panic(filters, &Panicked(payload));
        }
    }
}
