//! When so few servers are left that those that are out are asked as well.

use super::rule::{Panic, WHOLE};
use crate::{Bar, ClusterPlan, Role, ServerPlan};

/// How many servers there are to ask, and how many of them are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) available: usize,
    pub(crate) all: usize,
}

impl Census {
    /// Of the servers of a plan as they are now. Those that somebody takes out of service, and those
    /// that nobody knows yet, are not to be asked whatever happens. As long as a backup is available
    /// there is no need to ask who is out.
    pub(crate) fn of(plan: &ClusterPlan) -> Self {
        let count = |role| {
            let asked =
                plan.servers.iter().filter(|server| server.role == role && is_asked(server));
            asked.fold(Self { available: 0, all: 0 }, |census, server| Self {
                available: census.available + usize::from(server.state.is_available()),
                all: census.all + 1,
            })
        };
        let (primary, backup) = (count(Role::Primary), count(Role::Backup));
        match (primary, backup) {
            (Self { all: 0, .. }, _) => backup,
            (_, Self { available: 0, .. }) => primary,
            (Self { all, .. }, _) => Self { available: all, all },
        }
    }

    /// Whether all of them are asked because too few are available.
    pub(crate) fn is_panic(self, panic: Panic) -> bool {
        let Self { available, all } = self;
        let share = match panic {
            Panic::Never => return false,
            Panic::Below(share) => share.min(WHOLE),
        };
        let wide = |count: usize| u128::try_from(count).unwrap_or(u128::MAX);
        let few = wide(available) * u128::from(WHOLE) < wide(all) * u128::from(share);
        // None at all is too few whatever the share.
        all > available && (available == 0 || few)
    }
}

/// Whether a server may be asked although it is out.
pub(crate) fn is_asked(server: &ServerPlan) -> bool {
    let state = &server.state;
    server.weight > 0 && !state.is_barred(Bar::Draining) && !state.is_barred(Bar::Unchecked)
}

/// Whether servers that are out are asked as well.
pub(crate) fn is_panic(plan: &ClusterPlan) -> bool {
    Census::of(plan).is_panic(plan.settings.health.panic)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_net::Endpoint;

    use super::*;
    use crate::tests::{plan_of, settings};

    #[test]
    fn only_servers_that_may_be_asked_are_counted() {
        let places = [1, 2, 3, 4].map(|port| Endpoint::Tcp(([127, 0, 0, 1], port).into()));
        let plan = plan_of(settings(), &places, &Arc::default());
        let census = |available, all| Census { available, all };
        assert_eq!(Census::of(&plan), census(4, 4));
        let state = |at: usize| &plan.servers[at].state;
        state(0).bar(Bar::Unhealthy);
        state(1).bar(Bar::Ejected);
        assert_eq!(Census::of(&plan), census(2, 4));
        state(1).bar(Bar::Draining);
        state(2).bar(Bar::Unchecked);
        assert_eq!(Census::of(&plan), census(1, 2));
        assert!(!is_panic(&plan));
        state(3).bar(Bar::Unhealthy);
        assert!(is_panic(&plan));
        assert_eq!([0, 1, 2, 3].map(|at| is_asked(&plan.servers[at])), [true, false, false, true]);
    }

    #[test]
    fn a_backup_that_is_available_keeps_from_panic() {
        let places = [1, 2].map(|port| Endpoint::Tcp(([127, 0, 0, 1], port).into()));
        let mut plan = Arc::into_inner(plan_of(settings(), &places, &Arc::default())).unwrap();
        plan.servers[1].role = Role::Backup;
        plan.servers[0].state.bar(Bar::Unhealthy);
        assert!(!is_panic(&plan));
        plan.servers[1].state.bar(Bar::Unhealthy);
        assert!(is_panic(&plan));
        plan.servers[1].state.lift(Bar::Unhealthy);
        plan.servers[0].state.bar(Bar::Draining);
        assert!(!is_panic(&plan));
    }

    #[test]
    fn too_few_are_fewer_than_the_share_or_none() {
        const HALF: Panic = Panic::Below(500_000);
        let rows = [
            (0, 4, Panic::Below(0), true),
            (1, 4, Panic::Below(0), false),
            (0, 4, Panic::Never, false),
            (1, 4, HALF, true),
            (2, 4, HALF, false),
            (1, 3, HALF, true),
            (2, 3, HALF, false),
            (3, 4, Panic::Below(WHOLE), true),
            (4, 4, Panic::Below(WHOLE), false),
            // Without a server nothing is won.
            (0, 0, HALF, false),
            (0, 1, HALF, true),
        ];
        for (available, all, panic, expected) in rows {
            let census = Census { available, all };
            assert_eq!(census.is_panic(panic), expected, "{census:?} {panic:?}");
        }
    }
}
