//! The report of runs of the load generator alone, without a suite.

use super::caveats;
use super::chart::{Axis, Plot, Scale, Series, nines_label};
use super::document::{Block, Cell, Chart, Document, Table};
use super::summary::Merged;
use crate::figures;
use crate::outcome::{Mode, Outcome, PERCENTILES};

/// The report of one run or of several, like the steps of a ramp.
pub(crate) fn of_outcomes(outcomes: &[Outcome]) -> Document {
    let mut document = Document::default();
    let Some(first) = outcomes.first() else {
        document.title = "No runs".to_owned();
        return document;
    };
    document.title = format!("Load on {}", first.target);
    document.subtitle = format!("{} · {}", figures::date(first.started_unix_ms), first.tool);
    let caveats: Vec<String> = outcomes
        .iter()
        .flat_map(|outcome| caveats::of_outcomes(&setting(outcome), &[outcome]))
        .collect();
    if !caveats.is_empty() {
        document.heading(2, "Caveats");
        document.push(Block::List(caveats));
    }
    document.heading(2, "Results");
    document.push(Block::Table(rates(outcomes)));
    document.push(Block::Table(latencies(outcomes)));
    document.push(Block::Charts(charts(outcomes)));
    document.heading(2, "Parameters");
    document.push(Block::Table(Table::facts(parameters(first))));
    document
}

/// What tells one run from the others.
fn setting(outcome: &Outcome) -> String {
    let connections = figures::count(outcome.connections.into());
    match &outcome.mode {
        Mode::Closed => format!("{connections} connections"),
        Mode::Open { rate_per_second } => {
            format!("{}/s over {connections} connections", figures::rate(*rate_per_second))
        }
        Mode::Users { users, requests_each, ramp_seconds } => format!(
            "{} users, {} requests each, within {ramp_seconds} s",
            figures::count(*users),
            figures::count(*requests_each)
        ),
    }
}

fn rates(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "run",
        "req/s",
        "sustained",
        "requests",
        "responses",
        "in flight at the end",
        "seconds",
        "received",
        "sent",
        "statuses",
        "errors",
    ]);
    for outcome in outcomes {
        let statuses: Vec<String> = outcome
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {}", figures::count(*count)))
            .collect();
        table.rows.push(vec![
            Cell::new(setting(outcome)),
            Cell::new(figures::rate(outcome.rate)),
            Cell::maybe(outcome.sustained.map(|yes| if yes { "yes" } else { "no" }.to_owned())),
            Cell::new(figures::count(outcome.requests)),
            Cell::new(figures::count(outcome.responses)),
            Cell::new(figures::count(outcome.in_flight)),
            Cell::new(format!("{:.2}", outcome.seconds)),
            Cell::new(figures::bytes(figures::float(outcome.bytes_received))),
            Cell::new(figures::bytes(figures::float(outcome.bytes_sent))),
            Cell::new(statuses.join(", ")),
            Cell::new(figures::count(outcome.errors.total())),
        ]);
    }
    table
}

fn latencies(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(["latency", "mean", "deviation"]);
    table.columns.extend(PERCENTILES.map(figures::percentile));
    for outcome in outcomes {
        let both = [
            (Some(&outcome.latency), ""),
            (outcome.uncorrected.as_ref(), ", uncorrected"),
            (outcome.unexpected.as_ref(), ", unexpected responses"),
        ];
        for (latency, what) in both {
            let Some(latency) = latency else { continue };
            let mut row = vec![
                Cell::new(format!("{}{what}", setting(outcome))),
                Cell::new(figures::time(latency.mean_micros)),
                Cell::new(figures::time(latency.deviation_micros)),
            ];
            row.extend(PERCENTILES.map(|percentile| {
                let backed = latency.backed(percentile);
                Cell::maybe(backed.map(|micros| figures::time(figures::float(micros))))
            }));
            table.rows.push(row);
        }
    }
    table
}

fn charts(outcomes: &[Outcome]) -> Vec<Chart> {
    let mut curves = Vec::new();
    for (colour, outcome) in outcomes.iter().enumerate() {
        let both = [(Some(&outcome.latency), false), (outcome.uncorrected.as_ref(), true)];
        for (latency, dashed) in both {
            let Some(latency) = latency else { continue };
            let name = setting(outcome) + if dashed { ", uncorrected" } else { "" };
            let points = Merged::new(&[latency]).curve();
            curves.push(Series { name, colour, dashed, points });
        }
    }
    let time = Axis { label: "Latency", scale: Scale::Logarithmic, write: figures::time };
    let percentiles = Axis { label: "percentile", scale: Scale::Nines, write: nines_label };
    let title = "Latency by percentile".to_owned();
    let latency = Plot { title: title.clone(), x: percentiles, y: time, series: curves };
    let mut charts = vec![Chart { name: "latency".to_owned(), caption: title, svg: latency.svg() }];
    if outcomes.iter().any(|outcome| outcome.series.len() > 1) {
        charts.push(over_time(outcomes));
    }
    charts
}

fn over_time(outcomes: &[Outcome]) -> Chart {
    let series = outcomes.iter().enumerate().map(|(colour, outcome)| Series {
        name: setting(outcome),
        colour,
        dashed: false,
        points: outcome
            .series
            .iter()
            .map(|second| (f64::from(second.offset), figures::float(second.responses)))
            .collect(),
    });
    let title = "Requests per second over time".to_owned();
    let plot = Plot {
        title: title.clone(),
        x: Axis { label: "seconds", scale: Scale::Linear, write: |value| format!("{value}") },
        y: Axis { label: "Requests per second", scale: Scale::Linear, write: figures::rate },
        series: series.collect(),
    };
    Chart { name: "rate".to_owned(), caption: title, svg: plot.svg() }
}

fn parameters(outcome: &Outcome) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![
        fact("Target", outcome.target.clone()),
        fact("Load", setting(outcome)),
        fact("Threads", outcome.threads.to_string()),
        fact("Pipelining", outcome.pipeline.to_string()),
        fact("Own CPU time", format!("{:.2} s", outcome.client_cpu_seconds)),
    ];
    if let Some(protocol) = &outcome.protocol {
        facts.push(fact("Protocol", protocol.clone()));
        facts.push(fact("Streams", outcome.streams.to_string()));
    }
    if let Some(tls) = &outcome.tls {
        facts.push(fact("TLS", format!("{} {}", tls.version, tls.suite)));
        let (full, resumed) = (figures::rate(tls.full_rate), figures::rate(tls.resumed_rate));
        facts.push(fact("Handshakes", format!("{full}/s full, {resumed}/s resumed")));
    }
    facts
}
