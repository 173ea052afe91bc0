//! The admin listener: the engine again, with a snapshot of its own.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sluice_conn::ServerTimeouts;
use sluice_engine::{
    Action, Beginning, CallSettings, ConnectionLimits, ListenerPlan, Proof, Report, ReportAnswer,
    Route, RouteTable, Snapshot, TraceMethod, TrustedProxies, WhenFull,
};
use sluice_filters::{Hosts, without_port};
use sluice_message::{AmbiguousHeaders, PathAction, PathRules, RequestHead};
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

/// The host names of the configuration.
#[derive(Default)]
struct AllowedHosts(RwLock<Hosts>);

impl AllowedHosts {
    /// Whether `Host` is one that a web page cannot make its own. By DNS rebinding a page of `evil.example` is of
    /// the same origin as whatever address that name is changed to; its requests have its name in `Host`. An
    /// address there, or the name of this machine to itself, comes from no such page. Programs that are no
    /// browsers may leave `Host` out, in HTTP/1.0.
    fn allows(&self, authority: &[u8]) -> bool {
        if authority.is_empty() {
            return true;
        }
        let Some(host) = without_port(authority) else { return false };
        let host = host.strip_suffix(b".").unwrap_or(host);
        let Ok(text) = std::str::from_utf8(host) else { return false };
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let address = text.parse::<Ipv4Addr>().is_ok()
            || inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
        // RFC 6761, 6.3: browsers resolve these to the loopback addresses by themselves.
        let name = text.to_ascii_lowercase();
        let local = name == "localhost" || name.ends_with(".localhost");
        let hosts = || self.0.read().unwrap_or_else(PoisonError::into_inner).matches(host);
        address || local || hosts()
    }
}

/// A page that is for the hosts it may be asked for.
struct Checked {
    page: Arc<dyn Report>,
    hosts: Arc<AllowedHosts>,
}

impl Report for Checked {
    fn report(&self, head: &RequestHead) -> ReportAnswer {
        if self.hosts.allows(head.authority()) {
            return self.page.report(head);
        }
        let text =
            "421 Misdirected Request: add this host to `hosts` in [admin] if it is one of yours\n";
        ReportAnswer { status: 421, content_type: "text/plain; charset=utf-8", body: text.into() }
    }
}

/// The page that has a listener of its own, if that is wanted.
const METRICS: &str = "/metrics";

impl AdminPage {
    fn checked(self, hosts: &Arc<AllowedHosts>) -> Self {
        let report = Arc::new(Checked { page: self.report, hosts: Arc::clone(hosts) });
        Self { report, ..self }
    }
}

fn route_table<'p>(
    pages: impl Iterator<Item = &'p AdminPage> + Clone,
    meters: &Meters,
) -> Result<Arc<RouteTable>, BuildError> {
    let specs = pages.clone().map(|page| RouteSpec {
        // Everything else is answered with 405.
        methods: vec![page.method.to_owned()],
        ..RouteSpec::new(match page.path.contains('{') {
            true => PathSpec::Template(page.path.to_owned()),
            false => PathSpec::Exact(page.path.to_owned()),
        })
    });
    let table = Table::build(specs.collect())?;
    let routes = pages.map(|page| {
        Arc::new(Route {
            name: page.path.to_owned(),
            own_path_rules: None,
            body_limit: 0,
            proof: Proof::None,
            admission: None,
            calls: CallSettings::default(),
            mirror: None,
            filters: None,
            action: Action::Report(Arc::clone(&page.report)),
            meter: meters.route(page.path),
        })
    });
    Ok(Arc::new(RouteTable { table, routes: routes.collect(), unmatched: meters.route("") }))
}

/// The pages, compiled once; they stay while the address may change.
pub(crate) struct AdminSite {
    routes: Arc<RouteTable>,
    /// Those of the listener for metrics alone.
    metrics_routes: Arc<RouteTable>,
    hosts: Arc<AllowedHosts>,
    /// Its own, of one worker: requests of those who watch do not stir what they watch.
    pub(crate) meters: Arc<Meters>,
}

