//! Feeds random bytes to the checks that `crates/filters/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/filters/tests/fuzz_bodies/replacement.rs"]
mod replacement;

fuzz_target!(|data: &[u8]| replacement::run(data));
