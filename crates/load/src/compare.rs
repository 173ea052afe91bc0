//! Two measurements side by side: what was different about them, and what of the difference is real.

mod recorded;

#[cfg(test)]
mod tests;

use std::path::Path;

use crate::figures;
use crate::report::table_text;
use crate::statistics::{Ratio, Verdict, paired_ratio};
use recorded::{Measured, Recorded};

/// Two measurements compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Names of the two files.
    pub names: (String, String),
    /// Settings and surroundings that differ: name, before, after.
    pub changed: Vec<(String, String, String)>,
    /// Every figure that both have.
    pub differences: Vec<Difference>,
    /// What only one of them has.
    pub unmatched: Vec<String>,
    /// Whether the pairs are seconds of single runs instead of rounds.
    pub pairs: Pairs,
}

/// What stands beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Rounds of suites.
    Rounds,
    /// Seconds of single runs.
    Seconds,
}

/// One figure, before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where it was measured, like `hello · sluice · 100`.
    pub place: String,
    /// Which figure.
    pub figure: Figure,
    /// Before, in the pair that the ratio is of.
    pub before: f64,
    /// After, in the same pair.
    pub after: f64,
    /// After to before, over pairs.
    pub ratio: Ratio,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Answers per second.
    Rate,
    /// Median latency in microseconds.
    P50,
    /// 99th percentile in microseconds.
    P99,
    /// CPU time of the server per answer in microseconds.
    Cpu,
    /// User instructions of the server per answer.
    Instructions,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::Rate => "req/s",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Cpu => "CPU/req",
            Self::Instructions => "instructions/req",
        }
    }

    fn written(self, value: f64) -> String {
        match self {
            Self::Rate => figures::rate(value),
            Self::P50 | Self::P99 | Self::Cpu => figures::time(value),
            Self::Instructions => figures::count(figures::whole(value)),
        }
    }
}

/// Compares two JSON files: results of suites, or single runs.
///
/// # Errors
/// A file cannot be read or is no result, with line and column; or one is of a suite and the other of a
/// single run.
pub fn files(before: &Path, after: &Path) -> Result<Comparison, String> {
    let names = (before.display().to_string(), after.display().to_string());
    let before = Recorded::read(before)?;
    let after = Recorded::read(after)?;
    compare(names, &before, &after)
}

fn compare(
    names: (String, String),
    before: &Recorded,
    after: &Recorded,
) -> Result<Comparison, String> {
    let pairs = match (before, after) {
        (Recorded::Suite(_), Recorded::Suite(_)) => Pairs::Rounds,
        (Recorded::Runs(_), Recorded::Runs(_)) => Pairs::Seconds,
        _ => return Err("error: a suite and a single run cannot be compared\n".to_owned()),
    };
    let (old, new) = (before.measured(), after.measured());
    let mut differences = Vec::new();
    let mut unmatched = Vec::new();
    for one in &old {
        match new.iter().find(|other| other.place == one.place && other.figure == one.figure) {
            Some(other) => differences.extend(difference(one, other)),
            None => missing(&mut unmatched, &one.place, &names.0),
        }
    }
    for other in &new {
        if !old.iter().any(|one| one.place == other.place) {
            missing(&mut unmatched, &other.place, &names.1);
        }
    }
    let changed = changed(&before.settings(), &after.settings());
    Ok(Comparison { names, changed, differences, unmatched, pairs })
}

fn missing(list: &mut Vec<String>, place: &str, file: &str) {
    let text = format!("{place} is only in {file}");
    if !list.contains(&text) {
        list.push(text);
    }
}

fn difference(before: &Measured, after: &Measured) -> Option<Difference> {
    let pairs: Vec<(f64, f64)> = before
        .values
        .iter()
        .filter_map(|(pair, old)| Some((*after.values.get(pair)?, *old)))
        .collect();
    let ratio = paired_ratio(&pairs)?;
    Some(Difference {
        place: before.place.clone(),
        figure: before.figure,
        before: ratio.middle.1,
        after: ratio.middle.0,
        ratio,
    })
}

type Settings = [(String, String)];

fn changed(before: &Settings, after: &Settings) -> Vec<(String, String, String)> {
    let value = |settings: &Settings, name: &str| {
        let found = settings.iter().find(|(known, _)| known == name);
        found.map_or_else(|| "–".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&String> = before.iter().map(|(name, _)| name).collect();
    names.extend(
        after
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !before.iter().any(|(known, _)| known == *name)),
    );
    names
        .into_iter()
        .map(|name| (name.clone(), value(before, name), value(after, name)))
        .filter(|(_, before, after)| before != after)
        .collect()
}

/// What a ratio says in a comparison.
fn verdict(ratio: &Ratio) -> &'static str {
    match ratio.verdict() {
        Verdict::Above | Verdict::Below => "beyond noise",
        Verdict::WithinNoise => "within noise",
        Verdict::Undecided => "too few rounds",
    }
}

impl Comparison {
    /// How many figures differ beyond noise.
    pub fn beyond_noise(&self) -> usize {
        let proven = |difference: &&Difference| verdict(&difference.ratio) == "beyond noise";
        self.differences.iter().filter(proven).count()
    }

    /// The whole comparison as text for a terminal; also valid Markdown.
    pub fn text(&self) -> String {
        let mut out = format!("# {} -> {}\n\n", self.names.0, self.names.1);
        match self.changed.is_empty() {
            true => out.push_str("Settings and surroundings are the same.\n\n"),
            false => out.push_str("What was different:\n\n"),
        }
        for (name, before, after) in &self.changed {
            out.push_str(&format!("- {name}: {before} -> {after}\n"));
        }
        if !self.changed.is_empty() {
            out.push('\n');
        }
        out.push_str(&self.table());
        for line in &self.unmatched {
            out.push_str(&format!("- {line}\n"));
        }
        out.push_str(&format!(
            "\n{} of {} figures differ beyond noise (95 % bootstrap interval of the median of {}).\n",
            self.beyond_noise(),
            self.differences.len(),
            match self.pairs {
                Pairs::Rounds => "paired rounds",
                Pairs::Seconds => {
                    "paired seconds; a single run cannot show how much whole runs differ by chance"
                }
            }
        ));
        out
    }

    fn table(&self) -> String {
        let columns = ["setting", "figure", "before", "after", "difference", "interval", "verdict"];
        let rows = self.differences.iter().map(|one| {
            let percent = |ratio: f64| figures::difference(ratio);
            let interval = one.ratio.interval;
            let interval = interval.map_or_else(
                || "–".to_owned(),
                |interval| format!("{} to {}", percent(interval.low), percent(interval.high)),
            );
            vec![
                one.place.clone(),
                one.figure.name().to_owned(),
                one.figure.written(one.before),
                one.figure.written(one.after),
                percent(one.ratio.median),
                interval,
                verdict(&one.ratio).to_owned(),
            ]
        });
        table_text(columns, rows.collect())
    }
}
