//! What runs: compiled, immutable, shared by all workers.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ipnet::IpNet;
use sluice_conn::ServerTimeouts;
use sluice_filter::{Chain, Filter, Service};
use sluice_message::{AmbiguousHeaders, PathOverrides, PathRules, RequestHead};
use sluice_meter::{AccessFormat, ListenerMeter, PerWorker, RouteMeter};
use sluice_net::tls::TlsServer;
use sluice_net::{Binding, Endpoint, LogWriter};
use sluice_route::{Captures, Table};
use sluice_upstream::ClusterPlan;
use sluice_wire::h1::Limits;

use crate::guard::{ConnectionGuard, ConnectionLimits};
use crate::{Admission, Answer, CertificateFields, ConnectionCap, SecretParameters};

/// Everything a worker needs to know of the configuration.
pub struct Snapshot {
    /// Counts up with each reload, for messages.
    pub generation: u64,
    /// Where connections come in.
    pub listeners: Vec<Arc<ListenerPlan>>,
    /// Where requests go; routes name them by index.
    pub clusters: Vec<Arc<ClusterPlan>>,
    /// Peers whose forwarding fields are believed.
    pub trusted_proxies: TrustedProxies,
    /// Names of fields that tell origins of clients' certificates: nobody else may use them.
    pub reserved: Vec<String>,
    /// How many connections there may be while memory is short; `None` where that does not matter.
    pub cap: Option<Arc<ConnectionCap>>,
    /// Log of requests.
    pub access: Option<AccessLog>,
}

impl Snapshot {
    /// Connections open at all listeners.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.listeners.iter().map(|plan| plan.guard.total()).fold(0, u32::saturating_add)
    }

    /// Whether memory is short and there are as many connections as there may be.
    pub(crate) fn is_full(&self) -> bool {
        let cap = self.cap.as_ref().and_then(|cap| cap.get());
        // They are counted only when it matters.
        cap.is_some_and(|cap| self.connections() >= cap)
    }

    /// Nothing to serve: what a worker starts with.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            generation: 0,
            listeners: Vec::new(),
            clusters: Vec::new(),
            trusted_proxies: TrustedProxies::default(),
            reserved: Vec::new(),
            cap: None,
            access: None,
        }
    }
}

/// How and where requests are logged.
#[derive(Clone)]
pub struct AccessLog {
    /// One line per request in this form.
    pub format: Arc<AccessFormat>,
    /// The thread that writes them.
    pub writer: LogWriter,
    /// What does not show in them.
    pub secrets: Arc<SecretParameters>,
}

/// One listening address.
#[derive(Clone)]
pub struct ListenerPlan {
    /// Name in the configuration.
    pub name: String,
    /// Where it listens, with the real port.
    pub endpoint: Endpoint,
    /// The bound sockets; the same object as before a reload if the address stayed. Requests that are
    /// still running remember their listener: that must not keep its sockets open.
    pub binding: Weak<Binding>,
    /// Limits of size for request heads.
    pub limits: Limits,
    /// How paths are read.
    pub path_rules: PathRules,
    /// Limits of time.
    pub timeouts: ServerTimeouts,
    /// Limits of number.
    pub connections: ConnectionLimits,
    /// Who is connected; outlives reloads.
    pub guard: Arc<ConnectionGuard>,
    /// Routes that may be taken from here.
    pub routes: Arc<RouteTable>,
    /// How connections carry many requests at once; absent where they do not.
    pub http2: Option<sluice_wire::h2::Config>,
    /// What connections may begin with.
    pub beginning: Beginning,
    /// What becomes of headers whose names servers may take for other ones.
    pub ambiguous_headers: AmbiguousHeaders,
    /// What becomes of requests with the method TRACE.
    pub trace: TraceMethod,
    /// How connections are encrypted; absent where they are not.
    pub tls: Option<ListenerTls>,
    /// Who says in front of a connection for whom it is; absent where nobody does.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// What speaks with clients instead of HTTP, where something does.
    pub service: Option<Arc<dyn Service>>,
    /// Counters.
    pub meter: Arc<PerWorker<ListenerMeter>>,
}

/// What becomes of requests with the method TRACE (RFC 9110, 9.3.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMethod {
    /// They are answered with 405.
    #[default]
    Refuse,
    /// They are routed like others.
    Allow,
}

/// What a connection may begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// A request, or what connections of many requests begin with.
    Any,
    /// That alone.
    Shared,
}

impl ListenerPlan {
    /// Value of `Strict-Transport-Security`, where it is sent.
    pub(crate) fn strict_transport(&self) -> Option<&'static str> {
        self.tls.as_ref().and_then(|tls| tls.hsts)
    }
}

/// Who says in front of a connection for whom it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Peers that have to; nobody else may.
    pub from: TrustedProxies,
    /// How long they may take.
    pub timeout: Duration,
}

