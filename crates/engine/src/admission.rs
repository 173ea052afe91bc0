//! How many requests may be under way: who goes on, who waits, who is sent away.

use std::sync::Arc;
use std::time::Duration;

use sluice_meter::{ConcurrencyReading, ConcurrencySource, Tally};
use sluice_net::{Nanos, Permit, Permits, Queued, Refused, now};

use crate::adaptive::{AdaptiveSettings, Learner};

/// How many requests may be under way at once, and what becomes of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// How many may be under way.
    pub limit: LimitKind,
    /// How many more may wait.
    pub queue: u32,
    /// How long one may wait.
    pub wait: Duration,
    /// When a client that was refused is asked to come back, in seconds.
    pub retry_after: u64,
}

/// How many requests may be under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// So many.
    Fixed(u32),
    /// As many as origins answer without growing slower.
    Adaptive(AdaptiveSettings),
}

/// The state of a limit, shared by all workers. It outlives reloads: requests that are under way
/// count under the new limit as well.
#[derive(Debug)]
pub struct Limiter {
    permits: Permits,
    learner: Learner,
    refused_full: Tally,
    refused_late: Tally,
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new()
    }
}

impl Limiter {
    /// Nothing is under way, and nothing may be before [`Self::follow`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            permits: Permits::new(0, 0),
            learner: Learner::default(),
            refused_full: Tally::default(),
            refused_late: Tally::default(),
        }
    }

    /// Puts these settings in force, also for those who wait already.
    pub fn follow(&self, settings: &LimitSettings) {
        match &settings.limit {
            LimitKind::Fixed(limit) => {
                self.learner.rest(|| self.permits.resize(*limit, settings.queue));
            }
            LimitKind::Adaptive(adaptive) => {
                self.learner.follow(adaptive, |limit| self.permits.resize(limit, settings.queue));
            }
        }
    }

    /// Counts a request that was refused.
    pub(crate) fn on_refusal(&self, refused: Refused) {
        match refused {
            Refused::Full => self.refused_full.increment(),
            Refused::TimedOut => self.refused_late.increment(),
        }
    }

    /// A place in the queue.
    pub(crate) fn queue(&self) -> Result<Queued<&Permits>, Refused> {
        Permits::queue(&self.permits)
    }

    fn on_answer(&self, nanos: Nanos) {
        let set = |limit| self.permits.resize(limit, self.permits.queue_limit());
        self.learner.on_answer(nanos, self.permits.taken(), now(), set);
    }
}

impl ConcurrencySource for Limiter {
    fn reading(&self) -> ConcurrencyReading {
        ConcurrencyReading {
            limit: self.permits.limit(),
            active: self.permits.taken(),
            waiting: self.permits.waiting(),
            refused_full: self.refused_full.value(),
            refused_late: self.refused_late.value(),
        }
    }
}

/// A limit as the routes of one snapshot see it.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its state.
    pub limiter: Arc<Limiter>,
    /// What holds for requests of this snapshot.
    pub settings: LimitSettings,
}

/// The limits in a route's way; one at least.
#[derive(Clone, Debug)]
pub struct Admission {
    /// That of the route itself.
    pub route: Option<Limit>,
    /// That of all routes together.
    pub all: Option<Limit>,
}

/// Permits of a request, given back when it ends.
#[derive(Debug, Default)]
pub(crate) struct Ticket<'e> {
    route: Option<Permit<&'e Permits>>,
    all: Option<Permit<&'e Permits>>,
}

impl Admission {
    /// Takes what is free at once; whether that is all.
    pub(crate) fn try_enter<'e>(&'e self, ticket: &mut Ticket<'e>) -> bool {
        // The route's own first: who waits for it must not hold what others could use.
        for (limit, permit) in self.limits(ticket) {
            *permit = Permits::try_take(&limit.limiter.permits);
            if permit.is_none() {
                return false;
            }
        }
        true
    }

    /// The limits whose permit is still missing, in the order in which they are taken.
    pub(crate) fn limits<'e, 't>(
        &'e self,
        ticket: &'t mut Ticket<'e>,
    ) -> impl Iterator<Item = (&'e Limit, &'t mut Option<Permit<&'e Permits>>)> {
        let pairs = [(&self.route, &mut ticket.route), (&self.all, &mut ticket.all)];
        let missing = |(limit, permit): (&'e Option<Limit>, _)| limit.as_ref().zip(Some(permit));
        pairs.into_iter().filter_map(missing).filter(|(_, permit)| permit.is_none())
    }

    /// An origin took so long for a request.
    pub(crate) fn on_answer(&self, nanos: Nanos) {
        for limit in self.route.iter().chain(&self.all) {
            if matches!(limit.settings.limit, LimitKind::Adaptive(_)) {
                limit.limiter.on_answer(nanos);
            }
        }
    }
}
