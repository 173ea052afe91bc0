//! The table of all metrics: what the page announces and what the reference says.

use std::fmt::Write as _;

/// Type of a metric in the Prometheus text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

/// Defines each metric once and lists all of them in the order given.
macro_rules! metrics {
    ($($place:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $place: Metric = Metric {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*
        /// Every metric, in the order of the page.
        pub(crate) const METRICS: &[Metric] = &[$($place),*];
    };
}

metrics! {
    BUILD_INFO = Gauge "sluice_build_info" ["version"]
        "Always 1; the label carries the version.";
    WORKERS = Gauge "sluice_workers" []
        "Worker threads.";
    WORKER_CONNECTIONS = Gauge "sluice_worker_connections" ["worker"]
        "Client connections open.";
    WORKER_BUSY = Gauge "sluice_worker_busy_connections" ["worker"]
        "Client connections on which something happened in this second or the one before.";
    WORKER_HANDED_OVER = Counter "sluice_worker_handed_over_total" ["worker"]
        "Connections accepted by this worker and given to one that had less to do.";
    LISTENER_ACCEPTED = Counter "sluice_listener_accepted_total" ["listener"]
        "Connections accepted, rejected ones included.";
    LISTENER_CONNECTIONS = Gauge "sluice_listener_connections" ["listener"]
        "Connections open.";
    LISTENER_REJECTED = Counter "sluice_listener_rejected_total" ["listener", "limit"]
        "Connections closed at once because of a limit: that of the listener, of one client address, or of memory.";
    LISTENER_DROPPED_HEADERS = Counter "sluice_listener_dropped_headers_total" ["listener", "reason"]
        "Headers of requests that were dropped because of their names, and trailers (`trailer`): servers may take them for other ones (`ambiguous`), or, although such names are kept, for one the gateway itself acts on (`lookalike`). A reason appears with its first one.";
    LISTENER_REQUESTS = Counter "sluice_listener_requests_total" ["listener"]
        "Requests received, malformed ones included.";
    LISTENER_HANDSHAKES = Counter "sluice_listener_handshakes_total" ["listener", "version", "resumed"]
        "TLS handshakes done, by version, and whether a ticket shortened them. A version appears with its first one.";
    LISTENER_HANDSHAKE_FAILURES = Counter "sluice_listener_handshake_failures_total" ["listener", "reason"]
        "TLS handshakes that failed. A reason appears with its first failure.";
    LISTENER_HTTP2_ERRORS = Counter "sluice_listener_http2_errors_total" ["listener", "reason"]
        "HTTP/2 connections ended because the client broke a rule, or made too much of something (flood_...). A reason appears with its first one.";
    LISTENER_SCRIPT_FAILURES = Counter "sluice_listener_script_failures_total" ["listener"]
        "Connections that the script of a listener failed. It appears with the first one.";
    CERTIFICATE_EXPIRY = Gauge "sluice_certificate_expiry_timestamp_seconds" ["listener", "name", "fingerprint"]
        "The last moment at which a certificate that clients are shown is valid, in seconds since 1970, by its first name and SHA-256 fingerprint.";
    ROUTE_REQUESTS = Counter "sluice_route_requests_total" ["route"]
        "Requests answered. The other series of a route appear with its first request.";
    ROUTE_RESPONSES = Counter "sluice_route_responses_total" ["route", "class"]
        "Final responses by class of their status.";
    ROUTE_GRPC = Counter "sluice_route_grpc_calls_total" ["route", "status"]
        "gRPC calls by how they ended, the gateway's own answers included. A status appears with its first call.";
    ROUTE_DURATION = Histogram "sluice_route_duration_seconds" ["route"]
        "From the first byte of the request to the last byte of the response.";
    ROUTE_RECEIVED = Counter "sluice_route_received_bytes_total" ["route"]
        "Bytes of requests, heads included.";
    ROUTE_SENT = Counter "sluice_route_sent_bytes_total" ["route"]
        "Bytes of responses, heads included.";
    ROUTE_MIRRORED = Counter "sluice_route_mirrored_total" ["route"]
        "Requests copied to another upstream. The series about copies are there for routes with `mirror` alone.";
    ROUTE_MIRROR_SKIPPED = Counter "sluice_route_mirror_skipped_total" ["route"]
        "Requests not copied although it was their turn: too much content, an upgrade, or too many copies under way.";
    ROUTE_MIRROR_FAILURES = Counter "sluice_route_mirror_failures_total" ["route"]
        "Copies that got no response.";
    FILTER_OUTCOMES = Counter "sluice_filter_outcomes_total" ["filter", "outcome"]
        "What came of asking a filter; the page of each kind says which outcomes it has. An outcome appears with its first time.";
    FILTER_WAIT = Histogram "sluice_filter_wait_seconds" ["filter"]
        "How long a filter waited: for the answer of whom it asks, or with bytes until the bandwidth allowed them.";
    CACHE_ENTRIES = Gauge "sluice_cache_entries" ["filter"]
        "Answers that a cache keeps.";
    CACHE_BYTES = Gauge "sluice_cache_bytes" ["filter"]
        "Bytes that they take, heads and tables included, with answers that are on their way into it.";
    CACHE_BUDGET = Gauge "sluice_cache_budget_bytes" ["filter"]
        "Bytes that there may be.";
    CACHE_EVICTIONS = Counter "sluice_cache_evictions_total" ["filter"]
        "Answers that went because others needed their place.";
    CACHE_DISK_ENTRIES = Gauge "sluice_cache_disk_entries" ["folder"]
        "Answers that caches keep in a folder.";
    CACHE_DISK_BYTES = Gauge "sluice_cache_disk_bytes" ["folder"]
        "Bytes that they take, in whole blocks.";
    CACHE_DISK_BUDGET = Gauge "sluice_cache_disk_budget_bytes" ["folder"]
        "Bytes that there may be: less than configured while the disk has no room.";
    CACHE_DISK_EVICTIONS = Counter "sluice_cache_disk_evictions_total" ["folder"]
        "Answers that went because others needed their place.";
    CACHE_DISK_FAULTS = Counter "sluice_cache_disk_faults_total" ["folder", "reason"]
        "What went wrong: no_space, read_only and failed (writing), damaged (a file was not what had been written, and is dropped), busy (too much waits to be written).";
    VARIANT_REQUESTS = Counter "sluice_variant_requests_total" ["filter", "variant"]
        "Requests that were over, by the variant that the canary filter chose for them.";
    VARIANT_ERRORS = Counter "sluice_variant_errors_total" ["filter", "variant"]
        "Those among them that ended with a status of 5xx.";
    VARIANT_LATENCY = Histogram "sluice_variant_latency_seconds" ["filter", "variant"]
        "How long origins of a variant took until they began to answer.";
    VARIANT_SHARE = Gauge "sluice_variant_share" ["filter", "variant"]
        "Parts of a thousand that a variant gets now of the requests of its rule; the greatest of several.";
    CONCURRENCY_LIMIT = Gauge "sluice_concurrency_limit" ["route"]
        "Requests that may be under way; the route (all) stands for the limit of all routes together.";
    CONCURRENCY_ACTIVE = Gauge "sluice_concurrency_active_requests" ["route"]
        "Requests under way of a route that has a limit.";
    CONCURRENCY_WAITING = Gauge "sluice_concurrency_waiting_requests" ["route"]
        "Requests that wait until others of the route are answered.";
    CONCURRENCY_REFUSED = Counter "sluice_concurrency_refused_total" ["route", "reason"]
        "Requests refused because the queue was full or because they waited too long.";
    UPSTREAM_REQUESTS = Counter "sluice_upstream_requests_total" ["upstream"]
        "Requests sent to the upstream, retries included.";
    UPSTREAM_RETRIES = Counter "sluice_upstream_retries_total" ["upstream"]
        "Requests sent again after a fault, or after an answer that calls for it.";
    UPSTREAM_RETRIES_REFUSED = Counter "sluice_upstream_retry_budget_exhausted_total" ["upstream"]
        "Requests not sent again because the budget for retries was spent.";
    UPSTREAM_HEDGES = Counter "sluice_upstream_hedges_total" ["upstream"]
        "Requests sent to another server beside one that took long.";
    UPSTREAM_HEDGES_WON = Counter "sluice_upstream_hedges_won_total" ["upstream"]
        "Such requests whose answer came first.";
    UPSTREAM_CONNECTS = Counter "sluice_upstream_connects_total" ["upstream"]
        "Connections opened.";
    UPSTREAM_CONNECT_FAILURES = Counter "sluice_upstream_connect_failures_total" ["upstream"]
        "Connections that could not be opened.";
    UPSTREAM_REUSES = Counter "sluice_upstream_connection_reuses_total" ["upstream"]
        "Requests that went over a connection used before.";
    UPSTREAM_FAILURES = Counter "sluice_upstream_failures_total" ["upstream", "reason"]
        "Requests that got no response. A reason appears with its first failure.";
    UPSTREAM_RESPONSES = Counter "sluice_upstream_responses_total" ["upstream", "class"]
        "Final responses of the upstream by class of their status.";
    UPSTREAM_GRPC = Counter "sluice_upstream_grpc_calls_total" ["upstream", "status"]
        "gRPC calls by how the upstream ended them. A status appears with its first call.";
    UPSTREAM_DURATION = Histogram "sluice_upstream_duration_seconds" ["upstream"]
        "From the first byte of the request sent to the end of the response head. Appears with the first response.";
    UPSTREAM_ACTIVE = Gauge "sluice_upstream_active_requests" ["upstream"]
        "Requests under way, from the choice of a server to the end of the answer.";
    UPSTREAM_WAITING = Gauge "sluice_upstream_waiting_requests" ["upstream"]
        "Requests that wait until a server of the upstream has room for them.";
    UPSTREAM_IDLE = Gauge "sluice_upstream_idle_connections" ["upstream"]
        "Connections kept open for the next request.";
    UPSTREAM_TUNNELS = Gauge "sluice_upstream_tunnels" ["upstream", "protocol"]
        "Tunnels open to the upstream, by what they carry: websocket, other. A protocol appears with its first tunnel.";
    UPSTREAM_TUNNELS_OPENED = Counter "sluice_upstream_tunnels_opened_total" ["upstream", "protocol"]
        "Requests that became tunnels, by what they carry: websocket, other. A protocol appears with its first tunnel.";
    UPSTREAM_REFUSED = Counter "sluice_upstream_circuit_open_total" ["upstream", "limit"]
        "What was refused because as much was under way as the breaker allows, by its limit. A limit appears with its first refusal.";
    UPSTREAM_PANIC = Gauge "sluice_upstream_panic" ["upstream"]
        "1 while servers that are out are asked as well, because too few are left.";
    UPSTREAM_RECEIVED = Counter "sluice_upstream_received_bytes_total" ["upstream"]
        "Bytes received from the upstream.";
    UPSTREAM_SENT = Counter "sluice_upstream_sent_bytes_total" ["upstream"]
        "Bytes sent to the upstream.";
    SERVER_REQUESTS = Counter "sluice_server_requests_total" ["upstream", "server"]
        "Requests sent to the server, retries included.";
    SERVER_FAILURES = Counter "sluice_server_failures_total" ["upstream", "server"]
        "Requests to the server that got no response.";
    SERVER_ACTIVE = Gauge "sluice_server_active_requests" ["upstream", "server"]
        "Requests to the server under way, from its choice to the end of the answer.";
    SERVER_AVAILABLE = Gauge "sluice_server_available" ["upstream", "server"]
        "1 if the server takes part in the rotation, 0 if it is out: unhealthy, ejected or draining.";
    SERVER_FAULTY = Counter "sluice_server_faulty_total" ["upstream", "server"]
        "Failures that count for the ejection of the server, answers with certain statuses included. Appears with the first.";
    SERVER_EJECTIONS = Counter "sluice_server_ejections_total" ["upstream", "server"]
        "Ejections of the server. Appears with the first.";
    SERVER_CHECKS = Counter "sluice_server_checks_total" ["upstream", "server"]
        "Active checks of the server. Appears with the first check.";
    SERVER_CHECK_FAILURES = Counter "sluice_server_check_failures_total" ["upstream", "server"]
        "Active checks of the server that failed. Appears with the first check.";
    FAULTS = Counter "sluice_faults_total" ["side", "reason"]
        "Exchanges that failed, by the side to blame and the reason.";
    MEMORY_LIMIT = Gauge "sluice_memory_limit_bytes" []
        "Resident memory from which on connections are given up; 0 is no limit.";
    MEMORY_SHORT = Gauge "sluice_memory_short" []
        "1 while new connections are refused and idle ones closed because memory is short.";
    IDLE_CLOSED = Counter "sluice_memory_idle_closed_total" []
        "Idle connections closed because memory or descriptors were short.";
    DESCRIPTOR_SHORTAGES = Counter "sluice_descriptor_shortages_total" []
        "Times a listener waited because the limit of open files was reached or near.";
    ACCESS_LOG_WRITTEN = Counter "sluice_access_log_written_total" []
        "Lines of the access log written.";
    ACCESS_LOG_DROPPED = Counter "sluice_access_log_dropped_total" []
        "Lines of the access log given up because the writer could not follow or could not write.";
    RELOADS = Counter "sluice_reloads_total" ["result"]
        "Reloads of the configuration: ok took effect, failed left the old one in place.";
    UPGRADES = Counter "sluice_upgrades_total" ["result"]
        "Upgrades of the program, counted on from one process to the next: ok was taken over by a new process, failed left the old one serving.";
    PANICS = Counter "sluice_panics_total" []
        "Panics caught; each cost one exchange.";
    DNS_FAILURES = Counter "sluice_dns_failures_total" []
        "Names of upstream servers that could not be resolved.";
    LIST_FAILURES = Counter "sluice_server_list_failures_total" []
        "Files with lists of upstream servers that could not be read or used.";
    CERTIFICATE_FAILURES = Counter "sluice_certificate_failures_total" []
        "Times that files of certificates had changed and could not be used; the certificates before stayed in place.";
    FILTER_FAILURES = Counter "sluice_filter_file_failures_total" []
        "Times that a file of filters had changed and could not be used; the filters before stayed in place.";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "Start of the process in seconds since 1970.";
    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "User and system CPU time of the process.";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" []
        "Resident memory of the process.";
    PROCESS_OPEN = Gauge "process_open_fds" []
        "Open file descriptors.";
    PROCESS_MAX = Gauge "process_max_fds" []
        "Limit of open file descriptors.";
}

/// The reference of all metrics as a Markdown table.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let Metric { name, kind, help, .. } = metric;
        let row = (kind.name(), labels.join(", "));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| `{name}` | {} | {} | {help} |", row.0, row.1);
    }
    out
}
