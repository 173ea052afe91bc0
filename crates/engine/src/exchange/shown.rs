//! Answers, shown to the filters of the route before the client gets them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sluice_filter::{
    Behind, Body, Chain, Interrupted, PausedResponse, Pipeline, Ready, Reply, ResponseContext,
    ResponseResume, Shown, Source, Whole,
};
use sluice_message::{
    BodyLength, Fault, FaultKind, FieldId, GrpcStatus, Lines, Method, Persistence, ResponseHead,
    Span,
};

use super::call::refuse_with;
use super::outflow::Shape;
use super::{Exchange, Queued, Stop, exhausted};
use crate::coroutine::Panicked;
use crate::snapshot::RouteFilters;

/// A filter panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed;

/// What filters put in the place of an origin's answer.
pub(crate) struct Substitute {
    reply: Box<Reply>,
    shape: Shape,
}

/// What the filters have made of an answer.
enum Made {
    /// What replaces it, and what its content goes through.
    Ready(Option<Box<Reply>>, Shape),
    /// One of them waits.
    Paused(Box<PausedResponse>),
}

/// What the filters have made of an origin's answer.
pub(crate) enum OriginShown {
    /// This is to be given, or the answer with content that goes through this.
    Ready(Option<Substitute>, Option<Box<Pipeline>>),
    /// One of them waits; the origin's status was this.
    Paused(Box<PausedResponse>, u16),
}

/// An answer of our own that a filter holds up.
pub(crate) struct Unshown {
    head: ResponseHead,
    form: Form,
    source: Source,
    persistence: Persistence,
    paused: Box<PausedResponse>,
}

/// What there is of an answer.
enum Form {
    /// A head with this content.
    Full(Body),
    /// A head alone, for a call.
    Alone,
}

/// Where the head of an answer is.
enum Place<'h> {
    /// In the exchange, where that of an origin is.
    Exchange,
    /// There.
    Apart(&'h mut ResponseHead),
}

impl Place<'_> {
    #[inline]
    fn head<'s>(&'s mut self, in_exchange: &'s mut ResponseHead) -> &'s mut ResponseHead {
        match self {
            Self::Exchange => in_exchange,
            Self::Apart(head) => head,
        }
    }
}

