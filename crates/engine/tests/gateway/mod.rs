//! A worker in front of an origin, with filters of the test's own.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use sluice_conn::ServerTimeouts;
use sluice_engine::{
    Action, Answer, Beginning, CallSettings, ConnectionGuard, ConnectionLimits, ListenerPlan,
    Order, Proof, Route, RouteFilters, RouteTable, Snapshot, WhenFull, WorkerParts, run_worker,
    team,
};
use sluice_filter::{Chain, Link};
use sluice_meter::{Meters, ProcessFacts};
use sluice_net::{Binding, Endpoint, LogCounts, LogTarget, LogWriter, Post, mailbox, run};
use sluice_route::{PathSpec, RouteSpec, Table};
use sluice_testkit::{Origin, Scratch};
use sluice_upstream::{
    BalanceRule, BreakerRule, ClusterPlan, ClusterSettings, ClusterState, HealthSettings, Layout,
    Protocol, QueueRule, RetryPolicy, Role, ServerPlan,
};
use sluice_wire::h1::Limits;

/// Long enough for everything.
const LIMIT: Duration = Duration::from_secs(30);

/// A worker on a thread of its own.
pub struct Gateway {
    /// `127.0.0.1:38000`
    pub address: String,
    meters: Arc<Meters>,
    log: LogWriter,
    scratch: Scratch,
    /// The worker ends without it.
    _post: Post<Order>,
}

impl Gateway {
    /// With a route that answers itself, `/direct`, and one to the origin, `/proxied`, both behind these filters.
    pub fn start(origin: &Origin, links: impl Fn() -> Vec<Link>) -> Self {
        let binding = Binding::bind(&Endpoint::Tcp("127.0.0.1:0".parse().unwrap()), 1).unwrap();
        let address = binding.endpoint().to_string();
        let binding = Arc::new(binding);
        let scratch = Scratch::new();
        let target = LogTarget::File(scratch.path().join("log"));
        let log = LogWriter::start(target, Arc::new(LogCounts::default())).unwrap();
        let meters = Meters::new(1);
        let clusters = vec![cluster(origin.address(), &meters)];
        let filters = || {
            let chain = Chain::new(&links()).unwrap();
            Some(RouteFilters { chain, captures: None })
        };
        let answer = Answer::new(200, [("content-type", "text/plain")], b"direct".to_vec());
        let routes = vec![
            route("direct", Action::Respond(answer.unwrap()), filters(), &meters),
            route("proxied", Action::Proxy(0), filters(), &meters),
        ];
        let listener = listener(routes, &binding, &meters);
        let listeners = vec![Arc::new(listener)];
        let snapshot = Arc::new(Snapshot { listeners, clusters, ..Snapshot::empty() });
        let (post, orders) = mailbox();
        let team = team(1).pop().unwrap();
        let (meters_of_worker, fault_log) = (Arc::clone(&meters), log.clone());
        post.send(Order::Apply(snapshot, channel().0));
        std::thread::spawn(move || {
            // Listens as long as it is there.
            let _binding = binding;
            let parts = WorkerParts { index: 0, meters: meters_of_worker, fault_log, orders, team };
            run(run_worker(parts)).unwrap();
        });
        Self { address, meters, log, scratch, _post: post }
    }

    /// The value of a sample of the metrics page, labels included in its name; 0 if it is not there.
    pub fn metric(&self, sample: &str) -> u64 {
        let mut page = String::new();
        self.meters.render(&ProcessFacts::default(), &mut page);
        let found = page.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok());
        found.unwrap_or(0)
    }

    /// What was logged so far.
    pub fn log(&self) -> String {
        self.log.flush();
        std::fs::read_to_string(self.scratch.path().join("log")).unwrap()
    }
}

fn route(name: &str, action: Action, filters: Option<RouteFilters>, meters: &Meters) -> Arc<Route> {
    Arc::new(Route {
        mirror: None,
        filters,
        name: name.into(),
        body_limit: 1 << 20,
        own_path_rules: None,
        proof: Proof::None,
        admission: None,
        calls: CallSettings::default(),
        action,
        meter: meters.route(name),
    })
}

fn listener(routes: Vec<Arc<Route>>, binding: &Arc<Binding>, meters: &Meters) -> ListenerPlan {
    let specs = routes.iter().map(|route| {
        let path = format!("/{}", route.name);
        RouteSpec::new(PathSpec::Exact(path.as_str().into()))
    });
    let table = Table::build(specs.collect()).unwrap();
    ListenerPlan {
        name: "web".into(),
        endpoint: binding.endpoint().clone(),
        binding: Arc::downgrade(binding),
        limits: Limits { head: 32 * 1024, fields: 100, target: 8 * 1024 },
        path_rules: sluice_message::PathRules::DEFAULT,
        timeouts: ServerTimeouts { head: LIMIT, idle: LIMIT, body: LIMIT, write: LIMIT },
        connections: ConnectionLimits {
            requests: u64::MAX,
            total: 100,
            per_client: u32::MAX,
            when_full: WhenFull::Refuse,
        },
        guard: Arc::new(ConnectionGuard::new()),
        routes: Arc::new(RouteTable { table, routes, unmatched: meters.route("none") }),
        http2: Some(sluice_wire::h2::Config::default()),
        beginning: Beginning::Any,
        ambiguous_headers: sluice_message::AmbiguousHeaders::Drop,
        trace: sluice_engine::TraceMethod::Refuse,
        tls: None,
        proxy_protocol: None,
        service: None,
        meter: meters.listener("web"),
    }
}

/// A cluster of one server.
fn cluster(server: &str, meters: &Meters) -> Arc<ClusterPlan> {
    let settings = ClusterSettings {
        idle_connections: 2,
        idle_timeout: LIMIT,
        connect_timeout: LIMIT,
        read_timeout: LIMIT,
        write_timeout: LIMIT,
        tunnel_timeout: LIMIT,
        tunnel_lifetime: None,
        balance: BalanceRule::RoundRobin,
        sticky: None,
        slow_start: None,
        queue: QueueRule { places: 0, wait: LIMIT },
        retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
        health: HealthSettings::default(),
        breaker: BreakerRule::default(),
        proxy_protocol: None,
        host: None,
    };
    let endpoint = Endpoint::Tcp(server.parse().unwrap());
    let state = Arc::<ClusterState>::default();
    let meter = meters.server("api", server);
    let server = ServerPlan {
        state: state.server(&endpoint, &meter),
        endpoint,
        weight: 1,
        role: Role::Primary,
        tls: None,
        protocol: Protocol::Http1,
        limit: None,
        meter,
    };
    let servers = vec![server];
    Arc::new(ClusterPlan {
        name: "api".into(),
        layout: Layout::new(&settings, &servers),
        settings,
        servers,
        state,
        meter: meters.upstream("api"),
    })
}
