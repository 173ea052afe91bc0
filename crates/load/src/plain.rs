//! The plain report of a run on the terminal.

use crate::arguments::BenchArguments;
use crate::figures::{bytes, count, float, percentile as name_of, rate, time};
use crate::histogram::{decode, spectrum_text};
use crate::outcome::{Bottleneck, Latency, Mode, Outcome, PERCENTILES, Steps};
use crate::run::Finished;
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// The report of one run.
#[must_use]
pub fn report(finished: &Finished) -> String {
    let outcome = &finished.outcome;
    let mut text = heading(outcome);
    text.push_str(&totals(outcome));
    text.push_str(&failures(outcome, &finished.reasons));
    if outcome.latency.count > 0 {
        text.push_str(&latencies(outcome));
    }
    for remark in remarks(outcome) {
        text.push_str(&format!("\nNote: {remark}\n"));
    }
    text
}

/// The detailed percentile tables of one run, if they were asked for.
pub(crate) fn spectrum(arguments: &BenchArguments, outcome: &Outcome) -> String {
    if arguments.spectrum { spectra(outcome) } else { String::new() }
}

fn heading(outcome: &Outcome) -> String {
    let how = match &outcome.mode {
        Mode::Closed => "closed loop".to_owned(),
        Mode::Open { rate_per_second } => format!("open loop at {}/s", rate(*rate_per_second)),
        Mode::Users { users, requests_each, ramp_seconds } => {
            let ramp = time(ramp_seconds * 1e6);
            format!("{users} users with {requests_each} requests each, all come within {ramp}")
        }
    };
    let pipeline = match outcome.pipeline {
        1 => String::new(),
        depth => format!(", {depth} requests at once"),
    };
    let interrupted = if outcome.interrupted { ", interrupted" } else { "" };
    format!(
        "{}\n{}, {}{pipeline}, {how}, {}{interrupted}\n\n",
        outcome.target,
        several(outcome.connections, "connection"),
        several(outcome.threads, "thread"),
        time(outcome.seconds * 1e6),
    )
}

/// A number of things: `1 thread`, `2 threads`.
fn several(number: u32, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

fn totals(outcome: &Outcome) -> String {
    let mut text = format!("{:<12}{}/s", "Rate", rate(outcome.rate));
    match (&outcome.mode, outcome.sustained) {
        (Mode::Open { rate_per_second }, Some(false)) => {
            text.push_str(&format!(" of {}/s: NOT SUSTAINED", rate(*rate_per_second)));
        }
        (_, Some(true)) => text.push_str(", sustained"),
        _ => {}
    }
    if unexpected(outcome) > 0 {
        text.push_str(&format!("; {}/s as expected", rate(outcome.good_rate())));
    }
    text.push_str(&format!("\n{}", spoken(outcome)));
    text.push_str(&format!(
        "{:<12}{} answered, {} failed{}\n",
        "Requests",
        count(outcome.responses),
        count(outcome.requests.saturating_sub(outcome.responses)),
        in_flight(outcome),
    ));
    for (name, total) in [("Received", outcome.bytes_received), ("Sent", outcome.bytes_sent)] {
        let each = if outcome.seconds > 0.0 { float(total) / outcome.seconds } else { 0.0 };
        text.push_str(&format!("{name:<12}{} ({}/s)\n", bytes(float(total)), bytes(each)));
    }
    let statuses: Vec<String> =
        outcome.statuses.iter().map(|(code, times)| format!("{code}: {}", count(*times))).collect();
    if !statuses.is_empty() {
        text.push_str(&format!("{:<12}{}\n", "Status", statuses.join(", ")));
    }
    text
}

/// Responses that were not what was expected.
fn unexpected(outcome: &Outcome) -> u64 {
    outcome.errors.unexpected_status.saturating_add(outcome.errors.unexpected_body)
}

/// What the end of the run cut off.
fn in_flight(outcome: &Outcome) -> String {
    if outcome.in_flight == 0 {
        return String::new();
    }
    let oldest = time(float(outcome.oldest_in_flight_micros));
    format!(", {} in flight at the end (oldest: {oldest})", count(outcome.in_flight))
}

/// Protocol and encryption, as far as they are known.
fn spoken(outcome: &Outcome) -> String {
    let Some(protocol) = &outcome.protocol else { return String::new() };
    let mut text = format!("{:<12}{protocol}", "Protocol");
    if protocol == "HTTP/2" {
        text.push_str(&format!(", {} per connection", several(outcome.streams, "stream")));
    }
    let Some(tls) = &outcome.tls else { return text + "\n" };
    let group = tls.group.as_ref().map_or_else(String::new, |group| format!(", {group}"));
    text.push_str(&format!(", TLS {} ({}{group})\n", tls.version, tls.suite));
    if tls.full_handshakes + tls.resumed_handshakes > 0 {
        text.push_str(&format!(
            "{:<12}{} full ({}/s), {} resumed ({}/s)\n",
            "Handshakes",
            count(tls.full_handshakes),
            rate(tls.full_rate),
            count(tls.resumed_handshakes),
            rate(tls.resumed_rate),
        ));
    }
    text
}

fn failures(outcome: &Outcome, reasons: &BTreeMap<&'static str, String>) -> String {
    let mut text = String::new();
    for (kind, times) in outcome.errors.kinds() {
        if times > 0 {
            let title = if text.is_empty() { "Errors" } else { "" };
            let reason = reasons.get(kind).map_or(String::new(), |why| format!(" ({why})"));
            text.push_str(&format!("{title:<12}{kind}: {}{reason}\n", count(times)));
        }
    }
    if text.is_empty() { format!("{:<12}none\n", "Errors") } else { text }
}

fn latencies(outcome: &Outcome) -> String {
    let mut columns: Vec<(&str, &Latency)> = match &outcome.uncorrected {
        Some(uncorrected) => vec![("since due", &outcome.latency), ("since sent", uncorrected)],
        None if outcome.unexpected.is_some() => vec![("expected", &outcome.latency)],
        None => vec![("", &outcome.latency)],
    };
    columns.extend(outcome.unexpected.as_ref().map(|latency| ("unexpected", latency)));
    let row = |name: &str, figure: &dyn Fn(&Latency) -> Option<f64>| {
        let mut line = format!("  {name:<10}");
        for (_, latency) in &columns {
            let figure = figure(latency).filter(|_| latency.count > 0);
            line.push_str(&format!("{:>12}", figure.map_or("n/a".to_owned(), time)));
        }
        line.push('\n');
        line
    };
    let mut text = format!("\n{:<12}", "Latency");
    for (title, _) in &columns {
        text.push_str(&format!("{title:>12}"));
    }
    let mut text = format!("{}\n", text.trim_end());
    text.push_str(&row("mean", &|latency| Some(latency.mean_micros)));
    text.push_str(&row("deviation", &|latency| Some(latency.deviation_micros)));
    for percentile in PERCENTILES {
        let name = name_of(percentile);
        text.push_str(&row(&name, &|latency| latency.backed(percentile).map(float)));
    }
    text
}

fn remarks(outcome: &Outcome) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(outcome.bottleneck.map(|limit| limit.words(outcome)));
    remarks.extend(ramp(outcome));
    if outcome.responses == 0 && !outcome.interrupted {
        remarks.push("nothing was answered.".to_owned());
    }
    if outcome.client_saturated && outcome.bottleneck != Some(Bottleneck::LoadGenerator) {
        remarks.push(
            "a thread of the load generator was busy all the time: it may be what was measured."
                .to_owned(),
        );
    }
    if outcome.streams_allowed.is_some_and(|most| most < outcome.streams) {
        let what = "the server allows fewer streams on a connection than were asked for.";
        remarks.push(what.to_owned());
    }
    let interrupted = match (outcome.interrupted, outcome.seconds > 0.0) {
        (true, true) => Some("the run was interrupted; the figures are those until then."),
        (true, false) => Some("the run was interrupted before the measuring began."),
        (false, _) => None,
    };
    remarks.extend(interrupted.map(str::to_owned));
    remarks
}

