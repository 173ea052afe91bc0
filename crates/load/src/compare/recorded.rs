//! What earlier measurements left in JSON files, as figures that can stand side by side.

use std::collections::BTreeMap;
use std::path::Path;

use super::Figure;
use crate::figures;
use crate::outcome::{Mode, Outcome, Steps};
use crate::results::{Case, FORMAT, Results, Run};

/// The content of a file.
#[derive(Clone, Debug)]
pub(super) enum Recorded {
    Suite(Box<Results>),
    Runs(Vec<Outcome>),
}

/// One figure at one place: a value per round, or per second.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) place: String,
    pub(super) figure: Figure,
    pub(super) values: BTreeMap<u32, f64>,
}

impl Recorded {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("error: cannot read {name}: {error}\n"))?;
        Self::parse(&text).map_err(|reason| format!("error: {name}: {reason}\n"))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))?;
        let wrong = |error: serde_json::Error| format!("these are no results: {error}");
        if value.get("cases").is_some() {
            let found = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
            if found != u64::from(FORMAT) {
                return Err(format!("results of format {found}; this program reads {FORMAT}"));
            }
            return serde_json::from_str(text)
                .map(|suite| Self::Suite(Box::new(suite)))
                .map_err(wrong);
        }
        if value.is_array() {
            return serde_json::from_str(text).map(Self::Runs).map_err(wrong);
        }
        if value.get("steps").is_some() {
            return serde_json::from_str(text)
                .map(|Steps { steps, .. }| Self::Runs(steps))
                .map_err(wrong);
        }
        serde_json::from_str(text).map(|run| Self::Runs(vec![run])).map_err(wrong)
    }

    pub(super) fn measured(&self) -> Vec<Measured> {
        match self {
            Self::Suite(results) => results.cases.iter().flat_map(of_case).collect(),
            Self::Runs(outcomes) => outcomes.iter().flat_map(of_outcome).collect(),
        }
    }

    /// Settings and surroundings by name.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        match self {
            Self::Suite(results) => suite_settings(results),
            Self::Runs(outcomes) => outcomes.first().map(run_settings).unwrap_or_default(),
        }
    }
}

fn of_case(case: &Case) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    let latency = |run: &Run, percentile| {
        Some(figures::float(run.outcome.as_ref()?.latency.percentile(percentile)))
    };
    for run in &case.runs {
        let place = format!("{} · {} · {}", case.name, run.server, run.connections);
        let values = [
            (Figure::Rate, run.outcome.as_ref().map(|outcome| outcome.rate)),
            (Figure::P50, latency(run, 50.0)),
            (Figure::P99, latency(run, 99.0)),
            (Figure::Cpu, run.cpu_micros()),
        ];
        for (figure, value) in values {
            if let Some(value) = value {
                add(&mut all, &place, figure, (run.round, value));
            }
        }
    }
    for (server, count) in &case.instructions {
        let place = format!("{} · {server}", case.name);
        // Counted once, and the same to one percent however often it is done.
        (1..=3).for_each(|round| add(&mut all, &place, Figure::Instructions, (round, *count)));
    }
    all
}

fn add(all: &mut Vec<Measured>, place: &str, figure: Figure, (pair, value): (u32, f64)) {
    match all.iter_mut().find(|known| known.place == place && known.figure == figure) {
        Some(known) => {
            known.values.insert(pair, value);
        }
        None => all.push(Measured {
            place: place.to_owned(),
            figure,
            values: BTreeMap::from([(pair, value)]),
        }),
    }
}

/// Whole seconds only: the last one is cut off by the end of the run.
fn of_outcome(outcome: &Outcome) -> Vec<Measured> {
    let place = match &outcome.mode {
        Mode::Closed => format!("{} connections", outcome.connections),
        Mode::Open { rate_per_second } => {
            format!("{rate_per_second}/s over {} connections", outcome.connections)
        }
        Mode::Users { users, .. } => format!("{users} users"),
    };
    let whole = outcome
        .series
        .iter()
        .filter(|second| f64::from(second.offset) + 1.0 <= outcome.seconds + 0.01);
    let mut all = Vec::new();
    for second in whole {
        let values = [
            (Figure::Rate, second.responses),
            (Figure::P50, second.p50_micros),
            (Figure::P99, second.p99_micros),
        ];
        for (figure, value) in values {
            add(&mut all, &place, figure, (second.offset, figures::float(value)));
        }
    }
    all
}

fn suite_settings(results: &Results) -> Vec<(String, String)> {
    let machine = &results.environment;
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut all = vec![
        fact("suite", results.suite.clone()),
        fact("load generator", results.tool.clone()),
        fact("CPU", machine.cpu.clone()),
        fact("cores", machine.cores.to_string()),
        fact("memory", figures::bytes(figures::float(machine.memory_bytes))),
        fact("kernel", machine.kernel.clone()),
        fact("system", machine.system.clone()),
        fact("commit", machine.commit.clone().unwrap_or_default()),
        fact("branch", machine.branch.clone().unwrap_or_default()),
        fact("steal", figures::percent(machine.steal)),
    ];
    all.extend(results.parameters.clone());
    for server in &results.servers {
        let version = server.version.clone().unwrap_or_default();
        all.push(fact(&format!("version of {}", server.name), version));
        all.push(fact(
            &format!("CPUs of {}", server.name),
            server.cpus.clone().unwrap_or_default(),
        ));
    }
    for case in &results.cases {
        let settings = case.parameters.iter();
        all.extend(
            settings.map(|(name, value)| fact(&format!("{}: {name}", case.name), value.clone())),
        );
    }
    all
}

fn run_settings(outcome: &Outcome) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    vec![
        fact("load generator", outcome.tool.clone()),
        fact("target", outcome.target.clone()),
        fact("connections", outcome.connections.to_string()),
        fact("threads", outcome.threads.to_string()),
        fact("pipelining", outcome.pipeline.to_string()),
        fact("protocol", outcome.protocol.clone().unwrap_or_else(|| "HTTP/1.1".to_owned())),
        fact("streams", outcome.streams.to_string()),
        fact("mode", format!("{:?}", outcome.mode)),
        fact("seconds", format!("{:.0}", outcome.seconds)),
    ]
}
