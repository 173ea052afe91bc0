//! A request that nothing fresh is at hand for: what is kept may do, others may be asking, or the origin is asked.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use sluice_filter::{Local, Reply, RequestContext, Resume, Verdict};
use sluice_message::{Method, PathRules, RequestHead, SpaceExhausted, may_be_read_as};

use super::{
    COALESCED, FAILED_TOGETHER, HIT, Inner, ONLY_IF_CACHED, Obedience, STALE, STALE_ERROR, Seeking,
    WAITED_TOO_LONG,
};
use crate::asked::{CONTROL, IF_RANGE, RANGE};
use crate::directives::Wishes;
use crate::entry::Entry;
use crate::filling::{Filling, Joined, Outcome, Wanted};
use crate::job::{Audience, Job};
use crate::store::{Course, Lead};
use crate::told::{Forward, Told, tell};

/// A request waits for others no more often than this: then it asks for itself.
pub(super) const MOST_WAITS: u32 = 2;

impl Inner {
    /// What is to be done if the first look did not answer the request.
    pub(super) fn consider(
        self: &Arc<Self>,
        context: &mut RequestContext<'_>,
        seeking: Seeking,
    ) -> Verdict {
        let wishes = self.wishes(context, &seeking);
        let now = context.gateway.now();
        if let Some(entry) = &seeking.entry
            && let Some((told, outcome)) = self.may_give(entry, &wishes, now)
            && (outcome != STALE || self.is_seen_to(context, &seeking, entry))
        {
            return self.give(context, (entry, seeking.asked), told, outcome);
        }
        if wishes.only_if_cached {
            // RFC 9111, 5.2.1.7.
            self.meter.count(context.gateway.worker(), ONLY_IF_CACHED);
            let mut reply = Reply::refusal(504, "nothing is kept for this");
            let _ = tell(&mut reply.fields, Told::Unasked);
            return Verdict::Respond(Box::new(reply));
        }
        // RFC 9111, 5.2.1.5: neither the request nor what is answered is kept.
        if wishes.no_store {
            return self.pass_by(context, Forward::Request);
        }
        if context.request.method == Method::Head {
            return self.ask_for_head(context, seeking);
        }
        let from_start = wants_all(context, &seeking);
        if seeking.asked.has(RANGE) && !from_start {
            return self.ask_for_part(context, &seeking);
        }
        let course = match seeking.waits {
            // A request that comes back here must not wait for the one that it is made for.
            0..MOST_WAITS if context.gateway.passes() == 0 => self.store.course(
                seeking.identity.clone(),
                &context.request.fields,
                (seeking.entry.as_ref(), now),
            ),
            _ => self.store.alone(seeking.identity.clone()).map(Course::Lead),
        };
        match course {
            Some(Course::Found(entry)) => {
                let waits = seeking.waits + 1;
                self.consider(context, Seeking { entry: Some(entry), waits, ..seeking })
            }
            Some(Course::Join(filling)) => self.wait(context, seeking, filling),
            Some(Course::Lead(lead)) => self.ask(context, seeking, (lead, from_start)),
            None => Verdict::Continue,
        }
    }

    /// What the client wishes, if that counts.
    fn wishes(&self, context: &RequestContext<'_>, seeking: &Seeking) -> Wishes {
        if seeking.asked.has(CONTROL) && self.settings.wishes == Obedience::Heed {
            return Wishes::of(&context.request.fields);
        }
        Wishes::default()
    }

    /// Whether an entry may be given as it is (RFC 9111, 4.2 and 4.2.4; RFC 5861).
    fn may_give(&self, entry: &Entry, wishes: &Wishes, now: u64) -> Option<(Told, usize)> {
        if wishes.no_cache || !entry.is_kept() {
            return None;
        }
        let left = entry.left(now);
        let told = Told::Hit(left);
        // RFC 8246, 2.1: asking again before it is stale is of no use.
        let settled = entry.about.terms.immutable && wishes.max_age == Some(0);
        let young = wishes.max_age.is_none_or(|most| entry.about.age(now) <= most) || settled;
        if entry.is_fresh(now) {
            let lasting = u64::try_from(left).unwrap_or(0) >= wishes.min_fresh;
            return (young && lasting).then_some((told, HIT));
        }
        if !young || wishes.min_fresh > 0 {
            return None;
        }
        let terms = &entry.about.terms;
        let content = entry.may_be_stale() && entry.is_within(wishes.max_stale, now);
        let waiting = entry.is_within(terms.stale_while_revalidate, now);
        if content || waiting {
            return Some((told, STALE));
        }
        // The origin has just failed.
        let bridged = entry.is_held_off(now) && entry.is_within(terms.stale_if_error, now);
        bridged.then_some((told, STALE_ERROR))
    }

