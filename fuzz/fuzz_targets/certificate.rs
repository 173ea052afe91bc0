//! Feeds random bytes to the checks that `crates/net/tests/corpus.rs` replays.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/net/tests/fuzz_bodies/certificate.rs"]
mod certificate;

fuzz_target!(|data: &[u8]| certificate::run(data));
