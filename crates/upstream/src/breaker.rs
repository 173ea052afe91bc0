//! Limits over all workers on what a cluster is asked to do at a time.

use std::sync::Arc;

use sluice_net::{Permit, Permits};

/// Limits on what a cluster is asked to do at a time, over all workers; `None` = no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerRule {
    /// Connections in use, tunnels included; idle ones do not count.
    pub connections: Option<u32>,
    /// Requests that wait for a connection to be opened.
    pub pending: Option<u32>,
    /// Requests under way, from their choice of a server to the end of the answer.
    pub requests: Option<u32>,
    /// Requests under way that are being tried again.
    pub retries: Option<u32>,
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// [`BreakerRule::connections`].
    Connections,
    /// [`BreakerRule::pending`].
    Pending,
    /// [`BreakerRule::requests`].
    Requests,
    /// [`BreakerRule::retries`].
    Retries,
}

/// The right to go on, given back when it is dropped. Nothing where there is no limit.
#[derive(Debug, Default)]
#[must_use = "the right ends with it"]
pub struct Pass {
    _permit: Option<Permit<Arc<Permits>>>,
}

/// The limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CircuitOpen;

impl BreakerRule {
    const fn limit(&self, of: Breaker) -> Option<u32> {
        match of {
            Breaker::Connections => self.connections,
            Breaker::Pending => self.pending,
            Breaker::Requests => self.requests,
            Breaker::Retries => self.retries,
        }
    }
}

/// What a cluster does now, as the whole process counts it.
#[derive(Debug)]
pub(crate) struct Breakers {
    connections: Arc<Permits>,
    pending: Arc<Permits>,
    requests: Arc<Permits>,
    retries: Arc<Permits>,
}

impl Default for Breakers {
    fn default() -> Self {
        let none = || Arc::new(Permits::new(u32::MAX, 0));
        Self { connections: none(), pending: none(), requests: none(), retries: none() }
    }
}

impl Breakers {
    /// These limits from now on. What is under way stays.
    pub(crate) fn set(&self, rule: &BreakerRule) {
        for of in [Breaker::Connections, Breaker::Pending, Breaker::Requests, Breaker::Retries] {
            self.permits(of).resize(rule.limit(of).unwrap_or(u32::MAX), 0);
        }
    }

    /// Lets one more in, if the limit allows.
    #[inline]
    pub(crate) fn admit(&self, rule: &BreakerRule, of: Breaker) -> Result<Pass, CircuitOpen> {
        if rule.limit(of).is_none() {
            return Ok(Pass::default());
        }
        let permit = Permits::try_take(Arc::clone(self.permits(of))).ok_or(CircuitOpen)?;
        Ok(Pass { _permit: Some(permit) })
    }

    const fn permits(&self, of: Breaker) -> &Arc<Permits> {
        match of {
            Breaker::Connections => &self.connections,
            Breaker::Pending => &self.pending,
            Breaker::Requests => &self.requests,
            Breaker::Retries => &self.retries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_their_own_and_may_change() {
        let breakers = Breakers::default();
        let rule = BreakerRule { requests: Some(2), retries: Some(0), ..BreakerRule::default() };
        breakers.set(&rule);
        let first = breakers.admit(&rule, Breaker::Requests).unwrap();
        let _second = breakers.admit(&rule, Breaker::Requests).unwrap();
        assert_eq!(breakers.admit(&rule, Breaker::Requests).err(), Some(CircuitOpen));
        assert_eq!(breakers.admit(&rule, Breaker::Retries).err(), Some(CircuitOpen));
        for of in [Breaker::Connections, Breaker::Pending] {
            assert!(breakers.admit(&rule, of).is_ok());
            assert_eq!(breakers.permits(of).taken(), 0, "nobody counts where there is no limit");
        }
        drop(first);
        let _third = breakers.admit(&rule, Breaker::Requests).unwrap();
        let higher = BreakerRule { requests: Some(3), ..rule };
        breakers.set(&higher);
        assert!(breakers.admit(&higher, Breaker::Requests).is_ok());
        let lower = BreakerRule { requests: Some(1), ..rule };
        breakers.set(&lower);
        assert_eq!(breakers.admit(&lower, Breaker::Requests).err(), Some(CircuitOpen));
    }
}
