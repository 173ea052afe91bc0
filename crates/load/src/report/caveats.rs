//! What has to be known before a figure is believed, found in the measurements themselves.

use std::collections::BTreeMap;

use super::summary::{Point, points};
use crate::environment::{MUCH_BY_OTHERS, MUCH_STEAL};
use crate::figures;
use crate::outcome::Outcome;
use crate::results::{Case, Results, State};
use crate::statistics::{ENOUGH_ROUNDS, coverage};

/// How much of all answers may fail before it is said apart.
const FEW: f64 = 1e-6;
/// How far whole replies of two servers may differ.
const LIKE_SIZES: f64 = 1.02;
/// More runs than this share that lost CPU time to the host spoil a report.
const FEW_RUNS: f64 = 0.1;

/// The caveats of a whole suite: those of the machine first, then case by case.
pub(crate) fn of_suite(results: &Results) -> Vec<String> {
    let mut found = machine(results);
    for case in results.cases.iter().filter(|case| case.skipped.is_none()) {
        found.extend(of_case(case).into_iter().map(|text| format!("{}: {text}", case.name)));
    }
    found
}

/// Whether the machine was left to the measurement, in a word and with the reason.
pub(crate) fn quiet(results: &Results) -> String {
    let reasons = disturbances(results);
    if reasons.is_empty() { "yes".to_owned() } else { format!("no: {}", reasons.join(", ")) }
}

/// What disturbed the measurement: with any of it the report is not to be published.
pub(crate) fn disturbances(results: &Results) -> Vec<String> {
    let environment = &results.environment;
    let runs = || results.cases.iter().flat_map(|case| &case.runs);
    let (all, crowded) =
        (runs().count(), runs().filter(|run| run.noise.others > MUCH_BY_OTHERS).count());
    let mut reasons = Vec::new();
    if environment.steal > MUCH_STEAL {
        reasons.push("CPU time was stolen by the host".to_owned());
    }
    let robbed = runs().filter(|run| run.noise.steal > MUCH_STEAL).count();
    if figures::length(robbed) > figures::length(all) * FEW_RUNS {
        reasons.push(format!("the host took CPU time during {robbed} of {all} runs"));
    }
    if environment.was_busy() {
        reasons.push("others were working before it began".to_owned());
    }
    if crowded > 0 {
        reasons.push(format!("others were working during {crowded} of {all} runs"));
    }
    reasons
}

fn machine(results: &Results) -> Vec<String> {
    let environment = &results.environment;
    let mut found = Vec::new();
    if results.state != State::Complete {
        found.push(format!("The suite is {}.", results.state.word()));
    }
    if environment.steal > MUCH_STEAL {
        found.push(format!(
            "The host took away {} of the CPU time: this is not a quiet machine, and differences of a \
             few percent mean nothing.",
            figures::percent(environment.steal)
        ));
    }
    if environment.was_busy() {
        found.push(format!(
            "The load average was {:.2} on {} cores before anything was started: others were working, \
             and their share of the CPUs is missing here.",
            environment.load_before, environment.cores
        ));
    }
    let rounds = results.cases.iter().flat_map(|case| &case.runs).map(|run| run.round).max();
    let rounds = usize::try_from(rounds.unwrap_or(0)).unwrap_or(usize::MAX);
    if (1..ENOUGH_ROUNDS).contains(&rounds) {
        found.push(match rounds {
            1 | 2 => format!("{rounds} round(s) are too few to tell a difference from noise."),
            _ => format!(
                "With {rounds} rounds an interval covers the true median in {} of cases, not in 95 %.",
                figures::percent(coverage(rounds))
            ),
        });
    }
    found
}

/// The caveats of one case.
fn of_case(case: &Case) -> Vec<String> {
    let points = points(case);
    let mut found: Vec<String> = points.iter().flat_map(of_point).collect();
    found.extend(sizes(&points));
    let noisy = case.runs.iter().filter(|run| run.noise.steal > MUCH_STEAL).count();
    if noisy > 0 {
        found.push(format!(
            "{noisy} of {} runs lost more than {} of the CPU time to the host.",
            case.runs.len(),
            figures::percent(MUCH_STEAL)
        ));
    }
    let crowded = case.runs.iter().filter(|run| run.noise.others > MUCH_BY_OTHERS).count();
    if crowded > 0 {
        found.push(format!(
            "in {crowded} of {} runs other programs used more than {} of the CPU time.",
            case.runs.len(),
            figures::percent(MUCH_BY_OTHERS)
        ));
    }
    let failed = case.runs.iter().filter_map(|run| {
        let failure = run.failure.as_ref()?;
        Some(format!("{} at {}, round {}: {failure}", run.server, run.connections, run.round))
    });
    found.extend(failed);
    found
}

