//! Asks a service of one's own whether a request may pass.

mod check;
mod decisions;
mod grpc;
mod http;
mod personal;
mod sharing;

use std::sync::Arc;
use std::time::Duration;

use sluice_expression::Template;
use sluice_filter::{
    FetchFault, Fetched, Filter, Level, Phases, Reply, RequestContext, ResponseContext,
    ResponseVerdict, Resume, SharedBytes, Verdict,
};
use sluice_message::{BodyLength, Fields, may_be_read_as, may_begin_with};
use sluice_meter::FilterMeter;

use decisions::{Decisions, Found, Lead};
use sharing::Selecting;

/// How the service is asked.
#[derive(Clone, Debug)]
pub enum AuthProtocol {
    /// By a GET of this path, or another method; the request is described in `X-Forwarded-*`.
    Forward {
        /// Path and query.
        path: String,
        /// The method; `None` = that of the request.
        method: Option<String>,
    },
    /// By the request's own method and target, behind this.
    Prefix(String),
    /// By Envoy's gRPC call, with what is always told of the gateway.
    Grpc(Vec<(String, String)>),
}

/// Names of header fields.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Whole names, in lower case.
    pub exact: Vec<String>,
    /// Beginnings of names, in lower case; an empty one stands for all.
    pub prefixes: Vec<String>,
}

impl Names {
    /// Whether this is one of them.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        let begins = |prefix: &String| {
            let start = name.get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        self.exact.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
            || self.prefixes.iter().any(begins)
    }

    /// Whether a server may take this for one of them.
    #[must_use]
    pub fn may_be(&self, name: &[u8]) -> bool {
        self.exact.iter().any(|known| may_be_read_as(name, known.as_bytes()))
            || self.prefixes.iter().any(|prefix| may_begin_with(name, prefix.as_bytes()))
    }
}

/// Which content the service is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthBody {
    /// None.
    None,
    /// Its beginning, up to so many bytes.
    Partial(usize),
    /// All; requests with more than so many bytes are refused.
    Full(usize),
}

/// What becomes of a request when the service gives no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It is refused with this status.
    Refuse(u16),
    /// It passes.
    Pass,
}

/// Decisions that are remembered.
#[derive(Debug)]
pub struct DecisionCache {
    /// What a decision depends on.
    pub key: Template,
    /// How long one that lets pass holds, at most, and where the service says nothing.
    pub ttl: Duration,
    /// How long one that refuses holds; zero = it does not.
    pub negative_ttl: Duration,
    /// How many there may be.
    pub entries: usize,
}

/// All that is to be known.
#[derive(Debug)]
pub struct AuthSettings {
    /// The upstream, by its index.
    pub cluster: usize,
    /// How it is asked.
    pub protocol: AuthProtocol,
    /// Fields of the request that are shown.
    pub send: Names,
    /// Fields that are added to the question.
    pub add: Vec<(String, Template)>,
    /// Content that is shown.
    pub body: AuthBody,
    /// Fields of the answer that go to the origin; those of clients are removed first.
    pub up: Names,
    /// Fields of the answer that go to the client with what the origin says.
    pub down: Names,
    /// Fields of the answer that go to the client with a refusal.
    pub denied: Names,
    /// The field of the answer that says who the client is.
    pub user: Option<String>,
    /// Where people are sent who have to sign in.
    pub sign_in: Option<Template>,
    /// What becomes of a request without a decision.
    pub on_error: OnError,
    /// How long one question may take.
    pub timeout: Duration,
    /// How often it is asked.
    pub attempts: u32,
    /// Bytes that an answer may have.
    pub answer_limit: usize,
    /// Decisions that are remembered.
    pub cache: Option<DecisionCache>,
}

/// What the service said.
#[derive(Debug, Default)]
struct Decision {
    /// What the client gets instead of what it asked for.
    denied: Option<Denial>,
    /// Fields for the origin: each takes the place of those of its name, or goes beside them.
    up: Vec<Change>,
    /// Fields of the request that the origin does not get.
    remove: Vec<String>,
    /// Fields for the client.
    down: Fields,
    /// Fields for the client whose request it was asked for, and for nobody else: cookies.
    own: Fields,
    /// Who the client is.
    user: Option<Box<[u8]>>,
    /// The requests that it is for, if not all with the same key.
    selecting: Option<Selecting>,
}

