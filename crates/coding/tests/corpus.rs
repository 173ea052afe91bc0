//! Replays the kept fuzzing corpus of encoded content, so that what was found once is tested everywhere.
#![allow(clippy::unwrap_used, reason = "a test may stop here")]

use std::fs;
use std::path::Path;

#[path = "fuzz_bodies/content_coding.rs"]
mod content_coding;

#[test]
fn encoded_content() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/content_coding");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| content_coding::run(&data));
        assert!(outcome.is_ok(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 30, "the corpus is there");
}
