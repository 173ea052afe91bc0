//! The metrics page in the Prometheus text format, version 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::GrpcStatus;

use crate::fault::{SIDES, kinds};
use crate::histogram::{BOUNDS, BUCKETS};
use crate::meters::locked;
use crate::metric::{self, Metric};
use crate::route::CLASSES;
use crate::{
    CacheReading, ClassCounters, ConcurrencyReading, Counter, DiskReading, GrpcCounters,
    HANDSHAKE_REASONS, HTTP2_REASONS, HandshakeMeter, Histogram, ListenerMeter, Meters, PerWorker,
    RouteMeter, ServerMeter, ShownCertificate, TLS_VERSIONS, TunnelMeter, UpstreamMeter,
    VariantMeter, VariantTotals, WorkerMeter,
};

/// What only the caller can read: facts about the process. What is `None` is left out of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Version of the program.
    pub version: &'static str,
    /// Start of the process, since 1970.
    pub start: Duration,
    /// User and system CPU time.
    pub cpu: Option<Duration>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// Limit of open file descriptors.
    pub max_fds: Option<u64>,
}

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

impl Meters {
    /// Appends the metrics page to `out`, to be sent as `text/plain; version=0.0.4`.
    pub fn render(&self, process: &ProcessFacts, out: &mut String) {
        let mut page = Page { out };
        page.family(&metric::BUILD_INFO);
        page.sample(metric::BUILD_INFO.name, &[("version", process.version)], 1);
        page.family(&metric::WORKERS);
        page.sample(metric::WORKERS.name, &[], self.workers().max(1));
        self.render_workers(&mut page);
        self.render_listeners(&mut page);
        self.render_http2(&mut page);
        self.render_certificates(&mut page);
        self.render_routes(&mut page);
        self.render_filters(&mut page);
        self.render_limits(&mut page);
        self.render_upstreams(&mut page);
        self.render_servers(&mut page);
        self.render_faults(&mut page);
        self.render_tallies(&mut page);
        render_process(process, &mut page);
    }

    fn render_workers(&self, page: &mut Page<'_>) {
        let mut each = |metric: &Metric, read: &dyn Fn(&WorkerMeter) -> i128| {
            page.family(metric);
            for (number, meter) in self.threads().iter().enumerate() {
                page.sample(metric.name, &[("worker", &number.to_string())], read(meter));
            }
        };
        each(&metric::WORKER_CONNECTIONS, &|meter| meter.connections.value().into());
        each(&metric::WORKER_BUSY, &|meter| meter.busy.value().into());
        each(&metric::WORKER_HANDED_OVER, &|meter| meter.handed_over.value().into());
    }

