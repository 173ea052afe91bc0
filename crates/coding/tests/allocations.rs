//! Compressing a body takes memory in proportion to the body, and what is large is allocated once per thread.
#![allow(clippy::unwrap_used, reason = "a test may stop here")]
#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sluice_coding::{Coding, Encoder, Extent};

struct Counting;

thread_local! {
    /// Bytes that were allocated, in all.
    static BYTES: Cell<usize> = const { Cell::new(0) };
    /// Bytes that are allocated at the moment. It wraps, because what other threads allocated is freed here as well.
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // Memory is allocated and freed until a thread has ended.
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes));
    let _ = LIVE.try_with(|count| count.set(count.get().wrapping_add(bytes)));
}

fn count_freed(bytes: usize) {
    let _ = LIVE.try_with(|count| count.set(count.get().wrapping_sub(bytes)));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        count_freed(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A page of 24 KB; pages of different seeds have different rows.
fn page(seed: usize) -> Vec<u8> {
    let row = |number: usize| {
        format!("<tr><td>{number}</td><td>article {}</td></tr>\n", (number + seed) * 7919 % 99_991)
    };
    (0..).flat_map(|number| row(number).into_bytes()).take(24 * 1024).collect()
}

/// The page in pieces, as it passes, and how many bytes were allocated for it.
fn compress(coding: Coding, level: u32, extent: Extent, page: &[u8]) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(page.len());
    let before = BYTES.get();
    let mut encoder = Encoder::new(coding, level, extent);
    for piece in page.chunks(16 * 1024) {
        encoder.push(piece, &mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    drop(encoder);
    (out, BYTES.get() - before)
}

fn known(page: &[u8]) -> Extent {
    Extent::Known(page.len().try_into().unwrap())
}

#[test]
fn a_page_takes_memory_of_its_own_size_and_not_of_the_largest() {
    for level in 0..=9 {
        for seed in 0..20 {
            let page = page(seed);
            let (_, bytes) = compress(Coding::Brotli, level, known(&page), &page);
            // The first one makes the table that the others reuse.
            let most = if seed == 0 { 3 << 20 } else { 1280 << 10 };
            assert!(bytes <= most, "br {level}, page {seed}: {bytes} bytes");
        }
    }
}

#[test]
fn a_body_of_unknown_length_begins_with_little() {
    for level in 0..=9 {
        for seed in 0..5 {
            let (_, bytes) = compress(Coding::Brotli, level, Extent::Unknown, &page(seed));
            let most = if seed == 0 { 8 << 20 } else { 3 << 20 };
            assert!(bytes <= most, "br {level}, page {seed}: {bytes} bytes");
        }
    }
}

#[test]
fn thousands_of_event_streams_fit_into_memory() {
    for level in 0..=9 {
        let before = LIVE.get();
        let streams: Vec<Encoder> = (0..50)
            .map(|number| {
                let mut encoder = Encoder::new(Coding::Brotli, level, Extent::Endless);
                let mut out = Vec::new();
                for event in 0..20 {
                    let text = format!("data: {number} {event}\n\n");
                    encoder.push(text.as_bytes(), &mut out).unwrap();
                    encoder.flush(&mut out).unwrap();
                }
                encoder
            })
            .collect();
        let each = LIVE.get().wrapping_sub(before) / streams.len();
        assert!(each <= 512 << 10, "br {level}: {each} bytes for each");
    }
}

#[test]
fn what_was_compressed_before_makes_no_difference() {
    for level in 0..=9 {
        let (first, other) = (page(1), vec![b'x'; 20_000]);
        // A thread that has no tables yet.
        let fresh = std::thread::scope(|scope| {
            let page = &first;
            let thread = scope.spawn(move || compress(Coding::Brotli, level, known(page), page).0);
            thread.join().unwrap()
        });
        for _ in 0..3 {
            // One that is given up half way leaves its table as well.
            let mut encoder = Encoder::new(Coding::Brotli, level, known(&first));
            encoder.push(&page(7), &mut Vec::new()).unwrap();
            drop(encoder);
            compress(Coding::Brotli, level, known(&other), &other);
            let (again, _) = compress(Coding::Brotli, level, known(&first), &first);
            assert!(again == fresh, "br {level}");
        }
    }
}
