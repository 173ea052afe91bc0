//! The filters of a route, sorted by when they are called.

use std::fmt;
use std::sync::Arc;

use sluice_expression::{Condition, Marks, Need};
use sluice_message::{RequestHead, Span};

use crate::Filter;
use crate::context::{Behind, DoneContext, RequestContext, ResponseContext, Source, Whole};
use crate::notes::Notes;
use crate::phases::{Phase, Phases, ResponseCondition};
use crate::reply::{Ready, Reply};
use crate::transform::Transform;
use crate::verdict::{ResponseResume, ResponseVerdict, ResponseWaiting, Resume, Verdict, Waiting};

/// One filter of a chain.
#[derive(Clone, Debug)]
pub struct Link {
    /// What the configuration calls it.
    pub name: Arc<str>,
    /// The filter.
    pub filter: Arc<dyn Filter>,
    /// When it is left out, if it ever is.
    pub when: Option<Arc<Condition>>,
}

/// What a chain of filters came to.
pub enum Progress {
    /// No filter objects: what the route says is to happen.
    Done,
    /// The client gets this answer.
    Respond(Box<Reply>),
    /// The same, as an answer that is given often.
    Give(Ready),
    /// Another route is to be looked for.
    Reroute,
    /// A filter has to wait.
    Paused(Paused),
}

/// A chain in the middle of which a filter waits.
pub struct Paused {
    /// The place the chain goes on at afterwards.
    next: usize,
    /// What is waited for.
    pub pause: Pause,
}

/// What showing an answer to a chain came to.
pub enum Shown {
    /// All have seen it; this replaces it, if anything does.
    Done(Option<Box<Reply>>),
    /// A filter has to wait.
    Paused(Box<PausedResponse>),
}

/// A chain in the middle of which a filter waits that was shown an answer.
pub struct PausedResponse {
    /// The place the chain goes on at afterwards.
    next: usize,
    /// What replaces the answer so far.
    replaced: Option<Box<Reply>>,
    waiting: ResponseWaiting,
}

impl PausedResponse {
    /// What is waited for, and what the chain goes on with.
    #[must_use]
    pub fn split(self) -> (ResponseWaiting, Interrupted) {
        let Self { next, replaced, waiting } = self;
        (waiting, Interrupted { next, replaced })
    }
}

/// Where a chain goes on after a wait.
pub struct Interrupted {
    next: usize,
    replaced: Option<Box<Reply>>,
}

/// The place a request enters a chain at: no filter before it is to be called.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    place: usize,
    marks: Marks,
}

/// What is waited for.
pub enum Pause {
    /// This future.
    Future(Waiting),
    /// Content, up to so many bytes.
    Content(usize, Resume),
}

impl Progress {
    /// What a verdict means of whom nobody comes after: [`Progress::Done`] if it says nothing.
    #[must_use]
    pub fn of_last(verdict: Verdict) -> Self {
        settle(verdict, usize::MAX).unwrap_or(Self::Done)
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("Done"),
            Self::Respond(reply) => f.debug_tuple("Respond").field(reply).finish(),
            Self::Give(ready) => f.debug_tuple("Give").field(ready).finish(),
            Self::Reroute => f.write_str("Reroute"),
            Self::Paused(paused) => write!(f, "Paused before {}", paused.next),
        }
    }
}

/// Chains are no longer than this: a bit for each filter says whether it is left out.
pub const LONGEST: usize = 64;

/// A filter at its place for one phase.
#[derive(Debug)]
struct Stage {
    name: Arc<str>,
    /// One bit, by the place of the filter in the configuration.
    bit: u64,
    /// The bits of those whose condition is judged before the request goes beyond this one.
    up_to_here: u64,
    when: Option<Arc<Condition>>,
    /// When that is judged.
    judged_by: JudgedBy,
    /// Of every request for which that holds.
    marks: Marks,
    /// Absent where the condition has to be judged in a phase that the filter itself takes no part in.
    filter: Option<Arc<dyn Filter>>,
}

/// What a condition is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JudgedBy {
    /// The request, before it goes on.
    Request,
    /// The head of the response.
    Response,
}

impl JudgedBy {
    fn of(link: &Link) -> Self {
        match &link.when {
            Some(when) if when.needs().has(Need::Response) => Self::Response,
            _ => Self::Request,
        }
    }
}

