//! Carries a script out: the round of each worker, what it registers, what it asserts.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::source::{Content, Failure, Reply, RequestMeta, RequestSource, Requests, Step, Verdict};

use super::Script;
use super::answer::{Answer, Part};
use super::request::Request;
use super::template::Values;

/// How many failed assertions are told in full.
const SAMPLES: usize = 10;

/// How much is sent at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Requests in all, over all workers, the warm-up included.
    pub requests: Option<u64>,
    /// Rounds of each worker; goes before what the script says.
    pub rounds: Option<u64>,
}

/// A script on its way: what all its workers share.
#[derive(Debug)]
pub struct Plan {
    script: Arc<Script>,
    rounds: Option<u64>,
    /// Requests that may still be sent; `u64::MAX` means without limit.
    left: AtomicU64,
    invalid: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    missed: AtomicU64,
    warm: AtomicU64,
    samples: Mutex<Vec<Sample>>,
}

/// Something that went wrong, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Method and URL as written in the script.
    pub request: String,
    /// What was expected, and what came.
    pub what: String,
}

/// What was counted while a script ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Assertions that did not hold.
    pub invalid: u64,
    /// Those of them that were to be skipped.
    pub skipped: u64,
    /// Requests without an answer, the warm-up included.
    pub failed: u64,
    /// Uses of a registered value before there was one.
    pub missed: u64,
    /// Requests of the warm-up.
    pub warm_up: u64,
    /// The first failures.
    pub samples: Vec<Sample>,
}

impl Plan {
    pub(super) fn new(script: Arc<Script>, limit: Limit) -> Arc<Self> {
        Arc::new(Self {
            rounds: limit.rounds.or(script.runner.total_rounds),
            script,
            left: AtomicU64::new(limit.requests.unwrap_or(u64::MAX)),
            invalid: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            warm: AtomicU64::new(0),
            samples: Mutex::default(),
        })
    }

    /// What was counted so far. Workers that still run add theirs when they end.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            invalid: load(&self.invalid),
            skipped: load(&self.skipped),
            failed: load(&self.failed),
            missed: load(&self.missed),
            warm_up: load(&self.warm),
            samples: self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Whether it ends by itself.
    pub(crate) fn is_limited(&self) -> bool {
        self.rounds.is_some() || self.left.load(Ordering::Relaxed) != u64::MAX
    }

    /// How many requests the warm-up sends.
    pub(crate) fn warm_up_length(&self) -> u64 {
        match self.script.runner.no_warm {
            true => 0,
            false => u64::try_from(self.script.requests.len()).unwrap_or(u64::MAX),
        }
    }

    /// Says what was wrong with the warm-up; if somebody is there to ask, they decide whether to go on.
    fn confirm(&self) {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if samples.is_empty() {
            return;
        }
        let mut stderr = std::io::stderr();
        for sample in &samples {
            // Nobody is left to tell if standard error is closed.
            let _ = writeln!(stderr, "{}: {}", sample.request, sample.what);
        }
        if !std::io::stdin().is_terminal() || !stderr.is_terminal() {
            return;
        }
        let _ = write!(stderr, "press Enter to go on all the same, q and Enter to stop: ");
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        if read.is_err() || answer.trim().eq_ignore_ascii_case("q") {
            self.left.store(0, Ordering::Relaxed);
        }
    }

    /// The script.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Takes one of the requests that may be sent. One addition at a time over all workers, so that
    /// none is lost, however many workers there are.
    fn take(&self) -> bool {
        if self.left.load(Ordering::Relaxed) == u64::MAX {
            return true;
        }
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn sample(&self, request: &str, what: String) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() < SAMPLES {
            samples.push(Sample { request: request.to_owned(), what });
        }
    }

    fn source(self: &Arc<Self>, phase: Phase) -> Worker {
        Worker {
            plan: Arc::clone(self),
            phase,
            values: Values::new(self.script.registered.len()),
            body: Vec::new(),
            position: 0,
            repeated: 0,
            round: 0,
            pause: None,
            rested: None,
        }
    }
}

