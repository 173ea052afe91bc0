//! Runs as comma-separated values, one line each, after RFC 4180.

use crate::figures;
use crate::outcome::{Mode, Outcome, PERCENTILES};
use crate::results::{Results, Run};

/// The columns that every run has.
const OUTCOME: [&str; 21] = [
    "target",
    "mode",
    "offered_rate",
    "pipeline",
    "threads",
    "started",
    "seconds",
    "requests",
    "responses",
    "rate",
    "sustained",
    "bytes_received",
    "bytes_sent",
    "connect_errors",
    "read_errors",
    "write_errors",
    "timeouts",
    "protocol_errors",
    "unexpected_status",
    "unexpected_body",
    "client_saturated",
];

/// The columns about protocol and encryption.
const SPOKEN: [&str; 5] = ["protocol", "streams", "tls", "full_handshakes", "resumed_handshakes"];

/// Runs without a suite.
pub(crate) fn of_outcomes(outcomes: &[Outcome]) -> String {
    let mut head = vec!["connections".to_owned()];
    head.extend(columns());
    let mut out = line(&head);
    for outcome in outcomes {
        let mut row = vec![outcome.connections.to_string()];
        row.extend(fields(outcome));
        out.push_str(&line(&row));
    }
    out
}

/// Every run of a suite; one that failed has its reason in the last column.
pub(crate) fn of_suite(results: &Results) -> String {
    let own = ["case", "server", "connections", "round", "order"];
    let machine = [
        "server_cpu_micros",
        "machine_cpu_micros",
        "instructions",
        "steal",
        "busy",
        "others",
        "failure",
    ];
    let mut head: Vec<String> = own.map(str::to_owned).to_vec();
    head.extend(columns());
    head.extend(machine.map(str::to_owned));
    let mut out = line(&head);
    for case in &results.cases {
        for run in &case.runs {
            let mut row = vec![
                case.name.clone(),
                run.server.clone(),
                run.connections.to_string(),
                run.round.to_string(),
                run.order.to_string(),
            ];
            let empty = vec![String::new(); columns().len()];
            row.extend(run.outcome.as_ref().map_or(empty, fields));
            row.extend(machine_fields(run, case.instructions.get(&run.server).copied()));
            out.push_str(&line(&row));
        }
    }
    out
}

fn machine_fields(run: &Run, instructions: Option<f64>) -> [String; 7] {
    let number = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    [
        number(run.cpu_micros()),
        number(run.machine_cpu_micros()),
        number(instructions),
        format!("{:.4}", run.noise.steal),
        format!("{:.4}", run.noise.busy),
        format!("{:.4}", run.noise.others),
        run.failure.clone().unwrap_or_default(),
    ]
}

fn columns() -> Vec<String> {
    let mut columns: Vec<String> = OUTCOME.map(str::to_owned).to_vec();
    columns.extend(["mean_micros", "deviation_micros", "min_micros"].map(str::to_owned));
    columns.extend(
        PERCENTILES.map(|percentile| format!("{}_micros", figures::percentile(percentile))),
    );
    columns.push("uncorrected_p99_micros".to_owned());
    columns.push("in_flight".to_owned());
    columns.extend(SPOKEN.map(str::to_owned));
    columns
}

fn fields(outcome: &Outcome) -> Vec<String> {
    let (mode, offered) = match &outcome.mode {
        Mode::Closed => ("closed", String::new()),
        Mode::Open { rate_per_second } => ("open", rate_per_second.to_string()),
        Mode::Users { .. } => ("users", String::new()),
    };
    let mut row = vec![
        outcome.target.clone(),
        mode.to_owned(),
        offered,
        outcome.pipeline.to_string(),
        outcome.threads.to_string(),
        figures::date(outcome.started_unix_ms),
        format!("{:.3}", outcome.seconds),
        outcome.requests.to_string(),
        outcome.responses.to_string(),
        format!("{:.3}", outcome.rate),
        outcome.sustained.map(|yes| yes.to_string()).unwrap_or_default(),
        outcome.bytes_received.to_string(),
        outcome.bytes_sent.to_string(),
    ];
    row.extend(outcome.errors.kinds().map(|(_, count)| count.to_string()));
    row.push(outcome.client_saturated.to_string());
    let latency = &outcome.latency;
    row.push(format!("{:.3}", latency.mean_micros));
    row.push(format!("{:.3}", latency.deviation_micros));
    row.push(latency.min_micros.to_string());
    let backed = |percentile| latency.backed(percentile);
    row.extend(
        PERCENTILES.map(|percentile| {
            backed(percentile).map(|micros| micros.to_string()).unwrap_or_default()
        }),
    );
    let sent = outcome.uncorrected.as_ref().map(|latency| latency.percentile(99.0).to_string());
    row.push(sent.unwrap_or_default());
    row.push(outcome.in_flight.to_string());
    row.push(outcome.protocol.clone().unwrap_or_default());
    row.push(outcome.streams.to_string());
    let tls = outcome.tls.as_ref();
    row.push(tls.map(|tls| tls.version.clone()).unwrap_or_default());
    row.push(tls.map(|tls| tls.full_handshakes.to_string()).unwrap_or_default());
    row.push(tls.map(|tls| tls.resumed_handshakes.to_string()).unwrap_or_default());
    row
}

fn line(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    quoted.join(",") + "\r\n"
}

fn quoted(field: &str) -> String {
    match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}
