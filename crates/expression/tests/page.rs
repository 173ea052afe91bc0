//! The page about expressions names all that there is.
#![allow(clippy::unwrap_used, reason = "a test may stop here")]

use std::path::Path;

use sluice_expression::{OPERATOR_WORDS, fact_names, function_names};

#[test]
fn the_page_names_every_fact_function_and_operator() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/expressions.md");
    let page = std::fs::read_to_string(page).unwrap();
    for name in fact_names() {
        let shown = [format!("`{name}`"), format!("`{name}.NAME`"), format!("`{name}.PATH`")];
        assert!(shown.iter().any(|shown| page.contains(shown)), "{name}");
    }
    for name in function_names() {
        assert!(page.contains(&format!("`{name}(")), "{name}");
    }
    for word in OPERATOR_WORDS {
        assert!(page.contains(&format!("`{word}`")), "{word}");
    }
}
