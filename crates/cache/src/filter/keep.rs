//! An answer of the origin, or its failure: kept, compared with what is kept, or passed on.

use std::sync::Arc;

use sluice_filter::{Behind, ResponseContext, ResponseVerdict};
use sluice_message::{BodyLength, Fields, Method, SpaceExhausted};

use super::{Inner, MISS, REVALIDATED, STALE_ERROR, UNCACHEABLE};
use crate::answer::{Question, answer, confirmation, is_known};
use crate::asked::{AUTHORIZATION, Asked, COOKIE};
use crate::directives::Wishes;
use crate::entry::{About, Entry, SECOND};
use crate::head::{confirmed, kept, tags};
use crate::job::{Audience, Change, Job};
use crate::policy::{Answer, Refusal, date};
use crate::told::{Forward, Told, tell};
use crate::vary::selecting;

/// Seconds for which nobody asks an origin again that has just failed, where something stale is at hand.
pub(super) const PAUSE: u64 = 1;
/// Seconds for which requests do not wait for each other after an answer that was for one alone.
const UNSHARED: u64 = 10;

/// What an origin said, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<'a> {
    pub(super) status: u16,
    pub(super) fields: &'a Fields,
    pub(super) length: BodyLength,
    /// Nanoseconds of the clock that never goes back.
    pub(super) now: u64,
    /// Seconds since 1970.
    pub(super) unix: u64,
}

impl<'a> Heard<'a> {
    pub(super) fn of(context: &'a ResponseContext<'_>) -> Self {
        Self {
            status: context.response.status,
            fields: &context.response.fields,
            length: context.response.body,
            now: context.gateway.now(),
            unix: context.gateway.unix_ms() / 1000,
        }
    }
}

impl Inner {
    /// The origin has answered.
    pub(super) fn hear(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if let Some(change) = context.notes.left::<Change>(self.owner) {
            if matches!(context.response.status, 200..=399) {
                self.invalidate(change, &context.response.fields, context.gateway.worker());
            }
            let _ = tell(&mut context.response.fields, Told::Forwarded(Forward::Method, None));
            return ResponseVerdict::Continue;
        }
        if let Some(forward) = self.passed_by(context) {
            let _ = tell(&mut context.response.fields, Told::Forwarded(forward, None));
            return ResponseVerdict::Continue;
        }
        let mut notes = std::mem::take(context.notes);
        let verdict = match notes.left::<Job>(self.owner) {
            None => ResponseVerdict::Continue,
            Some(job) => self.hear_for(context, job),
        };
        *context.notes = notes;
        verdict
    }

    /// Why the request was none for the cache, if it was none.
    fn passed_by(&self, context: &ResponseContext<'_>) -> Option<Forward> {
        let [number, ..] = context.notes.kept(self.owner)?;
        Forward::of_number(number)
    }

    fn hear_for(&self, context: &mut ResponseContext<'_>, job: &mut Job) -> ResponseVerdict {
        let status = context.response.status;
        if context.request.method == Method::Head {
            return self.hear_head(context, job);
        }
        let heard = match (status, job.stale.clone()) {
            (304, Some(stale)) => self.confirm(context, job, &stale),
            (500 | 502..=504, Some(stale)) if self.may_help(context, job, &stale) => {
                self.help(context, job, &stale)
            }
            _ => return self.keep(context, job),
        };
        // A head that is full leaves things as they are.
        heard.unwrap_or(ResponseVerdict::Continue)
    }

    /// The origin failed; something stale may do (RFC 5861, 4).
    pub(super) fn hear_fault(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let method = context.notes.left::<Change>(self.owner).map(|_| Forward::Method);
        if let Some(forward) = method.or_else(|| self.passed_by(context)) {
            let _ = tell(&mut context.response.fields, Told::Forwarded(forward, None));
            return ResponseVerdict::Continue;
        }
        let mut notes = std::mem::take(context.notes);
        let verdict = match notes.left::<Job>(self.owner) {
            None => ResponseVerdict::Continue,
            Some(job) => self.hear_fault_for(context, job),
        };
        *context.notes = notes;
        verdict
    }

    fn hear_fault_for(&self, context: &mut ResponseContext<'_>, job: &mut Job) -> ResponseVerdict {
        let failed = matches!(context.response.status, 500 | 502..=504);
        if failed
            && let Some(stale) = job.stale.clone()
            && self.may_help(context, job, &stale)
        {
            return self.help(context, job, &stale).unwrap_or(ResponseVerdict::Continue);
        }
        match job.lead.take() {
            // All who wait would only find out the same, one after the other.
            Some(lead) if matches!(context.response.status, 502..=504) => {
                lead.fail(context.response.status);
            }
            lead => drop(lead),
        }
        let _ = tell(&mut context.response.fields, Told::Forwarded(job.forward, None));
        ResponseVerdict::Continue
    }