/// An answer that several requests may get.
#[derive(Debug)]
struct Denial {
    status: u16,
    fields: Fields,
    body: SharedBytes,
    reason: Option<&'static str>,
}

impl From<Reply> for Denial {
    fn from(reply: Reply) -> Self {
        let body = reply.body.bytes().unwrap_or_default().to_vec().into();
        Self { status: reply.status, fields: reply.fields, body, reason: reply.reason }
    }
}

impl Denial {
    fn reply(&self) -> Reply {
        let body = self.body.clone().into();
        Reply { status: self.status, fields: self.fields.clone(), body, reason: self.reason }
    }
}

/// A field for the origin: name, value, and where it goes.
type Change = (Box<[u8]>, Box<[u8]>, Place);

/// Where a field goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Instead,
    Beside,
    IfAbsent,
    IfPresent,
}

/// See the module.
#[derive(Debug)]
pub struct ExternalAuth(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: AuthSettings,
    decisions: Option<Arc<Decisions>>,
    meter: Arc<FilterMeter>,
    /// The name of the note that says that fields for the client wait.
    note: Arc<str>,
}

const ALLOWED: usize = 0;
const DENIED: usize = 1;
const ALLOWED_KNOWN: usize = 2;
const DENIED_KNOWN: usize = 3;
const FAILED: usize = 4;
const TIMED_OUT: usize = 5;
const PASSED_UNASKED: usize = 6;
const TOO_LARGE: usize = 7;

/// A question, while it is asked.
struct Question {
    /// Who waits for the answer too.
    lead: Option<Lead>,
    attempts: u32,
    begun: u64,
}

impl ExternalAuth {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &[
        "allowed",
        "denied",
        "allowed_known",
        "denied_known",
        "failed",
        "timed_out",
        "passed_on_error",
        "too_large",
    ];

    /// A filter with these settings, for so many workers. Its name tells its notes from those of others.
    #[must_use]
    pub fn new(
        settings: AuthSettings,
        workers: usize,
        (name, meter): (&str, Arc<FilterMeter>),
    ) -> Self {
        let decisions = settings.cache.as_ref();
        let decisions = decisions.map(|cache| Arc::new(Decisions::new(workers, cache.entries)));
        let note = format!("external_auth.{name}").into();
        Self(Arc::new(Inner { settings, decisions, meter, note }))
    }
}

impl Filter for ExternalAuth {
    fn phases(&self) -> Phases {
        let down = &self.0.settings.down;
        let grpc = matches!(self.0.settings.protocol, AuthProtocol::Grpc(_));
        match down.exact.is_empty() && down.prefixes.is_empty() && !grpc {
            true => Phases::REQUEST_HEAD,
            false => Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD,
        }
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let inner = &self.0;
        // Nobody but the service says what these are.
        let up = &inner.settings.up;
        if !up.exact.is_empty() || !up.prefixes.is_empty() {
            context.request.fields.remove_named(|name| up.may_be(name));
        }
        let Some((cache, decisions)) = inner.settings.cache.as_ref().zip(inner.decisions.as_ref())
        else {
            return inner.ask_with_content(None, context);
        };
        let (worker, now) = (context.gateway.worker(), seconds(context));
        let known = decisions.known(worker);
        let decision =
            cache.key.lend_key(&context.view(), |key| known.as_ref()?.get(key.ok()?, now));
        if let Some(decision) = decision.filter(|decision| decision.is_for(inner, context)) {
            return inner.apply(context, decision, Origin::Known);
        }
        // Who asks takes the same lock.
        drop(known);
        inner.find_out(context, (cache, decisions))
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let Some(lines) = context.notes.get(&self.0.note) else { return ResponseVerdict::Continue };
        for (name, value) in http::lines(lines) {
            // A head that is full goes without.
            if context.response.fields.push(name, value).is_err() {
                break;
            }
        }
        ResponseVerdict::Continue
    }
}