impl Requests for Arc<Plan> {
    fn targets(&self) -> &[String] {
        &self.script.targets
    }

    fn worker(&self, _number: u32) -> Box<dyn RequestSource> {
        Box::new(self.source(Phase::Measured))
    }

    fn warm_up(&self) -> Option<Box<dyn RequestSource>> {
        (!self.script.runner.no_warm)
            .then(|| -> Box<dyn RequestSource> { Box::new(self.source(Phase::WarmUp)) })
    }
}

/// Which part of a run a worker belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Each request once, then the end.
    WarmUp,
    Measured,
}

struct Worker {
    plan: Arc<Plan>,
    phase: Phase,
    values: Values,
    body: Vec<u8>,
    /// The request to send next, and how often it was sent in a row.
    position: usize,
    repeated: u64,
    /// Whole rounds done.
    round: u64,
    pause: Option<Duration>,
    /// The request whose pause before it is over.
    rested: Option<usize>,
}

impl RequestSource for Worker {
    fn next(&mut self, out: &mut Vec<u8>) -> Step {
        if let Some(pause) = self.pause.take() {
            return Step::Pause(pause);
        }
        let plan = Arc::clone(&self.plan);
        let script = &plan.script;
        if self.position >= script.requests.len() {
            self.end_round();
            if let Some(pause) = script.last_pause {
                return Step::Pause(pause);
            }
        }
        let enough = match self.phase {
            Phase::WarmUp => self.round > 0,
            Phase::Measured => plan.rounds.is_some_and(|rounds| self.round >= rounds),
        };
        let request = script.requests.get(self.position).filter(|_| !enough);
        if let Some(pause) = request.and_then(|request| self.rest_before(request)) {
            return Step::Pause(pause);
        }
        let Some(request) = request.filter(|_| plan.take()) else {
            if self.phase == Phase::WarmUp {
                plan.confirm();
            }
            return Step::End;
        };
        request.write(&script.variables, &mut self.values, (out, &mut self.body));
        let id = u32::try_from(self.position).unwrap_or(u32::MAX);
        self.advance(request);
        if self.phase == Phase::WarmUp {
            plan.warm.fetch_add(1, Ordering::Relaxed);
        }
        Step::Send(RequestMeta {
            id,
            target: request.target,
            method: request.method,
            content: if self.reads(request) { Content::Gather } else { Content::Discard },
        })
    }

    fn on_response(&mut self, meta: RequestMeta, reply: &Reply<'_>) -> Verdict {
        let plan = Arc::clone(&self.plan);
        let Some(request) = request_of(&plan.script, meta) else { return Verdict::Expected };
        let runner = &plan.script.runner;
        if runner.log_requests || runner.log_status_codes.contains(&reply.head.status) {
            log(request, reply);
        }
        if self.phase == Phase::WarmUp {
            self.check_warm_up(request, reply);
        }
        if runner.benchmark_only || (request.register.is_empty() && request.assert.is_none()) {
            return Verdict::Expected;
        }
        let json = request.needs_json().then(|| serde_json::from_slice(reply.body).ok()).flatten();
        let answer = Answer { reply, registered: &[], json };
        self.register(request, &answer);
        self.assert(request, answer)
    }

    fn on_failure(&mut self, meta: RequestMeta, failure: Failure) {
        let plan = Arc::clone(&self.plan);
        plan.failed.fetch_add(1, Ordering::Relaxed);
        let Some(request) = request_of(&plan.script, meta) else { return };
        if self.phase == Phase::WarmUp {
            plan.sample(&request.words, format!("warm-up: {}", words(failure)));
        }
        // Requests behind this one may need what it would have registered or proved.
        let matters = request.assert.is_some() || !request.register.is_empty();
        if matters && self.phase == Phase::Measured {
            self.end_round();
        }
    }
}