    fn render_listeners(&self, page: &mut Page<'_>) {
        let listeners = locked(&self.listeners);
        let counter = |page: &mut Page<'_>, metric: &Metric, read: fn(&ListenerMeter) -> u64| {
            page.family(metric);
            for (name, meter) in listeners.iter() {
                page.sample(metric.name, &[("listener", name)], meter.sum(read));
            }
        };
        counter(page, &metric::LISTENER_ACCEPTED, |meter| meter.accepted.value());
        page.family(&metric::LISTENER_CONNECTIONS);
        for (name, meter) in listeners.iter() {
            let active = meter.balance(|meter| meter.active.value());
            page.sample(metric::LISTENER_CONNECTIONS.name, &[("listener", name)], active);
        }
        page.family(&metric::LISTENER_REJECTED);
        for (name, meter) in listeners.iter() {
            let limits = [
                ("listener", meter.sum(|meter| meter.rejected_listener_limit.value())),
                ("client", meter.sum(|meter| meter.rejected_client_limit.value())),
                ("memory", meter.sum(|meter| meter.rejected_memory.value())),
            ];
            for (limit, count) in limits {
                let labels = [("listener", name.as_str()), ("limit", limit)];
                page.sample(metric::LISTENER_REJECTED.name, &labels, count);
            }
        }
        counter(page, &metric::LISTENER_REQUESTS, |meter| meter.requests.value());
        page.family(&metric::LISTENER_HANDSHAKES);
        for (name, meter) in listeners.iter() {
            for (at, version) in TLS_VERSIONS.into_iter().enumerate() {
                let count = |of: fn(&HandshakeMeter) -> &[Counter; 2]| {
                    meter.sum(|meter| of(&meter.handshakes).get(at).map_or(0, Counter::value))
                };
                let counts = [("no", count(|it| &it.full)), ("yes", count(|it| &it.resumed))];
                for (resumed, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                    let labels =
                        [("listener", name.as_str()), ("version", version), ("resumed", resumed)];
                    page.sample(metric::LISTENER_HANDSHAKES.name, &labels, count);
                }
            }
        }
        page.family(&metric::LISTENER_HANDSHAKE_FAILURES);
        for (name, meter) in listeners.iter() {
            for (at, reason) in HANDSHAKE_REASONS.into_iter().enumerate() {
                let count =
                    meter.sum(|meter| meter.handshakes.failed.get(at).map_or(0, Counter::value));
                if count > 0 {
                    let labels = [("listener", name.as_str()), ("reason", reason)];
                    page.sample(metric::LISTENER_HANDSHAKE_FAILURES.name, &labels, count);
                }
            }
        }
    }

    fn render_http2(&self, page: &mut Page<'_>) {
        page.family(&metric::LISTENER_HTTP2_ERRORS);
        for (name, meter) in locked(&self.listeners).iter() {
            for (at, reason) in HTTP2_REASONS.into_iter().enumerate() {
                let count = meter.sum(|meter| meter.http2.errors.get(at).map_or(0, Counter::value));
                if count > 0 {
                    let labels = [("listener", name.as_str()), ("reason", reason)];
                    page.sample(metric::LISTENER_HTTP2_ERRORS.name, &labels, count);
                }
            }
        }
    }

    fn render_certificates(&self, page: &mut Page<'_>) {
        page.family(&metric::CERTIFICATE_EXPIRY);
        for ShownCertificate { listener, name, fingerprint, expiry } in
            locked(&self.certificates).iter()
        {
            let labels = [
                ("listener", listener.as_str()),
                ("name", name.as_str()),
                ("fingerprint", fingerprint.as_str()),
            ];
            page.sample(metric::CERTIFICATE_EXPIRY.name, &labels, expiry.as_secs());
        }
    }

    fn render_routes(&self, page: &mut Page<'_>) {
        let routes = locked(&self.routes);
        let total = |meter: &PerWorker<RouteMeter>| meter.sum(|meter| meter.responses.total());
        page.family(&metric::ROUTE_REQUESTS);
        for (name, meter) in routes.iter() {
            page.sample(metric::ROUTE_REQUESTS.name, &[("route", name)], total(meter));
        }
        // Ten thousand idle routes with all their series would make a page of megabytes.
        let busy: Vec<_> = routes.iter().filter(|(_, meter)| total(meter) > 0).collect();
        page.family(&metric::ROUTE_RESPONSES);
        for (name, meter) in &busy {
            let label = ("route", name.as_str());
            page.classes(metric::ROUTE_RESPONSES.name, label, meter, |meter| &meter.responses);
        }
        page.family(&metric::ROUTE_GRPC);
        for (name, meter) in &busy {
            let label = ("route", name.as_str());
            page.calls(metric::ROUTE_GRPC.name, label, meter, |meter| &meter.calls);
        }
        page.family(&metric::ROUTE_DURATION);
        for (name, meter) in &busy {
            let label = ("route", name.as_str());
            page.histogram(metric::ROUTE_DURATION.name, &[label], meter, |meter| &meter.duration);
        }
        page.family(&metric::ROUTE_RECEIVED);
        for (name, meter) in &busy {
            let bytes = meter.sum(|meter| meter.received_bytes.value());
            page.sample(metric::ROUTE_RECEIVED.name, &[("route", name)], bytes);
        }
        page.family(&metric::ROUTE_SENT);
        for (name, meter) in &busy {
            let bytes = meter.sum(|meter| meter.sent_bytes.value());
            page.sample(metric::ROUTE_SENT.name, &[("route", name)], bytes);
        }
        type Read = fn(&RouteMeter) -> u64;
        let copies: [(&Metric, Read); 3] = [
            (&metric::ROUTE_MIRRORED, |meter| meter.mirrored.value()),
            (&metric::ROUTE_MIRROR_SKIPPED, |meter| meter.mirror_skipped.value()),
            (&metric::ROUTE_MIRROR_FAILURES, |meter| meter.mirror_failures.value()),
        ];
        for (metric, read) in copies {
            page.family(metric);
            let copied = |meter: &RouteMeter| meter.mirror_candidates.value();
            for (name, meter) in routes.iter().filter(|(_, meter)| meter.sum(copied) > 0) {
                page.sample(metric.name, &[("route", name)], meter.sum(read));
            }
        }
    }

    fn render_filters(&self, page: &mut Page<'_>) {
        let filters = locked(&self.filters);
        page.family(&metric::FILTER_OUTCOMES);
        for (name, meter) in filters.iter() {
            for (outcome, count) in meter.outcomes().filter(|(_, count)| *count > 0) {
                let labels = [("filter", name.as_str()), ("outcome", outcome)];
                page.sample(metric::FILTER_OUTCOMES.name, &labels, count);
            }
        }
        page.family(&metric::FILTER_WAIT);
        for (name, meter) in filters.iter() {
            let (counts, waits) = meter.waits();
            page.histogram(metric::FILTER_WAIT.name, &[("filter", name)], counts, waits);
        }
        let caches = filters.iter().filter_map(|(name, meter)| {
            meter.known_caches().map(|reading| (name.as_str(), reading))
        });
        render_caches(page, &caches.collect::<Vec<_>>());
        let all = filters.values().flat_map(|meter| meter.caches());
        let disks = all.filter_map(|cache| cache.disk());
        render_disks(page, &disks.map(|disk| (disk.folder.clone(), disk)).collect());
        let variants = filters.iter().filter_map(|(name, meter)| {
            meter.known_variants().map(|variants| (name.as_str(), variants))
        });
        render_variants(page, &variants.collect::<Vec<_>>());
    }

    fn render_limits(&self, page: &mut Page<'_>) {
        let limits = locked(&self.limits);
        let readings: Vec<(&str, ConcurrencyReading)> =
            limits.iter().map(|(name, limit)| (name.as_str(), limit.reading())).collect();
        let gauge = |page: &mut Page<'_>, metric: &Metric, read: fn(&ConcurrencyReading) -> u32| {
            page.family(metric);
            for (name, reading) in &readings {
                page.sample(metric.name, &[("route", name)], read(reading));
            }
        };
        gauge(page, &metric::CONCURRENCY_LIMIT, |reading| reading.limit);
        gauge(page, &metric::CONCURRENCY_ACTIVE, |reading| reading.active);
        gauge(page, &metric::CONCURRENCY_WAITING, |reading| reading.waiting);
        page.family(&metric::CONCURRENCY_REFUSED);
        for (name, reading) in &readings {
            let reasons = [("full", reading.refused_full), ("timed_out", reading.refused_late)];
            for (reason, count) in reasons {
                let labels = [("route", *name), ("reason", reason)];
                page.sample(metric::CONCURRENCY_REFUSED.name, &labels, count);
            }
        }
    }

    fn render_upstreams(&self, page: &mut Page<'_>) {
        let upstreams = locked(&self.upstreams);
        let counter = |page: &mut Page<'_>, metric: &Metric, read: fn(&UpstreamMeter) -> u64| {
            page.family(metric);
            for (name, meter) in upstreams.iter() {
                page.sample(metric.name, &[("upstream", name)], meter.sum(read));
            }
        };
        let gauge = |page: &mut Page<'_>, metric: &Metric, read: fn(&UpstreamMeter) -> i64| {
            page.family(metric);
            for (name, meter) in upstreams.iter() {
                page.sample(metric.name, &[("upstream", name)], meter.balance(read));
            }
        };
        counter(page, &metric::UPSTREAM_REQUESTS, |meter| meter.requests.value());
        counter(page, &metric::UPSTREAM_RETRIES, |meter| meter.retries.value());
        counter(page, &metric::UPSTREAM_RETRIES_REFUSED, |meter| meter.retries_refused.value());
        counter(page, &metric::UPSTREAM_HEDGES, |meter| meter.hedges.value());
        counter(page, &metric::UPSTREAM_HEDGES_WON, |meter| meter.hedges_won.value());
        counter(page, &metric::UPSTREAM_CONNECTS, |meter| meter.connects.value());
        counter(page, &metric::UPSTREAM_CONNECT_FAILURES, |meter| meter.connect_failures.value());
        counter(page, &metric::UPSTREAM_REUSES, |meter| meter.reuses.value());
        page.family(&metric::UPSTREAM_FAILURES);
        for (name, meter) in upstreams.iter() {
            for kind in kinds() {
                let count = meter.sum(|meter| meter.failures.value(kind));
                let labels = [("upstream", name.as_str()), ("reason", kind.reason())];
                if count > 0 {
                    page.sample(metric::UPSTREAM_FAILURES.name, &labels, count);
                }
            }
        }
        page.family(&metric::UPSTREAM_RESPONSES);
        for (name, meter) in upstreams.iter() {
            let label = ("upstream", name.as_str());
            page.classes(metric::UPSTREAM_RESPONSES.name, label, meter, |meter| &meter.responses);
        }
        page.family(&metric::UPSTREAM_GRPC);
        for (name, meter) in upstreams.iter() {
            let label = ("upstream", name.as_str());
            page.calls(metric::UPSTREAM_GRPC.name, label, meter, |meter| &meter.calls);
        }
        page.family(&metric::UPSTREAM_DURATION);
        for (name, meter) in upstreams.iter() {
            let label = ("upstream", name.as_str());
            page.histogram(metric::UPSTREAM_DURATION.name, &[label], meter, |meter| {
                &meter.duration
            });
        }
        gauge(page, &metric::UPSTREAM_ACTIVE, |meter| meter.active.value());
        gauge(page, &metric::UPSTREAM_WAITING, |meter| meter.waiting.value());
        gauge(page, &metric::UPSTREAM_IDLE, |meter| meter.idle.value());
        render_tunnels(page, &upstreams);
        page.family(&metric::UPSTREAM_REFUSED);
        for (name, meter) in upstreams.iter() {
            let limits = [
                ("connections", meter.sum(|meter| meter.refused.connections.value())),
                ("pending", meter.sum(|meter| meter.refused.pending.value())),
                ("requests", meter.sum(|meter| meter.refused.requests.value())),
                ("retries", meter.sum(|meter| meter.refused.retries.value())),
            ];
            for (limit, count) in limits.into_iter().filter(|(_, count)| *count > 0) {
                let labels = [("upstream", name.as_str()), ("limit", limit)];
                page.sample(metric::UPSTREAM_REFUSED.name, &labels, count);
            }
        }
        gauge(page, &metric::UPSTREAM_PANIC, |meter| meter.panic.value());
        counter(page, &metric::UPSTREAM_RECEIVED, |meter| meter.received_bytes.value());
        counter(page, &metric::UPSTREAM_SENT, |meter| meter.sent_bytes.value());
    }

    fn render_servers(&self, page: &mut Page<'_>) {
        let servers = locked(&self.servers);
        let counter = |page: &mut Page<'_>, metric: &Metric, read: fn(&ServerMeter) -> u64| {
            page.family(metric);
            for ((upstream, server), meter) in servers.iter() {
                let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
                page.sample(metric.name, &labels, meter.sum(read));
            }
        };
        counter(page, &metric::SERVER_REQUESTS, |meter| meter.requests.value());
        counter(page, &metric::SERVER_FAILURES, |meter| meter.failures.value());
        page.family(&metric::SERVER_ACTIVE);
        for ((upstream, server), meter) in servers.iter() {
            let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
            let active = meter.balance(|meter| meter.active.value());
            page.sample(metric::SERVER_ACTIVE.name, &labels, active);
        }
        page.family(&metric::SERVER_AVAILABLE);
        for ((upstream, server), meter) in servers.iter() {
            let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
            let available = i64::from(meter.balance(|meter| meter.bars.value()) == 0);
            page.sample(metric::SERVER_AVAILABLE.name, &labels, available);
        }
        // Most servers are not watched: their series would say nothing.
        let rare = |page: &mut Page<'_>,
                    metric: &Metric,
                    appears: fn(&ServerMeter) -> u64,
                    read: fn(&ServerMeter) -> u64| {
            page.family(metric);
            for ((upstream, server), meter) in servers.iter() {
                let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
                if meter.sum(appears) > 0 {
                    page.sample(metric.name, &labels, meter.sum(read));
                }
            }
        };
        let faulty: fn(&ServerMeter) -> u64 = |meter| meter.faulty.value();
        let ejections: fn(&ServerMeter) -> u64 = |meter| meter.ejections.value();
        let checks: fn(&ServerMeter) -> u64 = |meter| meter.checks.value();
        rare(page, &metric::SERVER_FAULTY, faulty, faulty);
        rare(page, &metric::SERVER_EJECTIONS, ejections, ejections);
        rare(page, &metric::SERVER_CHECKS, checks, checks);
        rare(page, &metric::SERVER_CHECK_FAILURES, checks, |meter| meter.check_failures.value());
    }

    fn render_faults(&self, page: &mut Page<'_>) {
        page.family(&metric::FAULTS);
        for (side, label) in SIDES {
            for kind in kinds() {
                let count = self.faults().sum(|meter| meter.value(side, kind));
                let labels = [("side", label), ("reason", kind.reason())];
                page.sample(metric::FAULTS.name, &labels, count);
            }
        }
    }

    fn render_tallies(&self, page: &mut Page<'_>) {
        page.single(&metric::MEMORY_LIMIT, self.memory_limit.value());
        page.single(&metric::MEMORY_SHORT, self.memory_short.value());
        page.single(&metric::IDLE_CLOSED, self.idle_closed.value());
        page.single(&metric::ACCESS_LOG_WRITTEN, self.access_log_written.value());
        page.single(&metric::ACCESS_LOG_DROPPED, self.access_log_dropped.value());
        page.family(&metric::RELOADS);
        for (result, tally) in [("ok", &self.reloads_ok), ("failed", &self.reloads_failed)] {
            page.sample(metric::RELOADS.name, &[("result", result)], tally.value());
        }
        page.family(&metric::UPGRADES);
        for (result, tally) in [("ok", &self.upgrades_ok), ("failed", &self.upgrades_failed)] {
            page.sample(metric::UPGRADES.name, &[("result", result)], tally.value());
        }
        page.single(&metric::PANICS, self.panics.value());
        page.single(&metric::DNS_FAILURES, self.dns_failures.value());
        page.single(&metric::LIST_FAILURES, self.list_failures.value());
        page.single(&metric::CERTIFICATE_FAILURES, self.certificate_failures.value());
        page.single(&metric::FILTER_FAILURES, self.filter_failures.value());
    }
}

