//! The metrics page, read back by a strict parser of the text format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use sluice_message::{Fault, FaultKind, GrpcStatus, Side};

use super::{ProcessFacts, Seconds};
use crate::metric::{Kind, METRICS, reference};
use crate::{
    CacheReading, CacheSource, ConcurrencyReading, ConcurrencySource, DiskReading, FilterMeter,
    Meters, PurgeTarget, ShownCertificate, Thoroughness, VariantEnd,
};

/// A series and its value: name, labels, value.
type Expected<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);
type Labels = Vec<(String, String)>;

#[derive(Debug)]
struct Sample {
    family: String,
    name: String,
    labels: Labels,
    value: f64,
}

impl Sample {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }

    fn without_bound(&self) -> Labels {
        self.labels.iter().filter(|(label, _)| label != "le").cloned().collect()
    }
}

/// Reads a page and fails at the first thing the format does not allow.
fn parse(page: &str) -> Vec<Sample> {
    assert!(page.ends_with('\n'), "the last line ends too");
    let mut families: BTreeMap<String, String> = BTreeMap::new();
    let mut announced = None;
    let mut current = (String::new(), String::new());
    let mut samples = Vec::new();
    let mut series = BTreeSet::new();
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !text.is_empty() && !text.contains('\\'), "{line}");
            announced = Some(name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(announced.take().as_deref(), Some(name), "HELP comes first");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            current = (name.to_owned(), kind.to_owned());
            let again = families.insert(current.0.clone(), current.1.clone());
            assert_eq!(again, None, "family {name} twice");
        } else {
            let sample = parse_sample(line, &current);
            let id = format!("{}{:?}", sample.name, sample.labels);
            assert!(series.insert(id), "series twice: {line}");
            samples.push(sample);
        }
    }
    samples
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn parse_sample(line: &str, (family, kind): &(String, String)) -> Sample {
    let name: String = line.chars().take_while(|&letter| letter != '{' && letter != ' ').collect();
    assert!(is_name(&name), "{line}");
    let suffix = name.strip_prefix(family.as_str()).unwrap();
    let suffixes: &[&str] =
        if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    assert!(suffixes.contains(&suffix), "{line} in family {family}");
    let mut rest = &line[name.len()..];
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap();
            assert!(is_name(label), "{line}");
            let (value, after) = parse_quoted(after);
            assert!(labels.iter().all(|(have, _)| have != label), "label twice: {line}");
            labels.push((label.to_owned(), value));
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}').unwrap();
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap();
    assert!(!value.contains(' ') && !value.ends_with('.'), "{line}");
    Sample { family: family.clone(), name, labels, value: value.parse().unwrap() }
}

/// The text up to the closing quote, unescaped, and what follows.
fn parse_quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match letters.next().unwrap().1 {
                'n' => '\n',
                escaped @ ('\\' | '"') => escaped,
                other => panic!("no such escape: {other}"),
            }),
            plain => value.push(plain),
        }
    }
    panic!("quote without end: {text}");
}

fn facts() -> ProcessFacts {
    ProcessFacts {
        version: "1.2.3",
        start: Duration::from_millis(1_700_000_000_250),
        cpu: Some(Duration::new(3, 5)),
        resident_bytes: Some(1 << 20),
        open_fds: Some(12),
        max_fds: Some(1024),
    }
}

fn page(meters: &Meters) -> String {
    page_with(meters, &facts())
}

/// Without what scripts have made up, which comes last: tests that run meanwhile do that, for the whole process.
fn page_with(meters: &Meters, facts: &ProcessFacts) -> String {
    let mut out = String::new();
    meters.render(facts, &mut out);
    let is_of_script = |line: &str| {
        let family = line.strip_prefix("# HELP ");
        family.is_some_and(|it| !it.starts_with("sluice_") && !it.starts_with("process_"))
    };
    let own = out.lines().take_while(|line| !is_of_script(line));
    own.flat_map(|line| [line, "\n"]).collect()
}

const HOSTILE: &str = "a\"} 1\nfake{x=\"\\";

/// Some traffic everywhere, on two workers.
/// A limit that is always the same.
#[derive(Debug)]
struct Full;

impl ConcurrencySource for Full {
    fn reading(&self) -> ConcurrencyReading {
        let (refused_full, refused_late) = (5, 6);
        ConcurrencyReading { limit: 3, active: 2, waiting: 4, refused_full, refused_late }
    }
}

