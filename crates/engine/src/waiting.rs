//! Requests that wait until others are answered.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_message::{Fault, FaultKind};
use sluice_net::{Nanos, Refused, now};

use crate::admission::Admission;
use crate::exchange::{Exchange, Stop};

impl<'e> Exchange<'e, '_> {
    /// Waits for the permits that were not free. A client that leaves meanwhile gives its place up.
    pub(crate) async fn wait_for_permits(&mut self, admission: &'e Admission) -> Result<(), Stop> {
        let mut ticket = std::mem::take(&mut self.ticket);
        for (limit, permit) in admission.limits(&mut ticket) {
            let waited = match limit.limiter.queue() {
                Ok(queued) => self.wait_for(limit.settings.wait, queued).await,
                Err(refused) => Err(Unserved::Refused(refused)),
            };
            match waited {
                Ok(taken) => *permit = Some(taken),
                Err(Unserved::Gone(fault)) => return Err(fault.into()),
                Err(Unserved::Refused(refused)) => {
                    limit.limiter.on_refusal(refused);
                    self.retry_after = limit.settings.retry_after;
                    return Err(Fault::internal(FaultKind::Overloaded).into());
                }
            }
        }
        self.ticket = ticket;
        Ok(())
    }

    pub(crate) async fn wait_for<T>(
        &mut self,
        limit: Duration,
        place: impl Future<Output = T>,
    ) -> Result<T, Unserved> {
        let limit = Nanos::try_from(limit.as_nanos()).unwrap_or(Nanos::MAX);
        let until = now().saturating_add(limit).min(self.end_of_call());
        let mut place = pin!(place);
        poll_fn(|cx| {
            if let Poll::Ready(permit) = place.as_mut().poll(cx) {
                return Poll::Ready(Ok(permit));
            }
            if let Poll::Ready(fault) = self.poll_patience(cx) {
                return Poll::Ready(Err(Unserved::Gone(fault)));
            }
            let late = self.downstream.deadline.poll_at(until, cx);
            late.map(|_| Err(Unserved::Refused(Refused::TimedOut)))
        })
        .await
    }

    /// Ready once nobody waits for the answer any more. Answers to requests before this one go out
    /// meanwhile.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let downstream = &mut *self.downstream;
        if downstream.sender.waiting() > 0
            && let Poll::Ready(Err(kind)) = downstream.sender.poll_flush(downstream.channel, cx)
        {
            return Poll::Ready(Fault::downstream(kind));
        }
        if self.worker.crowd.is_large() {
            downstream.rest();
        }
        downstream.poll_gone(cx)
    }

    /// Tells adaptive limits how long the origin took, if it was asked.
    pub(crate) fn teach(&self, admission: &Admission) {
        match (self.fault, self.upstream.nanos) {
            // Whoever does not answer in time is as slow as that at least.
            (Some(Fault { kind, .. }), _) if is_slowness(kind) => {
                admission.on_answer(now().saturating_sub(self.downstream.started()));
            }
            // An error comes fast, and says nothing about how much can be done.
            (_, Some(nanos)) if self.status < 500 && !self.is_failed_call() => {
                admission.on_answer(nanos)
            }
            _ => {}
        }
    }
}

/// Why a wait ended without a permit.
pub(crate) enum Unserved {
    Gone(Fault),
    Refused(Refused),
}

const fn is_slowness(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::ResponseTimedOut | FaultKind::ConnectTimedOut)
}