impl AdminSite {
    pub(crate) fn build(pages: Vec<AdminPage>) -> Result<Self, BuildError> {
        let meters = Meters::new(1);
        let hosts = Arc::new(AllowedHosts::default());
        let pages: Vec<AdminPage> = pages.into_iter().map(|page| page.checked(&hosts)).collect();
        let metrics_routes =
            route_table(pages.iter().filter(|page| page.path == METRICS), &meters)?;
        let routes = route_table(pages.iter(), &meters)?;
        Ok(Self { routes, metrics_routes, hosts, meters })
    }

    /// From now on it is asked for these hosts, too.
    pub(crate) fn allow(&self, hosts: &[String]) {
        // They are checked where they are read.
        let hosts = Hosts::new(hosts.iter().map(String::as_str)).unwrap_or_default();
        *self.hosts.0.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    /// What the admin worker serves at these places, that of all pages and that of metrics alone; nothing at no place.
    pub(crate) fn snapshot(&self, admin: Option<&Place>, metrics: Option<&Place>) -> Arc<Snapshot> {
        let admin = admin.map(|place| self.listener(place, ("admin", &self.routes)));
        let metrics = metrics.map(|place| self.listener(place, ("metrics", &self.metrics_routes)));
        Arc::new(Snapshot {
            generation: 0,
            listeners: admin.into_iter().chain(metrics).map(Arc::new).collect(),
            clusters: Vec::new(),
            trusted_proxies: TrustedProxies::default(),
            reserved: Vec::new(),
            cap: None,
            access: None,
        })
    }

    fn listener(&self, place: &Place, (name, routes): (&str, &Arc<RouteTable>)) -> ListenerPlan {
        ListenerPlan {
            name: name.to_owned(),
            endpoint: place.binding.endpoint().clone(),
            binding: Arc::downgrade(&place.binding),
            limits: Limits { head: 32 << 10, fields: 100, target: 8 << 10 },
            // A segment may name the file of a socket.
            path_rules: PathRules { escaped_slashes: PathAction::Keep, ..PathRules::DEFAULT },
            timeouts: ServerTimeouts {
                head: Duration::from_secs(5),
                idle: Duration::from_secs(60),
                body: Duration::from_secs(10),
                write: Duration::from_secs(30),
            },
            connections: ConnectionLimits {
                requests: u64::MAX,
                total: 256,
                per_client: u32::MAX,
                // Nobody keeps those who look after the gateway out by holding connections.
                when_full: WhenFull::CloseIdle,
            },
            guard: Arc::clone(&place.guard),
            routes: Arc::clone(routes),
            http2: None,
            beginning: Beginning::Any,
            ambiguous_headers: AmbiguousHeaders::Drop,
            trace: TraceMethod::Refuse,
            tls: None,
            proxy_protocol: None,
            service: None,
            meter: self.meters.listener(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{PoisonError, RwLock};

    use sluice_filters::Hosts;

    use super::AllowedHosts;

    #[test]
    fn names_that_others_can_point_here_are_refused() {
        let hosts = Hosts::new(["admin.example", "*.pods.example"]).unwrap();
        let allowed = AllowedHosts(RwLock::new(hosts));
        assert!(allowed.0.read().unwrap_or_else(PoisonError::into_inner).matches(b"admin.example"));
        for good in [
            "",
            "localhost",
            "LOCALHOST:9180",
            "localhost.",
            "a.localhost",
            "127.0.0.1:9180",
            "10.1.2.3",
            "[::1]:9180",
            "[fd00::1]",
            "admin.example:9180",
            "Admin.Example",
            "a.pods.example",
        ] {
            assert!(allowed.allows(good.as_bytes()), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:9180",
            "localhost.evil.example",
            "notlocalhost",
            "pods.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:",
            "1.2.3",
            "[::1",
            "::1",
            "[evil]",
            "localhost:x",
        ] {
            // An empty port is none (RFC 3986, 3.2.3).
            assert_eq!(allowed.allows(bad.as_bytes()), bad == "127.0.0.1:", "{bad}");
        }
    }
}
