//! Latency histograms: three significant digits from one microsecond to more than an hour.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::outcome::{Latency, PERCENTILES, is_backed};

#[cfg(test)]
mod tests;

/// The longest time that is kept apart from longer ones, in microseconds: 71 minutes. Longer ones
/// count as this.
pub const LONGEST_MICROS: u64 = (1 << 32) - 1;

/// Latencies in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// What a text that should hold a histogram does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHistogram;

impl std::fmt::Display for NoHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this is no HdrHistogram in its V2 deflate form, base64-coded")
    }
}

impl std::error::Error for NoHistogram {}

/// One line of the detailed percentile table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectrumRow {
    /// The time, in milliseconds.
    pub millis: f64,
    /// The share of answers that did not take longer, 0 to 1.
    pub percentile: f64,
    /// Their number.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "the bounds are constants that satisfy the crate's rules"
    )]
    pub fn new() -> Self {
        let made = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_MICROS, 3);
        Self(made.expect("1 <= low, 2 low <= high, 3 digits"))
    }

    /// Counts one.
    #[inline]
    pub fn record(&mut self, micros: u64) {
        self.0.saturating_record(micros);
    }

    /// Counts so many.
    pub fn record_many(&mut self, micros: u64, count: u64) {
        self.0.saturating_record_n(micros, count);
    }

    /// The part of it that took so many microseconds or more.
    #[must_use]
    pub fn at_least(&self, micros: u64) -> Self {
        self.part(|value| value >= micros)
    }

    /// The part of it that took less.
    #[must_use]
    pub fn below(&self, micros: u64) -> Self {
        self.part(|value| value < micros)
    }

    fn part(&self, wanted: impl Fn(u64) -> bool) -> Self {
        let mut part = Self::new();
        for step in self.0.iter_recorded() {
            let value = step.value_iterated_to().min(self.0.max());
            if wanted(value) {
                part.record_many(value, step.count_at_value());
            }
        }
        part
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        // Refused only if the other holds values out of bounds, and all are made by `new`, or were
        // squeezed into its bounds by `decode`.
        let _ = self.0.add(&other.0);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in microseconds that so many per cent did not exceed; 0 if nothing was counted.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_percentile(percentile).min(self.0.max()) }
    }

    /// How many took so many microseconds or less.
    #[must_use]
    pub fn count_up_to(&self, micros: u64) -> u64 {
        self.0.count_between(0, micros.min(LONGEST_MICROS))
    }

    /// The figures of a report.
    #[must_use]
    pub fn latency(&self) -> Latency {
        let finite = |number: f64| if number.is_finite() { number } else { 0.0 };
        Latency {
            count: self.count(),
            mean_micros: finite(self.0.mean()),
            deviation_micros: finite(self.0.stdev()),
            min_micros: if self.0.is_empty() { 0 } else { self.0.min() },
            max_micros: self.0.max(),
            percentiles: PERCENTILES
                .into_iter()
                .filter(|wanted| *wanted <= 99.0 || is_backed(*wanted, self.count()))
                .map(|wanted| (wanted, self.percentile(wanted)))
                .collect(),
            histogram: encode(self),
        }
    }

    /// The lines of the detailed percentile table: ever closer steps towards 1, five for each halving
    /// of the rest, as wrk2 prints them.
    #[must_use]
    pub fn spectrum(&self) -> Vec<SpectrumRow> {
        let mut count = 0;
        let rows = self.0.iter_quantiles(5).map(|step| {
            count += step.count_since_last_iteration();
            let micros = step.value_iterated_to().min(self.0.max());
            SpectrumRow { millis: millis(micros), percentile: step.quantile_iterated_to(), count }
        });
        if self.0.is_empty() { Vec::new() } else { rows.collect() }
    }
}

/// Microseconds as milliseconds.
#[must_use]
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "times stay below 2^53")]
pub const fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

/// A histogram as text.
#[must_use]
pub fn encode(histogram: &Histogram) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and what is counted fits the form.
    let _ = V2DeflateSerializer::new().serialize(&histogram.0, &mut bytes);
    STANDARD.encode(bytes)
}

/// The histogram a text holds; any with values in microseconds is read, whoever wrote it.
///
/// # Errors
/// [`NoHistogram`] if the text is something else.
pub fn decode(text: &str) -> Result<Histogram, NoHistogram> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| NoHistogram)?;
    let read: hdrhistogram::Histogram<u64> =
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| NoHistogram)?;
    let mut histogram = Histogram::new();
    for step in read.iter_recorded() {
        let value = step.value_iterated_to().min(LONGEST_MICROS);
        histogram.0.saturating_record_n(value, step.count_at_value());
    }
    Ok(histogram)
}

/// The detailed percentile table in wrk2's form (value in milliseconds, percentile, count,
/// 1/(1-percentile)) with its closing lines, so that programs which plot those read it.
#[must_use]
pub fn spectrum_text(histogram: &Histogram) -> String {
    let mut text = format!(
        "{:>12} {:>12} {:>12} {:>12}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    for SpectrumRow { millis, percentile, count } in histogram.spectrum() {
        let rest = 1.0 - percentile;
        if rest > 0.0 {
            let inverse = 1.0 / rest;
            text.push_str(&format!("{millis:12.3} {percentile:12.6} {count:12} {inverse:12.2}\n"));
        } else {
            text.push_str(&format!("{millis:12.3} {percentile:12.6} {count:12} {:>12}\n", "inf"));
        }
    }
    let latency = histogram.latency();
    let (mean, deviation) = (latency.mean_micros / 1e3, latency.deviation_micros / 1e3);
    text.push_str(&format!("#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]\n"));
    let (max, count) = (millis(latency.max_micros), latency.count);
    text.push_str(&format!("#[Max     = {max:12.3}, Total count    = {count:12}]\n"));
    let sub_buckets = 2048_u32;
    let buckets = histogram.0.buckets();
    text.push_str(&format!("#[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]\n"));
    text
}