/// Whether there are conditions about requests.
#[derive(Clone, Copy, Debug, Default)]
enum Conditional {
    #[default]
    None,
    Some,
}

/// The filters of a route.
#[derive(Debug, Default)]
pub struct Chain {
    /// All of them, the outermost first.
    links: Box<[Link]>,
    request_head: Box<[Stage]>,
    /// The bits of all that are judged there.
    judged: u64,
    conditional: Conditional,
    request_body: Box<[Stage]>,
    response_head: Box<[Stage]>,
    response_body: Box<[Stage]>,
    /// The bits of those that may change content of answers.
    altering: u64,
    /// Whether answers that the gateway gives itself concern anybody.
    own_answers: Interest,
    done: Box<[Stage]>,
}

/// Whether something concerns anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Interest {
    #[default]
    None,
    Some,
}

impl Chain {
    /// A chain of these, the outermost first; `None` if nothing would ever be called. More than [`LONGEST`]
    /// are not taken.
    #[must_use]
    pub fn new(links: &[Link]) -> Option<Self> {
        let towards_origin = |phase| stages(links.iter().enumerate(), phase);
        let towards_client = |phase| stages(links.iter().enumerate().rev(), phase);
        let mut request_head = towards_origin(Phase::RequestHead);
        let mut judged = 0;
        for stage in &mut request_head {
            judged |= if stage.judged_by == JudgedBy::Request { stage.bit } else { 0 };
            stage.up_to_here = judged;
        }
        let conditional = match request_head.iter().any(|stage| !stage.marks.is_none()) {
            true => Conditional::Some,
            false => Conditional::None,
        };
        let chain = Self {
            links: links.into(),
            request_head,
            judged,
            conditional,
            request_body: towards_origin(Phase::RequestBody),
            response_head: towards_client(Phase::ResponseHead),
            response_body: towards_client(Phase::ResponseBody),
            altering: 0,
            own_answers: Interest::None,
            done: towards_client(Phase::Done),
        };
        let altering = chain
            .response_body
            .iter()
            .filter(|stage| stage.filter.as_ref().is_some_and(|filter| filter.alters_content()));
        let altering = altering.fold(0, |bits, stage| bits | stage.bit);
        let mut answers = chain.response_head.iter().chain(&chain.response_body);
        let own_answers = match answers.any(Stage::heeds_own_answers) {
            true => Interest::Some,
            false => Interest::None,
        };
        let chain = Self { altering, own_answers, ..chain };
        let idle = links.iter().all(|link| link.filter.phases() == Phases::NONE);
        (!idle && links.len() <= LONGEST).then_some(chain)
    }

    /// A chain of those behind the filter that was asked last, with another one in the place of that; `None` if none
    /// was asked.
    #[must_use]
    pub fn behind(&self, notes: &Notes, filter: Arc<dyn Filter>) -> Option<Self> {
        let place = usize::try_from(notes.asked.get().trailing_zeros()).ok()?;
        let [asked, behind @ ..] = self.links.get(place..)? else { return None };
        let first = Link { name: Arc::clone(&asked.name), filter, when: None };
        Self::new(&[&[first], behind].concat())
    }

    /// Looks at the head of a request; `None` if none of the filters for requests is to be called.
    #[must_use]
    #[inline]
    pub fn enter(&self, request: &RequestHead, notes: &mut Notes) -> Option<Entry> {
        let marks = self.marks(request);
        let mut left_out = 0;
        let wanted = |stage: &Stage| {
            let wanted = marks.has(stage.marks);
            left_out |= if wanted { 0 } else { stage.bit };
            wanted
        };
        let place = self.request_head.iter().position(wanted);
        notes.left_out |= left_out;
        if place.is_none() {
            notes.judged |= self.judged;
        }
        place.map(|place| Entry { place, marks })
    }

    /// Shows the head of a request to its filters, from the first one that may be called.
    #[must_use]
    #[inline(always)]
    pub fn begin(&self, entry: Entry, request: &mut RequestContext<'_>) -> Progress {
        self.advance(entry.place, Some(entry.marks), request)
    }

    /// Goes on after a wait.
    #[must_use]
    pub fn resume(
        &self,
        next: usize,
        resume: Resume,
        request: &mut RequestContext<'_>,
    ) -> Progress {
        match settle(resume(request), next) {
            Some(progress) => progress,
            None => self.advance_again(next, request),
        }
    }

