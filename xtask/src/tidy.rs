//! `cargo xtask tidy`: the invariants of the architecture as a script.

mod arrows;
mod circles;
mod decoders;
mod documents;
mod exceptions;
mod paths;
mod reach;
mod shape;
mod source;

use std::path::{Path, PathBuf};

use exceptions::Exceptions;
use source::Source;

/// A broken rule and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The rule's name, as exceptions name it.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, what: what.into() }
    }
}

/// Checks the repository and prints what it finds; the number of findings.
pub fn run(root: &Path) -> Result<usize, String> {
    let exceptions = Exceptions::read(root)?;
    let crates = crate_names(root)?;
    let sources = sources(root)?;
    let mut findings = arrows::check(root, &crates);
    findings.extend(sources.iter().flat_map(shape::check));
    findings.extend(sources.iter().flat_map(reach::check));
    for name in &crates {
        let source = PathBuf::from(format!("crates/{name}/src"));
        let files: Vec<&Source> =
            sources.iter().filter(|file| file.path.starts_with(&source)).collect();
        findings.extend(circles::check(&source, &files));
    }
    findings.extend(decoders::check(&sources));
    for document in documents(root)? {
        findings.extend(documents::check(root, &document, &crates));
    }
    findings.extend(
        crate::generate::stale(root)
            .into_iter()
            .map(|path| Finding::new("generated", &path, 1, "is stale: cargo xtask generate")),
    );
    findings.retain(|finding| !exceptions.allow(finding));
    findings.extend(exceptions.unused());
    findings.sort();
    for Finding { path, line, rule, what } in &findings {
        println!("{path}:{line}: {rule}: {what}");
    }
    println!("tidy: {} files, {} findings", sources.len(), findings.len());
    Ok(findings.len())
}

fn crate_names(root: &Path) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = entries(&root.join("crates"))?
        .into_iter()
        .filter(|path| path.join("Cargo.toml").exists())
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn sources(root: &Path) -> Result<Vec<Source>, String> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz"] {
        collect(&root.join(folder), "rs", &mut files)?;
    }
    let mut sources = Vec::new();
    for file in files {
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        sources.push(Source::new(file.strip_prefix(root).unwrap_or(&file), &text));
    }
    Ok(sources)
}

/// The documents whose paths must exist: those at the top, and everything in `docs`.
fn documents(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files: Vec<PathBuf> = entries(root)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    collect(&root.join("docs"), "md", &mut files)?;
    Ok(files.iter().map(|file| file.strip_prefix(root).unwrap_or(file).to_owned()).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Every file below a folder with this extension; a missing folder holds none.
fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if !folder.is_dir() {
        return Ok(());
    }
    for path in entries(folder)? {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden && !path.ends_with("target") {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}
