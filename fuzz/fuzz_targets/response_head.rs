//! Feeds random bytes to the checks that `crates/wire/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;
// What this target covers: `cargo xtask tidy` wants every decoder named by one.
#[allow(unused_imports, reason = "only its name is of interest")]
use sluice_wire::h1::decode_response as _;

#[path = "../../crates/wire/tests/fuzz_bodies/response_head.rs"]
mod response_head;

fuzz_target!(|data: &[u8]| response_head::run(data));
