//! The runs of a case put together: one line per server and connection count, one pairing per peer.

use std::collections::BTreeSet;

use crate::figures;
use crate::histogram::{self, Histogram};
use crate::outcome::{Errors, Latency, Outcome, is_backed};
use crate::results::{Case, Run};
use crate::statistics::{Ratio, median, paired_ratio};

/// All rounds of one server at one connection count.
#[derive(Clone, Debug)]
pub(crate) struct Point<'a> {
    pub(crate) server: &'a str,
    pub(crate) connections: u32,
    pub(crate) outcomes: Vec<&'a Outcome>,
    /// Median of the rounds, answers per second.
    pub(crate) rate: f64,
    /// CPU time of the server per answer in microseconds, median of the rounds.
    pub(crate) cpu: Option<f64>,
    /// That of the whole machine.
    pub(crate) machine_cpu: Option<f64>,
    pub(crate) latency: Merged,
    /// Open loop: from the moment of sending.
    pub(crate) uncorrected: Option<Merged>,
    pub(crate) errors: Errors,
}

impl Point<'_> {
    /// Whether the rate is that of users who come one after the other.
    pub(crate) fn is_ramps(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.ramp().is_some())
    }
}

/// Latencies of several rounds as one distribution.
#[derive(Clone, Debug)]
pub(crate) struct Merged {
    pub(crate) mean: f64,
    histogram: Option<Histogram>,
    /// Medians of the rounds' percentiles, where a round has no histogram.
    percentiles: Vec<(f64, f64)>,
}

impl Merged {
    pub(crate) fn new(latencies: &[&Latency]) -> Self {
        let counted: u64 = latencies.iter().map(|latency| latency.count).sum();
        let weighted: f64 = latencies
            .iter()
            .map(|latency| latency.mean_micros * figures::float(latency.count))
            .sum();
        let known = latencies.first().map(|latency| latency.percentiles.as_slice());
        let percentiles = known.unwrap_or_default().iter().filter_map(|(percentile, _)| {
            let values: Vec<f64> = latencies
                .iter()
                .map(|latency| figures::float(latency.percentile(*percentile)))
                .collect();
            Some((*percentile, median(&values)?))
        });
        Self {
            mean: weighted / figures::float(counted.max(1)),
            histogram: merged(latencies),
            percentiles: percentiles.collect(),
        }
    }

    /// In microseconds; nothing where it was not measured.
    pub(crate) fn percentile(&self, wanted: f64) -> Option<f64> {
        if let Some(histogram) = &self.histogram {
            return Some(figures::float(histogram.percentile(wanted)));
        }
        let near = |(percentile, _): &&(f64, f64)| (percentile - wanted).abs() < 1e-9;
        self.percentiles.iter().find(near).map(|(_, micros)| *micros)
    }

    /// The same, if enough responses back it.
    pub(crate) fn backed(&self, wanted: f64) -> Option<f64> {
        let enough = |histogram: &Histogram| is_backed(wanted, histogram.count());
        self.percentile(wanted).filter(|_| self.histogram.as_ref().is_none_or(enough))
    }

    /// The curve over log10(1/(1-p)), as far as there are answers that far out.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        let nines = |percentile: f64| -(1.0 - percentile / 100.0).log10();
        let Some(histogram) = &self.histogram else {
            let known = self.percentiles.iter().filter(|(percentile, _)| *percentile < 100.0);
            return known.map(|(percentile, micros)| (nines(*percentile), *micros)).collect();
        };
        let last = figures::float(histogram.count().max(1)).log10().min(6.0);
        let steps = figures::whole(last * 20.0);
        let at = |step: u64| {
            let nines = figures::float(step) / 20.0;
            let percentile = 100.0 * (1.0 - 10_f64.powf(-nines));
            (nines, figures::float(histogram.percentile(percentile)))
        };
        (0..=steps).map(at).collect()
    }
}

/// Nothing unless every round has a histogram that can be read.
fn merged(latencies: &[&Latency]) -> Option<Histogram> {
    let mut all = Histogram::new();
    for latency in latencies.iter().filter(|latency| latency.count > 0) {
        all.add(&histogram::decode(&latency.histogram).ok()?);
    }
    (all.count() > 0).then_some(all)
}

