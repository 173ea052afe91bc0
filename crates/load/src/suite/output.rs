//! The files a suite leaves: reports, figures for programs, and every run by itself.

use std::fs;
use std::path::Path;

use crate::report;
use crate::results::Results;

/// Writes `report.md`, `report.html`, `results.csv`, `results.json`, `charts/` and `raw/` into a folder,
/// which is made if it is not there. Of an earlier suite in the same folder nothing but strange
/// files is left.
///
/// # Errors
/// What cannot be written and why.
pub fn write(results: &Results, folder: &Path) -> Result<(), String> {
    let report = report::suite(results)?;
    for part in ["charts", "raw"] {
        let part = folder.join(part);
        let _ = fs::remove_dir_all(&part);
        fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    }
    put(&folder.join("report.md"), &report.markdown)?;
    put(&folder.join("report.html"), &report.html)?;
    put(&folder.join("results.csv"), &report.csv)?;
    put(&folder.join("results.json"), &report.json)?;
    for (name, content) in &report.charts {
        put(&folder.join("charts").join(name), content)?;
    }
    for case in &results.cases {
        for run in &case.runs {
            let name = format!(
                "{:04}-{}-{}-{}-round{}",
                run.order, case.name, run.server, run.connections, run.round
            );
            let text = serde_json::to_string_pretty(run).map_err(|error| error.to_string())?;
            put(&folder.join("raw").join(report::file_name(&name) + ".json"), &(text + "\n"))?;
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
