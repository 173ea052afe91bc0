//! Made-up results for tests: two servers, three connection counts, a long tail.

use std::collections::BTreeMap;

use crate::environment::{Environment, Noise};
use crate::figures;
use crate::histogram::Histogram;
use crate::outcome::{Errors, Mode, Outcome, Second};
use crate::results::{Case, FORMAT, Length, Results, Run, Server, State};

/// One run with latencies around `middle` microseconds: one in a thousand takes a hundred times that.
pub(crate) fn outcome(connections: u32, rate: f64, middle: u64) -> Outcome {
    let mut histogram = Histogram::new();
    for index in 0..20_000_u64 {
        let spread = middle * (70 + index % 61) / 100;
        histogram.record(if index % 1000 == 7 { spread * 100 } else { spread });
    }
    let responses = figures::whole(rate * 2.0);
    Outcome {
        tool: "sluice 0.1.0".to_owned(),
        target: "http://127.0.0.1:8080/?a=1&b=<2>".to_owned(),
        mode: Mode::Closed,
        connections,
        threads: 1,
        pipeline: 1,
        started_unix_ms: 1_795_227_337_000,
        seconds: 2.0,
        requests: responses,
        responses,
        bytes_received: responses * 180,
        bytes_sent: responses * 40,
        statuses: BTreeMap::from([(200, responses)]),
        errors: Errors::default(),
        in_flight: 0,
        oldest_in_flight_micros: 0,
        rate,
        sustained: None,
        bottleneck: None,
        latency: histogram.latency(),
        uncorrected: None,
        unexpected: None,
        series: (0..2)
            .map(|offset| Second {
                offset,
                responses: responses / 2,
                errors: 0,
                p50_micros: middle,
                p99_micros: middle * 2,
            })
            .collect(),
        client_cpu_seconds: 1.0,
        client_saturated: false,
        interrupted: false,
        reply_bytes: Some((180, 180)),
        protocol: Some("HTTP/1.1".to_owned()),
        streams: 1,
        streams_allowed: None,
        tls: None,
    }
}

fn runs(rounds: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    for connections in [100, 1000, 5000] {
        for round in 1..=rounds {
            for (server, speed, micros, middle) in
                [("sluice", 1.02, 6.1, 10), ("nginx", 1.0, 7.6, 13)]
            {
                let rate = 90_000.0 * speed + f64::from(round * 37 % 5) * 40.0;
                let outcome = outcome(connections, rate, u64::from(connections) * middle);
                let responses = figures::float(outcome.responses);
                runs.push(Run {
                    server: server.to_owned(),
                    connections,
                    round,
                    order: u32::try_from(runs.len()).unwrap() + 1,
                    server_cpu_seconds: Some(responses * micros / 1e6),
                    outcome: Some(outcome),
                    failure: None,
                    noise: Noise {
                        steal: 0.001,
                        busy: 0.9,
                        machine_cpu_seconds: 3.6,
                        ..Noise::default()
                    },
                });
            }
        }
    }
    runs
}

/// A whole suite of so many rounds.
pub(crate) fn results(rounds: u32) -> Results {
    let server = |name: &str, version: &str| Server {
        name: name.to_owned(),
        version: Some(version.to_owned()),
        command: format!("{name} -c /tmp/{name}.conf"),
        url: Some("http://127.0.0.1:8080".to_owned()),
        cpus: Some("0".to_owned()),
        config: Some("[[listener]]\naddress = \"127.0.0.1:0\" # <&>".to_owned()),
        skipped: None,
    };
    let absent = Server {
        name: "caddy".to_owned(),
        skipped: Some("caddy is not installed".to_owned()),
        ..Server::default()
    };
    let hello = Case {
        name: "hello".to_owned(),
        title: "A plain answer".to_owned(),
        about: "Kept-alive requests for one short text.".to_owned(),
        servers: vec!["sluice".to_owned(), "nginx".to_owned()],
        parameters: vec![("path".to_owned(), "/".to_owned())],
        skipped: None,
        runs: runs(rounds),
        instructions: BTreeMap::from([("sluice".to_owned(), 1665.0), ("nginx".to_owned(), 8847.0)]),
    };
    let waiting = Case {
        name: "gzip".to_owned(),
        title: "compressed".to_owned(),
        skipped: Some("waiting for compression".to_owned()),
        ..Case::default()
    };
    Results {
        format: FORMAT,
        suite: "gate".to_owned(),
        title: "A plain HTTP answer: Sluice and nginx".to_owned(),
        about: "One short answer under 100, 1000 and 5000 connections.".to_owned(),
        notes: Vec::new(),
        tool: "sluice 0.1.0".to_owned(),
        started_unix_ms: 1_795_227_337_000,
        finished_unix_ms: 1_795_227_437_000,
        state: State::Complete,
        length: Length::Short,
        environment: Environment {
            cpu: "Example CPU <3 GHz>".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "Linux 6.18.0 x86_64".to_owned(),
            system: "Debian 12".to_owned(),
            commit: Some("0123456789ab".to_owned()),
            branch: Some("main".to_owned()),
            load_before: 0.1,
            load_after: 1.5,
            steal: 0.001,
        },
        parameters: vec![("Rounds".to_owned(), rounds.to_string())],
        servers: vec![server("sluice", "sluice 0.1.0"), server("nginx", "nginx/1.22.1"), absent],
        cases: vec![hello, waiting],
    }
}