    /// The same as [`Chain::advance`], for what happens less often than that a chain is begun.
    #[inline(never)]
    fn advance_again(&self, from: usize, request: &mut RequestContext<'_>) -> Progress {
        self.advance(from, None, request)
    }

    /// Calls the filters from this place on. `marks` are those of the request as it is, if they are known.
    // In line: what a chain comes to is not handed on through memory.
    #[inline(always)]
    fn advance(
        &self,
        from: usize,
        mut marks: Option<Marks>,
        request: &mut RequestContext<'_>,
    ) -> Progress {
        let stages = self.request_head.get(from..).unwrap_or_default();
        for (place, stage) in stages.iter().enumerate() {
            // Most filters are left out by this alone.
            if !stage.marks.is_none()
                && !marks.get_or_insert_with(|| self.marks(request.request)).has(stage.marks)
            {
                request.notes.left_out |= stage.bit;
                continue;
            }
            if let Some(when) = &stage.when
                && !when.holds(&request.view())
            {
                request.notes.left_out |= stage.bit;
                continue;
            }
            let Some(filter) = &stage.filter else { continue };
            // Whatever it looks at: those before it were judged.
            request.notes.judged |= stage.up_to_here;
            request.notes.asked.set(stage.bit);
            match filter.on_request_head(request) {
                Verdict::Continue => {}
                Verdict::Give(ready) => return Progress::Give(ready),
                other => {
                    if let Some(progress) = settle(other, from + place + 1) {
                        return progress;
                    }
                }
            }
            // It may have changed the request.
            marks = None;
        }
        request.notes.judged |= self.judged;
        Progress::Done
    }

    /// What the conditions that follow are first asked about; without such, nothing is looked at.
    #[inline]
    fn marks(&self, request: &RequestHead) -> Marks {
        match self.conditional {
            Conditional::Some => Marks::of(request),
            Conditional::None => Marks::default(),
        }
    }

    /// Whether answers are to be shown to anybody.
    #[must_use]
    #[inline]
    pub fn sees_responses(&self) -> bool {
        !self.response_head.is_empty() || !self.response_body.is_empty()
    }

    /// Whether answers that the gateway gives itself are to be shown to anybody.
    #[must_use]
    #[inline]
    pub fn sees_own_answers(&self) -> bool {
        self.own_answers == Interest::Some
    }

    /// Whether content of requests may have to go through something.
    #[must_use]
    #[inline]
    pub fn sees_request_bodies(&self) -> bool {
        !self.request_body.is_empty()
    }

    /// Whether anybody wants to know of the end.
    #[must_use]
    #[inline]
    pub fn sees_ends(&self) -> bool {
        !self.done.is_empty()
    }

    /// Shows the head of an answer to its filters. The last replacement is what counts.
    #[must_use]
    pub fn show_response(&self, response: &mut ResponseContext<'_>) -> Shown {
        response.notes.replaced_by = 0;
        self.show_from(0, None, response)
    }

    /// Goes on after a wait.
    #[must_use]
    pub fn resume_response(
        &self,
        interrupted: Interrupted,
        resume: ResponseResume,
        response: &mut ResponseContext<'_>,
    ) -> Shown {
        let Interrupted { next, mut replaced } = interrupted;
        let stage = next.checked_sub(1).and_then(|place| self.response_head.get(place));
        let bit = stage.map_or(0, |stage| stage.bit);
        response.behind = self.fate(bit, response.notes);
        response.notes.asked.set(bit);
        match heed(resume(response), (bit, &mut replaced), response) {
            Some(waiting) => Shown::Paused(Box::new(PausedResponse { next, replaced, waiting })),
            None => self.show_from(next, replaced, response),
        }
    }

    #[inline]
    fn show_from(
        &self,
        from: usize,
        mut replaced: Option<Box<Reply>>,
        response: &mut ResponseContext<'_>,
    ) -> Shown {
        let stages = self.response_head.get(from..).unwrap_or_default();
        for (place, stage) in stages.iter().enumerate() {
            if stage.active(response).is_none() {
                continue;
            }
            response.behind = self.fate(stage.bit, response.notes);
            let Some(filter) = stage.filter.as_deref() else { continue };
            response.notes.asked.set(stage.bit);
            let verdict = filter.on_response_head(response);
            if let Some(waiting) = heed(verdict, (stage.bit, &mut replaced), response) {
                let next = from + place + 1;
                return Shown::Paused(Box::new(PausedResponse { next, replaced, waiting }));
            }
        }
        Shown::Done(replaced)
    }

