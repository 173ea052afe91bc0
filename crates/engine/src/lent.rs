//! What the gateway lends to filters.

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use sluice_filter::{
    Beside, Certificate, Elsewhere, Encryption, Fetch, Fetching, Gateway, Level as Loudness, Local,
    Notes,
};
use sluice_message::PathRules;
use sluice_net::tls::Handshake;
use sluice_net::{Deadline, now, offload, unix_ms};

use crate::Route;
use crate::answer::Level;
use crate::beside::begin;
use crate::connection::Connection;
use crate::errand::{Came, Errand};
use crate::fetch::fetch;
use crate::forward::state_passes;
use crate::local::{Scope, Worker};
use crate::snapshot::RouteFilters;

/// For one exchange.
pub(crate) struct Lent<'e> {
    pub(crate) worker: &'e Worker,
    pub(crate) scope: &'e Scope,
    pub(crate) connection: &'e Connection,
    pub(crate) route: &'e Route,
    pub(crate) filters: &'e RouteFilters,
    /// The request as it came.
    pub(crate) came: &'e Came,
}

impl Gateway for Lent<'_> {
    fn route(&self) -> &str {
        &self.route.name
    }

    fn listener(&self) -> &str {
        &self.scope.listener.name
    }

    fn scheme(&self) -> &'static str {
        self.connection.scheme()
    }

    fn peer(&self) -> IpAddr {
        self.connection.peer
    }

    fn port(&self) -> u16 {
        self.connection.ends().map_or(0, |ends| ends.source.port())
    }

    fn passes(&self) -> usize {
        self.came.passes
    }

    fn is_peer_trusted(&self) -> bool {
        self.scope.view.snapshot.trusted_proxies.contains(self.connection.peer)
    }

    fn encryption(&self) -> Option<Encryption<'_>> {
        let security = self.connection.security.as_deref()?;
        Some(Encryption {
            version: security.version.name(),
            suite: security.suite,
            server_name: security.server_name.as_deref().unwrap_or_default(),
            resumed: if security.handshake == Handshake::Resumed { "yes" } else { "no" },
        })
    }

    fn certificate(&self) -> Option<Certificate<'_>> {
        let shown = self.connection.certificate()?;
        Some(Certificate {
            subject: &shown.subject,
            names: &shown.names,
            fingerprint: &shown.fingerprint,
        })
    }

    fn path_rules(&self) -> PathRules {
        self.route.path_rules(self.scope.listener.path_rules)
    }

    fn capture(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.filters.captures.as_ref()?.get(&self.came.path, name).map(Cow::Borrowed)
    }

    fn worker(&self) -> usize {
        self.worker.index
    }

    fn now(&self) -> u64 {
        now()
    }

    fn unix_ms(&self) -> u64 {
        unix_ms()
    }

    fn random(&self) -> u64 {
        // Keys of these are drawn from the system's randomness and differ for each.
        RandomState::new().hash_one(now())
    }

    fn is_available(&self, cluster: usize) -> bool {
        self.scope.view.clusters.get(cluster).is_some_and(|cluster| cluster.is_available())
    }

    fn log(&self, level: Loudness, line: fmt::Arguments<'_>) {
        let level = match level {
            Loudness::Info => Level::Info,
            Loudness::Warn => Level::Warn,
            Loudness::Error => Level::Error,
        };
        self.worker.fault_log.write(level, format_args!("route {}: {line}", self.route.name));
    }

    fn fetch(&self, mut request: Fetch) -> Fetching {
        // What is asked for the sake of this request goes round with it, if it leads back here. Without room
        // for that the request itself has none.
        let _ = state_passes(&mut request.fields, self.came.passes);
        let cluster = self.scope.view.clusters.get(request.cluster).map(Rc::clone);
        Box::pin(fetch(Rc::clone(&self.connection.worker), cluster, request))
    }

    fn exchange_beside(&self, beside: Beside<'_>) -> bool {
        let Some(chain) = self.filters.chain.behind(beside.notes, beside.filter) else {
            return false;
        };
        let filters = RouteFilters { chain, captures: self.filters.captures.clone() };
        let mut notes = Notes::default();
        notes.inherit(beside.notes);
        let errand = Errand {
            head: beside.request,
            came: self.came.clone(),
            client: beside.client,
            notes,
            route: self.route.with_filters(Some(filters)),
        };
        begin(self.connection, self.scope, errand)
    }

    fn sleep(&self, duration: Duration) -> Local<()> {
        Box::pin(async move { Deadline::new().sleep(duration).await })
    }

    fn offload(&self, work: Box<dyn FnOnce() + Send>) -> Local<bool> {
        Box::pin(offload(work))
    }

    fn elsewhere(&self) -> Elsewhere {
        |work| Box::pin(offload(work))
    }
}
