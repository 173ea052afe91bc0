//! `sluice bench --suite` and `--compare`: servers side by side, reports, what changed.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use serde_json::Value;
use sluice_acceptance::eventually;
use sluice_acceptance::load::bench_plainly;
use sluice_testkit::{Job, PATIENCE, Scratch, Signal};

const SUITE: &str = r#"
name = "small"
title = "A small suite"
rounds = { short = 6, full = 10 }
duration = { short = "10s", full = "60s" }
warm_up = { connections = 2, short = "10ms", full = "5s" }
instructions = { requests = 200, connections = 2 }

[feature.wings]
says = "wings"
check = ["false"]

[[server]]
name = "sluice"
command = ["{sluice}", "run", "-c", "{config}", "--workers", "1"]
config = "sluice.toml"
version = ["{sluice}", "--version"]

[[server]]
name = "nginx"
command = ["nginx", "-p", "{dir}", "-e", "stderr", "-c", "{config}"]
config = "nginx.conf"
version = ["nginx", "-v"]

[[server]]
name = "absent"
command = ["no-such-server", "{port}"]

[[case]]
name = "hello"
title = "A short answer"
servers = ["sluice", "nginx", "absent"]
connections = [2, 4]
instructions = true

[[case]]
name = "steady"
title = "A rate that all can serve"
servers = ["sluice", "nginx"]
connections = [2]
rate = 200.0

[[case]]
name = "users"
title = "Users"
servers = ["nginx"]
connections = [5]
users = { requests = 3, ramp = "20ms" }

[[case]]
name = "later"
title = "What cannot be done yet"
servers = ["sluice"]
connections = [2]
needs = "wings"
"#;

const OURS: &str = "[admin]\naddress = \"off\"\n[log]\naccess = \"off\"\n[[listener]]\nname = \"web\"\n\
    address = \"127.0.0.1:{port}\"\n[[route]]\npath = \"/\"\nrespond = \"Hello\"\n";