fn busy_meters() -> Arc<Meters> {
    let meters = Meters::new(2);
    let limit: Arc<dyn ConcurrencySource> = Arc::new(Full);
    meters.set_limits(BTreeMap::from([("api".to_owned(), limit)]));
    for (worker, nanos) in [(0, 50_000), (1, 70_000_000), (1, 20_000_000_000), (0, 100_000)] {
        for name in ["main", HOSTILE] {
            meters.route(name).worker(worker).on_response(404, nanos, 10, 100);
            meters.route(name).worker(worker).calls.on_status(GrpcStatus::UNAVAILABLE);
            let upstream = meters.upstream(name);
            upstream.worker(worker).requests.increment();
            upstream.worker(worker).calls.on_status(GrpcStatus::UNKNOWN);
            upstream.worker(worker).on_response(200, nanos);
            upstream.worker(worker).idle.increment();
            upstream.worker(worker).refused.pending.increment();
            upstream.worker(worker).tunnels.websocket.opened.increment();
            upstream.worker(worker).tunnels.websocket.open.increment();
            upstream.worker(worker).on_failure(FaultKind::ConnectFailed);
            meters.server(name, "127.0.0.1:9001").worker(worker).requests.increment();
            meters.server(name, "127.0.0.1:9001").worker(worker).checks.increment();
            meters.server(name, "127.0.0.1:9001").worker(worker).faulty.increment();
            meters.server(name, "127.0.0.1:9001").worker(worker).ejections.increment();
            meters.listener(name).worker(worker).accepted.increment();
            meters.listener(name).worker(worker).active.increment();
            meters.listener(name).worker(worker).rejected_client_limit.increment();
            meters.listener(name).worker(worker).handshakes.resumed[1].increment();
            meters.listener(name).worker(worker).handshakes.on_failure(1);
            meters.listener(name).worker(worker).http2.on_error(14);
            meters.listener(name).worker(worker).script_failures.increment();
            meters.listener(name).worker(worker).dropped_ambiguous.increment();
        }
        meters.faults().worker(worker).on_fault(Fault::downstream(FaultKind::NoRoute));
    }
    let shown = ShownCertificate {
        listener: "web".into(),
        name: "a.test".into(),
        fingerprint: "00ff".into(),
        expiry: Duration::from_secs(4_107_542_400),
    };
    meters.set_certificates([shown].into());
    meters.upstream("main").worker(0).idle.decrement();
    meters.upstream("main").worker(0).tunnels.websocket.open.decrement();
    meters.server("main", "127.0.0.1:9002").worker(0).bars.add(2);
    meters.route("idle");
    let filters = ["main", HOSTILE].map(|name| {
        let filter = FilterMeter::new(2, &["passed", "refused"]);
        filter.count(1, 0);
        filter.observe_wait(0, 70_000_000);
        let cache: Weak<Shelf> = Arc::downgrade(&SHELF);
        filter.watch(cache);
        let variants = filter.variants(&["stable", "new"]);
        variants.on_end(1, 1, VariantEnd::Failed, Some(70_000_000));
        variants.set_share(1, 250);
        (name.to_owned(), Arc::new(filter))
    });
    meters.set_filters(filters.into());
    for worker in [0, 1] {
        meters.route(HOSTILE).worker(worker).mirror_candidates.increment();
        meters.route(HOSTILE).worker(worker).mirrored.increment();
    }
    meters.reloads_ok.increment();
    meters
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |sample: &&Sample| {
        sample.name == name
            && labels.iter().all(|&(label, value)| sample.label(label) == Some(value))
    };
    samples.iter().find(fits).map(|sample| sample.value)
}

