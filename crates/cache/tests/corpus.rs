//! Replays the kept fuzzing corpus of heads of cache files, so that what was found once is tested everywhere.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop here")]

use std::fs;
use std::path::Path;

#[path = "fuzz_bodies/cache_file.rs"]
mod cache_file;

#[test]
fn heads_of_cache_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/cache_file");
    let (mut count, mut whole) = (0, 0);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| cache_file::run(&data));
        assert!(outcome.is_ok(), "{}", path.display());
        count += 1;
        whole += usize::from(sluice_cache::rewrite_head(&data).is_some());
    }
    assert!(count >= 30 && whole >= 10, "the corpus is there");
}