fn render_tunnels(
    page: &mut Page<'_>,
    upstreams: &BTreeMap<String, Arc<PerWorker<UpstreamMeter>>>,
) {
    type Find = fn(&UpstreamMeter) -> &TunnelMeter;
    let protocols: [(&str, Find); 2] =
        [("websocket", |meter| &meter.tunnels.websocket), ("other", |meter| &meter.tunnels.other)];
    for metric in [&metric::UPSTREAM_TUNNELS, &metric::UPSTREAM_TUNNELS_OPENED] {
        page.family(metric);
        for (name, meter) in upstreams {
            for (protocol, find) in protocols {
                let opened = meter.sum(|meter| find(meter).opened.value());
                let labels = [("upstream", name.as_str()), ("protocol", protocol)];
                if opened == 0 {
                    continue;
                }
                if metric.name == metric::UPSTREAM_TUNNELS.name {
                    let open = meter.balance(|meter| find(meter).open.value());
                    page.sample(metric.name, &labels, open);
                } else {
                    page.sample(metric.name, &labels, opened);
                }
            }
        }
    }
}

fn render_process(process: &ProcessFacts, page: &mut Page<'_>) {
    page.single(&metric::PROCESS_START, Seconds::of(process.start));
    if let Some(cpu) = process.cpu {
        page.single(&metric::PROCESS_CPU, Seconds::of(cpu));
    }
    let gauges = [
        (&metric::PROCESS_RESIDENT, process.resident_bytes),
        (&metric::PROCESS_OPEN, process.open_fds),
        (&metric::PROCESS_MAX, process.max_fds),
    ];
    for (metric, value) in gauges {
        if let Some(value) = value {
            page.single(metric, value);
        }
    }
}

