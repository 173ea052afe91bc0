//! Upstreams become plans of clusters, their names resolved.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sluice_conn::ORIGIN_LIMITS;
use sluice_meter::Meters;
use sluice_model::{
    Protocol as ModelProtocol, ProxyVersion, Role as ModelRole, ServerAddress, Upstream,
};
use sluice_net::Endpoint;
use sluice_net::tls::TlsClient;
use sluice_upstream::{
    Bar, ClusterPlan, ClusterSettings, ClusterState, Initial, Layout, Protocol, QueueRule, Role,
    ServerPlan,
};
use sluice_wire::h2::Config as Http2Config;

use super::balance::{balance_rule, sticky_rule};
use super::retry::retry_policy;
use crate::places::Places;
use sluice_wire::proxy::Version;

use super::health::{breaker_rule, health_settings};

/// The plan of an upstream; the same object as before if nothing has changed, so that workers keep
/// what they made of it.
pub(crate) fn cluster_plan(
    upstream: &Upstream,
    (places, tls): (Places<'_>, Option<&TlsClient>),
    meters: &Meters,
    before: Option<&Arc<ClusterPlan>>,
) -> Arc<ClusterPlan> {
    let settings = settings(upstream);
    let protocol = protocol(upstream);
    let servers = servers(upstream, places, tls);
    if let Some(before) = before {
        let same = |(old, new): (&ServerPlan, &Wanted)| {
            (&old.endpoint, old.weight, old.role) == (&new.endpoint, new.weight, new.role)
                && old.tls == new.tls
                && old.protocol == protocol
                && old.limit.as_ref().map(|limit| limit.most()) == new.most
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
    let kept: HashSet<&Endpoint> = servers.iter().map(|wanted| &wanted.endpoint).collect();
    state.limit(&settings.breaker);
    state.retain(|place| kept.contains(place));
    let servers = servers.into_iter().map(|Wanted { endpoint, weight, role, most, tls }| {
        let meter = meters.server(&upstream.name, &endpoint.to_string());
        let known = state.knows(&endpoint);
        let state = state.server(&endpoint, &meter);
        if !known && waits_for_check(&settings) {
            state.bar(Bar::Unchecked);
        }
        let limit = state.limit(most, settings.queue);
        ServerPlan { endpoint, weight, role, tls, protocol, limit, state, meter }
    });
    let servers: Vec<ServerPlan> = servers.collect();
    state.settle();
    Arc::new(ClusterPlan {
        name: upstream.name.clone(),
        layout: Layout::new(&settings, &servers),
        settings,
        servers,
        state: Arc::clone(&state),
        meter: meters.upstream(&upstream.name),
    })
}

/// Whether a server gets no requests before it was found to be well.
fn waits_for_check(settings: &ClusterSettings) -> bool {
    settings.health.check.as_ref().is_some_and(|check| check.initial == Initial::Unhealthy)
}

fn settings(upstream: &Upstream) -> ClusterSettings {
    ClusterSettings {
        // A connection that was opened for one client is of no use to another.
        idle_connections: match upstream.proxy_protocol {
            None => upstream.keepalive.idle,
            Some(_) => 0,
        },
        idle_timeout: upstream.keepalive.timeout,
        connect_timeout: upstream.timeout.connect,
        read_timeout: upstream.timeout.read,
        write_timeout: upstream.timeout.write,
        tunnel_timeout: upstream.timeout.tunnel,
        tunnel_lifetime: upstream.timeout.tunnel_lifetime,
        balance: balance_rule(&upstream.balance),
        sticky: sticky_rule(upstream),
        slow_start: upstream.slow_start,
        queue: QueueRule { places: upstream.limit.queue, wait: upstream.limit.wait },
        retry: retry_policy(&upstream.retry),
        health: health_settings(upstream),
        breaker: breaker_rule(upstream.breaker),
        proxy_protocol: upstream.proxy_protocol.map(|version| match version {
            ProxyVersion::V1 => Version::V1,
            ProxyVersion::V2 => Version::V2,
        }),
        host: upstream.host.as_ref().map(|host| host.as_bytes().into()),
    }
}

/// A server as the configuration wants it, its name resolved.
struct Wanted {
    endpoint: Endpoint,
    weight: u32,
    role: Role,
    /// Connections at once.
    most: Option<u32>,
    tls: Option<TlsClient>,
}

/// Places of the servers with their weights. A place that is named twice is one server with the
/// weight of both, and no backup if one of the two is none: its connections are shared anyhow.
fn servers(upstream: &Upstream, places: Places<'_>, tls: Option<&TlsClient>) -> Vec<Wanted> {
    let mut servers: Vec<Wanted> = Vec::new();
    let mut positions: HashMap<Endpoint, usize> = HashMap::new();
    for server in &upstream.servers {
        let role = role(server.role);
        let most = server.max_connections.or(upstream.limit.connections);
        for place in places(&server.address) {
            let role = match place.role {
                Role::Primary => role,
                Role::Backup => Role::Backup,
            };
            let weight = server.weight.saturating_mul(place.weight);
            let position = *positions.entry(place.endpoint.clone()).or_insert(servers.len());
            match servers.get_mut(position) {
                Some(known) => {
                    known.weight = known.weight.saturating_add(weight);
                    known.role = if known.role == role { role } else { Role::Primary };
                    known.most = known.most.into_iter().chain(most).min();
                }
                None => {
                    let tls = tls.map(|tls| named(tls, upstream, &server.address));
                    servers.push(Wanted { endpoint: place.endpoint, weight, role, most, tls });
                }
            }
        }
    }
    servers
}

/// For the name the certificate of a server has to be for. One that no certificate can hold stays the
/// name nobody has, and is refused.
fn named(tls: &TlsClient, upstream: &Upstream, address: &ServerAddress) -> TlsClient {
    let written = upstream.tls.as_ref().and_then(|tls| tls.server_name.clone());
    let name = written.or_else(|| match address {
        ServerAddress::Ip(address) => Some(address.ip().to_string()),
        ServerAddress::Name { host, .. } => Some(host.clone()),
        ServerAddress::Unix(_) | ServerAddress::Service(_) | ServerAddress::File(_) => None,
    });
    name.and_then(|name| tls.with_name(&name).ok()).unwrap_or_else(|| tls.clone())
}

/// What is spoken with its servers.
fn protocol(upstream: &Upstream) -> Protocol {
    let http2 = upstream.http2;
    let defaults = Http2Config::default();
    let config = Http2Config {
        // Heads of origins have the limits they have over HTTP/1.1.
        limits: ORIGIN_LIMITS,
        streams: http2.streams,
        stream_window: http2.window,
        connection_window: http2.connection_window,
        ..defaults
    };
    match upstream.protocol {
        ModelProtocol::Http1 => Protocol::Http1,
        ModelProtocol::Http2 => Protocol::Http2(config),
        ModelProtocol::Negotiated if upstream.tls.is_none() => Protocol::Http1,
        ModelProtocol::Negotiated => Protocol::Negotiated(config),
    }
}

const fn role(role: ModelRole) -> Role {
    match role {
        ModelRole::Primary => Role::Primary,
        ModelRole::Backup => Role::Backup,
    }
}
