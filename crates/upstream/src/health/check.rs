//! The checks of one server, as long as it is configured.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use sluice_net::tls::TlsClient;
use sluice_net::{Deadline, Endpoint, now, precise_now, spawn};
use sluice_wire::proxy::Version;

use super::order::{Tone, Voice};
use super::probe::{Question, Reason, ask};
use super::rule::CheckRule;
use super::schedule::{Dice, pause};
use super::verdict::{Change, Outcome, Standing, Verdict};
use crate::{Bar, ClusterPlan, Protocol, ServerPlan, ServerState};

/// Where changes are told.
pub(super) type Say = Rc<Voice>;

/// A running check; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) rule: Arc<CheckRule>,
    pub(super) state: Arc<ServerState>,
    pub(super) tls: Option<TlsClient>,
    pub(super) protocol: Protocol,
    pub(super) proxy_protocol: Option<Version>,
    stop: Rc<Stop>,
}

impl Check {
    /// Begins to check a server of a cluster.
    pub(super) fn start(
        (plan, server): (&ClusterPlan, &ServerPlan),
        rule: &Arc<CheckRule>,
        say: &Say,
    ) -> Self {
        let proxy_protocol = plan.settings.proxy_protocol;
        let stop = Rc::new(Stop::default());
        let patient = Patient {
            name: called(&plan.name, &server.endpoint),
            question: Question::new(rule, server, proxy_protocol),
            rule: Arc::clone(rule),
            server: server.clone(),
            say: Rc::clone(say),
        };
        spawn(until_stopped(Rc::clone(&stop), patient.attend()));
        let (tls, protocol) = (server.tls.clone(), server.protocol);
        let (rule, state) = (Arc::clone(rule), Arc::clone(&server.state));
        Self { rule, state, tls, protocol, proxy_protocol, stop }
    }
}

/// How the log calls a server.
pub(super) fn called(cluster: &str, server: &Endpoint) -> String {
    format!("upstream {cluster}: {server}")
}

impl Drop for Check {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Tells a task to end wherever it waits.
#[derive(Debug, Default)]
struct Stop {
    told: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Stop {
    fn stop(&self) {
        self.told.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

async fn until_stopped(stop: Rc<Stop>, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if stop.told.get() {
            return Poll::Ready(());
        }
        *stop.waker.borrow_mut() = Some(cx.waker().clone());
        work.as_mut().poll(cx)
    })
    .await;
}

/// A server that is being checked.
struct Patient {
    name: String,
    question: Question,
    rule: Arc<CheckRule>,
    server: ServerPlan,
    say: Say,
}

impl Patient {
    async fn attend(self) {
        let deadline = Deadline::new();
        let mut verdict = Verdict::default();
        let mut dice = Dice::new(precise_now());
        let mut last = Ok(());
        loop {
            let begun = now();
            let result = ask(&self.rule, &self.question, &deadline).await;
            self.count(result);
            match result {
                // Whether the server is well is not known; what was known stays.
                Err(Reason::Exhausted) if last != result => {
                    (self.say)(Tone::Bad, &format!("{}: {}", self.name, Reason::Exhausted));
                }
                Err(Reason::Exhausted) => {}
                Ok(()) | Err(_) => self.judge(result, &mut verdict),
            }
            last = result;
            let pause = pause(self.rule.interval, self.rule.jitter, dice.roll());
            let passed = Duration::from_nanos(now().saturating_sub(begun));
            deadline.sleep(pause.saturating_sub(passed)).await;
        }
    }

    fn count(&self, result: Result<(), Reason>) {
        let meter = self.server.meter.worker(0);
        meter.checks.increment();
        if result.is_err() {
            meter.check_failures.increment();
        }
    }

    fn judge(&self, result: Result<(), Reason>, verdict: &mut Verdict) {
        let state = &self.server.state;
        let standing = match (state.is_barred(Bar::Unhealthy), state.is_barred(Bar::Unchecked)) {
            (true, _) => Standing::Unhealthy,
            (false, true) => Standing::Unknown,
            (false, false) => Standing::Healthy,
        };
        let outcome = if result.is_ok() { Outcome::Success } else { Outcome::Failure };
        match (verdict.take(outcome, standing, &self.rule), result) {
            (Some(Change::Unhealthy), Err(reason)) => {
                state.bar_because(Bar::Unhealthy, &reason.to_string());
                state.lift(Bar::Unchecked);
                let text = format!("{} is unhealthy: {reason}", self.name);
                (self.say)(Tone::Bad, &text);
            }
            (Some(Change::Healthy), _) => {
                state.lift(Bar::Unhealthy);
                state.lift(Bar::Unchecked);
                (self.say)(Tone::Good, &format!("{} is healthy", self.name));
            }
            // Whoever looks is told what is wrong now, not what was wrong first.
            (None, Err(reason)) if standing == Standing::Unhealthy => {
                state.bar_because(Bar::Unhealthy, &reason.to_string());
            }
            _ => {}
        }
    }
}
