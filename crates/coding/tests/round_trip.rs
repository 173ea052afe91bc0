//! What is encoded decodes to the same, however it is cut; what is not whole, or too much, does not decode.

#![expect(clippy::unwrap_used, clippy::as_conversions, clippy::indexing_slicing, reason = "a test")]

use sluice_coding::{Bounds, Coding, Decoder, Encoder, Extent, Undecodable};

const MADE: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

const FREE: Bounds = Bounds { most: u64::MAX, expansion: u64::MAX };

/// A page of text: 24 KB.
fn page() -> Vec<u8> {
    let line = |number: usize| {
        format!(
            "<tr><td>{number}</td><td class=\"name\">article {}</td></tr>\n",
            number * 7919 % 997
        )
    };
    (0..450).flat_map(|number| line(number).into_bytes()).collect()
}

/// Bytes that nothing makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

fn encode(coding: Coding, level: u32, extent: Extent, pieces: &[&[u8]]) -> Vec<u8> {
    let mut encoder = Encoder::new(coding, level, extent);
    let mut out = Vec::new();
    for piece in pieces {
        encoder.push(piece, &mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    out
}

fn whole(coding: Coding, content: &[u8]) -> Vec<u8> {
    let extent = Extent::Known(content.len().try_into().unwrap());
    encode(coding, *Encoder::levels(coding).start(), extent, &[content])
}

fn decode(coding: Coding, bounds: Bounds, pieces: &[&[u8]]) -> Result<Vec<u8>, Undecodable> {
    let mut decoder = Decoder::new(coding, bounds);
    let mut out = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut out)?;
    }
    decoder.finish()?;
    Ok(out)
}

/// `content` in pieces of these sizes, again and again.
fn cut<'c>(content: &'c [u8], sizes: &[usize]) -> Vec<&'c [u8]> {
    let (mut rest, mut pieces) = (content, Vec::new());
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// One content at one level, announced and cut in one way.
fn trial(coding: Coding, level: u32, content: &[u8], extent: Extent, sizes: &[usize]) {
    let encoded = encode(coding, level, extent, &cut(content, sizes));
    let decoded = decode(coding, FREE, &cut(&encoded, sizes));
    assert!(
        decoded.as_deref() == Ok(content),
        "{coding:?} {level} {extent:?} of {} bytes: {:?}",
        content.len(),
        decoded.map(|it| it.len())
    );
}

fn every_level_comes_back(coding: Coding) {
    let contents = [Vec::new(), b"a".to_vec(), page(), noise(70_000), vec![b'x'; 300_000]];
    let cuts: [&[usize]; 4] = [&[usize::MAX], &[1, 700], &[16_384], &[3, 0, 1, 65_536]];
    for level in Encoder::levels(coding) {
        // The slowest are tried on what is short.
        let slow = coding == Coding::Brotli && level > 9 || coding == Coding::Zstd && level > 15;
        for content in contents.iter().filter(|content| !slow || content.len() < 50_000) {
            let length = content.len().try_into().unwrap();
            for extent in [Extent::Known(length), Extent::Unknown, Extent::Endless] {
                let sizes = cuts[(level as usize + content.len()) % cuts.len()];
                trial(coding, level, content, extent, sizes);
            }
        }
    }
}

#[test]
fn every_level_of_gzip_comes_back_however_it_is_cut() {
    every_level_comes_back(Coding::Gzip);
}

#[test]
fn every_level_of_br_comes_back_however_it_is_cut() {
    every_level_comes_back(Coding::Brotli);
}

#[test]
fn every_level_of_zstd_comes_back_however_it_is_cut() {
    every_level_comes_back(Coding::Zstd);
}

#[test]
fn pages_become_far_smaller() {
    for coding in MADE {
        for level in [1, 9] {
            let page = page();
            let length = Extent::Known(page.len().try_into().unwrap());
            let encoded = encode(coding, level, length, &[&page]);
            assert!(encoded.len() * 5 < page.len(), "{coding:?} {level}: {}", encoded.len());
        }
    }
}

#[test]
fn what_was_flushed_can_be_read() {
    for coding in MADE {
        for level in Encoder::levels(coding) {
            let mut encoder = Encoder::new(coding, level, Extent::Endless);
            let mut decoder = Decoder::new(coding, FREE);
            let (mut told, mut read) = (Vec::new(), Vec::new());
            for number in 0..50 {
                let event = format!("data: {number}\n\n");
                told.extend_from_slice(event.as_bytes());
                let mut bytes = Vec::new();
                encoder.push(event.as_bytes(), &mut bytes).unwrap();
                encoder.flush(&mut bytes).unwrap();
                decoder.push(&bytes, &mut read).unwrap();
                assert_eq!(read, told, "{coding:?} {level}, event {number}");
                assert!(decoder.finish().is_err(), "{coding:?} {level} has not ended");
            }
            let mut bytes = Vec::new();
            encoder.finish(&mut bytes).unwrap();
            decoder.push(&bytes, &mut read).unwrap();
            assert_eq!((decoder.finish(), read), (Ok(()), told));
        }
    }
}

