//! The report of a script: Loadgen's sections, with figures of every request.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::figures::{bytes, count, float, rate, time, whole};
use crate::outcome::{Latency, Mode, Outcome, is_backed};
use crate::run::Finished;

use super::Runner;
use super::worker::Counts;

/// Bars of the distribution, and how wide the longest is.
const BUCKETS: u64 = 10;
const BAR: f64 = 50.0;

/// The report of one run.
#[must_use]
pub(crate) fn report(finished: &Finished, runner: &Runner, counts: &Counts) -> String {
    let outcome = &finished.outcome;
    let figures = Figures::new(outcome, runner);
    let mut text = String::new();
    if runner.no_stats {
        text.push_str(&format!("{} requests finished\n", count(outcome.responses)));
    } else {
        text.push_str(&figures.summary(counts));
        text.push_str(&figures.client(runner, counts));
        text.push_str(&figures.latency("Latency Metrics", &outcome.latency));
        if let Some(uncorrected) = &outcome.uncorrected {
            text.push_str(&figures.latency("Latency Metrics since sending", uncorrected));
        }
        if let Some(unexpected) = &outcome.unexpected {
            text.push_str(&figures.latency("Latency Metrics of unexpected responses", unexpected));
        }
        text.push_str(&figures.distribution());
        text.push_str(&figures.server());
    }
    text.push_str(&troubles(&finished.reasons, outcome, counts));
    text
}

struct Figures<'o> {
    outcome: &'o Outcome,
    spread: Histogram<u64>,
    /// All waiting for answers together, in microseconds.
    cumulative: f64,
    in_micros: bool,
    sizes: bool,
}

/// The histogram of a latency; empty if there is none in it.
fn spread(latency: &Latency) -> Histogram<u64> {
    let bytes = STANDARD.decode(&latency.histogram).unwrap_or_default();
    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap_or_else(|_| empty())
}

#[expect(clippy::expect_used, reason = "invariant: three digits are among the allowed ones")]
fn empty() -> Histogram<u64> {
    Histogram::new(3).expect("3 is a number of digits")
}

impl<'o> Figures<'o> {
    fn new(outcome: &'o Outcome, runner: &Runner) -> Self {
        // What a request waited for its turn is not the server's time.
        let served = outcome.uncorrected.as_ref().unwrap_or(&outcome.latency);
        let cumulative = served.mean_micros * float(served.count);
        Self {
            outcome,
            spread: spread(&outcome.latency),
            cumulative,
            in_micros: runner.duration_in_us,
            sizes: !runner.no_size_stats,
        }
    }

    fn time(&self, micros: f64) -> String {
        if self.in_micros { format!("{micros:.1} µs") } else { time(micros) }
    }

    fn row(name: &str, value: &str) -> String {
        format!("{:<24}{value}\n", format!("{name}:"))
    }

    fn per_second(&self, total: f64) -> f64 {
        if self.outcome.seconds > 0.0 { total / self.outcome.seconds } else { 0.0 }
    }

    /// Seconds that each worker spent waiting for answers, on average.
    fn busy(&self) -> f64 {
        self.cumulative / 1e6 / float(u64::from(self.outcome.connections.max(1)))
    }

    fn summary(&self, counts: &Counts) -> String {
        let outcome = self.outcome;
        let mut text = format!(
            "\n{} requests finished in {}",
            count(outcome.responses),
            time(outcome.seconds * 1e6)
        );
        if self.sizes {
            let (sent, received) = (float(outcome.bytes_sent), float(outcome.bytes_received));
            text.push_str(&format!(", {} sent, {} received", bytes(sent), bytes(received)));
        }
        if counts.warm_up > 0 {
            text.push_str(&format!("; {} more to warm up", count(counts.warm_up)));
        }
        if outcome.interrupted {
            text.push_str("; interrupted");
        }
        text.push('\n');
        text
    }

