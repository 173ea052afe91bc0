//! Metrics of scripts on the page.

use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::page::Page;
use crate::custom::{CustomFamily, CustomKind, CustomSeries, families};
use crate::meters::locked;

/// A number as the format writes it.
struct Written(f64);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value == f64::INFINITY => f.write_str("+Inf"),
            value if value == f64::NEG_INFINITY => f.write_str("-Inf"),
            value => write!(f, "{value}"),
        }
    }
}

/// Tells all of them.
pub(super) fn render(page: &mut Page<'_>) {
    for family in families() {
        let shape = &family.shape;
        let help = shape.help.replace('\\', "\\\\").replace('\n', "\\n");
        let (name, kind) = (&shape.name, shape.kind.name());
        let _ = writeln!(page.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let all: Vec<_> =
            locked(&family.series).iter().map(|(key, it)| (key.clone(), it.clone())).collect();
        for (values, series) in all {
            let labels = shape.labels.iter().zip(&values);
            let labels: Vec<_> =
                labels.map(|(one, other)| (one.as_str(), other.as_str())).collect();
            match shape.kind {
                CustomKind::Counter | CustomKind::Gauge => {
                    page.sample(name, &labels, Written(series.value.get()));
                }
                CustomKind::Histogram => render_histogram(page, (&family, &series), &labels),
            }
        }
    }
}

fn render_histogram(
    page: &mut Page<'_>,
    (family, series): (&CustomFamily, &CustomSeries),
    labels: &[(&str, &str)],
) {
    let name = &family.shape.name;
    let mut total = 0_u64;
    let bounds = family.shape.bounds.iter().copied().chain([f64::INFINITY]);
    for (bound, count) in bounds.zip(&series.counts) {
        total = total.wrapping_add(count.load(Ordering::Relaxed));
        let bound = Written(bound).to_string();
        let labels = [labels, &[("le", &bound)]].concat();
        page.sample(&format!("{name}_bucket"), &labels, total);
    }
    page.sample(&format!("{name}_sum"), labels, Written(series.value.get()));
    page.sample(&format!("{name}_count"), labels, total);
}