impl Worker {
    /// Whether the content of the answer is looked at.
    fn reads(&self, request: &Request) -> bool {
        let runner = &self.plan.script.runner;
        (!runner.benchmark_only && request.needs_body())
            || runner.log_requests
            || !runner.log_status_codes.is_empty()
    }

    /// The pause that comes before a request, once in a round.
    fn rest_before(&mut self, request: &Request) -> Option<Duration> {
        let pause = request.pause_before.filter(|_| self.repeated == 0)?;
        let rested = self.rested.replace(self.position) == Some(self.position);
        (!rested).then_some(pause)
    }

    fn advance(&mut self, request: &Request) {
        self.pause = request.pause;
        self.repeated = self.repeated.saturating_add(1);
        if self.repeated >= request.repeats || self.phase == Phase::WarmUp {
            self.repeated = 0;
            self.position = self.position.saturating_add(1);
        }
    }

    fn end_round(&mut self) {
        self.position = 0;
        self.repeated = 0;
        self.rested = None;
        self.round = self.round.saturating_add(1);
        if self.plan.script.runner.reset_context {
            self.values.registered.fill(None);
        }
    }

    fn register(&mut self, request: &Request, answer: &Answer<'_>) {
        for (slot, part) in &request.register {
            let value = match part {
                Part::Registered(from) => self.values.registered.get(*from).cloned().flatten(),
                _ => answer.fact(part).map(|fact| fact.text().into_owned().into_bytes()),
            };
            if let Some(slot) = self.values.registered.get_mut(*slot) {
                *slot = value;
            }
        }
    }

    fn assert(&mut self, request: &Request, answer: Answer<'_>) -> Verdict {
        let Some(assert) = &request.assert else { return Verdict::Expected };
        let answer = Answer { registered: &self.values.registered, ..answer };
        if assert.holds(&answer) {
            return Verdict::Expected;
        }
        let (status, length) = (answer.reply.head.status, answer.reply.body_length);
        let plan = Arc::clone(&self.plan);
        let runner = &plan.script.runner;
        if runner.skip_invalid_assert {
            plan.skipped.fetch_add(1, Ordering::Relaxed);
            return Verdict::Expected;
        }
        plan.invalid.fetch_add(1, Ordering::Relaxed);
        let asks_status = assert.asks(&Part::is_status);
        plan.sample(
            &request.words,
            format!("status {status} with {length} bytes, but asserted was {}", assert.words()),
        );
        if !runner.continue_on_assert_invalid && self.phase == Phase::Measured {
            self.end_round();
        }
        if asks_status { Verdict::UnexpectedStatus } else { Verdict::UnexpectedContent }
    }

    fn check_warm_up(&self, request: &Request, reply: &Reply<'_>) {
        let status = reply.head.status;
        let runner = &self.plan.script.runner;
        if status >= 400 && !runner.valid_status_codes_during_warmup.contains(&status) {
            self.plan.sample(&request.words, format!("warm-up: status {status}"));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.plan.missed.fetch_add(self.values.missed, Ordering::Relaxed);
    }
}

fn request_of(script: &Script, meta: RequestMeta) -> Option<&Request> {
    script.requests.get(usize::try_from(meta.id).ok()?)
}

const fn words(failure: Failure) -> &'static str {
    match failure {
        Failure::Connect => "no connection",
        Failure::Read => "the connection ended before the answer did",
        Failure::Write => "the request could not be sent",
        Failure::Timeout => "no answer in time",
        Failure::Protocol => "the answer is no HTTP",
    }
}

/// Says a request and its answer on standard error.
fn log(request: &Request, reply: &Reply<'_>) {
    let mut line = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        line,
        "{} -> {} in {} us, {} bytes: ",
        request.words,
        reply.head.status,
        reply.elapsed / 1000,
        reply.body_length
    );
    let body = String::from_utf8_lossy(reply.body);
    line.extend(body.chars().map(|c| if c.is_control() { ' ' } else { c }));
    line.push('\n');
    // Nobody is left to tell if standard error is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
