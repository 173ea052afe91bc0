//! `metrics`: what scripts count with all workers together, on the page of the gateway's metrics.

use std::rc::Rc;
use std::sync::Arc;

use sluice_meter::{CustomFamily, CustomKind, CustomSeries, CustomShape};

use crate::frame::{Frame, Kind, Reply, native};

native!(native_family, family);
native!(native_series, series);
native!(native_add, add);
native!(native_set, set);
native!(native_observe, observe);

/// For `metrics.lua`.
pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 5] = [
    ("family", native_family),
    ("series", native_series),
    ("add", native_add),
    ("set", native_set),
    ("observe", native_observe),
];

/// Bounds of a histogram of seconds, unless a script says something else.
const USUAL: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// What a script holds of a family, and of a series.
struct Family(Arc<CustomFamily>);
struct Series(Arc<CustomSeries>);

/// `family(kind, name, help, labels, bounds)`: the family, or nil and what is wrong.
fn family(frame: &Frame<'_>) -> Reply {
    let kind = match frame.bytes(1) {
        Some(b"histogram") => CustomKind::Histogram,
        Some(b"gauge") => CustomKind::Gauge,
        _ => CustomKind::Counter,
    };
    let Some(name) = frame.text(2).filter(|_| frame.kind(2) == Kind::String) else {
        return frame.fail(b"the name of a metric is expected");
    };
    let labels = list(frame, 4, Frame::text);
    let bounds = list(frame, 5, Frame::number);
    let (Some(labels), Some(bounds)) = (labels, bounds) else {
        return frame.fail(b"labels are a list of names, bounds one of numbers");
    };
    let bounds = match kind {
        CustomKind::Histogram if bounds.is_empty() => USUAL.to_vec(),
        CustomKind::Histogram => bounds,
        CustomKind::Counter | CustomKind::Gauge => Vec::new(),
    };
    let help = frame.text(3).unwrap_or_default();
    let opened = CustomFamily::open(CustomShape { name, help, kind, labels, bounds });
    match opened {
        Ok(family) => {
            frame.host().keep_family(&family);
            frame.push_object(Rc::new(Family(family)), 0);
            Reply::Values(1)
        }
        Err(problem) => frame.fail(problem.to_string().as_bytes()),
    }
}

/// The elements of a list, or none of nil; `None` for what is neither.
fn list<'l, T>(
    frame: &Frame<'l>,
    index: i32,
    read: impl Fn(&Frame<'l>, i32) -> Option<T>,
) -> Option<Vec<T>> {
    match frame.kind(index) {
        Kind::Nil => return Some(Vec::new()),
        Kind::Table => {}
        _ => return None,
    }
    let count = i32::try_from(frame.elements(index)).ok()?;
    (1..=count)
        .map(|place| {
            frame.push_element(index, place);
            let element = read(frame, -1);
            frame.pop();
            element
        })
        .collect()
}

/// `series(family, values)`.
fn series(frame: &Frame<'_>) -> Reply {
    let values = list(frame, 2, Frame::text);
    let (Some(family), Some(values)) = (frame.object::<Family>(1), values) else {
        return frame.raise("a metric and the values of its labels are expected");
    };
    if values.len() != family.0.labels() {
        return frame.raise("a value for each label is expected");
    }
    frame.push_object(Rc::new(Series(family.0.series(&values))), 0);
    Reply::Values(1)
}

/// Changes the series that is the first argument by the number that is the second.
fn change(frame: &Frame<'_>, change: impl FnOnce(&CustomSeries, f64)) -> Reply {
    match (frame.object::<Series>(1), frame.number(2)) {
        (Some(series), Some(value)) => {
            change(&series.0, value);
            Reply::Values(0)
        }
        _ => frame.raise("a number is expected"),
    }
}

fn add(frame: &Frame<'_>) -> Reply {
    change(frame, CustomSeries::add)
}

fn set(frame: &Frame<'_>) -> Reply {
    change(frame, CustomSeries::set)
}

fn observe(frame: &Frame<'_>) -> Reply {
    change(frame, CustomSeries::observe)
}
