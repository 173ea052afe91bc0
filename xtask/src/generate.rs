//! `cargo xtask generate`: files that are made from the model, and whether they are fresh.

use std::path::Path;

/// The files and what must stand in them.
fn files() -> [(&'static str, String); 2] {
    let schema = format!("{:#}\n", sluice_model::schema());
    [("docs/configuration.md", sluice_model::reference()), ("docs/schema.json", schema)]
}

/// Writes every generated file.
pub fn run(root: &Path) -> Result<(), String> {
    for (path, text) in files() {
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
    files().into_iter().filter(differs).map(|(path, _)| path.to_owned()).collect()
}
