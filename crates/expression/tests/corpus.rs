//! Replays the kept fuzzing corpus of expressions, so that what was found once is tested everywhere.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop here")]

use std::fs;
use std::path::Path;

#[path = "fuzz_bodies/expression.rs"]
mod expression;

#[test]
fn expressions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/expression");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| expression::run(&data));
        assert!(outcome.is_ok(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 30, "the corpus is there");
}
