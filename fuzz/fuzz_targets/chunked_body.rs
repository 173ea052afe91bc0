//! Feeds random bytes to the checks that `crates/wire/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;
// What this target covers: `cargo xtask tidy` wants every decoder named by one.
#[allow(unused_imports, reason = "only its name is of interest")]
use sluice_wire::h1::BodyDecoder as _;

#[path = "../../crates/wire/tests/fuzz_bodies/chunked_body.rs"]
mod chunked_body;

fuzz_target!(|data: &[u8]| chunked_body::run(data));
