//! Feeds random bytes to the checks that `crates/coding/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/coding/tests/fuzz_bodies/content_coding.rs"]
mod content_coding;

fuzz_target!(|data: &[u8]| content_coding::run(data));