    /// Whether somebody sees to it that something stale is refreshed, or nobody has to: otherwise the request
    /// itself does.
    fn is_seen_to(
        self: &Arc<Self>,
        context: &RequestContext<'_>,
        seeking: &Seeking,
        entry: &Arc<Entry>,
    ) -> bool {
        let now = context.gateway.now();
        let waiting = entry.is_within(entry.about.terms.stale_while_revalidate, now);
        !waiting || !entry.begin_refresh(now) || self.refresh(context, seeking, entry)
    }

    /// Waits for what another request asked for.
    pub(super) fn wait(
        self: &Arc<Self>,
        context: &RequestContext<'_>,
        seeking: Seeking,
        filling: Arc<Filling>,
    ) -> Verdict {
        let (inner, sleep) = (Arc::clone(self), context.gateway.sleep(self.settings.wait));
        // A part of what is not there yet cannot be found.
        let part = seeking.asked.has(RANGE) && !wants_all(context, &seeking);
        let wanted = if part { Wanted::Whole } else { Wanted::Beginning };
        let begun = context.gateway.now();
        Verdict::Wait(Box::pin(async move {
            let outcome = outcome(filling, wanted, sleep).await;
            let resume: Resume = Box::new(move |context| {
                let waited = context.gateway.now().saturating_sub(begun);
                inner.meter.observe_wait(context.gateway.worker(), waited);
                // Whoever goes on with it keeps its place until he has another one.
                let (outcome, joined) = outcome.unzip();
                let verdict = inner.go_on(context, seeking, outcome);
                drop(joined);
                verdict
            });
            resume
        }))
    }

    /// Goes on after a wait; `None` = it was too long.
    fn go_on(
        self: &Arc<Self>,
        context: &mut RequestContext<'_>,
        mut seeking: Seeking,
        outcome: Option<Outcome>,
    ) -> Verdict {
        let (worker, now) = (context.gateway.worker(), context.gateway.now());
        match outcome {
            Some(Outcome::Whole(entry) | Outcome::Begun(entry))
                if entry.is_young(now) && entry.is_for(&context.request.fields) =>
            {
                let forward = self.reason(&seeking);
                let told = Told::Collapsed(forward);
                return self.give(context, (&entry, seeking.asked), told, COALESCED);
            }
            Some(Outcome::Recalled(entry)) if entry.is_for(&context.request.fields) => {
                seeking.entry = Some(entry);
                return self.consider(context, seeking);
            }
            Some(Outcome::Failed(status)) => {
                self.meter.count(worker, FAILED_TOGETHER);
                let mut reply = Reply::refusal(status, "the origin failed for all who waited");
                let _ = tell(&mut reply.fields, Told::Collapsed(self.reason(&seeking)));
                return Verdict::Respond(Box::new(reply));
            }
            Some(_) => seeking.waits += 1,
            None => {
                self.meter.count(worker, WAITED_TOO_LONG);
                seeking.waits = MOST_WAITS;
            }
        }
        let identity = &seeking.identity;
        let key = (&*identity.url, &*identity.extra);
        seeking.entry = self.store.find(identity.hash, key, &context.request.fields);
        self.look_further(context, seeking)
    }

    /// Has the origin asked by this request, for all who wait for the answer.
    fn ask(
        &self,
        context: &mut RequestContext<'_>,
        seeking: Seeking,
        (lead, from_start): (Lead, bool),
    ) -> Verdict {
        let job = Job {
            forward: self.reason(&seeking),
            lead: Some(lead),
            stale: seeking.entry,
            fields: context.request.fields.clone(),
            from_start,
            asked_at: context.gateway.now(),
            audience: Audience::Client,
        };
        if self.prepare(context.request, &context.gateway.path_rules(), &job).is_ok() {
            context.notes.leave(self.owner, Box::new(job));
        }
        Verdict::Continue
    }