const THEIRS: &str = "daemon off; master_process off; pid nginx.pid; error_log stderr;\n\
    events { worker_connections 512; }\nhttp { access_log off; keepalive_requests 1000000;\n\
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
    server { listen 127.0.0.1:{port}; location / { return 200 \"Hello\"; } } }\n";

fn prepare() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("small.toml", SUITE);
    scratch.write("sluice.toml", OURS);
    scratch.write("nginx.conf", THEIRS);
    scratch
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_suite_writes_its_reports_and_two_results_are_compared() {
    let scratch = prepare();
    let line = ["--suite", "small.toml", "-d", "40ms", "--output", "out"];
    let done = bench_plainly(&scratch, &line);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.stdout.trim(), "out/report.html");
    let out = scratch.path().join("out");
    let expected = ["charts", "raw", "report.html", "report.md", "results.csv", "results.json"];
    assert_eq!(names(&out), expected);
    let results: Value = serde_json::from_str(&read(&out, "results.json")).unwrap();
    check_results(&results);
    // Two servers twice and once, one server once, six rounds each.
    assert_eq!(names(&out.join("raw")).len(), (4 + 2 + 1) * 6);
    assert_eq!(read(&out, "results.csv").lines().count(), 1 + (4 + 2 + 1) * 6);
    check_report(&read(&out, "report.md"));
    let page = read(&out, "report.html");
    for part in ["<svg", "prefers-color-scheme: dark", "name=\"viewport\"", "no-such-server"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(names(&out.join("charts")).contains(&"hello-rate.svg".to_owned()));
    compare(&scratch, &results);
}

fn check_results(results: &Value) {
    assert_eq!(results["state"], "complete");
    let servers = results["servers"].as_array().unwrap();
    let absent = servers.iter().find(|server| server["name"] == "absent").unwrap();
    assert_eq!(absent["skipped"], "no-such-server is not installed");
    let cases = results["cases"].as_array().unwrap();
    let by_name = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    assert_eq!(by_name("later")["skipped"], "waiting for wings");
    for (name, runs) in [("hello", 24), ("steady", 12), ("users", 6)] {
        let runs_made = by_name(name)["runs"].as_array().unwrap();
        assert_eq!(runs_made.len(), runs, "{name}");
        for run in runs_made {
            assert!(run["failure"].is_null(), "{run}");
            assert_eq!(run["outcome"]["errors"]["unexpected_status"], 0, "{run}");
            assert!(run["outcome"]["responses"].as_u64().unwrap() > 0, "{run}");
        }
    }
    // Sluice first, nginx first, Sluice first, ...
    let order: Vec<&str> = by_name("steady")["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["server"].as_str().unwrap())
        .collect();
    assert_eq!(order[..4], ["sluice", "nginx", "nginx", "sluice"]);
    for server in ["sluice", "nginx"] {
        let instructions = by_name("hello")["instructions"][server].as_f64().unwrap();
        assert!(instructions > 100.0, "{server}: {instructions}");
    }
}

/// Everything that a report promises, each at least once.
fn check_report(report: &str) {
    for part in [
        "# A small suite",
        "complete",
        "## Conclusion",
        "sluice against nginx, medians over all settings (3): ",
        "times the user instructions per request",
        "## Caveats",
        "### Comparison",
        "### Results of sluice",
        "### Results of nginx",
        "req/s",
        "ratio (95 %)",
        "verdict",
        "mean",
        "p50",
        "p75",
        "p90",
        "p99",
        "CPU/req",
        "instructions/req",
        "uncorrected p99",
        "sustained",
        "charts/hello-rate.svg",
        "charts/hello-latency-2.svg",
        "## Left out",
        "Server absent: no-such-server is not installed",
        "Case later: waiting for wings",
        "## Environment",
        "CPU",
        "cores",
        "Memory",
        "Kernel",
        "System",
        "Load generator",
        "Git commit",
        "Git branch",
        "Load average",
        "Steal",
        "| Quiet | ",
        "| others | errors |",
        "### Parameters",
        "Warm-up",
        "40ms",
        "nginx version: nginx/",
        "sluice 0.",
        "http://127.0.0.1:",
        "Configuration of nginx",
        "nginx -p . -e stderr -c nginx.conf",
        "sluice run -c sluice.toml --workers 1",
        "## Every run",
    ] {
        assert!(report.contains(part), "{part:?} in\n{report}");
    }
    // Nothing of where this machine keeps its files.
    assert!(!report.contains("/tmp/") && !report.contains("/target/"), "{report}");
}

/// A result beside itself, and beside one in which our server is half as fast.
fn compare(scratch: &Scratch, results: &Value) {
    let same = bench_plainly(scratch, &["--compare", "out/results.json", "out/results.json"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.stdout.contains("Settings and surroundings are the same."), "{}", same.stdout);
    assert!(same.stdout.contains("\n0 of "), "{}", same.stdout);
    let mut slower = results.clone();
    for case in slower["cases"].as_array_mut().unwrap() {
        let ours = case["runs"].as_array_mut().unwrap().iter_mut();
        for run in ours.filter(|run| run["server"] == "sluice") {
            let rate = run["outcome"]["rate"].as_f64().unwrap();
            run["outcome"]["rate"] = Value::from(rate / 2.0);
        }
    }
    slower["environment"]["kernel"] = Value::from("Linux 0.1");
    scratch.write("slower.json", slower.to_string());
    let changed = bench_plainly(scratch, &["--compare", "out/results.json", "slower.json"]);
    assert_eq!(changed.code, Some(0), "{changed:?}");
    assert!(changed.stdout.contains("Linux 0.1"), "{}", changed.stdout);
    // Our rate at 2 and 4 connections and at the constant rate.
    assert!(changed.stdout.contains("\n3 of "), "{}", changed.stdout);
    let rows =
        changed.stdout.lines().filter(|line| line.contains("beyond noise") && line.contains('|'));
    let rows: Vec<&str> = rows.collect();
    assert!(rows.iter().all(|row| row.contains("sluice") && row.contains("50.0 %")), "{rows:?}");
    let run = results["cases"][0]["runs"][0]["outcome"].to_string();
    scratch.write("run.json", run);
    let unlike = bench_plainly(scratch, &["--compare", "out/results.json", "run.json"]);
    assert_eq!(unlike.code, Some(2));
    assert!(unlike.stderr.contains("a suite and a single run"), "{unlike:?}");
    scratch.write("bad.json", "{\n  \"format\": 1,\n  oops\n}\n");
    let bad = bench_plainly(scratch, &["--compare", "out/results.json", "bad.json"]);
    assert_eq!(bad.code, Some(2));
    assert!(bad.stderr.contains("bad.json") && bad.stderr.contains("line 3"), "{bad:?}");
}

#[test]
fn ctrl_c_stops_every_server_and_leaves_the_report_of_what_ran() {
    let scratch = prepare();
    let line = ["bench", "--suite", "small.toml", "-d", "60s", "--output", "out"];
    let job = Job::start(&line, scratch.path());
    let answers = |name: &str| {
        let line = job.words().wait_after(0, &format!("{name} answers on http://")).unwrap();
        line.rsplit("://").next().unwrap().to_owned()
    };
    let addresses = [answers("sluice"), answers("nginx")];
    job.signal(Signal::Interrupt);
    let done = job.finish(PATIENCE * 2);
    assert_eq!(done.code, Some(0), "{done:?}");
    for address in addresses {
        let gone = eventually(|| std::net::TcpStream::connect(&address).is_err());
        assert!(gone, "{address} still answers");
    }
    let out = scratch.path().join("out");
    assert!(read(&out, "report.md").contains("stopped by hand before its end"));
    let results: Value = serde_json::from_str(&read(&out, "results.json")).unwrap();
    assert_eq!(results["state"], "interrupted");
}

#[test]
fn a_server_that_does_not_start_fails_the_suite_and_says_why() {
    let scratch = prepare();
    scratch.write("nginx.conf", "daemon off; nonsense;");
    let suite = SUITE.replace("rounds = { short = 6", "rounds = { short = 1");
    scratch.write("small.toml", suite.replace("instructions = true", ""));
    let line = ["--suite", "small.toml", "-d", "20ms", "--output", "out"];
    let done = bench_plainly(&scratch, &line);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("nginx did not start: it ended at once"), "{done:?}");
    assert!(done.stderr.contains("unknown directive \"nonsense\""), "{done:?}");
    let report = read(&scratch.path().join("out"), "report.md");
    assert!(report.contains("Server nginx: did not start"), "{report}");
    assert!(report.contains("### Results of sluice"), "{report}");
}

#[test]
fn a_wrong_suite_is_shown_with_line_and_caret() {
    let scratch = prepare();
    let rows = [
        ("rounds = { short = 6, full = 10 }", "rounds = { short = 6 }", "full"),
        ("servers = [\"nginx\"]", "servers = [\"ngnix\"]", "there is no server `ngnix`"),
        ("config = \"nginx.conf\"", "config = \"none.conf\"", "none.conf"),
        ("duration = { short = \"10s\"", "duration = { short = \"10 parsecs\"", "no duration"),
        ("needs = \"wings\"", "needs = \"gills\"", "there is no feature `gills`"),
        ("rate = 200.0", "rate = -1.0", "above zero"),
        ("title = \"Users\"", "titel = \"Users\"", "titel"),
    ];
    for (good, wrong, message) in rows {
        assert!(SUITE.contains(good), "{good}");
        scratch.write("small.toml", SUITE.replace(good, wrong));
        let done = bench_plainly(&scratch, &["--suite", "small.toml", "--output", "out"]);
        assert_eq!(done.code, Some(2), "{wrong} {done:?}");
        for part in [message, "small.toml:", "^"] {
            assert!(done.stderr.contains(part), "{part} in {}", done.stderr);
        }
    }
    assert!(!scratch.path().join("out").exists());
}

#[test]
fn single_runs_are_compared_by_their_seconds() {
    let scratch = Scratch::new();
    let second = |offset: u32, responses: u64| {
        serde_json::json!({"offset": offset, "responses": responses, "errors": 0,
            "p50_micros": 100, "p99_micros": 200})
    };
    let latency = serde_json::json!({"count": 0, "mean_micros": 0.0, "deviation_micros": 0.0,
        "min_micros": 0, "max_micros": 0, "percentiles": [], "histogram": ""});
    let run = |each: u64| {
        let series: Vec<Value> = (0..10).map(|at| second(at, each + u64::from(at))).collect();
        serde_json::json!({"tool": "sluice 0", "target": "http://x/", "mode": "closed",
            "connections": 1, "threads": 1, "pipeline": 1, "started_unix_ms": 0, "seconds": 10.0,
            "requests": 1, "responses": 1, "bytes_received": 1, "bytes_sent": 1, "statuses": {},
            "errors": {"connect": 0, "read": 0, "write": 0, "timeout": 0, "protocol": 0,
                "unexpected_status": 0, "unexpected_body": 0},
            "rate": 1.0, "sustained": null, "latency": latency, "uncorrected": null,
            "series": series, "client_cpu_seconds": 1.0, "client_saturated": false,
            "interrupted": false, "reply_bytes": null})
    };
    scratch.write("a.json", run(1000).to_string());
    scratch.write("b.json", run(2000).to_string());
    let done = bench_plainly(&scratch, &["--compare", "a.json", "b.json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let row = done.stdout.lines().find(|line| line.contains("req/s")).unwrap_or_default();
    assert!(row.contains("beyond noise"), "{}", done.stdout);
    assert!(done.stdout.contains("\n1 of 3 figures differ beyond noise"), "{}", done.stdout);
}

const ENCRYPTED: &str = r#"
name = "encrypted"
title = "An encrypted suite"
rounds = { short = 1, full = 1 }
duration = { short = "100ms", full = "60s" }
warm_up = { connections = 2, short = "10ms", full = "5s" }

[[server]]
name = "sluice"
command = ["{sluice}", "run", "-c", "{config}", "--workers", "1"]
config = "encrypted-sluice.toml"
url = "https://127.0.0.1:{port}"
ready = { status = 0 }

[[case]]
name = "full"
title = "Full handshakes"
servers = ["sluice"]
connections = [2]
handshakes = "full"

[[case]]
name = "resumed"
title = "Resumed handshakes"
servers = ["sluice"]
connections = [2]
handshakes = "resumed"

[[case]]
name = "streams"
title = "Streams"
servers = ["sluice"]
connections = [2]
protocol = "http/2"
streams = 20
"#;

#[test]
fn suites_measure_handshakes_and_streams() {
    let scratch = Scratch::new();
    scratch.write("encrypted.toml", ENCRYPTED);
    let ours = OURS.replace("{port}\"\n", "{port}\"\ntls = { self_signed = true }\n");
    scratch.write("encrypted-sluice.toml", &ours);
    let done = bench_plainly(&scratch, &["--suite", "encrypted.toml", "--output", "out"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let out = scratch.path().join("out");
    let results: Value = serde_json::from_str(&read(&out, "results.json")).unwrap();
    let outcome = |at: usize| {
        let run = &results["cases"][at]["runs"][0];
        assert!(run["failure"].is_null(), "{run}");
        run["outcome"].clone()
    };
    let count = |outcome: &Value, name: &str| outcome["tls"][name].as_u64().unwrap();
    let (full, resumed, streams) = (outcome(0), outcome(1), outcome(2));
    assert!(count(&full, "full_handshakes") > 2, "{full}");
    assert_eq!(count(&full, "resumed_handshakes"), 0);
    assert!(
        count(&resumed, "resumed_handshakes") > count(&resumed, "full_handshakes"),
        "{resumed}"
    );
    assert_eq!((&streams["protocol"], &streams["streams"]), (&"HTTP/2".into(), &20.into()));
    let report = read(&out, "report.md");
    for part in ["a full one each", "shortened by a ticket", "20 streams on each connection"] {
        assert!(report.contains(part), "{part}");
    }
}