/// Whether a decision was asked for just now.
#[derive(Clone, Copy, Debug)]
enum Origin<'d> {
    /// For this request, whose client gets these fields beside those that others get.
    Asked(&'d Fields),
    /// Another request asked for it.
    Known,
}

impl Inner {
    /// Waits for whoever asks already, or asks.
    fn find_out(
        self: &Arc<Self>,
        context: &mut RequestContext<'_>,
        (cache, decisions): (&DecisionCache, &Arc<Decisions>),
    ) -> Verdict {
        let (worker, now) = (context.gateway.worker(), seconds(context));
        let is_for = |decision: &Decision| decision.is_for(self, context);
        let found = cache
            .key
            .lend_key(&context.view(), |key| decisions.find(worker, (key.ok()?, now), is_for));
        match found {
            Some(Found::Known(decision)) => self.apply(context, &decision, Origin::Known),
            Some(Found::Asked(join)) => {
                let inner = Arc::clone(self);
                Verdict::Wait(Box::pin(async move {
                    let outcome = join.outcome().await;
                    let resume: Resume = Box::new(move |context| match outcome {
                        Some(decision) if decision.is_for(&inner, context) => {
                            inner.apply(context, &decision, Origin::Known)
                        }
                        // Each for itself: waiting in a row for somebody who fails would take for ever.
                        _ => inner.ask_with_content(None, context),
                    });
                    resume
                }))
            }
            Some(Found::Unknown(lead)) => self.ask_with_content(Some(lead), context),
            None => self.ask_with_content(None, context),
        }
    }

    /// Asks the service, once the content it is to be shown is there.
    fn ask_with_content(
        self: &Arc<Self>,
        lead: Option<Lead>,
        context: &mut RequestContext<'_>,
    ) -> Verdict {
        let question = Question { lead, attempts: 0, begun: context.gateway.now() };
        let most = match self.settings.body {
            _ if !context.request.has_content() => return self.ask(question, context),
            AuthBody::None => return self.ask(question, context),
            AuthBody::Partial(most) => most,
            AuthBody::Full(most) => {
                let known = match context.request.body {
                    BodyLength::Known(length) => usize::try_from(length).unwrap_or(usize::MAX),
                    _ => 0,
                };
                if known > most {
                    return self.refuse_large(context);
                }
                most
            }
        };
        let inner = Arc::clone(self);
        // One byte more, to see whether there is more.
        Verdict::Gather(
            most.saturating_add(1),
            Box::new(move |context| {
                let full = matches!(inner.settings.body, AuthBody::Full(_));
                if full && context.content.bytes.len() > most {
                    return inner.refuse_large(context);
                }
                inner.ask(question, context)
            }),
        )
    }

    fn refuse_large(&self, context: &RequestContext<'_>) -> Verdict {
        self.meter.count(context.gateway.worker(), TOO_LARGE);
        Verdict::refuse(413, "content too large to be judged")
    }

    /// Asks the service.
    fn ask(self: &Arc<Self>, mut question: Question, context: &mut RequestContext<'_>) -> Verdict {
        question.attempts += 1;
        let fetch = match &self.settings.protocol {
            AuthProtocol::Grpc(extensions) => grpc::question(self, extensions, context),
            _ => http::question(self, context),
        };
        let Ok(fetch) = fetch else { return Verdict::refuse(431, "header too large to be judged") };
        let answer = context.gateway.fetch(fetch);
        let inner = Arc::clone(self);
        Verdict::Wait(Box::pin(async move {
            let answer = answer.await;
            let resume: Resume = Box::new(move |context| inner.hear(question, answer, context));
            resume
        }))
    }