#[test]
fn flushing_twice_and_nothing_is_harmless() {
    for coding in MADE {
        let mut encoder = Encoder::new(coding, 5, Extent::Unknown);
        let mut out = Vec::new();
        encoder.flush(&mut out).unwrap();
        encoder.push(b"", &mut out).unwrap();
        encoder.push(b"one", &mut out).unwrap();
        encoder.flush(&mut out).unwrap();
        encoder.flush(&mut out).unwrap();
        encoder.finish(&mut out).unwrap();
        assert_eq!(decode(coding, FREE, &[&out]), Ok(b"one".to_vec()), "{coding:?}");
    }
}

#[test]
fn no_beginning_of_something_whole_is_whole() {
    for coding in MADE {
        let encoded = whole(coding, &page()[..3000]);
        for end in 1..encoded.len() {
            let decoded = decode(coding, FREE, &[&encoded[..end]]);
            assert_eq!(decoded, Err(Undecodable::Malformed), "{coding:?}, {end} bytes");
        }
        assert_eq!(decode(coding, FREE, &[]), Ok(Vec::new()), "no content is no content");
    }
}

#[test]
fn what_follows_the_end_is_refused_unless_it_begins_anew() {
    for coding in MADE {
        let mut encoded = whole(coding, b"hello");
        let twice = [encoded.clone(), encoded.clone()].concat();
        let again = (coding != Coding::Brotli).then(|| b"hellohello".to_vec());
        for sizes in [&[usize::MAX][..], &[1], &[encoded.len()]] {
            let decoded = decode(coding, FREE, &cut(&twice, sizes)).ok();
            assert_eq!(decoded, again, "{coding:?} {sizes:?}");
        }
        encoded.extend_from_slice(b"garbage");
        let decoded = decode(coding, FREE, &[&encoded]);
        assert_eq!(decoded, Err(Undecodable::Malformed), "{coding:?}");
    }
}

#[test]
fn a_wrong_byte_is_noticed_by_what_has_a_sum() {
    let mut encoded = whole(Coding::Gzip, &page());
    let at = encoded.len() - 6;
    encoded[at] ^= 1;
    assert_eq!(decode(Coding::Gzip, FREE, &[&encoded]), Err(Undecodable::Malformed));
}

#[test]
fn deflate_is_read_in_both_of_its_meanings() {
    let page = page();
    for zlib in [true, false] {
        let mut encoder = flate2::Compress::new(flate2::Compression::new(6), zlib);
        let mut encoded = Vec::with_capacity(page.len());
        encoder.compress_vec(&page, &mut encoded, flate2::FlushCompress::Finish).unwrap();
        for sizes in [&[usize::MAX][..], &[1], &[2, 1000]] {
            let decoded = decode(Coding::Deflate, FREE, &cut(&encoded, sizes));
            assert!(decoded.as_deref() == Ok(&page), "{zlib} {sizes:?}");
        }
        for end in 1..40 {
            assert!(decode(Coding::Deflate, FREE, &[&encoded[..end]]).is_err(), "{zlib} {end}");
        }
    }
}

#[test]
fn bombs_do_not_go_off() {
    let zeros = vec![0; 40 * 1024 * 1024];
    for coding in MADE {
        let bomb = whole(coding, &zeros);
        assert!(bomb.len() < 500_000, "{coding:?}: {}", bomb.len());
        let bounds = [
            Bounds { most: 1_000_000, expansion: u64::MAX },
            Bounds { most: u64::MAX, expansion: 100 },
        ];
        for bounds in bounds {
            let mut decoder = Decoder::new(coding, bounds);
            let mut out = Vec::new();
            let pushed =
                cut(&bomb, &[700]).into_iter().try_for_each(|piece| decoder.push(piece, &mut out));
            assert_eq!(pushed, Err(Undecodable::TooLarge), "{coding:?} {bounds:?}");
            assert_eq!(decoder.finish(), Err(Undecodable::TooLarge));
            assert_eq!(decoder.push(b"", &mut out), Err(Undecodable::TooLarge), "it stays");
            assert!(out.len() < 8 * 1024 * 1024, "{coding:?} {bounds:?}: {}", out.len());
        }
    }
}

#[test]
fn little_may_become_much() {
    let zeros = vec![0; 1_000_000];
    for coding in MADE {
        let bounds = Bounds { most: 1_000_000, expansion: 1 };
        assert!(decode(coding, bounds, &[&whole(coding, &zeros)]).as_deref() == Ok(&zeros));
    }
}

#[test]
fn windows_are_no_larger_than_every_client_takes() {
    // Content of 64 MiB at the level that would look back at all of it.
    let mut encoder = Encoder::new(Coding::Zstd, 19, Extent::Known(64 << 20));
    let mut out = Vec::new();
    encoder.push(&page(), &mut out).unwrap();
    encoder.flush(&mut out).unwrap();
    // RFC 8878, 3.1.1.1.2: the descriptor behind the magic number and one byte; the window of 2^(10 + exponent).
    let exponent = out[5] >> 3;
    assert!(u32::from(exponent) + 10 <= 23, "{exponent}");
}
