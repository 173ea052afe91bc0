//! Paths that may be spelled in more than one way: found by the spelling that is compared, sent in the other.

use sluice_message::{Fault, FaultKind, PathProblem};

use super::{Exchange, Refusal, exhausted};
use crate::Route;

impl<'e> Exchange<'e, '_> {
    /// Finds the route by the compared path. What the listener refuses a route may allow, which changes nothing of
    /// what is compared: a route is found by that path under every rule.
    #[cold]
    #[inline(never)]
    pub(super) fn read_path(&mut self, tunnel: bool) -> Result<&'e Route, Refusal> {
        if !self.request.target().starts_with(b"/") {
            return self.look_up(tunnel);
        }
        let rules = &self.scope.listener.path_rules;
        let spellings = &mut self.stand.spellings;
        rules.read(self.request.sent_path(), spellings).map_err(refused)?;
        self.request.set_compared_path(spellings).map_err(|_| Refusal::Fault(exhausted()))?;
        let found = self.look_up(tunnel);
        let spellings = &mut self.stand.spellings;
        if let Ok(route) = &found
            && let Some(own) = &route.own_path_rules
        {
            rules.with(own).read(self.request.sent_path(), spellings).map_err(refused)?;
        }
        // No answer about routes is given for a path that none of them may get.
        spellings.check().map_err(refused)?;
        self.request.set_sent_path(spellings).map_err(|_| Refusal::Fault(exhausted()))?;
        found
    }
}

fn refused(problem: PathProblem) -> Refusal {
    Refusal::Fault(Fault::downstream(FaultKind::PathRefused(problem)))
}