/// Where users come one after the other, the rate is theirs and not the server's.
fn ramp(outcome: &Outcome) -> Option<String> {
    let brought = outcome.ramp()?;
    Some(format!(
        "the rate is the ramp's: the users bring {} requests per second, whatever the server can do.",
        rate(brought)
    ))
}

fn spectra(outcome: &Outcome) -> String {
    let mut text = String::new();
    let corrected = match outcome.uncorrected {
        Some(_) => "Detailed percentiles, since due (ms)",
        None => "Detailed percentiles (ms)",
    };
    let both = [Some(&outcome.latency), outcome.uncorrected.as_ref()];
    let titles = [corrected, "Detailed percentiles, since sent (ms)"];
    for (latency, title) in both.into_iter().zip(titles) {
        if let Some(histogram) = latency.and_then(|latency| decode(&latency.histogram).ok()) {
            text.push_str(&format!("\n{title}\n{}", spectrum_text(&histogram)));
        }
    }
    text
}

fn offered_rate(outcome: &Outcome) -> f64 {
    match outcome.mode {
        Mode::Open { rate_per_second } => rate_per_second,
        Mode::Closed | Mode::Users { .. } => 0.0,
    }
}

/// A heading for one step of such a search.
pub(crate) fn offered(outcome: &Outcome) -> String {
    format!("Offered: {}/s", rate(offered_rate(outcome)))
}

/// The table of a search for the highest rate.
#[must_use]
pub fn steps(steps: &Steps) -> String {
    let titles = ["offered/s", "served/s", "p50", "p99", "errors", "sustained"];
    let mut text = titles.map(|title| format!("{title:>12}")).concat();
    text.push('\n');
    for outcome in &steps.steps {
        let offered = offered_rate(outcome);
        let at = |percentile| {
            outcome
                .latency
                .backed(percentile)
                .map_or("n/a".to_owned(), |micros| time(float(micros)))
        };
        let sustained = match (outcome.interrupted, outcome.sustained) {
            (true, _) => "interrupted",
            (false, Some(true)) => "yes",
            (false, _) => "NO",
        };
        let cells = [
            rate(offered),
            rate(outcome.rate),
            at(50.0),
            at(99.0),
            count(outcome.errors.total()),
            sustained.to_owned(),
        ];
        text.push_str(&cells.map(|cell| format!("{cell:>12}")).concat());
        text.push('\n');
    }
    let verdict = match steps.knee {
        Some(knee) => format!("\nThe highest rate sustained without errors: {}/s\n", rate(knee)),
        None => "\nNot even the first rate was sustained without errors.\n".to_owned(),
    };
    match steps.steps.iter().find(|outcome| outcome.interrupted) {
        None => text + &verdict,
        Some(cut) => {
            let after = time(cut.seconds * 1e6);
            let so_far = if steps.knee.is_some() { verdict.as_str() } else { "" };
            format!("{text}{so_far}\nNote: the run was interrupted, the last rate after {after}.\n")
        }
    }
}
