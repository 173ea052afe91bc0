//! The report of a test, in the form of redis-benchmark's.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::scan::Reply;
use super::thread::Plan;
use crate::figures::float;
use crate::histogram::{Histogram, decode, millis};
use crate::outcome::Outcome;

/// A test with all it measured.
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    pub(crate) replies: BTreeMap<String, u64>,
    pub(crate) trouble: Option<String>,
}

/// What the server said of its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// `save` and `appendonly`, as far as they were told.
    settings: Vec<String>,
    /// What it said instead of taking a password or a database.
    pub(crate) refusal: Option<String>,
}

/// The settings that are asked for, in this order.
const SETTINGS: [&str; 2] = ["save", "appendonly"];

impl Config {
    /// Takes a reply: to a question about a setting, or to what is said before.
    pub(crate) fn note(&mut self, is_setting: bool, reply: &Reply, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        match (is_setting, reply) {
            (true, Reply::Fine) => self.settings.push(last_value(&text)),
            // Without a password nothing else would be answered either.
            (_, Reply::Error(word)) if word == "NOAUTH" => {
                self.refusal = Some(text.trim().to_owned());
            }
            (true, Reply::Error(word)) => self.settings.push(format!("unknown ({word})")),
            (false, Reply::Error(_)) => self.refusal = Some(text.trim().to_owned()),
            (false, Reply::Fine) => {}
        }
    }
}

/// The value in `[name, value]`.
fn last_value(text: &str) -> String {
    let lines: Vec<&str> = text.split("\r\n").filter(|line| !line.starts_with('*')).collect();
    // Each element is a length and a text; an answer without a value is no answer.
    let values: Vec<&str> = lines.chunks_exact(2).filter_map(|pair| pair.last()).copied().collect();
    match values.as_slice() {
        [_, value, ..] => value.chars().filter(|c| !c.is_control()).take(200).collect(),
        _ => "unknown".to_owned(),
    }
}

/// The report of one test.
#[must_use]
pub(crate) fn report(measured: &Measured, plan: &Plan, config: &Config, data: u64) -> String {
    let outcome = &measured.outcome;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_head(&mut text, measured, plan, (config, data));
    let counted = decode(&outcome.latency.histogram).unwrap_or_default();
    if counted.count() > 0 {
        let _ = write_percentiles(&mut text, &counted);
        let _ = write_cumulative(&mut text, &counted);
    }
    let _ = write_summary(&mut text, measured, &counted);
    text
}

fn write_head(
    text: &mut String,
    measured: &Measured,
    plan: &Plan,
    (config, data): (&Config, u64),
) -> std::fmt::Result {
    let outcome = &measured.outcome;
    writeln!(text, "====== {} ======", plan.test.title)?;
    let (replies, seconds) = (outcome.responses, outcome.seconds);
    writeln!(text, "  {replies} requests completed in {seconds:.2} seconds")?;
    writeln!(text, "  {} parallel clients", plan.connections)?;
    writeln!(text, "  {data} bytes payload")?;
    writeln!(text, "  keep alive: 1")?;
    for (name, value) in SETTINGS.iter().zip(&config.settings) {
        writeln!(text, "  host configuration \"{name}\": {value}")?;
    }
    if plan.pipeline > 1 {
        writeln!(text, "  pipeline: {}", plan.pipeline)?;
    }
    match plan.threads {
        1 => writeln!(text, "  multi-thread: no")?,
        threads => writeln!(text, "  multi-thread: yes\n  threads: {threads}")?,
    }
    if outcome.interrupted {
        writeln!(text, "  interrupted")?;
    }
    writeln!(text)
}

/// Steps that halve the distance to 100 %.
fn write_percentiles(text: &mut String, counted: &Histogram) -> std::fmt::Result {
    writeln!(text, "Latency by percentile distribution:")?;
    let mut percentile = 0.0_f64;
    let last = counted.percentile(100.0);
    loop {
        let micros = counted.percentile(percentile);
        write_row(text, (percentile, micros), counted.count_up_to(micros))?;
        if micros >= last {
            break;
        }
        percentile += (100.0 - percentile) / 2.0;
    }
    if percentile < 100.0 {
        write_row(text, (100.0, last), counted.count())?;
    }
    writeln!(text)
}

/// Steps of 0.1 ms, from 2 ms on of 1 ms; those in which nothing happened are left out.
fn write_cumulative(text: &mut String, counted: &Histogram) -> std::fmt::Result {
    writeln!(text, "Cumulative distribution of latencies:")?;
    let (all, last) = (counted.count(), counted.percentile(100.0));
    let (mut bound, mut before) = (0, None);
    while before != Some(all) && bound <= last.saturating_add(1000) {
        bound += if bound < 2000 { 100 } else { 1000 };
        let count = counted.count_up_to(bound);
        if before != Some(count) {
            write_row(text, (float(count) / float(all) * 100.0, bound), count)?;
        }
        before = Some(count);
    }
    writeln!(text)
}

fn write_row(text: &mut String, (percentile, micros): (f64, u64), count: u64) -> std::fmt::Result {
    let millis = millis(micros);
    writeln!(text, "{percentile:.3}% <= {millis:.3} milliseconds (cumulative count {count})")
}

fn write_summary(text: &mut String, measured: &Measured, counted: &Histogram) -> std::fmt::Result {
    let outcome = &measured.outcome;
    let at = |percentile: f64| millis(counted.percentile(percentile));
    writeln!(text, "Summary:")?;
    writeln!(text, "  throughput summary: {:.2} requests per second", outcome.rate)?;
    writeln!(text, "  latency summary (msec):")?;
    let names = ["avg", "min", "p50", "p95", "p99", "max"];
    let figures = [
        outcome.latency.mean_micros / 1e3,
        millis(outcome.latency.min_micros),
        at(50.0),
        at(95.0),
        at(99.0),
        millis(outcome.latency.max_micros),
    ];
    let row = |cells: [String; 6]| cells.map(|cell| format!("{cell:>9}")).join(" ");
    writeln!(text, "  {}", row(names.map(str::to_owned)))?;
    writeln!(text, "  {}", row(figures.map(|figure| format!("{figure:.3}"))))?;
    for (word, times) in &measured.replies {
        writeln!(text, "  error replies {word}: {times}")?;
    }
    for (kind, times) in outcome.errors.kinds() {
        if times > 0 && kind != "unexpected status" {
            writeln!(text, "  errors, {kind}: {times}")?;
        }
    }
    if outcome.client_saturated {
        writeln!(text, "  a thread of the load generator was busy all the time")?;
    }
    writeln!(text)
}