impl<'e> Exchange<'e, '_> {
    /// Gives an answer that is ready, as it is where nobody wants to change it.
    #[inline]
    pub(super) fn give_ready(
        &mut self,
        filters: &'e RouteFilters,
        ready: Ready,
    ) -> Result<Queued, Fault> {
        // What waits for an answer in a form of its own is no request that many make.
        if filters.chain.sees_own_answers() || self.request.method == Method::Post {
            return self.give(ready.into());
        }
        let persistence = self.persistence_after_content();
        let Ready { head, body } = ready;
        if self.takes_at_once(&body) {
            self.deliver_last((&head, head.known()), body, persistence);
            return Ok(Queued::Whole(persistence));
        }
        Ok(self.begin_reply(&head, (Body::Shared(body), Shape::Kept), persistence))
    }

    /// Gives an answer of a filter.
    pub(super) fn give(&mut self, reply: Reply) -> Result<Queued, Fault> {
        let persistence = self.persistence_after_content();
        self.stand.refusal = reply.reason;
        self.find_call();
        if let (Some(call), Some(reason)) = (self.call, reply.reason) {
            let status = GrpcStatus::of_http(reply.status);
            self.note_call(status);
            let mut head = self.trailers_only(call)?;
            refuse_with(&mut head.fields, status, (reply.status, reason))
                .map_err(|_| exhausted())?;
            let queued = self.send(&head, b"", persistence);
            *self.response = head;
            return Ok(queued);
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
                let place = Place::Apart(&mut head);
                match self.show_or_fail(filters, place, (source, whole)) {
                    Made::Ready(replaced, shape) => {
                        (replaced.map_or(reply.body, |reply| reply.body), shape)
                    }
                    Made::Paused(paused) => {
                        let form = Form::Full(reply.body);
                        let unshown = Unshown { head, form, source, persistence, paused };
                        return Ok(Queued::Waits(Box::new(unshown)));
                    }
                }
            }
            _ => (reply.body, Shape::Kept),
        };
        let queued = self.begin_reply(&head, (body, shape), persistence);
        *self.response = head;
        Ok(queued)
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
    ) -> Queued {
        if !filters.chain.sees_responses() {
            self.deliver((head, Lines::Unknown), body, persistence);
            return Queued::Whole(persistence);
        }
        let mut own = std::mem::take(&mut self.stand.head);
        own.copy_from(head);
        own.body = BodyLength::Known(u64::try_from(body.len()).unwrap_or(u64::MAX));
        let source = self.source();
        let place = Place::Apart(&mut own);
        let shown = self.show_or_fail(filters, place, (source, Whole::Bytes(body)));
        let queued = match shown {
            Made::Ready(None, Shape::Kept) => {
                self.deliver((&own, Lines::Unknown), body, persistence);
                Queued::Whole(persistence)
            }
            Made::Ready(None, shape) => {
                self.begin_reply(&own, (body.to_vec().into(), shape), persistence)
            }
            Made::Ready(Some(reply), shape) => {
                self.begin_reply(&own, (reply.body, shape), persistence)
            }
            Made::Paused(paused) => {
                let form = Form::Full(body.to_vec().into());
                let unshown = Unshown { head: own, form, source, persistence, paused };
                return Queued::Waits(Box::new(unshown));
            }
        };
        self.stand.head = own;
        queued
    }

    /// Queues an answer that is a head alone, after the filters have seen it. What they would put in its
    /// place a call could not read.
    pub(super) fn send_alone(
        &mut self,
        mut head: ResponseHead,
        persistence: Persistence,
    ) -> Queued {
        let filters = self.filters.filter(|filters| filters.chain.sees_responses());
        if let Some(filters) = filters {
            let answer = (Source::Fault, Whole::Unknown);
            // If one of them fails, it stays as it is: it tells of a fault already.
            match self.show(filters, &mut Place::Apart(&mut head), answer, Chain::show_response) {
                Ok(Made::Ready(..)) => {}
                Ok(Made::Paused(paused)) => {
                    let (form, source) = (Form::Alone, Source::Fault);
                    let unshown = Unshown { head, form, source, persistence, paused };
                    return Queued::Waits(Box::new(unshown));
                }
                Err(Failed) => self.note(Fault::internal(FaultKind::Broken)),
            }
        }
        self.queue_alone(head, persistence)
    }

    fn queue_alone(&mut self, head: ResponseHead, persistence: Persistence) -> Queued {
        self.status = head.status;
        let downstream = &mut *self.downstream;
        self.worker.with_date(|date| {
            let framing = downstream.framing(BodyLength::Empty, persistence, Some(date));
            downstream.send_head(&head, &framing);
        });
        downstream.sender.finish(None);
        *self.response = head;
        Queued::Whole(persistence)
    }

    /// Goes on where a filter held an answer of our own up.
    #[cold]
    pub(crate) async fn go_on_showing(&mut self, unshown: Box<Unshown>) -> Result<Queued, Stop> {
        let Unshown { mut head, form, source, persistence, mut paused } = *unshown;
        let Some(filters) = self.filters else {
            return Err(Fault::internal(FaultKind::Broken).into());
        };
        let (replaced, shape) = loop {
            let (waiting, interrupted) = paused.split();
            let resume = self.await_filter(filters, waiting).await?;
            let whole = match &form {
                Form::Full(body) => Whole::of(body),
                Form::Alone => Whole::Unknown,
            };
            let place = Place::Apart(&mut head);
            match self.show_on(filters, place, (source, whole), (interrupted, resume)) {
                Made::Ready(replaced, shape) => break (replaced, shape),
                Made::Paused(again) => paused = again,
            }
        };
        Ok(match form {
            Form::Alone => self.queue_alone(head, persistence),
            Form::Full(body) => {
                let body = replaced.map_or(body, |reply| reply.body);
                let queued = self.begin_reply(&head, (body, shape), persistence);
                *self.response = head;
                queued
            }
        })
    }

    /// The same as [`Exchange::show`], with 500 instead of the answer if a filter failed: what it was to do with
    /// the answer may be what the answer must not go without.
    #[inline]
    fn show_or_fail(
        &mut self,
        filters: &'e RouteFilters,
        mut place: Place<'_>,
        answer: (Source, Whole<'_>),
    ) -> Made {
        match self.show(filters, &mut place, answer, Chain::show_response) {
            Ok(made) => made,
            Err(Failed) => self.replace_by_failure(place),
        }
    }

    /// The same for an answer that one of them held up.
    #[cold]
    fn show_on(
        &mut self,
        filters: &'e RouteFilters,
        mut place: Place<'_>,
        answer: (Source, Whole<'_>),
        (interrupted, resume): (Interrupted, ResponseResume),
    ) -> Made {
        let call = |chain: &Chain, context: &mut ResponseContext<'_>| {
            chain.resume_response(interrupted, resume, context)
        };
        match self.show(filters, &mut place, answer, call) {
            Ok(made) => made,
            Err(Failed) => self.replace_by_failure(place),
        }
    }

    #[cold]
    fn replace_by_failure(&mut self, mut place: Place<'_>) -> Made {
        self.note(Fault::internal(FaultKind::Broken));
        let reply = Reply::refusal(500, "a filter failed");
        let head = place.head(self.response);
        head.status = reply.status;
        head.reason = Span::default();
        head.fields = reply.fields.clone();
        Made::Ready(Some(Box::new(reply)), Shape::Kept)
    }

    /// Shows the head of an answer to the filters.
    // In line: what is shown at once is not to pay for what is shown bit by bit.
    #[inline(always)]
    fn show(
        &mut self,
        filters: &'e RouteFilters,
        place: &mut Place<'_>,
        (source, whole): (Source, Whole<'_>),
        call: impl FnOnce(&Chain, &mut ResponseContext<'_>) -> Shown,
    ) -> Result<Made, Failed> {
        let Some(route) = self.route else { return Ok(Made::Ready(None, Shape::Kept)) };
        // By what was answered: a filter that keeps the content may tell the client that it has it already.
        let wants_content = self.downstream.wants_content(place.head(self.response).status);
        let lent = self.lend(route, filters, &self.stand.came);
        let mut context = ResponseContext {
            request: &*self.request,
            response: place.head(self.response),
            source,
            whole,
            behind: Behind::Nothing,
            client: self.client,
            notes: &mut self.stand.notes,
            gateway: &lent,
        };
        let shown = catch_unwind(AssertUnwindSafe(|| {
            let replaced = match call(&filters.chain, &mut context) {
                Shown::Done(replaced) => replaced,
                Shown::Paused(paused) => return Err(paused),
            };
            let transforms = match context.response.status {
                101 => Vec::new(),
                _ => filters.chain.response_transforms(&mut context),
            };
            let pipeline = (!transforms.is_empty()).then(|| Box::new(Pipeline::new(transforms)));
            Ok((replaced, pipeline))
        }));
        let shown = shown.map_err(|payload| {
            self.on_panic(filters, &Panicked(payload));
            Failed
        })?;
        if self.stand.notes.has_new_throttles() {
            self.hold_to_bandwidth();
        }
        let (replaced, pipeline) = match shown {
            Ok(shown) => shown,
            Err(paused) => return Ok(Made::Paused(paused)),
        };
        if let Some(reply) = &replaced
            && reply.reason.is_some()
        {
            self.stand.refusal = reply.reason;
        }
        let Some(pipeline) = pipeline else { return Ok(Made::Ready(replaced, Shape::Kept)) };
        if !pipeline.keeps_content() {
            // Its length is not what it was; to a client that gets a head alone it is not stated.
            place.head(self.response).fields.remove(FieldId::ContentLength);
        }
        Ok(Made::Ready(replaced, Shape::Changed(wants_content.then_some(pipeline))))
    }

    /// Shows the head of the origin's answer to the filters.
    #[inline]
    pub(crate) fn show_answer(&mut self) -> OriginShown {
        match self.filters {
            Some(filters) if filters.chain.sees_responses() => self.show_origin(filters),
            _ => OriginShown::Ready(None, None),
        }
    }

    #[inline(never)]
    fn show_origin(&mut self, filters: &'e RouteFilters) -> OriginShown {
        let status = self.response.status;
        let whole = (Source::Origin, Whole::Unknown);
        let made = self.show_or_fail(filters, Place::Exchange, whole);
        self.conclude_origin(status, made)
    }

    /// Goes on where a filter held an origin's answer up.
    #[cold]
    pub(crate) async fn go_on_showing_origin(
        &mut self,
        mut paused: Box<PausedResponse>,
        status: u16,
    ) -> Result<(Option<Substitute>, Option<Box<Pipeline>>), Stop> {
        let Some(filters) = self.filters else {
            return Err(Fault::internal(FaultKind::Broken).into());
        };
        loop {
            let (waiting, interrupted) = paused.split();
            let resume = self.await_filter(filters, waiting).await?;
            let whole = (Source::Origin, Whole::Unknown);
            let made = self.show_on(filters, Place::Exchange, whole, (interrupted, resume));
            match self.conclude_origin(status, made) {
                OriginShown::Ready(substitute, pipeline) => return Ok((substitute, pipeline)),
                OriginShown::Paused(again, _) => paused = again,
            }
        }
    }

    /// What the filters have made of an origin's answer that had this status.
    #[inline]
    fn conclude_origin(&mut self, status: u16, made: Made) -> OriginShown {
        let (replaced, shape) = match made {
            Made::Ready(replaced, shape) => (replaced, shape),
            Made::Paused(paused) => return OriginShown::Paused(paused, status),
        };
        if let Some(mut reply) = replaced {
            // The filters behind the one that replaced it have seen and changed what is in the head.
            reply.status = self.response.status;
            reply.fields = self.response.fields.clone();
            return OriginShown::Ready(Some(Substitute { reply, shape }), None);
        }
        if status == 101 {
            // The connection to the origin is a pipe already, whatever is said of it.
            self.response.status = status;
        }
        let pipeline = match shape {
            Shape::Kept => None,
            Shape::Changed(pipeline) => pipeline,
        };
        let changed = pipeline.as_ref().is_some_and(|pipeline| !pipeline.keeps_content());
        if changed && self.response.body != BodyLength::UntilClose {
            self.response.body = BodyLength::Framed;
        }
        OriginShown::Ready(None, pipeline)
    }

    /// Gives the client this instead of the origin's answer. As for the rest, [`Exchange::begin_reply`].
    pub(crate) fn send_substitute(
        &mut self,
        substitute: Substitute,
        persistence: Persistence,
    ) -> Queued {
        let Substitute { reply, shape } = substitute;
        let mut head = std::mem::take(&mut self.stand.head);
        head.fields.clear();
        head =
            ResponseHead { status: reply.status, fields: head.fields, ..ResponseHead::default() };
        // It was in a head before.
        let _ = head.fields.push_all(&reply.fields);
        let queued = self.begin_reply(&head, (reply.body, shape), persistence);
        self.stand.head = head;
        queued
    }
}

/// How long content of ours is.
fn length_of(body: &Body) -> BodyLength {
    body.length().map_or(BodyLength::Framed, BodyLength::Known)
}
