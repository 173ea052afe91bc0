//! What a run has to reach for the exit code 0: limits of the command line, and what goes without saying.

use crate::arguments::{Allowance, BenchArguments};
use crate::figures::{count, float, rate, time};
use crate::outcome::{Outcome, is_backed};

/// Exit code: requests failed, or none was answered.
pub(crate) const FAILED: u8 = 1;
/// Exit code: the rate was not sustained.
pub(crate) const NOT_SUSTAINED: u8 = 4;
/// Exit code: a threshold was missed.
pub(crate) const MISSED: u8 = 5;

/// The percentile that a threshold can be set for.
const TAIL: f64 = 99.0;

/// The thresholds of a run and which of them it missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Misses(Vec<Threshold>);

/// One threshold beside what was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Threshold {
    option: &'static str,
    allowed: String,
    found: String,
    reached: Reached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Yes,
    No,
}

impl Reached {
    const fn from(good: bool) -> Self {
        if good { Self::Yes } else { Self::No }
    }
}

impl Misses {
    /// Holds a run against the thresholds of the command line.
    #[must_use]
    pub(crate) fn of(arguments: &BenchArguments, outcome: &Outcome) -> Self {
        let found = [
            arguments.max_p99.map(|most| tail(most.as_secs_f64() * 1e6, outcome)),
            arguments.max_errors.map(|most| errors(most, outcome)),
            arguments.min_rate.map(|least| lowest(least, outcome)),
        ];
        Self(found.into_iter().flatten().collect())
    }

    fn missed(&self) -> impl Iterator<Item = &Threshold> {
        self.0.iter().filter(|threshold| threshold.reached == Reached::No)
    }

    /// Whether any was.
    #[must_use]
    pub(crate) fn is_missed(&self) -> bool {
        self.missed().next().is_some()
    }

    /// Every threshold, for the report.
    #[must_use]
    pub(crate) fn report(&self) -> String {
        let mut text = String::new();
        for Threshold { option, allowed, found, reached } in &self.0 {
            let word = if *reached == Reached::Yes { "met" } else { "MISSED" };
            text.push_str(&format!("\nThreshold   {option} {allowed}: {found}, {word}"));
        }
        if text.is_empty() { text } else { text + "\n" }
    }

    /// Those that were missed, for standard error.
    #[must_use]
    pub(crate) fn message(&self) -> String {
        let lines = self.missed().map(|Threshold { option, allowed, found, .. }| {
            format!("error: threshold missed: {option} {allowed}, measured {found}\n")
        });
        lines.collect()
    }
}

/// The exit code of a run.
#[must_use]
pub(crate) fn code(arguments: &BenchArguments, outcome: &Outcome, misses: &Misses) -> u8 {
    let failed = outcome.errors.total() > 0 && arguments.max_errors.is_none();
    let silent = outcome.responses == 0 && !outcome.interrupted;
    if misses.is_missed() {
        MISSED
    } else if failed || silent {
        FAILED
    } else if outcome.sustained == Some(false)
        && !outcome.interrupted
        && arguments.min_rate.is_none()
    {
        NOT_SUSTAINED
    } else {
        0
    }
}

fn tail(most: f64, outcome: &Outcome) -> Threshold {
    let latency = &outcome.latency;
    let (reached, found) = match latency.count {
        0 => (Reached::No, "p99 of no response".to_owned()),
        samples => {
            let value = float(latency.percentile(TAIL));
            let few = match is_backed(TAIL, samples) {
                true => String::new(),
                false => format!(" of only {} responses", count(samples)),
            };
            (Reached::from(value <= most), format!("p99 {}{few}", time(value)))
        }
    };
    Threshold { option: "--max-p99", allowed: time(most), found, reached }
}

fn errors(most: Allowance, outcome: &Outcome) -> Threshold {
    let errors = outcome.errors.total();
    let share = float(errors) / float(outcome.requests.max(1));
    let percent = |share: f64| format!("{}%", trimmed(share * 100.0));
    let found =
        format!("{} of {} requests ({})", count(errors), count(outcome.requests), percent(share));
    let (allowed, good) = match most {
        Allowance::Share(most) => (percent(most), share <= most),
        Allowance::Number(most) => (count(most), errors <= most),
    };
    let good = good && outcome.responses > 0;
    Threshold { option: "--max-errors", allowed, found, reached: Reached::from(good) }
}

fn lowest(least: f64, outcome: &Outcome) -> Threshold {
    let good = outcome.good_rate();
    Threshold {
        option: "--min-rate",
        allowed: format!("{}/s", rate(least)),
        found: format!("{}/s", rate(good)),
        reached: Reached::from(good >= least),
    }
}

/// Four digits behind the point at most, without zeros at the end.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Errors;
    use crate::report::sample;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArguments,
    }

    fn arguments(line: &str) -> BenchArguments {
        let words = line.split(' ').filter(|word| !word.is_empty());
        Line::parse_from(["bench", "http://h/"].into_iter().chain(words)).bench
    }

    /// 2 000 responses around 100 us, p99 below 132 us.
    fn outcome() -> Outcome {
        sample::outcome(10, 1000.0, 100)
    }

    #[test]
    fn exit_codes() {
        let good = outcome();
        let failed = Outcome { errors: Errors { read: 20, ..Errors::default() }, ..outcome() };
        let missed = Outcome { sustained: Some(false), ..outcome() };
        let silent = Outcome { responses: 0, ..outcome() };
        let stopped = Outcome { responses: 0, interrupted: true, ..outcome() };
        let rows = [
            (&good, "", 0),
            (&failed, "", 1),
            (&missed, "", 4),
            (&silent, "", 1),
            (&stopped, "", 0),
            (&Outcome { interrupted: true, ..missed.clone() }, "", 0),
            (&good, "--max-p99 1ms --max-errors 0% --min-rate 999/s", 0),
            (&good, "--max-p99 100us", 5),
            (&good, "--min-rate 1001/s", 5),
            (&failed, "--max-errors 1%", 0),
            (&failed, "--max-errors 0.9%", 5),
            (&failed, "--max-errors 20", 0),
            (&failed, "--max-errors 19", 5),
            (&failed, "--max-p99 1ms", 1),
            (&missed, "--min-rate 900/s", 0),
            (&missed, "--max-p99 1ms", 4),
            (&silent, "--max-errors 100%", 5),
        ];
        for (outcome, line, expected) in rows {
            let arguments = arguments(line);
            let misses = Misses::of(&arguments, outcome);
            assert_eq!(code(&arguments, outcome, &misses), expected, "{line}: {misses:?}");
            assert_eq!(misses.message().is_empty(), expected != 5, "{}", misses.message());
        }
    }

    #[test]
    fn what_was_missed_is_said_with_both_figures() {
        let failed = Outcome { errors: Errors { read: 20, ..Errors::default() }, ..outcome() };
        let arguments = arguments("--max-p99 100us --max-errors 0.1% --min-rate 5/s");
        let misses = Misses::of(&arguments, &failed);
        let text = misses.message();
        for part in [
            "threshold missed: --max-p99 100 µs, measured p99 130 µs\n",
            "threshold missed: --max-errors 0.1%, measured 20 of 2 000 requests (1%)\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("--min-rate"), "{text}");
        let report = misses.report();
        assert!(report.contains("--min-rate 5/s: 1 000/s, met\n"), "{report}");
        assert!(report.contains(", MISSED\n"), "{report}");
    }
}