    /// Whether something stale may be given while the origin fails.
    fn may_help(&self, context: &ResponseContext<'_>, job: &Job, stale: &Entry) -> bool {
        let now = context.gateway.now();
        let wished = Wishes::of(&job.fields).stale_if_error.filter(|_| stale.may_be_stale());
        let patience = stale.about.terms.stale_if_error.max(wished.unwrap_or(0));
        stale.is_within(patience, now)
    }

    /// Gives something stale.
    fn help(
        &self,
        context: &ResponseContext<'_>,
        job: &mut Job,
        stale: &Arc<Entry>,
    ) -> Result<ResponseVerdict, SpaceExhausted> {
        let now = context.gateway.now();
        stale.hold_off(now.saturating_add(PAUSE * SECOND));
        if let Some(lead) = job.lead.take() {
            lead.withdraw();
        }
        self.meter.count(context.gateway.worker(), STALE_ERROR);
        let told = Told::Asked(job.forward, context.response.status);
        self.replace(context, job, (stale, told))
    }

    /// The origin says that what is kept is right (RFC 9111, 4.3.3).
    fn confirm(
        &self,
        context: &ResponseContext<'_>,
        job: &mut Job,
        stale: &Arc<Entry>,
    ) -> Result<ResponseVerdict, SpaceExhausted> {
        self.meter.count(context.gateway.worker(), REVALIDATED);
        let told = Told::Asked(job.forward, 304);
        let heard = Heard::of(context);
        match self.renew(job, stale, &heard)? {
            Some(entry) => self.replace(context, job, (&entry, told)),
            None => self.replace(context, job, (stale, told)),
        }
    }

    /// Keeps what was confirmed with what is said anew (RFC 9111, 4.3.4); `None` if it may not be kept longer.
    pub(super) fn renew(
        &self,
        job: &mut Job,
        stale: &Arc<Entry>,
        heard: &Heard<'_>,
    ) -> Result<Option<Arc<Entry>>, SpaceExhausted> {
        let fields = confirmed(&stale.about.fields, heard.fields)?;
        let Some(lead) = job.lead.take() else { return Ok(None) };
        let answer =
            self.answer_of(job, &Heard { status: stale.about.status, fields: &fields, ..*heard });
        let Ok(terms) = self.settings.rules.judge(&answer) else {
            // It may be given this once, and is not kept any more.
            self.store.remove(stale);
            lead.withdraw();
            return Ok(None);
        };
        let about = About {
            fields: kept(&fields, &terms.withheld, answer.now)?,
            date: date(&answer),
            born: heard.now,
            terms,
            ..stale.about.clone()
        };
        let entry = Entry::new(stale.identity.clone(), about, stale.body.clone());
        Ok(Some(lead.deliver(entry)))
    }

    /// Puts an entry in the place of what the origin said.
    fn replace(
        &self,
        context: &ResponseContext<'_>,
        job: &Job,
        (entry, told): (&Entry, Told),
    ) -> Result<ResponseVerdict, SpaceExhausted> {
        let question = Question {
            method: context.request.method,
            fields: &job.fields,
            asked: Asked::of(&job.fields, &self.settings.key.headers),
            now: context.gateway.now(),
            told,
        };
        answer(entry, &question).map(|reply| ResponseVerdict::Replace(Box::new(reply)))
    }

