//! The floors of the crates: arrows point down only.

use std::path::Path;

use super::Finding;

/// What each crate may depend on. A crate that is missing here has no floor yet and is reported.
const FLOORS: &[(&str, &[&str])] = &[
    ("message", &[]),
    // An access-log record is written from the words of a request.
    ("meter", &["message"]),
    ("net", &[]),
    ("coding", &[]),
    ("wire", &["message"]),
    ("route", &["message"]),
    ("expression", &["message"]),
    // What is wrong with an expression is told with the rest of the document.
    ("model", &["message", "expression"]),
    ("conn", &["message", "net", "wire"]),
    ("upstream", &["message", "meter", "net", "wire", "conn"]),
    ("load", &["message", "net", "wire"]),
    // The content of an answer may be a part of a file.
    ("filter", &["message", "net", "expression"]),
    // What filters decide; they ask no socket and no clock: the gateway lends them what they need.
    ("filters", &["message", "meter", "coding", "expression", "filter"]),
    // Answers from files: what is asked of the disk is in net.
    ("files", &["message", "meter", "net", "filter"]),
    // Keeps answers; like the others it borrows clocks and requests from the gateway.
    ("cache", &["message", "meter", "net", "expression", "filter"]),
    // Services of scripts, and what scripts do to requests.
    ("lua", &["message", "meter", "net", "wire", "conn", "expression", "filter"]),
    ("engine", &["message", "meter", "net", "wire", "route", "conn", "upstream", "filter"]),
    (
        "control",
        &[
            "message",
            "meter",
            "model",
            "net",
            "wire",
            "route",
            "conn",
            "upstream",
            "coding",
            "expression",
            "filter",
            "filters",
            "files",
            "cache",
            "lua",
            "engine",
        ],
    ),
    (
        "admin",
        &[
            "message", "meter", "model", "net", "wire", "route", "conn", "upstream", "engine",
            "control",
        ],
    ),
    (
        "cli",
        &[
            "message", "meter", "model", "net", "wire", "route", "conn", "upstream", "engine",
            "control", "admin", "load", "lua",
        ],
    ),
    // Its client of HTTP/2.
    ("testkit", &["message", "wire"]),
    ("acceptance", &["message", "testkit", "wire"]),
];

/// Compares the manifest of every crate with the table.
pub fn check(root: &Path, crates: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in crates {
        let path = format!("crates/{name}/Cargo.toml");
        let text = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        let Some((_, below)) = FLOORS.iter().find(|(known, _)| known == name) else {
            let what = format!("{name} has no floor: give it one in xtask/src/tidy/arrows.rs");
            findings.push(Finding::new("arrows", &path, 1, what));
            continue;
        };
        for (dependency, section, line) in dependencies(&text) {
            let for_tests = section == Section::Development;
            let allowed =
                below.contains(&dependency.as_str()) || for_tests && dependency == "testkit";
            // A test may look at a neighbour, but never at a floor above: that would be a circle.
            let looks_down = for_tests && floor(&dependency) <= floor(name);
            if !allowed && !looks_down {
                let what = format!("{name} may not depend on {dependency}");
                findings.push(Finding::new("arrows", &path, line, what));
            }
        }
    }
    findings
}

fn floor(name: &str) -> usize {
    FLOORS.iter().position(|(known, _)| *known == name).unwrap_or(usize::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Product,
    Development,
}

/// The crates of this workspace that a manifest names, and where.
fn dependencies(manifest: &str) -> Vec<(String, Section, usize)> {
    let mut found = Vec::new();
    let mut section = None;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            section = if header.contains("dev-dependencies") {
                Some(Section::Development)
            } else if header.contains("dependencies") {
                Some(Section::Product)
            } else {
                None
            };
            // `[dependencies.sluice-wire]`
            let named = header.rsplit('.').next().and_then(|last| last.strip_prefix("sluice-"));
            if let (Some(section), Some(name)) = (section, named) {
                found.push((name.to_owned(), section, index + 1));
            }
            continue;
        }
        let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
        if let (Some(section), Some(name)) = (section, key.strip_prefix("sluice-")) {
            found.push((name.to_owned(), section, index + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{FLOORS, Section, dependencies};

    #[test]
    fn reads_manifests() {
        let manifest = "[package]\nname = \"sluice-x\"\n[dependencies]\nsluice-wire.workspace = true\n\
            sluice-net = { workspace = true }\nhttparse = \"1\"\n[dev-dependencies]\n\
            sluice-testkit = { path = \"..\" }\n[dependencies.sluice-message]\npath = \"..\"\n";
        assert_eq!(
            dependencies(manifest),
            [
                ("wire".to_owned(), Section::Product, 4),
                ("net".to_owned(), Section::Product, 5),
                ("testkit".to_owned(), Section::Development, 8),
                ("message".to_owned(), Section::Product, 9),
            ]
        );
    }

    #[test]
    fn the_table_itself_points_down() {
        for (index, (name, below)) in FLOORS.iter().enumerate() {
            for dependency in *below {
                let at = FLOORS.iter().position(|(known, _)| known == dependency);
                assert!(at.is_some_and(|at| at < index), "{name} -> {dependency}");
            }
        }
    }
}
