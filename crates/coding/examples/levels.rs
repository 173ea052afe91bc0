//! What each level costs and gains: `cargo run --release -p sluice-coding --example levels -- FILE ...`
//!
//! Each file is compressed as a proxied response is: in pieces of 16 KiB by a compressor of its own, and with other
//! bytes each time, so that nothing is reused but what a thread reuses by itself.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for developers")]

use std::time::Instant;

use sluice_coding::{Coding, Encoder, Extent};

/// Responses of each level; the median of their times is printed.
const ROUNDS: usize = 101;

const LEVELS: [(Coding, &[u32]); 3] = [
    (Coding::Gzip, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    (Coding::Brotli, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    (Coding::Zstd, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 12]),
];

fn main() {
    let mut files = std::env::args().skip(1).peekable();
    if files.peek().is_none() {
        println!("usage: levels FILE ...");
    }
    for file in files {
        let body = std::fs::read(&file).unwrap();
        println!(
            "{file}: {} bytes\n\n| coding | level | µs | bytes |\n|---|---|---|---|",
            body.len()
        );
        for (coding, levels) in LEVELS {
            for level in levels {
                let (micros, bytes) = measure(coding, *level, body.clone());
                println!("| {} | {level} | {micros:.0} | {bytes} |", coding.name());
            }
        }
        println!();
    }
}

/// The median time in microseconds, and how many bytes come out.
fn measure(coding: Coding, level: u32, mut body: Vec<u8>) -> (f64, usize) {
    let extent = Extent::Known(body.len().try_into().unwrap());
    let mut times = Vec::new();
    let mut out = Vec::with_capacity(body.len() * 2);
    for round in 0..ROUNDS {
        // A token in the middle, as pages with a session have.
        let middle = body.len() / 2;
        let token = format!("{:016x}", round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let room = body.iter_mut().skip(middle);
        room.zip(token.bytes()).for_each(|(place, byte)| *place = byte);
        out.clear();
        let begun = Instant::now();
        let mut encoder = Encoder::new(coding, level, extent);
        for piece in body.chunks(16 * 1024) {
            encoder.push(piece, &mut out).unwrap();
        }
        encoder.finish(&mut out).unwrap();
        drop(encoder);
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    (times.get(ROUNDS / 2).copied().unwrap_or_default(), out.len())
}