    fn client(&self, runner: &Runner, counts: &Counts) -> String {
        let outcome = self.outcome;
        let mut text = String::from("\n[Loadgen Client Metrics]\n");
        let mut requests = rate(outcome.rate);
        if let (Mode::Open { rate_per_second }, Some(false)) = (&outcome.mode, outcome.sustained) {
            requests.push_str(&format!(" of {}: NOT SUSTAINED", rate(*rate_per_second)));
        }
        text.push_str(&Self::row("Requests/sec", &requests));
        if self.sizes {
            let (sent, received) = (float(outcome.bytes_sent), float(outcome.bytes_received));
            text.push_str(&Self::row("Request Traffic/sec", &bytes(self.per_second(sent))));
            text.push_str(&Self::row(
                "Total Transfer/sec",
                &bytes(self.per_second(sent + received)),
            ));
        }
        let all = [Some(&outcome.latency), outcome.unexpected.as_ref()];
        let all = all.into_iter().flatten().filter(|latency| latency.count > 0);
        let (fastest, slowest) = all.fold((None, 0), |(least, most): (Option<u64>, u64), it| {
            let least = least.map_or(it.min_micros, |least| least.min(it.min_micros));
            (Some(least), most.max(it.max_micros))
        });
        let fastest = float(fastest.unwrap_or(0));
        text.push_str(&Self::row("Fastest Request", &self.time(fastest)));
        text.push_str(&Self::row("Slowest Request", &self.time(float(slowest))));
        if runner.assert_error || counts.failed > 0 {
            text.push_str(&Self::row("Number of Errors", &count(counts.failed)));
        }
        if runner.assert_invalid || counts.invalid > 0 || counts.skipped > 0 {
            text.push_str(&Self::row("Assert Invalid", &count(counts.invalid)));
            text.push_str(&Self::row("Assert Skipped", &count(counts.skipped)));
        }
        let unanswered = outcome.requests.saturating_sub(outcome.responses);
        let none = (unanswered > 0).then_some((0, unanswered));
        for (status, times) in
            none.into_iter().chain(outcome.statuses.iter().map(|(s, n)| (*s, *n)))
        {
            text.push_str(&Self::row(&format!("Status {status}"), &count(times)));
        }
        text
    }

    fn latency(&self, title: &str, latency: &Latency) -> String {
        let spread = spread(latency);
        let (long, short) = (tail(&spread, End::Long), tail(&spread, End::Short));
        let at = |quantile: f64| float(spread.value_at_quantile(quantile).min(spread.max()));
        let range = float(latency.max_micros.saturating_sub(latency.min_micros));
        let cumulative = latency.mean_micros * float(latency.count);
        let rows = [
            ("Cumulative", cumulative),
            ("HMean", harmonic(&spread)),
            ("Avg.", latency.mean_micros),
            ("p50", at(0.5)),
            ("p75", at(0.75)),
            ("p95", at(0.95)),
            ("p99", at(0.99)),
            ("p999", at(0.999)),
            ("Long 5%", long),
            ("Short 5%", short),
            ("Max", float(latency.max_micros)),
            ("Min", float(latency.min_micros)),
            ("Range", range),
            ("StdDev", latency.deviation_micros),
        ];
        let samples = count(latency.count);
        let mut text = format!("\n[{title}]\n{samples} samples of {samples} events\n");
        for (name, micros) in rows {
            let backed = match name {
                "p99" => is_backed(99.0, latency.count),
                "p999" => is_backed(99.9, latency.count),
                _ => true,
            };
            let shown = if backed { self.time(micros) } else { "n/a".to_owned() };
            text.push_str(&Self::row(name, &shown));
        }
        text.push_str(&Self::row("Rate/sec", &rate(self.per_second(float(latency.count)))));
        text
    }

    /// How many latencies lie in each tenth of the range.
    fn distribution(&self) -> String {
        let mut text = String::from("\n[Latency Distribution]\n");
        if self.spread.is_empty() {
            text.push_str("no answer\n");
            return text;
        }
        let (first, last) = (self.spread.min(), self.spread.max().max(1));
        let width = last.saturating_sub(first).div_ceil(BUCKETS).max(1);
        let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
        for value in self.spread.iter_recorded() {
            let at = value.value_iterated_to().clamp(first, last).saturating_sub(first);
            let bucket = buckets.entry((at / width).min(BUCKETS - 1)).or_default();
            *bucket = bucket.saturating_add(value.count_since_last_iteration());
        }
        let most = float(buckets.values().copied().max().unwrap_or(1));
        for bucket in 0..BUCKETS {
            let times = buckets.get(&bucket).copied().unwrap_or(0);
            let from = float(first.saturating_add(width.saturating_mul(bucket)));
            let to = from + float(width);
            let bar = usize::try_from(whole(float(times) / most * BAR)).unwrap_or(0);
            text.push_str(&format!(
                "{:>11} - {:>11} {:>12} {}\n",
                self.time(from),
                self.time(to),
                count(times),
                "-".repeat(bar)
            ));
        }
        text
    }

