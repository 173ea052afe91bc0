//! Putting a configuration in force: the first one, and each that follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_engine::{
    AccessLog, Action, CallSettings, ListenerPlan, ListenerTls, Proof, Route, RouteTable,
    SecretParameters, Snapshot, TrustedProxies, WebCalls,
};
use sluice_model::Model;
use sluice_net::process::{cpus, monotonic_micros};

use super::shown::{listener_url, url};
use super::{Failure, Supervisor};
use crate::compile::{
    Made, Prepared, PreparedAction, PreparedTable, PreparedTls, Services, ambiguous_headers,
    beginning, compared_case, connection_limits, endpoint, http2, limits, mirror, path_overrides,
    path_rules, prepare, proxy_protocol, route_filters, timeouts, trace_method,
};
use crate::document::{ConfigError, Document};
use crate::estate::{Estate, Opened, Opening};
use crate::health::HealthReport;
use crate::heritage::Heritage;
use crate::status::Status;

/// The name under which requests are counted that no route takes.
pub(super) const UNMATCHED: &str = "(unmatched)";

/// Why a configuration is read again; of several causes at once the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// Its file is another one: nothing is done if its text is not.
    FileChanged,
    /// A script that it names is.
    ScriptChanged,
    /// Somebody asked for it.
    Asked,
}

impl Cause {
    /// Why, for the log: whoever asked can tell the answer from that to a file that has changed.
    const fn words(self) -> &'static str {
        match self {
            Self::Asked => "asked for",
            Self::FileChanged => "file changed",
            Self::ScriptChanged => "a script changed",
        }
    }
}

/// A configuration that could be put in force at once.
struct Ready {
    document: Document,
    model: Model,
    prepared: Prepared,
    opened: Opened,
}

pub(super) fn opening<'a>(status: &'a Status, heritage: &'a Heritage) -> Opening<'a> {
    Opening { workers: status.workers(), log_counts: status.log_counts(), heritage }
}

