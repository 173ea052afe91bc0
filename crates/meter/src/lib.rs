//! Counters, histograms and access-log lines: kept per worker, summed when somebody asks.
//!
//! No clock, file or socket is touched here: times are arguments, text is appended to buffers.

mod access;
mod cache;
mod concurrency;
mod counter;
mod custom;
mod date;
mod decimal;
mod fault;
mod filter;
mod grpc;
mod histogram;
mod listener;
mod log_text;
mod meters;
mod metric;
mod per_worker;
mod render;
mod route;
mod upstream;
mod variant;
mod worker;

pub use access::{
    AccessFormat, AccessRecord, ClientRecord, TemplateError, TemplateProblem, TlsRecord, VARIABLES,
};
pub use cache::{CacheReading, CacheSource, DiskReading, PurgeTarget, Thoroughness};
pub use concurrency::{ConcurrencyReading, ConcurrencySource};
pub use counter::{Counter, Gauge, Level, Tally};
pub use custom::{CustomFamily, CustomKind, CustomProblem, CustomSeries, CustomShape, MOST_SERIES};
pub use date::{http_date, push_iso_date};
pub use fault::{FaultMeter, ReasonCounters};
pub use filter::{FilterMeter, MOST_OUTCOMES};
pub use grpc::GrpcCounters;
pub use histogram::Histogram;
pub use listener::{
    HANDSHAKE_REASONS, HTTP2_REASONS, HandshakeMeter, Http2Meter, ListenerMeter, TLS_VERSIONS,
};
pub use log_text::{push_log_line, push_log_report};
pub use meters::{Meters, Name, ShownCertificate};
pub use metric::reference;
pub use per_worker::PerWorker;
pub use render::ProcessFacts;
pub use route::{ClassCounters, RouteMeter};
pub use upstream::{RefusalCounters, ServerMeter, TunnelMeter, TunnelMeters, UpstreamMeter};
pub use variant::{MOST_VARIANTS, VariantEnd, VariantMeter, VariantTotals};
pub use worker::WorkerMeter;