/// Seconds as a decimal number: exact, where a float would round.
#[derive(Clone, Copy)]
struct Seconds {
    seconds: u64,
    nanos: u64,
}

impl Seconds {
    fn of(duration: Duration) -> Self {
        Self { seconds: duration.as_secs(), nanos: u64::from(duration.subsec_nanos()) }
    }

    const fn of_nanos(nanos: u64) -> Self {
        Self { seconds: nanos / SECOND, nanos: nanos % SECOND }
    }
}

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.seconds)?;
        let (mut rest, mut width) = (self.nanos, 9_usize);
        if rest == 0 {
            return Ok(());
        }
        while rest.is_multiple_of(10) {
            rest /= 10;
            width -= 1;
        }
        write!(f, ".{rest:0width$}")
    }
}

/// The page while it grows. Writing to a string cannot fail, so results are dropped.
struct Page<'a> {
    out: &'a mut String,
}

type Label<'a> = (&'a str, &'a str);

impl Page<'_> {
    fn family(&mut self, metric: &Metric) {
        let Metric { name, kind, help, .. } = metric;
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
    }

    fn single(&mut self, metric: &Metric, value: impl std::fmt::Display) {
        self.family(metric);
        self.sample(metric.name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl std::fmt::Display) {
        self.out.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            self.out.push(if place == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            self.label_value(text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// The three escapes of the format; everything else stands as it is.
    fn label_value(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.out.push_str("\\\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                plain => self.out.push(plain),
            }
        }
    }

    fn classes<T>(
        &mut self,
        name: &str,
        label: Label<'_>,
        meter: &PerWorker<T>,
        read: impl Fn(&T) -> &ClassCounters,
    ) {
        let mut counts = [0_u64; CLASSES.len()];
        for meter in meter.iter() {
            for (sum, count) in counts.iter_mut().zip(read(meter).values()) {
                *sum = sum.wrapping_add(count);
            }
        }
        for (class, count) in CLASSES.into_iter().zip(counts) {
            self.sample(name, &[label, ("class", class)], count);
        }
    }

    /// Only statuses that some call ended with.
    fn calls<T>(
        &mut self,
        name: &str,
        label: Label<'_>,
        meter: &PerWorker<T>,
        read: impl Fn(&T) -> &GrpcCounters,
    ) {
        for status in GrpcStatus::all() {
            let count = meter.sum(|meter| read(meter).value(status));
            if count > 0 {
                self.sample(name, &[label, ("status", status.name())], count);
            }
        }
    }

    /// Nothing at all for a histogram that never counted.
    fn histogram<T>(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        meter: &PerWorker<T>,
        read: impl Fn(&T) -> &Histogram,
    ) {
        let mut counts = [0_u64; BUCKETS];
        for meter in meter.iter() {
            for (sum, count) in counts.iter_mut().zip(read(meter).buckets()) {
                *sum = sum.wrapping_add(count);
            }
        }
        // Workers go on counting while we read: the total is taken from the buckets just read, so
        // that `+Inf` and `_count` agree as the format demands.
        let total = counts.iter().copied().fold(0, u64::wrapping_add);
        if total == 0 {
            return;
        }
        let bucket = format!("{name}_bucket");
        let mut below = 0_u64;
        for (bound, count) in BOUNDS.into_iter().zip(counts) {
            below = below.wrapping_add(count);
            let bound = Seconds::of_nanos(bound).to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), below);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), total);
        let nanos = meter.sum(|meter| read(meter).sum_nanos());
        self.sample(&format!("{name}_sum"), labels, Seconds::of_nanos(nanos));
        self.sample(&format!("{name}_count"), labels, total);
    }
}

