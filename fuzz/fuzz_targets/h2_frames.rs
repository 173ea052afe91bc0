//! Feeds random bytes to the checks that `crates/wire/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;
// What this target covers: `cargo xtask tidy` wants every decoder named by one.
#[allow(unused_imports, reason = "only its name is of interest")]
use sluice_wire::h2::ServerConnection as _;

#[path = "../../crates/wire/tests/fuzz_bodies/h2_frames.rs"]
mod h2_frames;

fuzz_target!(|data: &[u8]| h2_frames::run(data));
