//! Answers that the gateway gives itself.

use sluice_filter::phrase;
use sluice_message::{BodyLength, Expectation, Fault, FaultKind, Lines, Persistence, ResponseHead};

use super::{After, AnswerProgress, Exchange, METHODS, Queued, Step, Stop, exhausted};
use crate::answer::{Reply, judge};
use crate::{Answer, ReportAnswer, TraceMethod};

/// Content of a request that nobody asked for is read up to this size, to keep the connection.
const DISCARD: u64 = 64 * 1024;

impl<'e> Exchange<'e, '_> {
    /// What is left to do after an answer that did not look at the request's content.
    #[inline]
    pub(super) fn answered(
        &mut self,
        answer: impl FnOnce(&mut Self) -> Result<Queued, Fault>,
    ) -> Step<'e> {
        match answer(self) {
            Ok(Queued::Whole(persistence)) => {
                self.after(persistence).map_or(Step::Content, Step::Answered)
            }
            Ok(Queued::Begun(outflow)) => Step::Stream(outflow),
            Ok(Queued::Waits(unshown)) => Step::Show(unshown),
            Err(fault) => Step::Stopped(fault.into()),
        }
    }

    /// The same for an answer that a filter has held up.
    #[cold]
    pub(crate) fn go_on_with(&mut self, queued: Queued) -> Step<'e> {
        self.answered(|_| Ok(queued))
    }

    /// How a whole answer leaves the connection; `None` if the request's content is to be read before.
    #[inline]
    pub(super) fn after(&self, persistence: Persistence) -> Option<After> {
        match persistence {
            Persistence::Close => Some(self.end()),
            Persistence::KeepAlive if self.request.has_content() => None,
            Persistence::KeepAlive => Some(After::Next),
        }
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
    pub(super) fn respond(&mut self, answer: &Answer) -> Queued {
        let persistence = self.persistence_after_content();
        if !self.filters.is_some_and(|filters| filters.chain.sees_responses()) {
            let head = (&*answer.head, answer.head.known());
            self.deliver_shared(head, &answer.body, persistence);
            return Queued::Whole(persistence);
        }
        self.send(&answer.head, &answer.body, persistence)
    }

    /// An answer that does not need the request's content can only keep the connection if that
    /// content is small enough to be read and forgotten. One that waits for `100 (Continue)` may
    /// come or not: nobody can tell (RFC 9110, 10.1.1).
    #[inline]
    pub(super) fn persistence_after_content(&self) -> Persistence {
        match self.request.body {
            _ if !self.request.has_content() => self.persistence(),
            _ if self.request.expectation == Expectation::Continue => Persistence::Close,
            BodyLength::Known(length) if length > DISCARD => Persistence::Close,
            _ => self.persistence(),
        }
    }

    /// Queues an answer that is in memory. What filters put in its place may be more than that.
    #[inline]
    pub(super) fn send(
        &mut self,
        head: &ResponseHead,
        body: &[u8],
        persistence: Persistence,
    ) -> Queued {
        match self.filters {
            None => {
                self.deliver((head, Lines::Unknown), body, persistence);
                Queued::Whole(persistence)
            }
            Some(filters) => self.send_through(filters, (head, body), persistence),
        }
    }

    /// The same for an answer made in [`Exchange::own_head`], which is put back.
    fn send_own(&mut self, head: ResponseHead, body: &[u8]) -> Queued {
        let persistence = self.persistence_after_content();
        let queued = self.send(&head, body, persistence);
        *self.response = head;
        queued
    }

    #[inline(always)]
    pub(super) fn deliver(
        &mut self,
        (head, lines): (&ResponseHead, Lines),
        body: &[u8],
        persistence: Persistence,
    ) {
        self.status = head.status;
        let length = BodyLength::Known(u64::try_from(body.len()).unwrap_or(u64::MAX));
        let downstream = &mut *self.downstream;
        self.worker.with_date(|date| {
            let framing = downstream.framing(length, persistence, Some(date)).with_lines(lines);
            downstream.send_head(head, &framing);
        });
        if downstream.wants_content(head.status) {
            downstream.sender.push(body);
        }
        downstream.sender.finish(None);
    }

    /// Reads content that nobody asked for, so that the next request can be found. On a stream it stands in nobody's
    /// way, but clients that are told to stop sending (RFC 9113, 8.1) may lose the answer, curl for one.
    pub(crate) async fn skip_content(&mut self) -> After {
        match self.downstream.discard_content(DISCARD).await {
            Persistence::Close if self.downstream.is_own() => After::Close,
            _ => After::Next,
        }
    }

    pub(super) fn tell(&mut self, answer: ReportAnswer) -> Result<Queued, Fault> {
        let mut head = self.own_head(answer.status, answer.content_type)?;
        // What the gateway tells about itself is true now and nowhere else.
        head.fields.push(b"cache-control", b"no-store").map_err(|_| exhausted())?;
        Ok(self.send_own(head, &answer.body))
    }

    /// `OPTIONS *` asks the server itself, which no route stands for (RFC 9110, 9.3.7).
    pub(super) fn describe_server(&mut self) -> Result<Queued, Fault> {
        let mut head = self.own_head(204, "text/plain")?;
        head.fields.clear();
        let methods = match self.scope.listener.trace {
            TraceMethod::Refuse => METHODS,
            TraceMethod::Allow => b"GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH",
        };
        head.fields.push(b"allow", methods).map_err(|_| exhausted())?;
        Ok(self.send_own(head, b""))
    }

    pub(super) fn refuse_method(&mut self, allow: &[u8]) -> Result<Queued, Fault> {
        let fault = Fault::downstream(FaultKind::MethodNotAllowed);
        self.note(fault);
        let mut head = self.own_head(judge(fault).status, "text/plain; charset=utf-8")?;
        head.fields.push(b"allow", allow).map_err(|_| exhausted())?;
        Ok(self.send_own(head, &error_body(fault)))
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
        let mut told = match self.call {
            Some(call) => self.refuse_call((call, stop.fault), persistence),
            None => self.refuse(stop.fault, persistence),
        };
        if let Ok(Queued::Waits(unshown)) = told {
            told = match Box::pin(self.go_on_showing(unshown)).await {
                Ok(queued) => Ok(queued),
                Err(stop) => {
                    self.note(stop.fault);
                    Err(stop.fault)
                }
            };
        }
        match told {
            Ok(Queued::Whole(persistence)) => match self.after(persistence) {
                Some(after) => after,
                None => self.skip_content().await,
            },
            Ok(Queued::Begun(outflow)) => match Box::pin(self.pour(outflow)).await {
                Ok(after) => after,
                Err(stop) => {
                    self.note(stop.fault);
                    self.break_off(stop.fault)
                }
            },
            Ok(Queued::Waits(_)) | Err(_) => After::Abort,
        }
    }

    fn refuse(&mut self, fault: Fault, persistence: Persistence) -> Result<Queued, Fault> {
        let mut head = self.own_head(judge(fault).status, "text/plain; charset=utf-8")?;
        if matches!(
            fault.kind,
            FaultKind::Overloaded | FaultKind::ServersBusy | FaultKind::CircuitOpen
        ) {
            self.say_when_to_retry(&mut head);
        }
        let queued = self.send(&head, &error_body(fault), persistence);
        *self.response = head;
        Ok(queued)
    }

    /// RFC 9110, 10.2.3.
    #[cold]
    fn say_when_to_retry(&self, head: &mut ResponseHead) {
        let seconds = self.retry_after.to_string();
        // The head has one field so far: there is room.
        let _ = head.fields.push(b"retry-after", seconds.as_bytes());
    }
}

fn error_body(fault: Fault) -> Vec<u8> {
    let status = judge(fault).status;
    format!("{status} {}: {}\n", phrase(status), fault.kind.reason()).into_bytes()
}
