//! Bytes that say they are encoded content: the same comes out however they are cut, and never more than is allowed.

use sluice_coding::{Bounds, Coding, Decoder, Encoder, Extent, Undecodable};

/// Bytes that may come out.
const MOST: u64 = 64 * 1024;
/// What may be there beyond that when it is noticed.
const BEYOND: usize = 16 * 1024;

/// Feeds `data` to a decoder, and to an encoder: a byte that says which, and the rest.
pub(crate) fn run(data: &[u8]) {
    let [which, rest @ ..] = data else { return };
    let codings = Coding::ALL;
    let Some(coding) = codings.get(usize::from(*which) % codings.len()) else { return };
    decode(*coding, rest);
    come_back(*coding, which >> 2, rest);
}

fn decode(coding: Coding, encoded: &[u8]) {
    let bounds = Bounds { most: MOST, expansion: u64::MAX };
    let whole = through(coding, bounds, [encoded]);
    for size in [1, 2, 3, 7, 64, 1000] {
        let cut = through(coding, bounds, encoded.chunks(size));
        // What is wrong with content may be found before it is found to be too much.
        assert_eq!(cut.as_ref().ok(), whole.as_ref().ok(), "pieces of {size}");
    }
    for at in 0..encoded.len().min(24) {
        let (head, tail) = encoded.split_at(at);
        let cut = through(coding, bounds, [head, b"", tail]);
        assert_eq!(cut.as_ref().ok(), whole.as_ref().ok(), "cut at {at}");
    }
    let strict = Bounds { most: u64::MAX, expansion: 1 };
    if let Ok(content) = through(coding, strict, [encoded]) {
        let free = usize::try_from(Bounds::FREE).unwrap_or(usize::MAX);
        // What was taken may be more than what has been looked at, but never more than there is.
        assert!(content.len() <= free.max(encoded.len() * 2) + BEYOND);
    }
}

/// What comes out of these pieces.
fn through<'c>(
    coding: Coding,
    bounds: Bounds,
    pieces: impl IntoIterator<Item = &'c [u8]>,
) -> Result<Vec<u8>, Undecodable> {
    let (mut decoder, mut out) = (Decoder::new(coding, bounds), Vec::new());
    let most = usize::try_from(bounds.most).unwrap_or(usize::MAX);
    for piece in pieces {
        let pushed = decoder.push(piece, &mut out);
        assert!(out.len() <= most.saturating_add(BEYOND), "{} bytes", out.len());
        if let Err(why) = pushed {
            let before = out.len();
            assert_eq!(decoder.push(piece, &mut out), Err(why), "it stays");
            assert_eq!((decoder.finish(), out.len()), (Err(why), before));
            return Err(why);
        }
    }
    decoder.finish().map(|()| out)
}

/// What is encoded decodes to the same.
fn come_back(coding: Coding, level: u8, content: &[u8]) {
    // The slowest are for tests that count.
    let mut encoder = Encoder::new(coding, u32::from(level % 6), Extent::Unknown);
    let mut encoded = Vec::new();
    for (number, piece) in content.chunks(97).enumerate() {
        let pushed = encoder.push(piece, &mut encoded);
        let flushed = if number % 3 == 1 { encoder.flush(&mut encoded) } else { Ok(()) };
        assert_eq!((pushed, flushed), (Ok(()), Ok(())));
    }
    assert_eq!(encoder.finish(&mut encoded), Ok(()));
    // `deflate` is not made.
    let made = if coding == Coding::Deflate { Coding::Gzip } else { coding };
    let free = Bounds { most: u64::MAX, expansion: u64::MAX };
    assert_eq!(through(made, free, encoded.chunks(61)).as_deref(), Ok(content));
}
