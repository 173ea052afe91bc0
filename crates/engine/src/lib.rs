//! One exchange: route, action, upstream, retry, answer, log.
//!
//! A [`Snapshot`] is what the configuration became: immutable, shared by all workers, replaced as a
//! whole. A worker ([`run_worker`]) accepts connections and runs exchanges; a request keeps the
//! snapshot it began with.

mod accept;
mod access;
mod activity;
mod adaptive;
mod admission;
mod answer;
mod beside;
mod burst;
mod connection;
mod coroutine;
mod credentials;
mod desk;
mod errand;
mod exchange;
mod fault_log;
mod fetch;
mod forward;
mod guard;
mod guarded;
mod handshake;
mod lent;
mod listener;
mod local;
mod opening;
mod pace;
mod patience;
mod presence;
mod proxy;
mod proxy_header;
mod secret_parameters;
mod serve;
mod shed;
mod snapshot;
mod spare;
mod streams;
mod team;
mod waiting;
mod worker;

pub use adaptive::AdaptiveSettings;
pub use admission::{Admission, Limit, LimitKind, LimitSettings, Limiter};
pub use answer::Answer;
pub use credentials::CertificateFields;
pub use guard::{ConnectionGuard, ConnectionLimits, WhenFull};
pub use secret_parameters::SecretParameters;
pub use shed::ConnectionCap;
pub use snapshot::{
    AccessLog, Action, Beginning, CallSettings, ListenerPlan, ListenerTls, Mirror, Proof,
    ProxyProtocol, Report, ReportAnswer, Route, RouteFilters, RouteTable, Snapshot, TraceMethod,
    TrustedProxies, WebCalls,
};
pub use team::{Inbox, Member, team};
pub use worker::{Drained, Order, WorkerParts, run_worker};
