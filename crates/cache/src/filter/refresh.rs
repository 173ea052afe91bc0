//! Something stale is given while it is refreshed in the background (RFC 5861, 3).

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use sluice_filter::{
    Beside, Broken, Filter, Phases, RequestContext, ResponseContext, ResponseVerdict, Source,
    Transform,
};
use sluice_message::{Fields, RequestHead};
use sluice_net::now;

use super::keep::{Heard, PAUSE, length};
use super::{Inner, REFRESH_FAILED, REFRESHED, Seeking};
use crate::entry::{Entry, SECOND};
use crate::job::{Audience, Job};
use crate::store::Course;
use crate::told::Forward;

impl Inner {
    /// Has something stale refreshed beside the exchange; whether somebody does now.
    pub(super) fn refresh(
        self: &Arc<Self>,
        context: &RequestContext<'_>,
        seeking: &Seeking,
        entry: &Arc<Entry>,
    ) -> bool {
        let gateway = context.gateway;
        let seen = (Some(entry), gateway.now());
        let course = self.store.course(seeking.identity.clone(), &context.request.fields, seen);
        let Some(Course::Lead(lead)) = course else { return true };
        let job = Job {
            forward: Forward::Stale,
            lead: Some(lead),
            stale: Some(Arc::clone(entry)),
            fields: context.request.fields.clone(),
            from_start: false,
            asked_at: gateway.now(),
            audience: Audience::Cache,
        };
        let mut request = RequestHead::new();
        request.copy_from(context.request);
        for name in [&b"range"[..], b"if-range"] {
            request.fields.remove_read_as(name);
        }
        // What is asked for is what others get, whoever asked first.
        if self.prepare(&mut request, &context.gateway.path_rules(), &job).is_err()
            || request.set_method(b"GET").is_err()
        {
            return false;
        }
        let attempt = Attempt {
            inner: Arc::clone(self),
            job,
            stale: Arc::clone(entry),
            worker: gateway.worker(),
            outcome: Some(REFRESH_FAILED),
        };
        let refresh = Arc::new(Refresh(Mutex::new(Some(attempt))));
        let filter: Arc<dyn Filter> = Arc::<Refresh>::clone(&refresh);
        let (client, notes) = (context.client, &*context.notes);
        let begun = gateway.exchange_beside(Beside { request, client, notes, filter });
        if !begun && let Some(mut attempt) = refresh.take() {
            attempt.outcome = None;
        }
        begun
    }
}

/// Is asked in the place of the cache where something is refreshed.
#[derive(Debug)]
struct Refresh(Mutex<Option<Attempt>>);

/// Something is being refreshed. Whoever drops it before it was has failed.
#[derive(Debug)]
struct Attempt {
    inner: Arc<Inner>,
    job: Job,
    stale: Arc<Entry>,
    worker: usize,
    /// What is counted when it is over.
    outcome: Option<usize>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(outcome) = self.outcome else { return };
        // Until then others are content with what there is.
        self.stale.hold_off(now().saturating_add(PAUSE * SECOND));
        self.inner.meter.count(self.worker, outcome);
    }
}

impl Refresh {
    fn take(&self) -> Option<Attempt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Filter for Refresh {
    fn phases(&self) -> Phases {
        Phases::RESPONSE_HEAD | Phases::RESPONSE_BODY
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        // Whoever else answers says nothing of what the origin has.
        if let Some(attempt) = self.take()
            && context.source == Source::Origin
        {
            let coming = attempt.hear(context);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = coming;
        }
        ResponseVerdict::Continue
    }

    fn response_body(&self, _: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let coming = self.take()?;
        Some(Box::new(Coming(Some(coming))))
    }

    fn alters_content(&self) -> bool {
        false
    }
}

impl Attempt {
    /// The origin has answered. Goes on if there is content to come that is to be kept.
    fn hear(mut self, context: &ResponseContext<'_>) -> Option<Self> {
        let heard = Heard::of(context);
        let inner = Arc::clone(&self.inner);
        match heard.status {
            304 => {
                if let Ok(Some(_)) = inner.renew(&mut self.job, &self.stale, &heard) {
                    self.outcome = Some(REFRESHED);
                }
                return None;
            }
            500.. => return None,
            _ => {}
        }
        let mut lead = self.job.lead.take()?;
        let begun = inner.judge(&self.job, &heard).is_ok_and(|about| {
            lead.begin(about, length(context), inner.settings.entry_limit).is_ok()
        });
        if !begun {
            // What comes now is the answer, which is for nobody else; what was kept is not (RFC 9111, 4.3.3).
            inner.store.remove(&self.stale);
            lead.withdraw();
            return None;
        }
        self.job.lead = Some(lead);
        if heard.status == 204 {
            self.finish();
            return None;
        }
        Some(self)
    }

    /// All content is there.
    fn finish(mut self) {
        let Some(lead) = self.job.lead.take() else { return };
        // The new one takes the place of the old one only if `Vary` is the same.
        self.inner.store.remove(&self.stale);
        lead.finish();
        self.outcome = Some(REFRESHED);
    }
}

/// Keeps content that is for nobody else.
#[derive(Debug)]
struct Coming(Option<Attempt>);

impl Transform for Coming {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let lead = self.0.as_mut().and_then(|attempt| attempt.job.lead.as_mut());
        if lead.is_none_or(|lead| lead.push(piece).is_err()) {
            // It is larger than may be kept. Nobody takes much of what is passed on.
            self.0 = None;
            out.extend_from_slice(piece);
        }
        Ok(())
    }

    fn keeps_content(&self) -> bool {
        false
    }

    fn is_awaited(&self, waker: &Waker) -> bool {
        let lead = self.0.as_ref().and_then(|attempt| attempt.job.lead.as_ref());
        lead.is_some_and(|lead| lead.is_awaited(waker))
    }

    fn is_full(&mut self, waker: &Waker) -> bool {
        let lead = self.0.as_ref().and_then(|attempt| attempt.job.lead.as_ref());
        lead.is_some_and(|lead| lead.is_full(waker))
    }

    fn end(&mut self, trailers: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(mut attempt) = self.0.take() else { return Ok(()) };
        match trailers {
            None => attempt.finish(),
            // What they say of the content would be lost (RFC 9110, 6.5.1).
            Some(_) => {
                if let Some(lead) = attempt.job.lead.take() {
                    lead.finish_unkept();
                }
            }
        }
        Ok(())
    }
}