    /// Changes the request to one for an answer that can be kept, and can be compared with what is kept.
    pub(super) fn prepare(
        &self,
        request: &mut RequestHead,
        rules: &PathRules,
        job: &Job,
    ) -> Result<(), SpaceExhausted> {
        if self.settings.key.changes_targets() {
            // What is not part of the key must not change what is kept.
            let mut target = Vec::new();
            self.settings.key.write_target(request.target(), &mut target);
            request.set_target(&target, rules).map_err(|_| SpaceExhausted)?;
        }
        // The client's conditions are judged when the answer is there.
        let conditions: [&[u8]; 2] = [b"if-none-match", b"if-modified-since"];
        let is = |name: &[u8], known: &[u8]| may_be_read_as(name, known);
        request.fields.remove_named(|name| {
            conditions.iter().any(|known| is(name, known)) || job.from_start && is(name, b"range")
        });
        let Some(stale) = &job.stale else { return Ok(()) };
        // RFC 9111, 4.3.1.
        let kept = &stale.about.fields;
        if let Some(etag) = kept.values_of(b"etag").next() {
            request.fields.push(b"if-none-match", etag)?;
        }
        // What is no date is no condition either: the origin would ignore it (RFC 9110, 13.1.3).
        if let Some(modified) = kept.values_of(b"last-modified").next()
            && stale.about.validators().last_modified.is_some()
        {
            request.fields.push(b"if-modified-since", modified)?;
        }
        Ok(())
    }

    /// A part is wanted of what is not kept: it is given if its first bytes have come already, for another request.
    fn ask_for_part(&self, context: &mut RequestContext<'_>, seeking: &Seeking) -> Verdict {
        let now = context.gateway.now();
        let fields = &context.request.fields;
        let ranges = fields.values_of(b"range").collect::<Vec<_>>();
        if let [range] = ranges.as_slice()
            && let Some((entry, joined)) = self.store.coming(&seeking.identity, range)
            && entry.is_young(now)
            && entry.is_for(fields)
        {
            let told = Told::Collapsed(self.reason(seeking));
            let verdict = self.give(context, (&entry, seeking.asked), told, COALESCED);
            // He keeps this place until he has another one.
            drop(joined);
            return verdict;
        }
        self.pass_by(context, Forward::Partial)
    }

    /// A HEAD request goes to the origin; what it hears may say that what is kept is out of date.
    fn ask_for_head(&self, context: &mut RequestContext<'_>, seeking: Seeking) -> Verdict {
        let job = Job {
            forward: self.reason(&seeking),
            lead: None,
            stale: seeking.entry,
            fields: context.request.fields.clone(),
            from_start: false,
            asked_at: context.gateway.now(),
            audience: Audience::Client,
        };
        context.notes.leave(self.owner, Box::new(job));
        Verdict::Continue
    }

    /// Why the origin is asked (RFC 9211, 2.2).
    fn reason(&self, seeking: &Seeking) -> Forward {
        let identity = &seeking.identity;
        let on_disk = || self.tier.as_ref().is_some_and(|tier| tier.keeps(identity));
        match &seeking.entry {
            Some(_) if seeking.asked.has(CONTROL) => Forward::Request,
            Some(_) => Forward::Stale,
            None if self.store.keeps(identity) || on_disk() => Forward::VaryMiss,
            None => Forward::Miss,
        }
    }
}

/// Whether the range that is asked for is all there is, as players ask at first.
fn wants_all(context: &RequestContext<'_>, seeking: &Seeking) -> bool {
    let mut ranges = context.request.fields.values_of(b"range");
    seeking.asked.has(RANGE)
        && !seeking.asked.has(IF_RANGE)
        && ranges.next() == Some(b"bytes=0-")
        && ranges.next().is_none()
}

/// What becomes of an answer on its way, unless that takes too long.
async fn outcome(
    filling: Arc<Filling>,
    wanted: Wanted,
    sleep: Local<()>,
) -> Option<(Outcome, Joined)> {
    let (mut outcome, mut sleep) = (pin!(filling.outcome(wanted)), sleep);
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = outcome.as_mut().poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        sleep.as_mut().poll(cx).map(|()| None)
    })
    .await
}