/// How connections of a listener are encrypted.
#[derive(Clone, Debug)]
pub struct ListenerTls {
    /// Shakes hands with clients.
    pub server: TlsServer,
    /// How long that may take.
    pub timeout: Duration,
    /// Value of `Strict-Transport-Security` (RFC 6797, 6.1), where it is sent.
    pub hsts: Option<&'static str>,
    /// What origins are told of certificates of clients.
    pub fields: CertificateFields,
}

/// Compiled routes and what they lead to.
pub struct RouteTable {
    /// From a request to an index.
    pub table: Table,
    /// What is there.
    pub routes: Vec<Arc<Route>>,
    /// Counters of requests that no route takes.
    pub unmatched: Arc<PerWorker<RouteMeter>>,
}

/// One route.
pub struct Route {
    /// Name in the configuration, for log and metrics.
    pub name: String,
    /// What the route says itself about paths; most routes say nothing.
    pub own_path_rules: Option<PathOverrides>,
    /// Largest content of a request, in bytes.
    pub body_limit: u64,
    /// What clients have to have shown.
    pub proof: Proof,
    /// Limits on how many requests are under way; most routes have none.
    pub admission: Option<Admission>,
    /// What holds for requests that are calls.
    pub calls: CallSettings,
    /// What answers.
    pub action: Action,
    /// Who gets copies of the requests.
    pub mirror: Option<Mirror>,
    /// What looks at requests and answers on their way; most routes have none.
    pub filters: Option<RouteFilters>,
    /// Counters.
    pub meter: Arc<PerWorker<RouteMeter>>,
}

impl Route {
    /// How paths are read on this route, at a listener with these rules.
    pub(crate) fn path_rules(&self, listener: PathRules) -> PathRules {
        self.own_path_rules.as_ref().map_or(listener, |own| listener.with(own))
    }

    /// The same route with other filters.
    #[must_use]
    pub fn with_filters(&self, filters: Option<RouteFilters>) -> Self {
        Self {
            name: self.name.clone(),
            own_path_rules: self.own_path_rules,
            body_limit: self.body_limit,
            proof: self.proof,
            admission: self.admission.clone(),
            calls: self.calls,
            action: self.action.clone(),
            mirror: self.mirror,
            filters,
            meter: Arc::clone(&self.meter),
        }
    }
}

/// The filters of a route.
#[derive(Debug)]
pub struct RouteFilters {
    /// In the order of the configuration.
    pub chain: Chain,
    /// What the path of the route has names for.
    pub captures: Option<Captures>,
}

/// What clients have to have shown of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// Nothing.
    #[default]
    None,
    /// A certificate, when the connection was encrypted.
    Certificate,
}

/// Copies of a route's requests, for another upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Who gets them; index into [`Snapshot::clusters`].
    pub cluster: usize,
    /// Share of the requests that are copied, in millionths.
    pub share: u32,
    /// Requests with more content, in bytes, are not copied.
    pub body_limit: u64,
    /// Copies under way, by each worker to each upstream, beyond which there are no more.
    pub at_once: usize,
}

/// What holds for the calls of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSettings {
    /// The longest a call may take, whatever its client says.
    pub most: Option<Duration>,
    /// What becomes of calls that browsers make.
    pub web: WebCalls,
}

/// What becomes of calls in the form for browsers (gRPC-Web).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebCalls {
    /// They are passed on as they are.
    #[default]
    Passed,
    /// Origins get plain ones.
    Translated,
}

/// What answers a request.
#[derive(Clone)]
pub enum Action {
    /// Always the same.
    Respond(Answer),
    /// Another place. Asked as [`Action::Handle`] is; apart from that, since nobody takes its answer for a tunnel.
    Redirect(Arc<dyn Filter>),
    /// An origin; index into [`Snapshot::clusters`].
    Proxy(usize),
    /// The gateway, about itself.
    Report(Arc<dyn Report>),
    /// Something that is asked as a filter is when it sees the head of a request, and that has to answer. Its
    /// other phases are not gone through. The route has [`RouteFilters`], be their chain empty.
    Handle(Arc<dyn Filter>),
}

/// Something the gateway tells about itself. It is asked on a worker's thread, so it only reads what
/// is at hand.
pub trait Report: Send + Sync {
    /// The answer to this request.
    fn report(&self, head: &RequestHead) -> ReportAnswer;
}

/// What a [`Report`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAnswer {
    /// Status code.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Content.
    pub body: Vec<u8>,
}

/// Peers whose word about the client is believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// These networks.
    #[must_use]
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Whether nobody is trusted: the usual case, decided without looking at the peer.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `peer` is believed.
    #[must_use]
    pub fn contains(&self, peer: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&peer))
    }
}

/// Idle time after which a worker looks through its pools.
pub(crate) const SWEEP: Duration = Duration::from_secs(1);