impl Supervisor {
    /// Reads the configuration again. If anything is wrong with it, what is in force stays, all of
    /// it.
    pub(super) fn reload(&mut self, cause: Cause) -> Result<(), Failure> {
        let document = self.source.read();
        if let (Cause::FileChanged, Ok(document)) = (cause, &document)
            && document.text == self.last_text
        {
            // Somebody asked for it before we noticed, or the file was only touched.
            return Ok(());
        }
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_micros()));
        match document.and_then(|document| self.make_ready(document)) {
            Ok(Ready { document, model, prepared, opened }) => {
                self.model = model;
                let name = document.name.clone();
                self.configure(document, prepared, opened)?;
                self.status.meters().reloads_ok.increment();
                let generation = self.snapshot.generation;
                let why = cause.words();
                self.voice.say(&format!("reloaded {name} (generation {generation}, {why})"));
            }
            Err(error) => {
                self.status.meters().reloads_failed.increment();
                self.voice.say(&format!(
                    "reload failed: {}; the configuration before it stays in force ({})\n{}",
                    error.summary(),
                    cause.words(),
                    error.render(self.voice.style())
                ));
            }
        }
        self.notify("READY=1");
        Ok(())
    }

    fn make_ready(&mut self, document: Document) -> Result<Ready, ConfigError> {
        self.last_text.clone_from(&document.text);
        let model = document.parse()?;
        let prepared = prepare(&model, &self.shelf).map_err(ConfigError::Unusable)?;
        let opened = self
            .estate
            .open(&model, &prepared, &opening(&self.status, &self.heritage))
            .map_err(ConfigError::Unusable)?;
        Ok(Ready { document, model, prepared, opened })
    }

    /// Puts `self.model` in force; everything in it is known to work.
    pub(super) fn configure(
        &mut self,
        document: Document,
        prepared: Prepared,
        opened: Opened,
    ) -> Result<(), Failure> {
        self.warn(&opened.warnings);
        self.follow_lists();
        self.follow_certificates();
        self.follow_names();
        self.limiters.follow(&self.model);
        self.status.meters().set_limits(self.limiters.sources());
        self.shelf.take(&self.model, &prepared.filters);
        self.status.meters().set_filters(self.shelf.meters());
        self.follow_filters();
        self.follow_scripts(&prepared.scripts);
        let before = std::mem::replace(&mut self.estate, opened.estate);
        self.snapshot = Arc::new(self.assemble(prepared));
        self.look_at_certificates();
        let problems = self.crew.apply(&self.snapshot);
        if self.snapshot.generation == 1 && !problems.is_empty() {
            let lines = problems.iter().map(|problem| format!("error: {problem}\n"));
            return Err(Failure::Runtime(lines.collect()));
        }
        self.report(&problems);
        self.memory.follow(self.model.overload.memory, &self.snapshot);
        self.watch_servers();
        self.site.allow(&self.model.admin.hosts);
        let admin = self.site.snapshot(self.estate.admin(), self.estate.metrics());
        self.report(&self.crew.apply_admin(&admin));
        self.forget_unused_meters();
        self.announce(&before);
        self.show(document);
        Ok(())
    }

    fn warn(&self, warnings: &[String]) {
        for warning in &self.model.warnings {
            self.voice.say(&warning.render(self.voice.style()));
        }
        warnings.iter().for_each(|warning| self.voice.warn(warning));
        let (running, wanted) = (self.crew.size(), self.model.workers.unwrap_or_else(cpus));
        if !self.fixed_workers && running != wanted {
            self.voice.warn(&format!(
                "{running} workers are running; workers = {wanted} takes effect at the next start"
            ));
        }
    }

    fn assemble(&mut self, prepared: Prepared) -> Snapshot {
        let generation = self.snapshot.generation + 1;
        let Prepared { actions, tables, tls, clients, filters, services, access, .. } = prepared;
        let routes = self.routes(actions, &filters, generation);
        let secrets = filters.iter().flat_map(Made::secret_parameters);
        let secrets = Arc::new(SecretParameters::new(secrets));
        let tls = self.encryption(tls);
        let reserved = tls.iter().flatten().flat_map(|tls| tls.fields.all().cloned()).collect();
        self.keyring.take_clients(clients);
        let access = access.zip(self.estate.log());
        Snapshot {
            generation,
            listeners: self.listeners(tables, (tls, services), &routes),
            clusters: self.clusters(),
            trusted_proxies: TrustedProxies::new(self.model.trusted_proxies.clone()),
            reserved,
            cap: Some(self.memory.cap()),
            access: access.map(|(format, writer)| AccessLog {
                format,
                writer: writer.clone(),
                secrets,
            }),
        }
    }

    /// The routes in the order of the model.
    fn routes(
        &self,
        actions: Vec<PreparedAction>,
        filters: &[Made],
        generation: u64,
    ) -> Vec<Arc<Route>> {
        let listeners = || self.model.listeners.iter().map(|it| it.name.clone()).collect();
        let action = |prepared| match prepared {
            PreparedAction::Respond(answer) => Action::Respond(answer),
            PreparedAction::Redirect(redirect) => Action::Redirect(redirect),
            PreparedAction::Proxy(upstream) => Action::Proxy(upstream),
            PreparedAction::Handle(handler) => Action::Handle(handler),
            PreparedAction::Health => Action::Report(Arc::new(HealthReport {
                status: Arc::clone(&self.status),
                generation,
                listeners: listeners(),
            })),
        };
        let build = |(route, prepared): (&sluice_model::Route, _)| {
            Arc::new(Route {
                name: route.name.clone(),
                own_path_rules: route.path_rules.as_ref().map(path_overrides),
                body_limit: route.body_limit.unwrap_or(u64::MAX),
                proof: match route.proof {
                    sluice_model::Proof::None => Proof::None,
                    sluice_model::Proof::Certificate => Proof::Certificate,
                },
                admission: self.limiters.admission(route),
                calls: calls(route.calls),
                action: action(prepared),
                mirror: route.mirror.as_ref().map(mirror),
                filters: route_filters(route, filters, compared_case(route, &self.model.listeners)),
                meter: self.status.meters().route(&route.name),
            })
        };
        self.model.routes.iter().zip(actions).map(build).collect()
    }

    /// How the listeners are encrypted, in the order of the model.
    fn encryption(&mut self, prepared: Vec<Option<PreparedTls>>) -> Vec<Option<ListenerTls>> {
        let listeners = self.model.listeners.iter().zip(prepared);
        listeners.map(|(listener, new)| self.keyring.take(listener, new?)).collect()
    }

    fn listeners(
        &self,
        tables: Vec<PreparedTable>,
        (mut tls, mut services): (Vec<Option<ListenerTls>>, Services),
        routes: &[Arc<Route>],
    ) -> Vec<Arc<ListenerPlan>> {
        let mut plans = Vec::new();
        let unmatched = self.status.meters().route(UNMATCHED);
        for PreparedTable { table, routes: positions, listeners } in tables {
            let chosen = positions.iter().filter_map(|&at| routes.get(at)).map(Arc::clone);
            let routes = Arc::new(RouteTable {
                table,
                routes: chosen.collect(),
                unmatched: Arc::clone(&unmatched),
            });
            for position in listeners {
                let Some(listener) = self.model.listeners.get(position) else { continue };
                let wanted = endpoint(&listener.address);
                // Every listener of the model was opened.
                let Some(place) = self.estate.listener(&wanted, &listener.name) else { continue };
                let plan = ListenerPlan {
                    name: listener.name.clone(),
                    endpoint: place.binding.endpoint().clone(),
                    binding: Arc::downgrade(&place.binding),
                    limits: limits(&listener.limits),
                    path_rules: path_rules(&listener.path_rules),
                    timeouts: timeouts(&listener.timeout),
                    connections: connection_limits(&listener.limits),
                    guard: Arc::clone(&place.guard),
                    routes: Arc::clone(&routes),
                    http2: http2(listener),
                    beginning: beginning(listener),
                    ambiguous_headers: ambiguous_headers(listener),
                    trace: trace_method(listener),
                    tls: tls.get_mut(position).and_then(Option::take),
                    proxy_protocol: proxy_protocol(listener),
                    service: services.get_mut(position).and_then(Option::take),
                    meter: self.status.meters().listener(&listener.name),
                };
                plans.push((position, Arc::new(plan)));
            }
        }
        plans.sort_by_key(|(position, _)| *position);
        plans.into_iter().map(|(_, plan)| plan).collect()
    }

    /// Says where clients can connect that could not before.
    fn announce(&self, before: &Estate) {
        let names_before: BTreeSet<String> = self
            .status
            .shown()
            .iter()
            .flat_map(|it| &it.listeners)
            .map(|it| it.name.clone())
            .collect();
        for plan in &self.snapshot.listeners {
            if !before.holds(plan.binding.as_ptr()) || !names_before.contains(&plan.name) {
                let url = listener_url(plan);
                self.voice.say(&format!("listening on {url} ({})", plan.name));
                self.introduce_made_certificate(&plan.name);
            }
        }
        for (name, place) in [("admin", self.estate.admin()), ("metrics", self.estate.metrics())] {
            if let Some(place) = place
                && !before.holds(Arc::as_ptr(&place.binding))
            {
                self.voice.say(&format!("{name} on {}", url(place.binding.endpoint())));
            }
        }
    }
}

const fn calls(calls: sluice_model::Calls) -> CallSettings {
    let web = match calls.web {
        sluice_model::WebCalls::Passed => WebCalls::Passed,
        sluice_model::WebCalls::Translated => WebCalls::Translated,
    };
    CallSettings { most: calls.max_timeout, web }
}
