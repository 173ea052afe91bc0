//! The admin listener: the engine again, with a snapshot of its own.

use std::sync::Arc;
use std::time::Duration;

use sluice_conn::ServerTimeouts;
use sluice_engine::{
    Action, Beginning, CallSettings, ConnectionLimits, ListenerPlan, Proof, Report, Route,
    RouteTable, Snapshot, TraceMethod, TrustedProxies,
};
use sluice_message::{AmbiguousHeaders, PathRules};
use sluice_meter::Meters;
use sluice_route::{BuildError, PathSpec, RouteSpec, Table};
use sluice_wire::h1::Limits;

use crate::estate::Place;

/// A page of the admin listener.
pub struct AdminPage {
    /// How it is asked; GET goes with HEAD.
    pub method: &'static str,
    /// Its path; segments in braces stand for any one.
    pub path: &'static str,
    /// What it says.
    pub report: Arc<dyn Report>,
}

/// The pages, compiled once; they stay while the address may change.
pub(crate) struct AdminSite {
    routes: Arc<RouteTable>,
    /// Its own, of one worker: requests of those who watch do not stir what they watch.
    pub(crate) meters: Arc<Meters>,
}

impl AdminSite {
    pub(crate) fn build(pages: Vec<AdminPage>) -> Result<Self, BuildError> {
        let meters = Meters::new(1);
        let specs = pages.iter().map(|page| RouteSpec {
            // Everything else is answered with 405.
            methods: vec![page.method.to_owned()],
            ..RouteSpec::new(match page.path.contains('{') {
                true => PathSpec::Template(page.path.to_owned()),
                false => PathSpec::Exact(page.path.to_owned()),
            })
        });
        let table = Table::build(specs.collect())?;
        let routes = pages.into_iter().map(|page| {
            Arc::new(Route {
                name: page.path.to_owned(),
                own_path_rules: None,
                body_limit: 0,
                proof: Proof::None,
                admission: None,
                calls: CallSettings::default(),
                mirror: None,
                filters: None,
                action: Action::Report(page.report),
                meter: meters.route(page.path),
            })
        });
        let routes = routes.collect();
        let unmatched = meters.route("");
        Ok(Self { routes: Arc::new(RouteTable { table, routes, unmatched }), meters })
    }

    /// What the admin worker serves at this place; nothing at no place.
    pub(crate) fn snapshot(&self, place: Option<&Place>) -> Arc<Snapshot> {
        let listeners = place.map(|place| Arc::new(self.listener(place)));
        Arc::new(Snapshot {
            generation: 0,
            listeners: listeners.into_iter().collect(),
            clusters: Vec::new(),
            trusted_proxies: TrustedProxies::default(),
            reserved: Vec::new(),
            cap: None,
            access: None,
        })
    }

    fn listener(&self, place: &Place) -> ListenerPlan {
        ListenerPlan {
            name: "admin".to_owned(),
            endpoint: place.binding.endpoint().clone(),
            binding: Arc::downgrade(&place.binding),
            limits: Limits { head: 32 << 10, fields: 100, target: 8 << 10 },
            path_rules: PathRules::DEFAULT,
            timeouts: ServerTimeouts {
                head: Duration::from_secs(10),
                idle: Duration::from_secs(60),
                body: Duration::from_secs(10),
                write: Duration::from_secs(30),
            },
            connections: ConnectionLimits { requests: u64::MAX, total: 256, per_client: u32::MAX },
            guard: Arc::clone(&place.guard),
            routes: Arc::clone(&self.routes),
            http2: None,
            beginning: Beginning::Any,
            ambiguous_headers: AmbiguousHeaders::Drop,
            trace: TraceMethod::Refuse,
            tls: None,
            proxy_protocol: None,
            service: None,
            meter: self.meters.listener("admin"),
        }
    }
}