    fn server(&self) -> String {
        let outcome = self.outcome;
        let served = outcome.uncorrected.as_ref().unwrap_or(&outcome.latency);
        let busy = self.busy();
        let by_busy = |total: f64| if busy > 0.0 { total / busy } else { 0.0 };
        let mut text = String::from("\n[Estimated Server Metrics]\n");
        text.push_str(&Self::row("Requests/sec", &rate(by_busy(float(outcome.responses)))));
        text.push_str(&Self::row("Avg Req Time", &self.time(served.mean_micros)));
        if self.sizes {
            let total = float(outcome.bytes_sent) + float(outcome.bytes_received);
            text.push_str(&Self::row("Transfer/sec", &bytes(by_busy(total))));
        }
        text
    }
}

/// What went wrong, in full for the first few.
fn troubles(
    reasons: &BTreeMap<&'static str, String>,
    outcome: &Outcome,
    counts: &Counts,
) -> String {
    let mut text = String::new();
    for (kind, times) in outcome.errors.kinds().iter().filter(|(_, times)| *times > 0) {
        let reason = reasons.get(kind).map_or(String::new(), |why| format!(" ({why})"));
        text.push_str(&format!("\nErrors, {kind}: {}{reason}", count(*times)));
    }
    if outcome.in_flight > 0 {
        text.push_str(&format!("\nIn flight at the end: {}", count(outcome.in_flight)));
    }
    for sample in &counts.samples {
        text.push_str(&format!("\n{}: {}", sample.request, sample.what));
    }
    if counts.missed > 0 {
        text.push_str(&format!(
            "\nNote: a registered value was used {} times before there was one",
            count(counts.missed)
        ));
    }
    if let Some(limit) = outcome.bottleneck {
        text.push_str(&format!("\nNote: {}", limit.words(outcome)));
    }
    if outcome.client_saturated {
        text.push_str("\nNote: a thread of the load generator was busy all the time");
    }
    if text.is_empty() { text } else { format!("{text}\n") }
}

fn harmonic(spread: &Histogram<u64>) -> f64 {
    let sum: f64 = spread
        .iter_recorded()
        .map(|value| {
            float(value.count_since_last_iteration()) / float(value.value_iterated_to().max(1))
        })
        .sum();
    if sum > 0.0 { float(spread.len()) / sum } else { 0.0 }
}

/// Which twentieth is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Long,
    Short,
}

/// The mean of the longest or the shortest twentieth, at least of one.
fn tail(spread: &Histogram<u64>, end: End) -> f64 {
    let all: Vec<(u64, u64)> = spread
        .iter_recorded()
        .map(|value| {
            (value.value_iterated_to().min(spread.max()), value.count_since_last_iteration())
        })
        .collect();
    let wanted = spread.len().div_ceil(20);
    let (mut left, mut sum) = (wanted, 0.0);
    let mut take = |(value, times): &(u64, u64)| {
        let taken = left.min(*times);
        left = left.saturating_sub(taken);
        sum += float(*value) * float(taken);
    };
    match end {
        End::Long => all.iter().rev().for_each(&mut take),
        End::Short => all.iter().for_each(&mut take),
    }
    if wanted == 0 { 0.0 } else { sum / float(wanted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_known_distribution() {
        let mut counted = crate::histogram::Histogram::new();
        (1..=1000).for_each(|micros| counted.record(micros));
        let spread = spread(&counted.latency());
        assert!((tail(&spread, End::Short) - 25.5).abs() < 0.1);
        assert!((tail(&spread, End::Long) - 975.5).abs() < 1.0);
        // 1000 / (1 + 1/2 + ... + 1/1000)
        assert!((harmonic(&spread) - 133.59).abs() < 0.5);
        let none = super::spread(&Latency::default());
        assert_eq!((tail(&none, End::Long), harmonic(&none)), (0.0, 0.0));
    }
}