    /// What may become of content until the filter of this bit gets it: those behind it have greater bits.
    #[inline]
    fn fate(&self, bit: u64, notes: &Notes) -> Behind {
        let behind = !(bit | bit.wrapping_sub(1)) & !notes.left_out;
        if self.altering & behind != 0 {
            return Behind::Alters;
        }
        let watching = self.response_body.iter().any(|stage| stage.bit & behind != 0);
        if watching { Behind::Watches } else { Behind::Nothing }
    }

    /// What the configuration calls the filter that was asked last.
    #[must_use]
    pub fn asked(&self, notes: &Notes) -> Option<&str> {
        let lists = [&self.request_head, &self.request_body, &self.response_head];
        let lists = lists.into_iter().chain([&self.response_body, &self.done]);
        let found = lists.flatten().find(|stage| stage.bit == notes.asked.get());
        found.map(|stage| &*stage.name)
    }

    /// What the content of a request has to go through, in this order.
    #[must_use]
    pub fn request_transforms(&self, request: &mut RequestContext<'_>) -> Vec<Box<dyn Transform>> {
        let chosen = self.request_body.iter().filter_map(|stage| {
            let taken = request.notes.left_out & stage.bit == 0;
            request.notes.asked.set(stage.bit);
            taken.then(|| stage.filter.as_ref()?.request_body(request)).flatten()
        });
        chosen.collect()
    }

    /// What the content of an answer has to go through, in this order.
    #[must_use]
    pub fn response_transforms(
        &self,
        response: &mut ResponseContext<'_>,
    ) -> Vec<Box<dyn Transform>> {
        let mut chosen = Vec::new();
        let replaced_by = response.notes.replaced_by;
        for stage in &self.response_body {
            // What was put in the place of an answer was seen by those that come later, and by no other.
            if replaced_by != 0 && stage.bit >= replaced_by {
                continue;
            }
            response.behind = self.fate(stage.bit, response.notes);
            response.notes.asked.set(stage.bit);
            chosen.extend(stage.active(response).and_then(|filter| filter.response_body(response)));
        }
        chosen
    }

    /// Tells of the end.
    pub fn end(&self, done: &DoneContext<'_>) {
        for stage in &self.done {
            // Without a response a condition about it does not hold.
            let unjudged =
                stage.judged_by == JudgedBy::Response && done.notes.judged & stage.bit == 0;
            if !unjudged
                && done.notes.left_out & stage.bit == 0
                && let Some(filter) = &stage.filter
            {
                done.notes.asked.set(stage.bit);
                filter.on_done(done);
            }
        }
    }
}

impl Paused {
    /// The place to go on at and what is waited for.
    #[must_use]
    pub fn split(self) -> (usize, Pause) {
        (self.next, self.pause)
    }
}

impl Stage {
    fn heeds_own_answers(&self) -> bool {
        // Without a filter, only a condition is judged there, by whatever response.
        self.filter.as_ref().is_none_or(|filter| filter.concerns(Source::Gateway))
    }

    /// The filter, unless it is left out. A request may have been answered before its condition was judged.
    fn active(&self, response: &mut ResponseContext<'_>) -> Option<&dyn Filter> {
        if let Some(when) = &self.when {
            if response.notes.judged & self.bit == 0 {
                let holds = when.holds(&response.view());
                note(response.notes, self.bit, holds);
            }
            if response.notes.left_out & self.bit != 0 {
                return None;
            }
        }
        self.filter.as_deref()
    }
}

/// What a verdict means; `None` if the chain goes on.
#[cold]
fn settle(verdict: Verdict, next: usize) -> Option<Progress> {
    let pause = match verdict {
        Verdict::Continue => return None,
        Verdict::Respond(reply) => return Some(Progress::Respond(reply)),
        Verdict::Give(ready) => return Some(Progress::Give(ready)),
        Verdict::Reroute => return Some(Progress::Reroute),
        Verdict::Wait(waiting) => Pause::Future(waiting),
        Verdict::Gather(most, resume) => Pause::Content(most, resume),
    };
    Some(Progress::Paused(Paused { next, pause }))
}

