//! Upstreams become plans of clusters, their names resolved.

use std::sync::Arc;

use sluice_meter::Meters;
use sluice_model::{Balance, Upstream};
use sluice_net::Endpoint;
use sluice_upstream::{
    BalanceRule, ClusterPlan, ClusterSettings, ClusterState, RetryPolicy, ServerPlan,
};

use crate::places::Places;

/// The plan of an upstream; the same object as before if nothing has changed, so that workers keep
/// what they made of it.
pub(crate) fn cluster_plan(
    upstream: &Upstream,
    places: Places<'_>,
    meters: &Meters,
    before: Option<&Arc<ClusterPlan>>,
) -> Arc<ClusterPlan> {
    let settings = settings(upstream);
    let servers = servers(upstream, places);
    if let Some(before) = before {
        let same = |(old, new): (&ServerPlan, &(Endpoint, u32))| {
            (&old.endpoint, old.weight) == (&new.0, new.1)
        };
        let unchanged = before.settings == settings
            && before.servers.len() == servers.len()
            && before.servers.iter().zip(&servers).all(same);
        if unchanged {
            return Arc::clone(before);
        }
    }
    // What was learnt of the servers that stay is kept.
    let state = before.map_or_else(Arc::<ClusterState>::default, |plan| Arc::clone(&plan.state));
    state.retain(|place| servers.iter().any(|(endpoint, _)| endpoint == place));
    let servers = servers.into_iter().map(|(endpoint, weight)| {
        let meter = meters.server(&upstream.name, &endpoint.to_string());
        let state = state.server(&endpoint);
        ServerPlan { endpoint, weight, state, meter }
    });
    Arc::new(ClusterPlan {
        name: upstream.name.clone(),
        settings,
        servers: servers.collect(),
        state: Arc::clone(&state),
        meter: meters.upstream(&upstream.name),
    })
}

fn settings(upstream: &Upstream) -> ClusterSettings {
    ClusterSettings {
        idle_connections: upstream.keepalive.idle,
        idle_timeout: upstream.keepalive.timeout,
        connect_timeout: upstream.timeout.connect,
        read_timeout: upstream.timeout.read,
        write_timeout: upstream.timeout.write,
        tunnel_timeout: upstream.timeout.tunnel,
        balance: match upstream.balance {
            Balance::RoundRobin => BalanceRule::RoundRobin,
        },
        retry: RetryPolicy { attempts: upstream.retry.attempts },
        host: upstream.host.as_ref().map(|host| host.as_bytes().into()),
    }
}

/// Places of the servers with their weights. A place that is named twice is one server with the
/// weight of both: its connections are shared anyhow.
fn servers(upstream: &Upstream, places: Places<'_>) -> Vec<(Endpoint, u32)> {
    let mut servers: Vec<(Endpoint, u32)> = Vec::new();
    for server in &upstream.servers {
        for place in places(&server.address) {
            let share = server.weight.saturating_mul(place.weight);
            match servers.iter_mut().find(|(known, _)| *known == place.endpoint) {
                Some((_, weight)) => *weight = weight.saturating_add(share),
                None => servers.push((place.endpoint, share)),
            }
        }
    }
    servers
}