    /// Does what the service says.
    fn hear(
        self: &Arc<Self>,
        question: Question,
        answer: Result<Fetched, FetchFault>,
        context: &mut RequestContext<'_>,
    ) -> Verdict {
        let worker = context.gateway.worker();
        let waited = context.gateway.now().saturating_sub(question.begun);
        let decided = match (&answer, &self.settings.protocol) {
            (Ok(answer), AuthProtocol::Grpc(_)) => grpc::decision(self, answer),
            (Ok(answer), _) => http::decision(self, answer),
            (Err(_), _) => None,
        };
        let Some(mut decision) = decided else {
            if question.attempts < self.settings.attempts {
                return self.ask(question, context);
            }
            self.meter.observe_wait(worker, waited);
            return self.fail(answer.as_ref(), context);
        };
        self.meter.observe_wait(worker, waited);
        // Others never see it, not even in memory.
        let own = std::mem::take(&mut decision.own);
        let mut sharing = None;
        if question.lead.is_some()
            && let Ok(answer) = &answer
        {
            sharing = Some(self.share(&mut decision, answer, context));
        }
        let decision = Arc::new(decision);
        if let Some((lead, sharing)) = question.lead.zip(sharing) {
            lead.decide(&decision, sharing);
        }
        self.apply(context, &decision, Origin::Asked(&own))
    }

    /// There is no decision.
    fn fail(&self, answer: Result<&Fetched, &FetchFault>, context: &RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        match answer {
            Ok(answer) => context.gateway.log(
                Level::Warn,
                format_args!("external_auth: the service answered {}", answer.status),
            ),
            Err(fault) => {
                context.gateway.log(Level::Warn, format_args!("external_auth: {fault}"));
            }
        }
        let late = matches!(answer, Err(FetchFault::TimedOut));
        self.meter.count(worker, if late { TIMED_OUT } else { FAILED });
        match self.settings.on_error {
            OnError::Refuse(status) => Verdict::refuse(status, "external authentication failed"),
            OnError::Pass => {
                self.meter.count(worker, PASSED_UNASKED);
                Verdict::Continue
            }
        }
    }

    /// Lets the request pass as the decision says, or refuses it.
    fn apply(
        &self,
        context: &mut RequestContext<'_>,
        decision: &Decision,
        origin: Origin<'_>,
    ) -> Verdict {
        let worker = context.gateway.worker();
        let known = matches!(origin, Origin::Known);
        if let Some(denial) = &decision.denied {
            self.meter.count(worker, if known { DENIED_KNOWN } else { DENIED });
            // Where to sign in depends on the request: not what another one was told.
            let reply = http::sign_in(self, denial.status, context);
            return Verdict::Respond(Box::new(reply.unwrap_or_else(|| denial.reply())));
        }
        self.meter.count(worker, if known { ALLOWED_KNOWN } else { ALLOWED });
        if decision.change(&mut context.request.fields).is_err() {
            return Verdict::refuse(431, "header too large");
        }
        if let Some(user) = &decision.user {
            context.notes.set_user(user);
        }
        match origin {
            Origin::Asked(own) if !own.lines().is_empty() => {
                let all = [decision.down.bytes(), own.bytes()].concat();
                context.notes.set(&self.note, &all);
            }
            _ if !decision.down.lines().is_empty() => {
                context.notes.set(&self.note, decision.down.bytes());
            }
            _ => {}
        }
        Verdict::Continue
    }
}

impl Decision {
    /// Changes the fields that the origin gets.
    fn change(&self, fields: &mut Fields) -> Result<(), sluice_message::SpaceExhausted> {
        for name in &self.remove {
            fields.remove_read_as(name.as_bytes());
        }
        for (name, value, place) in &self.up {
            let present = || fields.has_read_as(name);
            match place {
                Place::Beside => {}
                Place::IfAbsent if present() => continue,
                Place::IfAbsent => {}
                Place::IfPresent if !present() => continue,
                Place::IfPresent | Place::Instead => {
                    fields.remove_read_as(name);
                }
            }
            fields.push(name, value)?;
        }
        Ok(())
    }
}

fn seconds(context: &RequestContext<'_>) -> u64 {
    context.gateway.unix_ms() / 1000
}
