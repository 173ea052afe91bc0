//! `cargo xtask generate`: files that are made from the model and from results, and whether they are fresh.

use std::path::Path;

/// Behind this line a page is generated, before it people write.
const MARK: &str = "<!-- generated from here on: cargo xtask generate -->\n";

/// The files and what must stand in them.
fn files(root: &Path) -> [(&'static str, String); 5] {
    let schema = format!("{:#}\n", sluice_model::schema());
    let mut names = String::from("| name | meaning |\n|---|---|\n");
    for (name, meaning) in sluice_meter::VARIABLES {
        names.push_str(&format!("| `{name}` | {meaning} |\n"));
    }
    [
        ("docs/configuration.md", sluice_model::reference()),
        ("docs/schema.json", schema),
        ("docs/metrics.md", behind_mark(root, "docs/metrics.md", &sluice_meter::reference())),
        ("docs/access-log.md", behind_mark(root, "docs/access-log.md", &names)),
        crate::readme::page(root),
    ]
}

/// What people wrote on a page, and the generated part behind it.
fn behind_mark(root: &Path, page: &str, generated: &str) -> String {
    let text = std::fs::read_to_string(root.join(page)).unwrap_or_default();
    let written = text.split(MARK).next().unwrap_or_default();
    format!("{written}{MARK}\n{generated}")
}

/// Writes every generated file.
pub fn run(root: &Path) -> Result<(), String> {
    for (path, text) in files(root) {
        let full = root.join(path);
        let written = full.parent().map_or(Ok(()), std::fs::create_dir_all);
        written.and_then(|()| std::fs::write(&full, text)).map_err(|e| format!("{path}: {e}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// The generated files that differ from what would be generated now.
pub fn stale(root: &Path) -> Vec<String> {
    let differs = |(path, text): &(&str, String)| {
        std::fs::read_to_string(root.join(path)).map_or(true, |found| found != *text)
    };
    files(root).into_iter().filter(differs).map(|(path, _)| path.to_owned()).collect()
}
