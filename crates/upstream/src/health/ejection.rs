//! Which servers are out because of what became of requests, and for how long.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::{Endpoint, Nanos};

use super::rule::{EjectionRule, WHOLE};
use crate::{Bar, ClusterPlan, ServerPlan, ServerState};

/// What is known of the servers of one cluster. Times are arguments: whoever asks has the clock.
#[derive(Debug, Default)]
pub(super) struct Ejections {
    records: HashMap<Endpoint, Record>,
    /// When the shares of errors are looked at next.
    window_end: Option<Nanos>,
}

/// What is known of one server.
#[derive(Debug)]
struct Record {
    state: Arc<ServerState>,
    term: Term,
    before: Sample,
}

/// How long a server is out, which grows each time and falls back with good behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Term {
    /// How often the time is doubled at the next ejection.
    step: u32,
    /// When it comes back, if it is out.
    until: Option<Nanos>,
    /// Since when it behaves well.
    calm_since: Nanos,
}

/// Counts of a server at the beginning of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    requests: u64,
    faulty: u64,
}

/// What has been decided about a server.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) server: Endpoint,
    pub(super) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It is out for so long.
    Ejected(Duration, Why),
    /// It is back.
    Returned,
}

/// What a server is ejected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// So many failures in a row.
    Streak(u32),
    /// So many failures among so many requests of a window.
    Share(u64, u64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Streak(1) => f.write_str("a failure"),
            Self::Streak(count) => write!(f, "{count} failures in a row"),
            Self::Share(faulty, requests) => write!(f, "{faulty} of {requests} requests failed"),
        }
    }
}

impl Ejections {
    /// Decides what is due at `now`, sets and lifts the bars, and says when to look again at the
    /// latest.
    pub(super) fn look(
        &mut self,
        plan: &ClusterPlan,
        rule: &EjectionRule,
        now: Nanos,
    ) -> (Vec<Decision>, Option<Nanos>) {
        self.adopt(plan, now);
        let mut decisions = self.release(now);
        for server in &plan.servers {
            let streak = server.state.streak();
            if rule.failures > 0 && streak >= rule.failures {
                decisions.extend(self.eject((plan, server), rule, Why::Streak(streak), now));
            }
        }
        if rule.share.is_some() {
            decisions.extend(self.look_at_shares(plan, rule, now));
        } else {
            self.window_end = None;
        }
        let returns = self.records.values().filter_map(|record| record.term.until);
        (decisions, returns.chain(self.window_end).min())
    }

    /// Lets everybody back in, before the rule goes.
    pub(super) fn dissolve(self) {
        self.records.into_values().for_each(Record::let_in);
    }

    /// Knows the servers of the plan and no others.
    fn adopt(&mut self, plan: &ClusterPlan, now: Nanos) {
        let of = |server: &ServerPlan, record: &Record| Arc::ptr_eq(&server.state, &record.state);
        let known = |server: &ServerPlan| {
            self.records.get(&server.endpoint).is_some_and(|record| of(server, record))
        };
        if self.records.len() == plan.servers.len() && plan.servers.iter().all(known) {
            return;
        }
        let mut before = std::mem::take(&mut self.records);
        for server in &plan.servers {
            let known = before.remove(&server.endpoint).filter(|record| of(server, record));
            let record = known.unwrap_or_else(|| Record {
                state: Arc::clone(&server.state),
                term: Term { calm_since: now, ..Term::default() },
                before: Sample::of(server),
            });
            self.records.insert(server.endpoint.clone(), record);
        }
        // Nobody would let these in again when they come back.
        before.into_values().for_each(Record::let_in);
    }

