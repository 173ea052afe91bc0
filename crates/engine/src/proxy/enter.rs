//! Room at a server: at the one that was chosen, at another, or after a wait.

use std::rc::Rc;

use sluice_message::{Fault, FaultKind, Retry};
use sluice_net::Refused;
use sluice_upstream::{Cluster, Server, Visit};

use super::tries::Tries;
use crate::exchange::{Exchange, Stop};
use crate::waiting::Unserved;

/// Servers that are looked at besides the one that was chosen. Of many that are all full one more is
/// hardly empty.
const OTHERS: usize = 8;

impl Exchange<'_, '_> {
    /// Begins a visit to `server`, or to another one that has room, which is `server` then. Only for
    /// clusters with limits: the others are not to pay for the space.
    pub(super) async fn enter(
        &mut self,
        cluster: &Rc<Cluster>,
        server: &mut Rc<Server>,
        tries: &Tries,
    ) -> Result<Visit, Stop> {
        // Room at the server before is not held while room is looked for elsewhere, or two requests
        // would wait for each other.
        if let Some(visit) = self.upstream.server.take()
            && Rc::ptr_eq(&visit, server)
        {
            return Ok(visit);
        }
        if let Some(visit) = Visit::try_new(cluster, server) {
            return Ok(visit);
        }
        // A session waits for its server: another one does not know it.
        if !cluster.is_named(self.request, server)
            && let Some(visit) = self.enter_another(cluster, server, tries)
        {
            return Ok(visit);
        }
        let waited = match Visit::queue(cluster, server) {
            Ok(visit) => self.wait_for(cluster.settings().queue.wait, visit).await,
            Err(refused) => Err(Unserved::Refused(refused)),
        };
        match waited {
            Ok(visit) => Ok(visit),
            Err(Unserved::Gone(fault)) => Err(fault.into()),
            Err(Unserved::Refused(Refused::Full | Refused::TimedOut)) => {
                cluster.meter().on_failure(FaultKind::ServersBusy);
                Err(Fault::upstream(FaultKind::ServersBusy, Retry::Never).into())
            }
        }
    }

    /// A visit to a server that has room, in the order in which they would be chosen.
    fn enter_another(
        &self,
        cluster: &Rc<Cluster>,
        server: &mut Rc<Server>,
        tries: &Tries,
    ) -> Option<Visit> {
        let mut full: Vec<Rc<Server>> = tries.tried().to_vec();
        full.push(Rc::clone(server));
        for _ in 0..OTHERS {
            let other = self.choose(cluster, &full)?;
            if full.iter().any(|full| Rc::ptr_eq(full, &other)) {
                return None;
            }
            if let Some(visit) = Visit::try_new(cluster, &other) {
                *server = other;
                return Some(visit);
            }
            full.push(other);
        }
        None
    }
}
