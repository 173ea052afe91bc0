//! Which server is next.

mod dice;
mod hash;
mod key;
mod least_requests;
mod random;
mod round_robin;
mod selection;
mod share;
mod turns;
mod two_choices;

use std::rc::Rc;
use std::sync::Arc;

use crate::ring::Ring;
use crate::{Ask, BalanceRule, Server};
use hash::Hash;
use least_requests::LeastRequests;
use random::Random;
use round_robin::RoundRobin;
use two_choices::TwoChoices;

pub(crate) use selection::Selection;

/// The rule of a cluster, laid out over the servers that are available. Building it costs what the
/// list is long; it happens when a server comes or goes, so that choosing costs little.
#[derive(Debug)]
pub(crate) enum Rotation {
    RoundRobin(RoundRobin),
    LeastRequests(LeastRequests),
    TwoChoices(TwoChoices),
    Random(Random),
    Hash(Hash),
}

/// What a rotation is made of.
#[derive(Clone, Copy)]
struct Parts<'a> {
    rule: &'a BalanceRule,
    /// Laid out for all workers, if the rule is to hash.
    ring: Option<&'a Arc<Ring>>,
    /// Each server's weight when nothing is wrong with it.
    full: &'a [u32],
    /// Where to start, so that workers do not all begin with the same server.
    start: usize,
}

impl Rotation {
    /// For servers of these weights now; who has none gets nothing.
    fn build(parts: Parts<'_>, weights: &[u32]) -> Self {
        let Parts { rule, ring, full, start } = parts;
        match (rule, ring) {
            (BalanceRule::LeastRequests, _) => {
                Self::LeastRequests(LeastRequests::new(weights, start))
            }
            (BalanceRule::TwoChoices, _) => Self::TwoChoices(TwoChoices::new(weights)),
            (BalanceRule::Random, _) => Self::Random(Random::new(weights)),
            (BalanceRule::Hash(key), Some(ring)) => {
                let ring = Arc::clone(ring);
                Self::Hash(Hash::new(key.clone(), ring, (weights, full), start))
            }
            // There is a ring wherever the rule is to hash.
            (BalanceRule::RoundRobin | BalanceRule::Hash(_), _) => {
                Self::RoundRobin(RoundRobin::new(weights, start))
            }
        }
    }

    /// Index of the server to ask; `None` if none is available.
    #[inline]
    pub(crate) fn next(&self, ask: &Ask<'_>, servers: &[Rc<Server>]) -> Option<usize> {
        match self {
            Self::RoundRobin(rule) => rule.next(),
            Self::LeastRequests(rule) => rule.next(|index| load(servers, index)),
            Self::TwoChoices(rule) => rule.next(|index| load(servers, index)),
            Self::Random(rule) => rule.next(),
            Self::Hash(rule) => rule.next(ask),
        }
    }

    /// Index of a server that was not asked in vain; `None` if there is none.
    pub(crate) fn other(&self, ask: &Ask<'_>, servers: &[Rc<Server>]) -> Option<usize> {
        let avoid = |index| servers.get(index).is_none_or(|server| ask.avoids(server));
        match self {
            Self::RoundRobin(rule) => rule.other(avoid),
            Self::LeastRequests(rule) => rule.other(|index| load(servers, index), avoid),
            Self::TwoChoices(rule) => rule.other(|index| load(servers, index), avoid),
            Self::Random(rule) => rule.other(avoid),
            Self::Hash(rule) => rule.other(ask, avoid),
        }
    }
}

/// Requests this worker has under way at a server.
#[inline]
fn load(servers: &[Rc<Server>], index: usize) -> u64 {
    let active = servers.get(index).map_or(0, |server| server.meter().active.value());
    u64::try_from(active).unwrap_or(0)
}
