//! The text format of Prometheus: families, samples, histograms.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_message::GrpcStatus;

use crate::histogram::{BOUNDS, BUCKETS};
use crate::metric::Metric;
use crate::route::CLASSES;
use crate::{ClassCounters, GrpcCounters, Histogram, PerWorker};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Seconds as a decimal number: exact, where a float would round.
#[derive(Clone, Copy)]
pub(super) struct Seconds {
    seconds: u64,
    nanos: u64,
}

impl Seconds {
    pub(super) fn of(duration: Duration) -> Self {
        Self { seconds: duration.as_secs(), nanos: u64::from(duration.subsec_nanos()) }
    }

    pub(super) const fn of_nanos(nanos: u64) -> Self {
        Self { seconds: nanos / SECOND, nanos: nanos % SECOND }
    }
}

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.seconds)?;
        let (mut rest, mut width) = (self.nanos, 9_usize);
        if rest == 0 {
            return Ok(());
        }
        while rest.is_multiple_of(10) {
            rest /= 10;
            width -= 1;
        }
        write!(f, ".{rest:0width$}")
    }
}

/// The page while it grows. Writing to a string cannot fail, so results are dropped.
pub(super) struct Page<'a> {
    pub(super) out: &'a mut String,
}

type Label<'a> = (&'a str, &'a str);

impl Page<'_> {
    pub(super) fn family(&mut self, metric: &Metric) {
        let Metric { name, kind, help, .. } = metric;
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
    }

    pub(super) fn single(&mut self, metric: &Metric, value: impl std::fmt::Display) {
        self.family(metric);
        self.sample(metric.name, &[], value);
    }

    pub(super) fn sample(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        value: impl std::fmt::Display,
    ) {
        self.out.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            self.out.push(if place == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            self.label_value(text);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// The three escapes of the format; everything else stands as it is.
    fn label_value(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.out.push_str("\\\\"),
                '"' => self.out.push_str("\\\""),
                '\n' => self.out.push_str("\\n"),
                plain => self.out.push(plain),
            }
        }
    }

    pub(super) fn classes<T>(
        &mut self,
        name: &str,
        label: Label<'_>,
        meter: &PerWorker<T>,
        read: impl Fn(&T) -> &ClassCounters,
    ) {
        let mut counts = [0_u64; CLASSES.len()];
        for meter in meter.iter() {
            for (sum, count) in counts.iter_mut().zip(read(meter).values()) {
                *sum = sum.wrapping_add(count);
            }
        }
        for (class, count) in CLASSES.into_iter().zip(counts) {
            self.sample(name, &[label, ("class", class)], count);
        }
    }

    /// Only statuses that some call ended with.
    pub(super) fn calls<T>(
        &mut self,
        name: &str,
        label: Label<'_>,
        meter: &PerWorker<T>,
        read: impl Fn(&T) -> &GrpcCounters,
    ) {
        for status in GrpcStatus::all() {
            let count = meter.sum(|meter| read(meter).value(status));
            if count > 0 {
                self.sample(name, &[label, ("status", status.name())], count);
            }
        }
    }

    /// Nothing at all for a histogram that never counted.
    pub(super) fn histogram<T>(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        meter: &PerWorker<T>,
        read: impl Fn(&T) -> &Histogram,
    ) {
        let mut counts = [0_u64; BUCKETS];
        for meter in meter.iter() {
            for (sum, count) in counts.iter_mut().zip(read(meter).buckets()) {
                *sum = sum.wrapping_add(count);
            }
        }
        // Workers go on counting while we read: the total is taken from the buckets just read, so
        // that `+Inf` and `_count` agree as the format demands.
        let total = counts.iter().copied().fold(0, u64::wrapping_add);
        if total == 0 {
            return;
        }
        let bucket = format!("{name}_bucket");
        let mut below = 0_u64;
        for (bound, count) in BOUNDS.into_iter().zip(counts) {
            below = below.wrapping_add(count);
            let bound = Seconds::of_nanos(bound).to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), below);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), total);
        let nanos = meter.sum(|meter| read(meter).sum_nanos());
        self.sample(&format!("{name}_sum"), labels, Seconds::of_nanos(nanos));
        self.sample(&format!("{name}_count"), labels, total);
    }
}
