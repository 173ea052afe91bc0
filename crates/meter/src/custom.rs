//! Metrics that scripts make up: families by name, series by the values of their labels, shared by all workers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::meters::locked;

/// Most series of a family: what comes in requests must not become memory.
pub const MOST_SERIES: usize = 10_000;

/// Most families of the process.
const MOST_FAMILIES: usize = 1_000;

/// Bytes of a label's value; what is longer is cut.
const LONGEST_VALUE: usize = 256;

/// The value of each label where a family has too many series.
const OTHER: &str = "other";

/// What a family is, in the words of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How values are distributed.
    Histogram,
}

impl CustomKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a family is made of. Families of one shape and name are one.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomShape {
    /// Its name; see [`CustomFamily::open`].
    pub name: String,
    /// One line for who reads the page.
    pub help: String,
    /// What it is.
    pub kind: CustomKind,
    /// Names of labels.
    pub labels: Vec<String>,
    /// Upper bounds of a histogram's buckets, growing; empty for others.
    pub bounds: Vec<f64>,
}

/// What is wrong with a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomProblem {
    /// This is no name of a metric or a label.
    Name(String),
    /// The gateway's own metrics begin like this, or the format itself uses the label.
    Reserved(String),
    /// Bounds are numbers that grow.
    Bounds,
    /// There are too many families.
    Full,
}

impl fmt::Display for CustomProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "'{}' is no name for it: letters, digits and _, not a digit first",
                name.escape_debug()
            ),
            Self::Reserved(name) => {
                write!(f, "'{name}' is taken: sluice_, process_, __ and le belong to others")
            }
            Self::Bounds => f.write_str("the bounds of a histogram are numbers that grow"),
            Self::Full => write!(f, "there are {MOST_FAMILIES} metrics of scripts already"),
        }
    }
}

/// A metric of scripts.
#[derive(Debug)]
pub struct CustomFamily {
    pub(crate) shape: CustomShape,
    pub(crate) series: Mutex<BTreeMap<Vec<String>, Arc<CustomSeries>>>,
}

/// One combination of values of labels.
#[derive(Debug)]
pub struct CustomSeries {
    /// The value; the sum of a histogram.
    pub(crate) value: Number,
    bounds: Vec<f64>,
    /// For each bound what lies below it and above the one before; then what lies above all. Empty for others.
    pub(crate) counts: Box<[AtomicU64]>,
}

/// A number with a fraction that all workers write.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    pub(crate) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    fn add(&self, value: f64) {
        let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // It is never refused: `sum` always gives a number.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

/// The families there are: each lives as long as a script may count in it.
static ALL: Mutex<BTreeMap<String, Weak<CustomFamily>>> = Mutex::new(BTreeMap::new());

/// Those that are told on the page, by name.
pub(crate) fn families() -> Vec<Arc<CustomFamily>> {
    locked(&ALL).values().filter_map(Weak::upgrade).collect()
}

impl CustomFamily {
    /// The family of this shape: the one that is on the page, or a new one, which is on the page at once if there is none
    /// of its name, and else after [`CustomFamily::publish`].
    ///
    /// # Errors
    /// [`CustomProblem`]. Names are those of the Prometheus data model; `sluice_` and `process_` are the gateway's.
    pub fn open(shape: CustomShape) -> Result<Arc<Self>, CustomProblem> {
        shape.check()?;
        let mut all = locked(&ALL);
        all.retain(|_, family| family.strong_count() > 0);
        let known = all.get(&shape.name).and_then(Weak::upgrade);
        if let Some(known) = known.as_ref().filter(|known| known.shape == shape) {
            return Ok(Arc::clone(known));
        }
        if all.len() >= MOST_FAMILIES {
            return Err(CustomProblem::Full);
        }
        let name = shape.name.clone();
        let family = Arc::new(Self { shape, series: Mutex::default() });
        if known.is_none() {
            all.insert(name, Arc::downgrade(&family));
        }
        Ok(family)
    }