/// Does what a filter of this bit says of an answer; what it waits for, if it does.
#[inline]
fn heed(
    verdict: ResponseVerdict,
    (bit, replaced): (u64, &mut Option<Box<Reply>>),
    response: &mut ResponseContext<'_>,
) -> Option<ResponseWaiting> {
    match verdict {
        ResponseVerdict::Continue => {}
        ResponseVerdict::Replace(mut reply) => {
            response.response.status = reply.status;
            std::mem::swap(&mut response.response.fields, &mut reply.fields);
            response.response.reason = Span::default();
            // What this was made of is no longer of interest.
            response.whole = Whole::Unknown;
            response.notes.replaced_by = bit;
            *replaced = Some(reply);
        }
        ResponseVerdict::Wait(waiting) => return Some(*waiting),
    }
    None
}

#[inline]
fn note(notes: &mut Notes, bit: u64, holds: bool) {
    notes.judged |= bit;
    if !holds {
        notes.left_out |= bit;
    }
}

fn stages<'l>(links: impl Iterator<Item = (usize, &'l Link)>, phase: Phase) -> Box<[Stage]> {
    links.filter_map(|(place, link)| stage(place, link, phase)).collect()
}

/// The stage of a filter for a phase, if it has one there. A condition about the request is judged when the
/// request comes, by what the client sent: later it may have been changed. One about the response is judged by the
/// head of the response.
fn stage(place: usize, link: &Link, phase: Phase) -> Option<Stage> {
    let phases = link.filter.phases();
    let judged_by = JudgedBy::of(link);
    let takes_part = phases.contain(phase) && !is_left_out(&*link.filter, judged_by, phase);
    let judged_here = link.when.is_some()
        && match judged_by {
            JudgedBy::Request => phase == Phase::RequestHead,
            JudgedBy::Response => phase == Phase::ResponseHead && phases.contain(Phase::Done),
        };
    if !takes_part && !judged_here {
        return None;
    }
    let filter = takes_part.then(|| Arc::clone(&link.filter));
    let bit = u32::try_from(place).ok().and_then(|place| 1_u64.checked_shl(place)).unwrap_or(0);
    // What only prepares is called whatever the response will be.
    let early = judged_by == JudgedBy::Response && phase == Phase::RequestHead;
    let when = link.when.clone().filter(|_| !early);
    let marks = when.as_ref().map(|when| when.marks()).unwrap_or_default();
    let name = Arc::clone(&link.name);
    Some(Stage { name, bit, up_to_here: bit, when, judged_by, marks, filter })
}

/// Whether a filter has no part in a phase because nobody knows yet whether it is to be called.
fn is_left_out(filter: &dyn Filter, judged_by: JudgedBy, phase: Phase) -> bool {
    let early = matches!(phase, Phase::RequestHead | Phase::RequestBody);
    let prepares =
        phase == Phase::RequestHead && filter.response_condition() == ResponseCondition::Prepared;
    judged_by == JudgedBy::Response && early && !prepares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Named(Phases);

    impl Filter for Named {
        fn phases(&self) -> Phases {
            self.0
        }
    }

    fn link(name: &str, phases: Phases) -> Link {
        Link { name: name.into(), filter: Arc::new(Named(phases)), when: None }
    }

    #[test]
    fn those_behind_the_one_that_was_asked_follow_another() {
        let all = Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD;
        let links = ["a", "b", "c", "d"].map(|name| link(name, all));
        let chain = Chain::new(&links).unwrap();
        let notes = Notes::default();
        let behind = |bit| {
            notes.asked.set(bit);
            let other: Arc<dyn Filter> = Arc::new(Named(Phases::RESPONSE_HEAD));
            let chain = chain.behind(&notes, other)?;
            let names = |stages: &[Stage]| {
                stages.iter().map(|stage| (stage.name.to_string(), stage.bit)).collect::<Vec<_>>()
            };
            Some((names(&chain.request_head), names(&chain.response_head)))
        };
        let named = |names: &[(&str, u64)]| {
            names.iter().map(|(name, bit)| ((*name).to_owned(), *bit)).collect::<Vec<_>>()
        };
        assert_eq!(behind(0), None, "nobody of the chain");
        let expected = (named(&[("c", 2), ("d", 4)]), named(&[("d", 4), ("c", 2), ("b", 1)]));
        assert_eq!(behind(2), Some(expected));
        assert_eq!(behind(8), Some((named(&[]), named(&[("d", 1)]))), "the last");
        assert_eq!(behind(16), None);
    }
}
