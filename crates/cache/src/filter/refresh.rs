//! Something stale is given while it is refreshed in the background (RFC 5861, 3).

use std::sync::Arc;
use std::time::Duration;

use sluice_filter::{FetchFault, Fetched, RequestContext};
use sluice_message::RequestHead;
use sluice_net::{now, unix_ms};

use super::keep::{Heard, PAUSE};
use super::{Inner, REFRESH_FAILED, REFRESHED, Seeking};
use crate::content::Content;
use crate::entry::{Entry, REFRESH, SECOND};
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
        // A new one would not fit into memory, where what is fetched beside goes through.
        if !matches!(entry.body, Content::Memory(_)) {
            return false;
        }
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
            request.fields.remove_named(|known| known.eq_ignore_ascii_case(name));
        }
        if self.prepare(&mut request, &job).is_err() {
            return false;
        }
        // What is asked for is what others get, whoever asked first.
        if request.set_method(b"GET").is_err() {
            return false;
        }
        let limits = (Duration::from_secs(REFRESH), self.settings.entry_limit);
        let Some(answer) = gateway.ask_beside(&request, context.notes, limits) else {
            return false;
        };
        let (inner, worker) = (Arc::clone(self), gateway.worker());
        gateway.spawn(Box::pin(async move {
            let answer = answer.await;
            let outcome = match inner.hear_beside(job, answer) {
                Some(()) => REFRESHED,
                None => REFRESH_FAILED,
            };
            inner.meter.count(worker, outcome);
        }));
        true
    }

    /// What the origin said, if it said something of use.
    fn hear_beside(&self, mut job: Job, answer: Result<Fetched, FetchFault>) -> Option<()> {
        let stale = job.stale.clone()?;
        let now = now();
        // Until then others are content with what there is.
        stale.hold_off(now.saturating_add(PAUSE * SECOND));
        let answer = answer.ok()?;
        let heard = Heard {
            status: answer.status,
            fields: &answer.fields,
            length: answer.length,
            now,
            unix: unix_ms() / 1000,
        };
        if answer.status == 304 {
            return self.renew(&mut job, &stale, &heard).ok()?.map(drop);
        }
        if answer.status >= 500 || answer.trailers.is_some() {
            return None;
        }
        let mut lead = job.lead.take()?;
        match self.judge(&job, &heard) {
            Ok(about) => {
                let length = u64::try_from(answer.body.len()).ok();
                lead.begin(about, length, self.settings.entry_limit).ok()?;
                lead.push(&answer.body).ok()?;
                // The new one takes the place of the old one only if `Vary` is the same.
                self.store.remove(&stale);
                lead.finish();
                Some(())
            }
            Err(_) => {
                self.store.remove(&stale);
                lead.withdraw();
                None
            }
        }
    }
}
