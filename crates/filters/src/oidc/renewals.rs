//! Sessions that were renewed a moment ago: a browser makes several requests at once, and a refresh token is often
//! good for one alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};

use super::session::Session;
use crate::flight::{Flight, Pilot};

/// How long the outcome is kept for those that come with the old session, in seconds.
const KEPT: u64 = 60;
/// More at once are not kept.
const MOST: usize = 10_000;

/// Sessions that are being renewed, or were, by a hash of their refresh token.
#[derive(Debug, Default)]
pub(super) struct Renewals(Mutex<HashMap<Vec<u8>, Renewing>>);

#[derive(Debug)]
struct Renewing {
    flight: Arc<Flight>,
    /// The session and whether it goes on, once that is known.
    outcome: Option<Option<Session>>,
    until: u64,
}

/// What a request with an old session has to do.
pub(super) enum Turn {
    /// It asks the provider; its outcome goes to [`Renewals::end`].
    Ask(Pilot),
    /// Somebody asks.
    Wait(Arc<Flight>),
    /// That is what came of it; `None` if the user has to sign in again.
    Known(Option<Session>),
}

impl Renewals {
    pub(super) fn begin(&self, refresh_token: &str, now: u64) -> Turn {
        let mut all = self.lock();
        if all.len() >= MOST {
            all.retain(|_, renewing| now < renewing.until);
        }
        let key = key(refresh_token);
        let fresh = || Renewing { flight: Arc::default(), outcome: None, until: now + KEPT };
        if all.get(&key).is_some_and(|renewing| now >= renewing.until) {
            all.remove(&key);
        }
        let renewing = all.entry(key).or_insert_with(fresh);
        match &renewing.outcome {
            Some(outcome) => Turn::Known(outcome.clone()),
            None => match renewing.flight.board() {
                Some(pilot) => Turn::Ask(pilot),
                None => Turn::Wait(Arc::clone(&renewing.flight)),
            },
        }
    }

    /// Notes what came of it. `None` if the provider said no; what failed for another reason is not noted.
    pub(super) fn end(&self, refresh_token: &str, outcome: Option<Session>) {
        if let Some(renewing) = self.lock().get_mut(&key(refresh_token)) {
            renewing.outcome = Some(outcome);
        }
    }

    /// Whoever panicked with the lock left a whole map.
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Renewing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(refresh_token: &str) -> Vec<u8> {
    digest(&SHA256, refresh_token.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::{Renewals, Turn};
    use crate::oidc::session::Session;

    #[test]
    fn one_asks_and_the_others_get_what_it_got() {
        let renewals = Renewals::default();
        let Turn::Ask(pilot) = renewals.begin("t", 100) else { panic!("the first one asks") };
        assert!(matches!(renewals.begin("t", 100), Turn::Wait(_)));
        assert!(matches!(renewals.begin("u", 100), Turn::Ask(_)));
        let session = Session { subject: "eva".to_owned(), ..Session::default() };
        renewals.end("t", Some(session.clone()));
        drop(pilot);
        assert!(matches!(renewals.begin("t", 159), Turn::Known(Some(found)) if found == session));
        assert!(matches!(renewals.begin("t", 160), Turn::Ask(_)), "long ago");
        // Whoever asked failed: the next one may.
        assert!(matches!(renewals.begin("u", 100), Turn::Ask(_)));
    }
}