fn of_point(point: &Point<'_>) -> Vec<String> {
    let place =
        format!("{} at {} connections", point.server, figures::count(point.connections.into()));
    of_outcomes(&place, &point.outcomes)
}

/// What is wrong with runs of one server, said about `place`.
pub(crate) fn of_outcomes(place: &str, outcomes: &[&Outcome]) -> Vec<String> {
    let mut found = Vec::new();
    let of = |fits: fn(&Outcome) -> bool| outcomes.iter().filter(|run| fits(run)).count();
    let runs = |count: usize| match (count, outcomes.len()) {
        (_, 1) => String::new(),
        (count, all) => format!(" in {count} of {all} runs"),
    };
    if let Some(brought) = outcomes.iter().find_map(|run| run.ramp()) {
        found.push(format!(
            "{place}: the rate is the ramp's, {} requests per second, whatever the server can do",
            figures::rate(brought)
        ));
    }
    if let Some(errors) = errors(outcomes) {
        found.push(format!("{place}: {errors}"));
    }
    let missed = of(|run| run.sustained == Some(false));
    if missed > 0 {
        let limit = outcomes.iter().find_map(|run| Some(run.bottleneck?.words(run)));
        found.push(format!(
            "{place}: not sustained{}: the offered rate was missed by more than 1 %, so the latencies \
             are those of a growing queue{}",
            runs(missed),
            limit.map_or_else(String::new, |words| format!("; {}", words.trim_end_matches('.')))
        ));
    }
    let saturated = of(|run| run.client_saturated);
    if saturated > 0 {
        found.push(format!(
            "{place}: the load generator was the limit{}: the rate is its own, compare CPU time per \
             request instead",
            runs(saturated)
        ));
    }
    let interrupted = of(|run| run.interrupted);
    if interrupted > 0 {
        found.push(format!("{place}: stopped before its end{}", runs(interrupted)));
    }
    found
}

fn errors(outcomes: &[&Outcome]) -> Option<String> {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in outcomes.iter().flat_map(|outcome| outcome.errors.kinds()) {
        let sum = kinds.entry(kind).or_default();
        *sum = sum.saturating_add(count);
    }
    kinds.retain(|_, count| *count > 0);
    if kinds.is_empty() {
        return None;
    }
    let total: u64 = kinds.values().sum();
    let requests: u64 = outcomes.iter().map(|outcome| outcome.requests).sum();
    let share = figures::float(total) / figures::float(requests.max(1));
    let listed: Vec<String> =
        kinds.iter().map(|(kind, count)| format!("{} {kind}", figures::count(*count))).collect();
    let share = if share < FEW { String::new() } else { format!(" ({:.4} %)", share * 100.0) };
    Some(format!(
        "errors among {} requests{share}: {}; percentiles are those of expected responses",
        figures::count(requests),
        listed.join(", ")
    ))
}

/// Says where servers do not send the same amount: then a rate does not compare.
fn sizes(points: &[Point<'_>]) -> Option<String> {
    let mut sizes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for point in points {
        for (low, high) in point.outcomes.iter().filter_map(|outcome| outcome.reply_bytes) {
            let known = sizes.entry(point.server).or_insert((low, high));
            *known = (known.0.min(low), known.1.max(high));
        }
    }
    let least = sizes.values().map(|(low, _)| *low).min()?;
    let most = sizes.values().map(|(_, high)| *high).max()?;
    if figures::float(most) <= figures::float(least) * LIKE_SIZES {
        return None;
    }
    let listed: Vec<String> = sizes
        .iter()
        .map(|(server, (low, high))| match low == high {
            true => format!("{server} {low} bytes"),
            false => format!("{server} {low} to {high} bytes"),
        })
        .collect();
    Some(format!("replies are not alike in size: {}", listed.join(", ")))
}