#[test]
fn the_page_is_well_formed_and_adds_workers_up() {
    let samples = parse(&page(&busy_meters()));
    let cases: &[Expected<'_>] = &[
        ("sluice_build_info", &[("version", "1.2.3")], 1.0),
        ("sluice_workers", &[], 2.0),
        ("sluice_route_requests_total", &[("route", "main")], 4.0),
        ("sluice_route_requests_total", &[("route", "idle")], 0.0),
        ("sluice_route_responses_total", &[("route", "main"), ("class", "4xx")], 4.0),
        ("sluice_route_responses_total", &[("route", HOSTILE), ("class", "2xx")], 0.0),
        ("sluice_route_grpc_calls_total", &[("route", "main"), ("status", "unavailable")], 4.0),
        ("sluice_upstream_grpc_calls_total", &[("upstream", "main"), ("status", "unknown")], 4.0),
        ("sluice_route_duration_seconds_sum", &[("route", "main")], 20.07015),
        ("sluice_route_duration_seconds_bucket", &[("route", "main"), ("le", "0.0001")], 2.0),
        ("sluice_route_duration_seconds_bucket", &[("route", "main"), ("le", "0.1")], 3.0),
        ("sluice_route_duration_seconds_bucket", &[("route", "main"), ("le", "10")], 3.0),
        ("sluice_route_received_bytes_total", &[("route", "main")], 40.0),
        ("sluice_route_mirrored_total", &[("route", HOSTILE)], 2.0),
        ("sluice_route_mirror_skipped_total", &[("route", HOSTILE)], 0.0),
        ("sluice_upstream_idle_connections", &[("upstream", "main")], 3.0),
        ("sluice_upstream_failures_total", &[("reason", "connect_failed")], 4.0),
        ("sluice_server_requests_total", &[("server", "127.0.0.1:9001")], 4.0),
        ("sluice_upstream_circuit_open_total", &[("upstream", "main"), ("limit", "pending")], 4.0),
        ("sluice_upstream_tunnels", &[("upstream", "main"), ("protocol", "websocket")], 3.0),
        ("sluice_upstream_tunnels_opened_total", &[("upstream", "main")], 4.0),
        ("sluice_server_available", &[("upstream", "main"), ("server", "127.0.0.1:9001")], 1.0),
        ("sluice_server_available", &[("upstream", "main"), ("server", "127.0.0.1:9002")], 0.0),
        ("sluice_server_checks_total", &[("server", "127.0.0.1:9001")], 4.0),
        ("sluice_server_faulty_total", &[("server", "127.0.0.1:9001")], 4.0),
        ("sluice_server_ejections_total", &[("server", "127.0.0.1:9001")], 4.0),
        ("sluice_server_check_failures_total", &[("server", "127.0.0.1:9001")], 0.0),
        ("sluice_listener_connections", &[("listener", "main")], 4.0),
        ("sluice_listener_rejected_total", &[("limit", "client")], 4.0),
        ("sluice_listener_dropped_headers_total", &[("reason", "ambiguous")], 4.0),
        ("sluice_listener_script_failures_total", &[("listener", "main")], 4.0),
        ("sluice_faults_total", &[("side", "downstream"), ("reason", "no_route")], 4.0),
        ("sluice_faults_total", &[("side", "internal"), ("reason", "broken")], 0.0),
        (
            "sluice_certificate_expiry_timestamp_seconds",
            &[("listener", "web"), ("name", "a.test"), ("fingerprint", "00ff")],
            4_107_542_400.0,
        ),
        ("sluice_reloads_total", &[("result", "ok")], 1.0),
        ("process_start_time_seconds", &[], 1_700_000_000.25),
        ("process_cpu_seconds_total", &[], 3.000_000_005),
        ("process_open_fds", &[], 12.0),
    ];
    for (name, labels, expected) in cases {
        assert_eq!(value(&samples, name, labels), Some(*expected), "{name} {labels:?}");
    }
    let none = value(&samples, "sluice_route_mirrored_total", &[("route", "main")]);
    assert_eq!(none, None, "it has no mirror");
    let labels = [("route", "main"), ("status", "ok")];
    let none = value(&samples, "sluice_route_grpc_calls_total", &labels);
    assert_eq!(none, None, "no call ended so");
    let labels = [("upstream", "main"), ("protocol", "other")];
    let none = value(&samples, "sluice_upstream_tunnels", &labels);
    assert_eq!(none, None, "there was none");
}

#[test]
fn limits_are_told_by_route() {
    let samples = parse(&page(&busy_meters()));
    let route = ("route", "api");
    let rows = [
        ("sluice_concurrency_limit", vec![route], 3.0),
        ("sluice_concurrency_active_requests", vec![route], 2.0),
        ("sluice_concurrency_waiting_requests", vec![route], 4.0),
        ("sluice_concurrency_refused_total", vec![route, ("reason", "full")], 5.0),
        ("sluice_concurrency_refused_total", vec![route, ("reason", "timed_out")], 6.0),
    ];
    for (name, labels, expected) in rows {
        assert_eq!(value(&samples, name, &labels), Some(expected), "{name}");
    }
}

#[test]
fn histograms_grow_and_end_in_their_count() {
    let samples = parse(&page(&busy_meters()));
    let mut histograms: BTreeMap<(String, Labels), Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
        let id = (sample.family.clone(), sample.without_bound());
        histograms.entry(id).or_default().push(sample);
    }
    assert_eq!(histograms.len(), 8, "two routes, upstreams, filters and variants had traffic");
    for ((family, labels), buckets) in histograms {
        let bounds: Vec<f64> =
            buckets.iter().map(|sample| sample.label("le").unwrap().parse().unwrap()).collect();
        assert!(bounds.is_sorted() && bounds.len() == 17, "{family}: {bounds:?}");
        assert_eq!(bounds.last(), Some(&f64::INFINITY));
        assert!(buckets.is_sorted_by_key(|sample| sample.value), "{family}");
        let labels: Vec<_> = labels.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let count = value(&samples, &format!("{family}_count"), &labels);
        assert_eq!(count, buckets.last().map(|sample| sample.value), "{family}");
    }
}

