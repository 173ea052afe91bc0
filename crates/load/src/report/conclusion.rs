//! What the figures prove, in sentences: median ratios of paired rounds with their intervals.

use super::summary::{Pairing, pairings};
use crate::figures;
use crate::results::{Case, Results};
use crate::statistics::{Ratio, Verdict, median};

/// One sentence per case and peer, with the ratio that can be believed.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let run = results.cases.iter().filter(|case| case.skipped.is_none());
    run.flat_map(|case| pairings(case).iter().map(|pair| sentence(case, pair)).collect::<Vec<_>>())
        .collect()
}

/// How the first server stands against each peer over all cases and connection counts: medians of the
/// median ratios. The rate comes last, since on a shared machine it is mostly the load generator's.
pub(crate) fn headlines(results: &Results) -> Vec<String> {
    let all: Vec<Pairing<'_>> = results.cases.iter().flat_map(pairings).collect();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for pair in &all {
        let name = (pair.subject.server, pair.peer.server);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(|(subject, peer)| headline(&all, subject, peer)).collect()
}

fn headline(all: &[Pairing<'_>], subject: &str, peer: &str) -> String {
    let mine = |pair: &&Pairing<'_>| pair.subject.server == subject && pair.peer.server == peer;
    let pairs: Vec<&Pairing<'_>> = all.iter().filter(mine).collect();
    let of = |what: &str, pick: fn(&Pairing<'_>) -> Option<Ratio>| {
        let ratios: Vec<Ratio> = pairs.iter().filter_map(|pair| pick(pair)).collect();
        let middle = median(&ratios.iter().map(|ratio| ratio.median).collect::<Vec<f64>>())?;
        let proven = |ratio: &&Ratio| matches!(ratio.verdict(), Verdict::Above | Verdict::Below);
        let beyond = ratios.iter().filter(proven).count();
        Some(format!("{middle:.2} times the {what} ({beyond} of {} beyond noise)", ratios.len()))
    };
    let parts = [
        of("CPU time per request", |pair| pair.cpu),
        of("p99 latency", |pair| pair.p99),
        of("requests per second", |pair| pair.rate),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!(
        "{subject} against {peer}, medians over all settings ({}): {}.",
        pairs.len(),
        parts.join(", ")
    )
}

fn sentence(case: &Case, pair: &Pairing<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(rate) = pair.rate.filter(|_| !(pair.subject.is_ramps() && pair.peer.is_ramps())) {
        parts.push(format!("{} the requests per second", spread(rate)));
    }
    if let Some(cpu) = pair.cpu {
        parts.push(format!("{} the CPU time per request", spread(cpu)));
    }
    let instructions = |server: &str| case.instructions.get(server).copied();
    if let (Some(own), Some(peer)) =
        (instructions(pair.subject.server), instructions(pair.peer.server))
    {
        parts.push(format!("{:.2} times the user instructions per request", own / peer.max(1.0)));
    }
    if let Some(p99) = pair.p99 {
        parts.push(format!("{} the p99", spread(p99)));
    }
    format!(
        "{} at {} connections: {} has, against {}, {}.",
        case.title,
        figures::count(pair.subject.connections.into()),
        pair.subject.server,
        pair.peer.server,
        if parts.is_empty() { "no pair of runs to compare".to_owned() } else { parts.join(", ") }
    )
}

/// `1.31 times (1.24 to 1.40)`, and what that proves.
fn spread(ratio: Ratio) -> String {
    let interval = ratio
        .interval
        .map(|interval| format!("{:.2} to {:.2}", interval.low, interval.high))
        .unwrap_or_else(|| "too few rounds for an interval".to_owned());
    let doubt = match ratio.verdict() {
        Verdict::WithinNoise => ", within noise",
        Verdict::Above | Verdict::Below | Verdict::Undecided => "",
    };
    format!("{:.2} times ({interval}{doubt})", ratio.median)
}
