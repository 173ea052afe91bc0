//! Every configuration that a page shows is one that the program takes.

#![expect(clippy::unwrap_used, reason = "helpers of a test")]

use std::path::{Path, PathBuf};

use sluice_model::{Format, Source, parse};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/filters"];
    let files = folders.into_iter().flat_map(|it| std::fs::read_dir(root().join(it)).unwrap());
    let pages = files.map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.push(root().join("README.md"));
    pages
}

/// The blocks of a page in this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let parts = text.split(fence.as_str()).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_example_is_taken_without_a_warning() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.display().to_string();
        let examples = blocks(&text, "toml");
        assert!(!examples.is_empty(), "{name} shows no configuration");
        for example in examples {
            let source = Source { name: &name, text: &example, format: Format::Toml };
            match parse(&source, &|_| None) {
                Ok(model) => assert!(model.warnings.is_empty(), "{:?}", model.warnings),
                Err(problems) => panic!("{problems}"),
            }
        }
    }
}

#[test]
fn the_readme_links_to_what_exists() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for link in links.filter(|link| !link.starts_with("http")) {
        assert!(root().join(link).exists(), "{link}");
    }
}