fn render_caches(page: &mut Page<'_>, caches: &[(&str, CacheReading)]) {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let gauge = |page: &mut Page<'_>, metric: &Metric, read: &dyn Fn(&CacheReading) -> u64| {
        page.family(metric);
        for (name, reading) in caches {
            page.sample(metric.name, &[("filter", name)], read(reading));
        }
    };
    gauge(page, &metric::CACHE_ENTRIES, &|reading| wide(reading.entries));
    gauge(page, &metric::CACHE_BYTES, &|reading| wide(reading.bytes));
    gauge(page, &metric::CACHE_BUDGET, &|reading| wide(reading.budget));
    gauge(page, &metric::CACHE_EVICTIONS, &|reading| reading.evictions);
}

/// The folders of caches, each once.
fn render_disks(page: &mut Page<'_>, disks: &BTreeMap<String, DiskReading>) {
    let mut gauge = |metric: &Metric, read: fn(&DiskReading) -> u64| {
        page.family(metric);
        for (folder, reading) in disks {
            page.sample(metric.name, &[("folder", folder)], read(reading));
        }
    };
    let entries = |reading: &DiskReading| u64::try_from(reading.entries).unwrap_or(u64::MAX);
    gauge(&metric::CACHE_DISK_ENTRIES, entries);
    gauge(&metric::CACHE_DISK_BYTES, |reading| reading.bytes);
    gauge(&metric::CACHE_DISK_BUDGET, |reading| reading.budget);
    gauge(&metric::CACHE_DISK_EVICTIONS, |reading| reading.evictions);
    page.family(&metric::CACHE_DISK_FAULTS);
    for (folder, reading) in disks {
        for (reason, count) in &reading.faults {
            let labels = [("folder", folder.as_str()), ("reason", reason)];
            page.sample(metric::CACHE_DISK_FAULTS.name, &labels, *count);
        }
    }
}

