//! Feeds random bytes to the checks that `crates/wire/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;
// What this target covers: `cargo xtask tidy` wants every decoder named by one.
#[allow(unused_imports, reason = "only its name is of interest")]
use sluice_wire::proxy::decode as _;

#[path = "../../crates/wire/tests/fuzz_bodies/proxy_header.rs"]
mod proxy_header;

fuzz_target!(|data: &[u8]| proxy_header::run(data));