/// A cache that is never gone.
static SHELF: LazyLock<Arc<Shelf>> = LazyLock::new(Arc::default);

#[derive(Debug, Default)]
struct Shelf;

impl CacheSource for Shelf {
    fn reading(&self) -> CacheReading {
        CacheReading { entries: 1, bytes: 2, budget: 3, evictions: 4 }
    }

    fn disk(&self) -> Option<DiskReading> {
        let folder = "/var/cache/a\"b".to_owned();
        let faults = vec![("no_space", 5), ("damaged", 5)];
        Some(DiskReading { folder, entries: 1, bytes: 2, budget: 3, evictions: 4, faults })
    }

    fn purge(&self, _: PurgeTarget<'_>, _: Thoroughness) -> usize {
        0
    }
}

#[test]
fn caches_tell_how_they_are_doing() {
    let samples = parse(&page(&busy_meters()));
    for (family, expected) in
        [("entries", 1.0), ("bytes", 2.0), ("budget_bytes", 3.0), ("evictions_total", 4.0)]
            .into_iter()
            .flat_map(|(family, value)| {
                [(family.to_owned(), value), (format!("disk_{family}"), value)]
            })
            .chain([("disk_faults_total".to_owned(), 5.0)])
    {
        let name = format!("sluice_cache_{family}");
        let found: Vec<_> = samples.iter().filter(|sample| sample.family == name).collect();
        assert!(!found.is_empty(), "{name}");
        assert!(found.iter().all(|sample| sample.value == expected), "{name}");
    }
}

#[test]
fn every_sample_has_the_labels_the_table_promises() {
    let page = page(&busy_meters());
    let samples = parse(&page);
    for metric in METRICS {
        let (name, kind) = (metric.name, metric.kind.name());
        assert!(page.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        let of_family: Vec<_> = samples.iter().filter(|sample| sample.family == name).collect();
        assert!(!of_family.is_empty(), "{name}");
        for sample in of_family {
            let labels = sample.without_bound();
            let labels: Vec<_> = labels.iter().map(|(label, _)| label.as_str()).collect();
            assert_eq!(labels, metric.labels, "{name}");
        }
        let total = name.ends_with("_total");
        assert_eq!(total, metric.kind == Kind::Counter, "{name}: counters end in _total");
    }
    let families: BTreeSet<_> = samples.iter().map(|sample| sample.family.as_str()).collect();
    assert_eq!(families.len(), METRICS.len());
}

#[test]
fn hostile_names_stay_inside_their_label() {
    let samples = parse(&page(&busy_meters()));
    assert_eq!(value(&samples, "sluice_route_requests_total", &[("route", HOSTILE)]), Some(4.0));
    assert!(samples.iter().all(|sample| sample.name != "fake"));
}

#[test]
fn ten_thousand_idle_routes_make_a_page_of_one_line_each() {
    let meters = Meters::new(1);
    for number in 0..10_000 {
        meters.route(&format!("r{number}"));
    }
    let page = page(&meters);
    parse(&page);
    assert!(page.lines().count() < 10_400 && page.len() < 600_000, "{}", page.len());
}

#[test]
fn facts_nobody_could_read_are_left_out() {
    let facts = ProcessFacts { version: "1", ..ProcessFacts::default() };
    let out = page_with(&Meters::new(1), &facts);
    parse(&out);
    assert!(!out.contains("process_open_fds") && out.contains("process_start_time_seconds 0\n"));
}

#[test]
fn seconds_are_exact() {
    let cases = [
        (0, "0"),
        (1, "0.000000001"),
        (100_000, "0.0001"),
        (2_500_000_000, "2.5"),
        (10_000_000_000, "10"),
        (u64::MAX, "18446744073.709551615"),
    ];
    for (nanos, text) in cases {
        assert_eq!(Seconds::of_nanos(nanos).to_string(), text);
    }
}

#[test]
fn the_reference_has_a_row_for_each_metric() {
    let reference = reference();
    assert_eq!(reference.lines().count(), METRICS.len() + 2);
    let row = "| `sluice_faults_total` | counter | `side`, `reason` | Exchanges that failed, \
               by the side to blame and the reason. |";
    assert!(reference.lines().any(|line| line == row), "{reference}");
    let columns = |line: &str| line.matches('|').count();
    assert!(reference.lines().all(|line| columns(line) == 5), "a bar in a text tears the table");
}

#[test]
fn sides_have_the_names_of_the_page() {
    let names = [(Side::Downstream, "downstream"), (Side::Upstream, "upstream")];
    for (side, name) in names {
        assert!(crate::fault::SIDES.contains(&(side, name)));
    }
}