/// What is counted for the variants of these filters.
fn render_variants(page: &mut Page<'_>, filters: &[(&str, &VariantMeter)]) {
    let mut count = |metric: &Metric, read: fn(&VariantTotals) -> u64| {
        page.family(metric);
        for (filter, meter) in filters {
            for (place, (name, _)) in meter.shares().enumerate() {
                let labels = [("filter", *filter), ("variant", name)];
                page.sample(metric.name, &labels, read(&meter.totals(place)));
            }
        }
    };
    count(&metric::VARIANT_REQUESTS, |totals| totals.requests);
    count(&metric::VARIANT_ERRORS, |totals| totals.errors);
    page.family(&metric::VARIANT_LATENCY);
    for (filter, meter) in filters {
        for (place, (name, _)) in meter.shares().enumerate() {
            let labels = [("filter", *filter), ("variant", name)];
            let name = metric::VARIANT_LATENCY.name;
            page.histogram(name, &labels, meter.counts(), |all| all.answers(place));
        }
    }
    page.family(&metric::VARIANT_SHARE);
    for (filter, meter) in filters {
        for (name, share) in meter.shares() {
            let labels = [("filter", *filter), ("variant", name)];
            page.sample(metric::VARIANT_SHARE.name, &labels, share);
        }
    }
}

#[cfg(test)]
mod tests;
