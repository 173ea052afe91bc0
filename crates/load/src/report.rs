//! Reports: the same document as Markdown and as one HTML page, and the figures as CSV and JSON.

mod caveats;
mod chart;
mod compose;
mod conclusion;
mod csv;
mod document;
mod html;
mod markdown;
mod single;
mod summary;

#[cfg(test)]
mod browser;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

pub(crate) use caveats::disturbances;
pub(crate) use compose::file_name;

use crate::outcome::Outcome;
use crate::results::Results;
use document::{Cell, Document, Table};

/// One HTML page about one run, or about several like the steps of a ramp.
pub fn html(outcomes: &[Outcome]) -> String {
    html::html(&single::of_outcomes(outcomes))
}

/// The same as Markdown. Its charts are `charts/<name>.svg`, see [`charts`].
pub fn markdown(outcomes: &[Outcome]) -> String {
    markdown::markdown(&single::of_outcomes(outcomes))
}

/// The charts that [`markdown`] refers to: file name without folder, and content.
pub fn charts(outcomes: &[Outcome]) -> Vec<(String, String)> {
    drawings(&single::of_outcomes(outcomes))
}

/// One line per run, after a line of column names.
pub fn csv(outcomes: &[Outcome]) -> String {
    csv::of_outcomes(outcomes)
}

/// The runs as JSON: one run as an object, several as a list.
///
/// # Errors
/// None that a run as measured can cause; the serialiser's message otherwise.
pub fn json(outcomes: &[Outcome]) -> Result<String, String> {
    let text = match outcomes {
        [one] => serde_json::to_string_pretty(one),
        several => serde_json::to_string_pretty(several),
    };
    text.map(|text| text + "\n").map_err(|error| error.to_string())
}

/// Everything a suite's results are written as.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteReport {
    /// `report.md`.
    pub markdown: String,
    /// `report.html`.
    pub html: String,
    /// `results.csv`.
    pub csv: String,
    /// `results.json`.
    pub json: String,
    /// `charts/`: file name and content.
    pub charts: Vec<(String, String)>,
}

/// The reports of a suite.
///
/// # Errors
/// None that results as measured can cause; the serialiser's message otherwise.
pub fn suite(results: &Results) -> Result<SuiteReport, String> {
    let document = compose::of_suite(results);
    let json = serde_json::to_string_pretty(results).map_err(|error| error.to_string())?;
    Ok(SuiteReport {
        markdown: markdown::markdown(&document),
        html: html::html(&document),
        csv: csv::of_suite(results),
        json: json + "\n",
        charts: drawings(&document),
    })
}

/// A table as text, for reports that are made elsewhere.
pub(crate) fn table_text<const N: usize>(columns: [&str; N], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(columns);
    table.rows = rows.into_iter().map(|row| row.into_iter().map(Cell::new).collect()).collect();
    markdown::rows(&table)
}

fn drawings(document: &Document) -> Vec<(String, String)> {
    let files = document.charts();
    files.map(|chart| (format!("{}.svg", chart.name), chart::standalone(&chart.svg))).collect()
}
