//! What is in force, in the words of those who ask.

use std::sync::Arc;

use sluice_engine::ListenerPlan;
use sluice_net::Endpoint;
use sluice_net::process::wall_clock;

use super::Supervisor;
use crate::document::Document;
use crate::places::places;
use crate::status::{Shown, ShownListener, ShownPlace, ShownServer, ShownUpstream};

/// Where a browser or curl finds an address of ours.
pub(super) fn url(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(address) => format!("http://{address}"),
        Endpoint::Unix(_) => endpoint.to_string(),
    }
}

/// The same for a listener.
pub(super) fn listener_url(plan: &ListenerPlan) -> String {
    let url = url(&plan.endpoint);
    let scheme = match (&plan.service, &plan.tls) {
        (None, None) => return url,
        (None, Some(_)) => "https",
        (Some(_), None) => "tcp",
        (Some(_), Some(_)) => "tls",
    };
    match url.strip_prefix("http:") {
        Some(rest) => format!("{scheme}:{rest}"),
        None => url,
    }
}

impl Supervisor {
    /// Shows the configuration that has just come in force.
    pub(super) fn show(&self, document: Document) {
        let listeners = self
            .snapshot
            .listeners
            .iter()
            .map(|plan| ShownListener { name: plan.name.clone(), url: listener_url(plan) });
        self.status.show(Shown {
            generation: self.snapshot.generation,
            loaded_at: wall_clock(),
            document,
            file: self.source.file().map(|path| path.display().to_string()),
            listeners: listeners.collect(),
            upstreams: self.shown_upstreams(),
        });
    }

    /// Shows the addresses that names have now.
    pub(super) fn show_upstreams(&self) {
        if let Some(shown) = self.status.shown() {
            let upstreams = self.shown_upstreams();
            self.status.show(Shown { upstreams, ..Shown::clone(&shown) });
        }
    }

    fn shown_upstreams(&self) -> Vec<ShownUpstream> {
        let meters = self.status.meters();
        let upstreams = self.upstreams();
        let upstreams = upstreams.iter().map(|upstream| ShownUpstream {
            name: upstream.name.clone(),
            meter: meters.upstream(&upstream.name),
            servers: upstream
                .servers
                .iter()
                .map(|server| ShownServer {
                    address: server.address.to_string(),
                    weight: server.weight,
                    resolved: places(&server.address, &self.names)
                        .iter()
                        .filter_map(|place| self.shown_place(&upstream.name, &place.endpoint))
                        .collect(),
                })
                .collect(),
        });
        upstreams.collect()
    }

    /// A place of an upstream as the plan in force knows it.
    fn shown_place(&self, upstream: &str, place: &Endpoint) -> Option<ShownPlace> {
        let plan = self.snapshot.clusters.iter().find(|plan| plan.name == upstream)?;
        let server = plan.servers.iter().find(|server| server.endpoint == *place)?;
        Some(ShownPlace {
            address: place.to_string(),
            meter: Arc::clone(&server.meter),
            state: Arc::clone(&server.state),
        })
    }
}