    /// Those whose time is over come back.
    fn release(&mut self, now: Nanos) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for (place, record) in &mut self.records {
            if record.term.end(now) {
                // What was under way when it was ejected may have failed since.
                record.state.end_streak();
                record.state.lift(Bar::Ejected);
                decisions.push(Decision { server: place.clone(), what: What::Returned });
            }
        }
        decisions
    }

    fn eject(
        &mut self,
        (plan, server): (&ClusterPlan, &ServerPlan),
        rule: &EjectionRule,
        why: Why,
        now: Nanos,
    ) -> Option<Decision> {
        let out = self.records.values().filter(|record| record.term.until.is_some()).count();
        if out >= most(plan.servers.len(), rule.limit) {
            return None;
        }
        let record = self.records.get_mut(&server.endpoint)?;
        let time = record.term.begin(rule, now)?;
        server.state.bar_because(Bar::Ejected, &format!("{why}, for {time:?}"));
        server.meter.worker(0).ejections.increment();
        Some(Decision { server: server.endpoint.clone(), what: What::Ejected(time, why) })
    }

    /// At the end of a window: those of whose requests too many failed.
    fn look_at_shares(
        &mut self,
        plan: &ClusterPlan,
        rule: &EjectionRule,
        now: Nanos,
    ) -> Vec<Decision> {
        let window = nanos(rule.window);
        if let Some(end) = self.window_end
            && end > now
        {
            // A rule with a shorter window does not wait for the end of a longer one.
            self.window_end = Some(end.min(now.saturating_add(window)));
            return Vec::new();
        }
        let first = self.window_end.is_none();
        self.window_end = Some(now.saturating_add(window));
        let mut decisions = Vec::new();
        for server in &plan.servers {
            let Some(record) = self.records.get_mut(&server.endpoint) else { continue };
            let sample = Sample::of(server);
            let before = std::mem::replace(&mut record.before, sample);
            if !first && let Some(why) = sample.since(before).fault(rule) {
                decisions.extend(self.eject((plan, server), rule, why, now));
            }
        }
        decisions
    }
}

impl Record {
    /// Back in before its time, since nobody watches it any more.
    fn let_in(self) {
        if self.term.until.is_some() {
            self.state.end_streak();
            self.state.lift(Bar::Ejected);
        }
    }
}

impl Term {
    /// Out from now on; for how long. `None` if it is out already.
    fn begin(&mut self, rule: &EjectionRule, now: Nanos) -> Option<Duration> {
        if self.until.is_some() {
            return None;
        }
        // As long a time of good behaviour as the shorter ejection lasts earns that one.
        while let Some(step) = self.step.checked_sub(1) {
            let earned = self.calm_since.saturating_add(nanos(length(rule, step)));
            if earned > now {
                break;
            }
            (self.step, self.calm_since) = (step, earned);
        }
        let time = length(rule, self.step);
        if time < rule.max_time {
            self.step = self.step.saturating_add(1);
        }
        self.until = Some(now.saturating_add(nanos(time)));
        Some(time)
    }

    /// Back, if its time is over.
    fn end(&mut self, now: Nanos) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            (self.until, self.calm_since) = (None, now);
        }
        over
    }
}

/// How long an ejection lasts that others went before.
fn length(rule: &EjectionRule, step: u32) -> Duration {
    let factor = 1_u32.checked_shl(step).unwrap_or(u32::MAX);
    rule.time.saturating_mul(factor).min(rule.max_time.max(rule.time))
}

/// How many of so many servers may be out. One of several always may: else a small limit would mean
/// none.
fn most(servers: usize, limit: u32) -> usize {
    let whole = usize::try_from(WHOLE).unwrap_or(usize::MAX);
    let limit = usize::try_from(limit).unwrap_or(whole).min(whole);
    let share = servers.saturating_mul(limit) / whole;
    if servers > 1 && limit > 0 { share.max(1) } else { share }
}

impl Sample {
    fn of(server: &ServerPlan) -> Self {
        let unreached = server.meter.sum(|meter| meter.unreached.value());
        Self {
            requests: server.meter.sum(|meter| meter.requests.value()).wrapping_add(unreached),
            faulty: server.meter.sum(|meter| meter.faulty.value()),
        }
    }

    fn since(self, before: Self) -> Self {
        let faulty = self.faulty.wrapping_sub(before.faulty);
        // Requests of the window before may fail in this one.
        Self { requests: self.requests.wrapping_sub(before.requests).max(faulty), faulty }
    }

    /// What it has done wrong, if that is too much.
    fn fault(self, rule: &EjectionRule) -> Option<Why> {
        let share = u128::from(rule.share?);
        let Self { requests, faulty } = self;
        let enough = requests >= rule.requests && faulty > 0;
        let bad = u128::from(faulty) * u128::from(WHOLE) >= u128::from(requests) * share;
        (enough && bad).then_some(Why::Share(faulty, requests))
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