    fn answer_of<'a>(&self, job: &Job, heard: &Heard<'a>) -> Answer<'a> {
        let asked = Asked::of(&job.fields, &self.settings.key.headers);
        Answer {
            status: heard.status,
            fields: heard.fields,
            authorized: asked.has(AUTHORIZATION),
            cookies: asked.has(COOKIE),
            now: heard.unix,
            delay: heard.now.saturating_sub(job.asked_at) / SECOND,
        }
    }

    /// Keeps an answer, or says that it is for one alone.
    fn keep(&self, context: &mut ResponseContext<'_>, job: &mut Job) -> ResponseVerdict {
        let (worker, now) = (context.gateway.worker(), context.gateway.now());
        let Some(mut lead) = job.lead.take() else { return ResponseVerdict::Continue };
        // What comes now is the answer; what was kept is not (RFC 9111, 4.3.3).
        if let Some(stale) = &job.stale
            && context.response.status < 500
        {
            self.store.remove(stale);
        }
        let begun = self.judge(job, &Heard::of(context)).and_then(|about| {
            let begun = lead.begin(about, length(context), self.settings.entry_limit);
            begun.map_err(|_| Refusal::TooLarge)
        });
        let fields = &mut context.response.fields;
        match begun.map(|()| lead.about()) {
            Ok(None) => {}
            Err(refusal) => {
                self.meter.count(worker, UNCACHEABLE);
                let _ = tell(fields, Told::Forwarded(job.forward, Some(refusal.text())));
                lead.decline(now.saturating_add(UNSHARED * SECOND), now);
            }
            Ok(Some(about)) => {
                self.meter.count(worker, MISS);
                let _ = tell(fields, Told::Stored(job.forward));
                if about.terms.lifetime <= about.terms.age {
                    // Nobody else may have it without asking.
                    lead.dismiss(now.saturating_add(UNSHARED * SECOND), now);
                }
                self.pass_on(context, job, about);
                if context.response.status == 204 {
                    lead.finish();
                } else {
                    job.lead = Some(lead);
                }
            }
        }
        ResponseVerdict::Continue
    }

    /// What is to be kept of the answer, if it may be.
    pub(super) fn judge(&self, job: &Job, heard: &Heard<'_>) -> Result<About, Refusal> {
        // Nobody can tell whether that came in whole (RFC 9112, 8).
        if heard.length == BodyLength::UntilClose {
            return Err(Refusal::NoLength);
        }
        let answer = self.answer_of(job, heard);
        let mut terms = self.settings.rules.judge(&answer)?;
        terms.withheld.extend(self.settings.tags.iter().cloned());
        let fields = kept(heard.fields, &terms.withheld, answer.now);
        Ok(About {
            status: heard.status,
            fields: fields.map_err(|_| Refusal::Space)?,
            vary: selecting(heard.fields, &job.fields),
            tags: tags(heard.fields, &self.settings.tags),
            date: date(&answer),
            terms,
            born: heard.now,
        })
    }

    /// Makes the answer what the client asked for, whose conditions and range the origin did not see.
    fn pass_on(&self, context: &mut ResponseContext<'_>, job: &mut Job, about: &About) {
        let length = length(context);
        let response = &mut *context.response;
        // They name what can be purged, which is nobody's business.
        let tags = &self.settings.tags;
        response.fields.remove_named(|name| tags.iter().any(|tag| name.eq_ignore_ascii_case(tag)));
        if response.status != 200 {
            return;
        }
        if is_known(about, &job.fields)
            && let Ok(fields) = confirmation(&response.fields)
        {
            response.status = 304;
            response.reason = sluice_message::Span::default();
            response.fields = fields;
            job.audience = Audience::Cache;
            return;
        }
        if job.from_start
            && let Some(length @ 1..) = length
        {
            let range = format!("bytes 0-{}/{length}", length - 1);
            if response.fields.push(b"content-range", range.as_bytes()).is_ok() {
                response.status = 206;
                response.reason = sluice_message::Span::default();
            }
        }
    }

    /// What a HEAD request heard may say that what is kept is out of date (RFC 9111, 4.3.5).
    fn hear_head(&self, context: &mut ResponseContext<'_>, job: &Job) -> ResponseVerdict {
        let stated = context.behind != Behind::Alters;
        let response = &mut *context.response;
        self.meter.count(context.gateway.worker(), UNCACHEABLE);
        if let (200, Some(stale)) = (response.status, &job.stale) {
            let now = |name: &[u8]| response.fields.values_of(name).next().map(<[u8]>::to_vec);
            let before =
                |name: &[u8]| stale.about.fields.values_of(name).next().map(<[u8]>::to_vec);
            let differs = |name: &[u8]| now(name).is_some_and(|value| before(name) != Some(value));
            let length = stale.body.length().map(|length| length.to_string().into_bytes());
            let longer = now(b"content-length").is_some_and(|value| Some(value) != length);
            let longer = stated && longer;
            if differs(b"etag") || differs(b"last-modified") || longer {
                self.store.remove(stale);
            }
        }
        let _ = tell(&mut response.fields, Told::Forwarded(job.forward, Some("head")));
        ResponseVerdict::Continue
    }
}

/// Bytes of content that will come, if that is known: what the origin says of it says nothing of what filters behind
/// the cache make of it.
pub(super) fn length(context: &ResponseContext<'_>) -> Option<u64> {
    match (context.behind, context.response.body) {
        (Behind::Nothing | Behind::Watches, BodyLength::Known(length)) => Some(length),
        _ => None,
    }
}
