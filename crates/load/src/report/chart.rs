//! Line charts as SVG, coloured by the style of the page that holds them.

use super::html::escaped;
use crate::figures;

/// The drawing's size. Small, so that on a phone its letters shrink little.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Room for one line of the legend.
const LEGEND: f64 = 20.0;
/// Up to so many points are marked each; a dense curve is a line alone.
const MARKED: usize = 12;
const COLOURS: usize = 6;
/// The colours for a drawing that is a file of its own.
const STYLE: &str = include_str!("chart.css");

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Which of the colours and markers: the same server has the same everywhere.
    pub(crate) colour: usize,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// From zero, even.
    Linear,
    /// Even in the logarithm.
    Logarithmic,
    /// Already log10(1/(1-p)): shown as 90 %, 99 %, ...
    Nines,
}

/// What stands on an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) scale: Scale,
    pub(crate) write: fn(f64) -> String,
}

/// What is to be drawn.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// Read out instead of the drawing.
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

/// An axis with its ends, onto a range of the drawing.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Ruler {
    fn new(scale: Scale, values: &[f64], (from, to): (f64, f64)) -> Self {
        let usable = values.iter().copied().filter(|value| value.is_finite());
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in usable.filter(|value| scale != Scale::Logarithmic || *value > 0.0) {
            least = least.min(value);
            most = most.max(value);
        }
        if least > most {
            (least, most) = (1.0, 10.0);
        }
        let (ticks, low, high) = match scale {
            Scale::Linear => linear(most),
            Scale::Logarithmic => logarithmic(least, most),
            Scale::Nines => nines(most),
        };
        Self { scale, low, high, from, to, ticks }
    }

    fn place(&self, value: f64) -> f64 {
        let at = |value: f64| match self.scale {
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Linear | Scale::Nines => value,
        };
        let span = at(self.high) - at(self.low);
        let share = if span > 0.0 { (at(value) - at(self.low)) / span } else { 0.5 };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

/// Ticks at 1, 2 or 5 times a power of ten, about five of them.
fn linear(most: f64) -> (Vec<f64>, f64, f64) {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| most / step <= 5.5).unwrap_or(most);
    let steps = (most / step).ceil();
    let ticks = (0..=figures::whole(steps)).map(|index| figures::float(index) * step);
    (ticks.collect(), 0.0, steps * step)
}

/// Ticks at powers of ten, with 2 and 5 between where the range is small.
fn logarithmic(least: f64, most: f64) -> (Vec<f64>, f64, f64) {
    let decades = (most / least).log10();
    let factors: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks = Vec::new();
    let mut power = 10_f64.powf(least.log10().floor());
    while power <= most * 10.0 {
        ticks.extend(factors.iter().map(|factor| factor * power));
        power *= 10.0;
    }
    let low = ticks.iter().copied().rfind(|tick| *tick <= least * 1.0001).unwrap_or(least);
    let high = ticks.iter().copied().find(|tick| *tick >= most * 0.9999).unwrap_or(most);
    let high = if high > low { high } else { low * 10.0 };
    ticks.retain(|tick| (low..=high).contains(tick));
    (ticks, low, high)
}

fn nines(most: f64) -> (Vec<f64>, f64, f64) {
    let last = most.ceil().max(1.0);
    ((0..=figures::whole(last)).map(figures::float).collect(), 0.0, most.max(1.0))
}

/// A value of a [`Scale::Nines`] axis: 2 is `99 %`.
pub(crate) fn nines_label(value: f64) -> String {
    let share = 100.0 * (1.0 - 10_f64.powf(-value));
    let digits = usize::try_from(figures::whole(value - 2.0)).unwrap_or(0);
    format!("{share:.digits$} %")
}

impl Plot {
    /// The drawing as it stands in a page.
    pub(crate) fn svg(&self) -> String {
        let (rows, legend) = self.legend();
        let top = LEGEND * rows + 8.0;
        let of = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            self.series.iter().flat_map(|series| &series.points).map(pick).collect()
        };
        let x = Ruler::new(self.x.scale, &of(|point| point.0), (LEFT, WIDTH - RIGHT));
        let y = Ruler::new(self.y.scale, &of(|point| point.1), (HEIGHT - BOTTOM, top));
        let mut out = format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{}</title>\n",
            escaped(&self.title)
        );
        out.push_str(&legend);
        out.push_str(&self.grid(&x, &y));
        out.extend(self.series.iter().map(|series| curve(series, &x, &y)));
        out.push_str("</svg>\n");
        out
    }

    fn grid(&self, x: &Ruler, y: &Ruler) -> String {
        let (left, right, bottom) = (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut out = String::new();
        for tick in &y.ticks {
            let (at, label) = (y.place(*tick), escaped(&(self.y.write)(*tick)));
            out.push_str(&format!(
                "<path d=\"M{left:.1} {at:.1}H{right:.1}\" style=\"stroke:var(--line)\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" style=\"fill:var(--quiet)\">{label}</text>\n",
                left - 6.0,
                at + 4.0
            ));
        }
        for tick in x.ticks.iter().filter(|tick| **tick <= x.high) {
            let (at, label) = (x.place(*tick), escaped(&(self.x.write)(*tick)));
            // The last label would stick out of the drawing.
            let anchor = if at > right - 20.0 { "end" } else { "middle" };
            let shift = if at > right - 20.0 { right + RIGHT - 2.0 } else { at };
            out.push_str(&format!(
                "<path d=\"M{at:.1} {bottom:.1}v4\" style=\"stroke:var(--quiet)\"/>\
                 <text x=\"{shift:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" style=\"fill:var(--quiet)\">{label}</text>\n",
                bottom + 17.0
            ));
        }
        out.push_str(&format!(
            "<path d=\"M{left:.1} {bottom:.1}H{right:.1}\" style=\"stroke:var(--quiet)\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" style=\"fill:var(--text)\">{} · {}</text>\n",
            f64::midpoint(left, right),
            HEIGHT - 8.0,
            escaped(self.y.label),
            escaped(self.x.label)
        ));
        out
    }

    /// The legend above the drawing, and how many lines it takes.
    fn legend(&self) -> (f64, String) {
        let (mut out, mut at, mut row) = (String::new(), LEFT, 0.0);
        for series in &self.series {
            // About 6.6 units a letter at this size; there is no font to ask.
            let width = figures::length(series.name.chars().count()) * 6.6 + 40.0;
            if at > LEFT && at + width > WIDTH - RIGHT {
                (at, row) = (LEFT, row + 1.0);
            }
            let y = 13.0 + row * LEGEND;
            out.push_str(&format!(
                "<path d=\"M{at:.1} {:.1}h22\" fill=\"none\" stroke-width=\"2\"{} style=\"stroke:var(--s{})\"/>{}\
                 <text x=\"{:.1}\" y=\"{y:.1}\" style=\"fill:var(--text)\">{}</text>\n",
                y - 4.0,
                dashes(series),
                series.colour % COLOURS,
                marker(series.colour, at + 11.0, y - 4.0),
                at + 27.0,
                escaped(&series.name)
            ));
            at += width;
        }
        (row + 1.0, out)
    }
}

