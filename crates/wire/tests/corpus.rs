//! Replays the kept fuzzing corpora, so that what was found once is tested everywhere.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop here"
)]

use std::fs;
use std::path::Path;

#[path = "fuzz_bodies/chunked_body.rs"]
mod chunked_body;
#[path = "fuzz_bodies/grpc_web.rs"]
mod grpc_web;
#[path = "fuzz_bodies/h2_frames.rs"]
mod h2_frames;
#[path = "fuzz_bodies/hpack.rs"]
mod hpack;
#[path = "fuzz_bodies/proxy_header.rs"]
mod proxy_header;
#[path = "fuzz_bodies/request_head.rs"]
mod request_head;
#[path = "fuzz_bodies/response_head.rs"]
mod response_head;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| run(&data));
        assert!(outcome.is_ok(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 30, "the corpus of {target} is there");
}

#[test]
fn request_heads() {
    replay("request_head", request_head::run);
}

#[test]
fn response_heads() {
    replay("response_head", response_head::run);
}

#[test]
fn chunked_bodies() {
    replay("chunked_body", chunked_body::run);
}

#[test]
fn header_blocks() {
    replay("hpack", hpack::run);
}

#[test]
fn frames() {
    replay("h2_frames", h2_frames::run);
}

#[test]
fn grpc_web_texts() {
    replay("grpc_web", grpc_web::run);
}

#[test]
fn proxy_headers() {
    replay("proxy_header", proxy_header::run);
}
