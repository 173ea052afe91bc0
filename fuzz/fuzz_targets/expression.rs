//! Feeds random bytes to the checks that `crates/expression/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/expression/tests/fuzz_bodies/expression.rs"]
mod expression;

fuzz_target!(|data: &[u8]| expression::run(data));
