//! Feeds random bytes to the checks that `crates/filters/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;
// What this target covers.
#[allow(unused_imports, reason = "only its name is of interest")]
use sluice_filters::jwt::{Jwks as _, Token as _};

#[path = "../../crates/filters/tests/fuzz_bodies/jwt.rs"]
mod jwt;

fuzz_target!(|data: &[u8]| jwt::run(data));
