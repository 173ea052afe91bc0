//! A behaviour that a test changes while the origin runs.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::exchange::Exchange;
use crate::origin::Behaviour;

/// A behaviour that the test changes while the origin runs: an origin that falls ill and recovers.
#[derive(Clone)]
pub struct Switch(Arc<Mutex<Arc<Behaviour>>>);

impl Switch {
    /// Behaves like this at first.
    #[must_use]
    pub fn new<B>(first: B) -> Self
    where
        B: Fn(&mut Exchange) -> io::Result<()> + Send + Sync + 'static,
    {
        Self(Arc::new(Mutex::new(Arc::new(first))))
    }

    /// Behaves like this from the next request on.
    pub fn set<B>(&self, next: B)
    where
        B: Fn(&mut Exchange) -> io::Result<()> + Send + Sync + 'static,
    {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// What an origin is started with.
    pub fn behaviour(&self) -> impl Fn(&mut Exchange) -> io::Result<()> + Send + Sync + use<> {
        let switch = self.clone();
        move |exchange| {
            let now = Arc::clone(&*switch.0.lock().unwrap_or_else(PoisonError::into_inner));
            now(exchange)
        }
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Switch;
    use crate::{Origin, behaviour, get};

    #[test]
    fn the_next_request_sees_the_change() {
        let switch = Switch::new(behaviour::fixed(200, "well"));
        let origin = Origin::start(switch.behaviour());
        assert_eq!(get(origin.address(), "/").text(), "well");
        switch.set(behaviour::fixed(500, "ill"));
        let answer = get(origin.address(), "/");
        assert_eq!((answer.status, answer.text().as_str()), (500, "ill"));
    }
}
