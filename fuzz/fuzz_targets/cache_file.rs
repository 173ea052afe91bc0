//! Feeds random bytes to the checks that `crates/cache/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cache/tests/fuzz_bodies/cache_file.rs"]
mod cache_file;

fuzz_target!(|data: &[u8]| cache_file::run(data));