    /// From now on this is the family on the page, and no other one of its name.
    pub fn publish(self: &Arc<Self>) {
        locked(&ALL).insert(self.shape.name.clone(), Arc::downgrade(self));
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> CustomKind {
        self.shape.kind
    }

    /// How many labels it has.
    #[must_use]
    pub const fn labels(&self) -> usize {
        self.shape.labels.len()
    }

    /// The series with these values of its labels, as many as there are; beyond [`MOST_SERIES`] that of all others.
    #[must_use]
    pub fn series(&self, values: &[String]) -> Arc<CustomSeries> {
        let mut values: Vec<String> = values.iter().map(|value| cut(value).to_owned()).collect();
        let mut all = locked(&self.series);
        if let Some(known) = all.get(&values) {
            return Arc::clone(known);
        }
        if all.len() >= MOST_SERIES {
            values.fill(OTHER.to_owned());
        }
        let make = || Arc::new(CustomSeries::new(&self.shape));
        Arc::clone(all.entry(values).or_insert_with(make))
    }
}

/// As much of a value as is kept.
fn cut(value: &str) -> &str {
    let end = value.floor_char_boundary(LONGEST_VALUE);
    value.get(..end).unwrap_or_default()
}

impl CustomShape {
    fn check(&self) -> Result<(), CustomProblem> {
        let is_good = |name: &str, colon: bool| {
            let legal =
                |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (colon && byte == b':');
            !name.starts_with(|first: char| first.is_ascii_digit())
                && !name.is_empty()
                && name.bytes().all(legal)
        };
        if !is_good(&self.name, true) {
            return Err(CustomProblem::Name(self.name.clone()));
        }
        let ours = ["sluice_", "process_"];
        if ours.iter().any(|start| self.name.starts_with(start)) {
            return Err(CustomProblem::Reserved(self.name.clone()));
        }
        for label in &self.labels {
            if !is_good(label, false) {
                return Err(CustomProblem::Name(label.clone()));
            }
            if label.starts_with("__") || label == "le" {
                return Err(CustomProblem::Reserved(label.clone()));
            }
        }
        let grow = self.bounds.is_sorted_by(|one, next| one < next);
        if grow && self.bounds.iter().all(|bound| bound.is_finite()) {
            return Ok(());
        }
        Err(CustomProblem::Bounds)
    }
}

impl CustomSeries {
    fn new(shape: &CustomShape) -> Self {
        let counts = match shape.kind {
            CustomKind::Histogram => shape.bounds.len() + 1,
            CustomKind::Counter | CustomKind::Gauge => 0,
        };
        let counts = (0..counts).map(|_| AtomicU64::new(0)).collect();
        Self { value: Number::default(), bounds: shape.bounds.clone(), counts }
    }

    /// Adds to a counter or a gauge.
    pub fn add(&self, value: f64) {
        self.value.add(value);
    }

    /// Sets a gauge.
    pub fn set(&self, value: f64) {
        self.value.set(value);
    }

    /// Counts a value of a histogram.
    pub fn observe(&self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
            self.value.add(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str, labels: &[&str]) -> CustomShape {
        CustomShape {
            name: name.to_owned(),
            help: String::new(),
            kind: CustomKind::Counter,
            labels: labels.iter().map(ToString::to_string).collect(),
            bounds: Vec::new(),
        }
    }

    #[test]
    fn one_shape_is_one_family_as_long_as_somebody_has_it() {
        let first = CustomFamily::open(shape("one_shape", &["a"])).unwrap();
        first.series(&["x".to_owned()]).add(2.0);
        let second = CustomFamily::open(shape("one_shape", &["a"])).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        // Another shape waits until it is wanted.
        let other = CustomFamily::open(shape("one_shape", &["b"])).unwrap();
        let shown = || families().into_iter().find(|it| it.shape.name == "one_shape");
        assert!(Arc::ptr_eq(&shown().unwrap(), &first));
        other.publish();
        assert!(Arc::ptr_eq(&shown().unwrap(), &other));
        drop((first, second, other));
        assert!(shown().is_none());
    }

    #[test]
    fn names_and_bounds_are_checked() {
        for (name, labels) in [
            ("", &[][..]),
            ("1a", &[]),
            ("a b", &[]),
            ("\u{e4}", &[]),
            ("a", &["b:c"]),
            ("a", &[""]),
            ("sluice_a", &[]),
            ("process_a", &[]),
            ("a", &["__a"]),
            ("a", &["le"]),
        ] {
            assert!(CustomFamily::open(shape(name, labels)).is_err(), "{name} {labels:?}");
        }
        for bounds in [vec![1.0, 1.0], vec![2.0, 1.0], vec![f64::NAN], vec![f64::INFINITY]] {
            let kind = CustomKind::Histogram;
            let shape = CustomShape { kind, bounds, ..shape("bounds", &[]) };
            assert_eq!(CustomFamily::open(shape).unwrap_err(), CustomProblem::Bounds);
        }
    }

    #[test]
    fn series_are_bounded_in_number_and_in_length() {
        let family = CustomFamily::open(shape("series_are_bounded", &["a"])).unwrap();
        for number in 0..MOST_SERIES + 50 {
            family.series(&[number.to_string()]).add(1.0);
        }
        assert_eq!(family.series(&[OTHER.to_owned()]).value.get(), 50.0);
        assert_eq!(locked(&family.series).len(), MOST_SERIES + 1);
        assert_eq!(cut(&"\u{e4}".repeat(200)).len(), LONGEST_VALUE);
    }

    #[test]
    fn values_of_all_threads_are_counted() {
        let kind = CustomKind::Histogram;
        let shape = CustomShape { kind, bounds: vec![1.0, 5.0], ..shape("all_threads", &[]) };
        let series = CustomFamily::open(shape).unwrap().series(&[]);
        std::thread::scope(|scope| {
            for value in [1.0, 1.5, 5.0, 5.5] {
                let series = &series;
                scope.spawn(move || (0..1000).for_each(|_| series.observe(value)));
            }
        });
        let counts: Vec<u64> =
            series.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!((counts, series.value.get()), (vec![1000, 2000, 1000], 13_000.0));
    }
}
