//! Feeds random bytes to the checks that `crates/wire/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;
// What this target covers: `cargo xtask tidy` wants every decoder named by one.
#[allow(unused_imports, reason = "only its name is of interest")]
use sluice_wire::grpc_web::TextDecoder as _;

#[path = "../../crates/wire/tests/fuzz_bodies/grpc_web.rs"]
mod grpc_web;

fuzz_target!(|data: &[u8]| grpc_web::run(data));