/// Every server and connection count of a case that has at least one run, in the case's order.
pub(crate) fn points(case: &Case) -> Vec<Point<'_>> {
    let mut found = Vec::new();
    for server in &case.servers {
        for connections in connections(case) {
            let runs: Vec<&Run> = case
                .runs
                .iter()
                .filter(|run| run.server == *server && run.connections == connections)
                .collect();
            found.extend(point(server, connections, &runs));
        }
    }
    found
}

/// The connection counts of a case, rising.
pub(crate) fn connections(case: &Case) -> BTreeSet<u32> {
    case.runs.iter().map(|run| run.connections).collect()
}

fn point<'a>(server: &'a str, connections: u32, runs: &[&'a Run]) -> Option<Point<'a>> {
    let outcomes: Vec<&Outcome> = runs.iter().filter_map(|run| run.outcome.as_ref()).collect();
    let rates: Vec<f64> = outcomes.iter().map(|outcome| outcome.rate).collect();
    let rate = median(&rates)?;
    let latencies: Vec<&Latency> = outcomes.iter().map(|outcome| &outcome.latency).collect();
    let uncorrected: Vec<&Latency> =
        outcomes.iter().filter_map(|outcome| outcome.uncorrected.as_ref()).collect();
    let mut errors = Errors::default();
    for outcome in &outcomes {
        errors.add(&outcome.errors);
    }
    let of = |pick: fn(&Run) -> Option<f64>| {
        median(&runs.iter().filter_map(|run| pick(run)).collect::<Vec<f64>>())
    };
    Some(Point {
        server,
        connections,
        rate,
        cpu: of(Run::cpu_micros),
        machine_cpu: of(Run::machine_cpu_micros),
        latency: Merged::new(&latencies),
        uncorrected: (!uncorrected.is_empty()).then(|| Merged::new(&uncorrected)),
        errors,
        outcomes,
    })
}

/// The first server of a case beside one other, at one connection count.
#[derive(Clone, Debug)]
pub(crate) struct Pairing<'a> {
    pub(crate) subject: Point<'a>,
    pub(crate) peer: Point<'a>,
    /// Answers per second, first to other, of the rounds that both have.
    pub(crate) rate: Option<Ratio>,
    /// CPU time per answer, first to other.
    pub(crate) cpu: Option<Ratio>,
    /// 99th percentile, first to other.
    pub(crate) p99: Option<Ratio>,
}

/// The first server of a case that has runs, beside each of the others.
pub(crate) fn pairings(case: &Case) -> Vec<Pairing<'_>> {
    let points = points(case);
    let Some(subject) = case.servers.first() else { return Vec::new() };
    let mut found = Vec::new();
    for own in points.iter().filter(|point| point.server == subject) {
        let others = points
            .iter()
            .filter(|point| point.server != subject && point.connections == own.connections);
        for peer in others {
            let ratio = |figure: fn(&Run) -> Option<f64>| ratio(case, own, peer, figure);
            found.push(Pairing {
                rate: ratio(|run| Some(run.outcome.as_ref()?.rate)),
                cpu: ratio(Run::cpu_micros),
                p99: ratio(p99),
                subject: own.clone(),
                peer: peer.clone(),
            });
        }
    }
    found
}

fn p99(run: &Run) -> Option<f64> {
    run.outcome.as_ref()?.latency.backed(99.0).map(figures::float)
}

fn ratio(
    case: &Case,
    own: &Point<'_>,
    peer: &Point<'_>,
    figure: fn(&Run) -> Option<f64>,
) -> Option<Ratio> {
    let of = |server: &str, round: u32| {
        let connections = own.connections;
        let mine = |run: &&Run| {
            run.server == server && run.round == round && run.connections == connections
        };
        case.runs.iter().find(mine).and_then(figure)
    };
    let rounds: BTreeSet<u32> = case.runs.iter().map(|run| run.round).collect();
    let pairs: Vec<(f64, f64)> = rounds
        .into_iter()
        .filter_map(|round| Some((of(own.server, round)?, of(peer.server, round)?)))
        .collect();
    paired_ratio(&pairs)
}