fn dashes(series: &Series) -> &'static str {
    if series.dashed { " stroke-dasharray=\"5 4\"" } else { "" }
}

fn curve(series: &Series, x: &Ruler, y: &Ruler) -> String {
    let places: Vec<(f64, f64)> = series
        .points
        .iter()
        .filter(|(a, b)| a.is_finite() && b.is_finite())
        .map(|(a, b)| (x.place(*a), y.place(*b)))
        .collect();
    let path: Vec<String> = places.iter().map(|(a, b)| format!("{a:.1} {b:.1}")).collect();
    if path.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<path d=\"M{}\" fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\"{} style=\"stroke:var(--s{})\"/>\n",
        path.join("L"),
        dashes(series),
        series.colour % COLOURS
    );
    let every = places.len().div_ceil(MARKED).max(1);
    out.extend(places.iter().step_by(every).map(|(a, b)| marker(series.colour, *a, *b)));
    out.push('\n');
    out
}

/// Shapes differ as colours do, for who does not see colours or prints without.
fn marker(colour: usize, x: f64, y: f64) -> String {
    let style = format!("style=\"fill:var(--s{});stroke:var(--page)\"", colour % COLOURS);
    let shape = match colour % 4 {
        0 => return format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" {style}/>"),
        1 => "m-3.8 -3.8h7.6v7.6h-7.6z",
        2 => "m0 -5l4.8 8.4h-9.6z",
        _ => "m0 -5l5 5l-5 5l-5 -5z",
    };
    format!("<path d=\"M{x:.1} {y:.1}{shape}\" {style}/>")
}

/// A drawing as a file of its own: with its colours inside.
pub(crate) fn standalone(svg: &str) -> String {
    match svg.split_once('>') {
        Some((head, rest)) => format!(
            "{head}>\n<style>\n{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" style=\"fill:var(--page)\"/>{rest}"
        ),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ticks() {
        assert_eq!(linear(93.0), (vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0], 0.0, 100.0));
        assert_eq!(linear(0.0).1, 0.0);
        let (ticks, low, high) = logarithmic(53.0, 277_000.0);
        assert_eq!((low.round(), high.round(), ticks.len()), (10.0, 1_000_000.0, 6));
        let (ticks, low, high) = logarithmic(40.0, 90.0);
        assert_eq!((ticks.len(), low.round(), high.round()), (3, 20.0, 100.0));
        assert_eq!(nines(2.5).2, 2.5);
        let rows = [(0.0, "0 %"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %"), (4.0, "99.99 %")];
        for (value, expected) in rows {
            assert_eq!(nines_label(value), expected);
        }
    }

    #[test]
    fn higher_values_stand_higher_and_nothing_leaves_the_drawing() {
        let axis = |scale| Axis { label: "x", scale, write: |value| format!("{value}") };
        let points = vec![(1.0, 10.0), (2.0, 1000.0), (f64::NAN, 1.0), (3.0, 0.0)];
        let series = vec![Series { name: "a<b".to_owned(), points, ..Series::default() }];
        let plot = Plot {
            title: "t".to_owned(),
            x: axis(Scale::Linear),
            y: axis(Scale::Logarithmic),
            series,
        };
        let svg = plot.svg();
        assert!(svg.contains("a&lt;b") && !svg.contains("NaN"), "{svg}");
        let ruler = Ruler::new(Scale::Logarithmic, &[10.0, 1000.0], (276.0, 28.0));
        assert!(ruler.place(10.0) > ruler.place(100.0));
        assert!((ruler.place(1e9) - 28.0).abs() < 1e-9 && (ruler.place(0.0) - 276.0).abs() < 1e-9);
    }

    #[test]
    fn a_plot_of_nothing_is_still_a_drawing() {
        let axis = Axis { label: "x", scale: Scale::Nines, write: nines_label };
        let plot = Plot { title: String::new(), x: axis, y: axis, series: Vec::new() };
        assert!(plot.svg().ends_with("</svg>\n"));
    }
}
