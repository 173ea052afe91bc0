//! Replays the kept fuzzing corpora, so that what was found once is tested everywhere.
#![allow(clippy::unwrap_used, reason = "a test may stop here")]

use std::fs;
use std::path::Path;

#[path = "fuzz_bodies/jwt.rs"]
mod jwt;
#[path = "fuzz_bodies/replacement.rs"]
mod replacement;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| run(&data));
        assert!(outcome.is_ok(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 30, "the corpus is there");
}

#[test]
fn tokens_and_keys() {
    replay("jwt", jwt::run);
}

#[test]
fn replacements_in_content() {
    replay("replacement", replacement::run);
}
