//! Content: tables of chunked bodies, each fed whole, byte by byte and split at every place.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop here")]

use sluice_message::FaultKind::{Closed, HeadTooLarge, Malformed, TooManyFields};
use sluice_message::Syntax::{Chunk, FieldName, FieldValue, FoldedLine, LineEnd, Trailer};
use sluice_message::{BodyLength, FaultKind};
use sluice_wire::h1::CHUNK_END;
use sluice_wire::h1::{BodyDecoder, BodyState, Piece, encode_chunk_start, encode_last_chunk};

/// What a body came to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    data: Vec<u8>,
    trailers: Vec<(String, String)>,
    /// Bytes that belong to somebody else.
    rest: usize,
    done: bool,
}

/// Feeds `parts` one after the other; what a call leaves over is offered again with the next part.
fn feed<'a>(
    length: BodyLength,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Outcome, FaultKind> {
    let mut decoder = BodyDecoder::new(length);
    let mut data = Vec::new();
    let mut pending = Vec::new();
    for part in parts {
        pending.extend_from_slice(part);
        loop {
            let Piece { consumed, data: run, state } = decoder.decode(&pending)?;
            assert!(run.end <= consumed && consumed <= pending.len());
            data.extend_from_slice(&pending[run.clone()]);
            pending.drain(..consumed);
            assert_eq!(state == BodyState::Done, decoder.is_done());
            if decoder.is_done() || run.is_empty() {
                break;
            }
        }
        assert!(decoder.is_done() || pending.is_empty(), "nothing is left but what follows");
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let trailers = decoder.trailers().map_or_else(Vec::new, |fields| {
        fields.iter().map(|(name, value)| (text(name), text(value))).collect()
    });
    Ok(Outcome { data, trailers, rest: pending.len(), done: decoder.is_done() })
}

/// Whole, in single bytes, and in two parts split at every place: always the same outcome.
fn feed_in_all_ways(length: BodyLength, input: &[u8]) -> Result<Outcome, FaultKind> {
    let whole = feed(length, [input]);
    assert_eq!(feed(length, input.chunks(1)), whole, "{}", input.escape_ascii());
    for at in 0..input.len() {
        let (one, other) = input.split_at(at);
        assert_eq!(feed(length, [one, other]), whole, "{} at {at}", input.escape_ascii());
    }
    whole
}

type Trailers = &'static [(&'static str, &'static str)];

const GOOD: &[(&str, &str, Trailers)] = &[
    ("0\r\n\r\n", "", &[]),
    ("00000000\r\n\r\n", "", &[]),
    ("0000000000000000\r\n\r\n", "", &[]),
    ("5\r\nhello\r\n0\r\n\r\n", "hello", &[]),
    ("a\r\n0123456789\r\n0\r\n\r\n", "0123456789", &[]),
    ("A\r\n0123456789\r\n00\r\n\r\n", "0123456789", &[]),
    ("1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n", "abcdef", &[]),
    ("0000000000000003\r\nabc\r\n0\r\n\r\n", "abc", &[]),
    ("4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", &[]),
    ("1;a\r\nx\r\n0\r\n\r\n", "x", &[]),
    ("1;a=b\r\nx\r\n0;c\r\n\r\n", "x", &[]),
    ("1;a=b;c=d;e\r\nx\r\n0\r\n\r\n", "x", &[]),
    ("1;a=\"b\"\r\nx\r\n0\r\n\r\n", "x", &[]),
    ("1;a=\"b\\\"; \u{e4}\\\\\t\";c\r\nx\r\n0\r\n\r\n", "x", &[]),
    ("1 ; a = b ; c\r\nx\r\n0\r\n\r\n", "x", &[]),
    ("1\t;\ta\t=\t\"\"\t;c\r\nx\r\n0\r\n\r\n", "x", &[]),
    ("0\r\nX: y\r\n\r\n", "", &[("X", "y")]),
    (
        "1\r\na\r\n0\r\nGrpc-Status: 0\r\ngrpc-message:\r\n\r\n",
        "a",
        &[("Grpc-Status", "0"), ("grpc-message", "")],
    ),
    ("0\r\nX:  a\tb  \r\nETag: \"c\"\r\n\r\n", "", &[("X", "a\tb"), ("ETag", "\"c\"")]),
];

#[test]
fn good_chunked_bodies() {
    for (input, data, trailers) in GOOD {
        for more in ["", "GET / HTTP/1.1\r\n", "\r\n"] {
            let input = format!("{input}{more}");
            let got = feed_in_all_ways(BodyLength::Framed, input.as_bytes()).unwrap();
            let trailers =
                trailers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let want = Outcome {
                data: data.as_bytes().to_vec(),
                trailers: trailers.collect(),
                rest: more.len(),
                done: true,
            };
            assert_eq!(got, want, "{input:?}");
        }
        for length in 0..input.len() {
            let got = feed(BodyLength::Framed, [&input.as_bytes()[..length]]).unwrap();
            assert!(!got.done, "{:?}", &input[..length]);
            assert!(got.trailers.is_empty(), "trailers count once they are complete");
        }
    }
}

const BAD: &[(&str, FaultKind)] = &[
    ("\r\n", Malformed(Chunk)),
    ("\n", Malformed(Chunk)),
    (" 1\r\na\r\n", Malformed(Chunk)),
    ("1 \r\na\r\n", Malformed(Chunk)),
    ("1\t\r\na\r\n", Malformed(Chunk)),
    ("+1\r\na\r\n", Malformed(Chunk)),
    ("-1\r\na\r\n", Malformed(Chunk)),
    ("0x1\r\na\r\n", Malformed(Chunk)),
    ("1_0\r\n", Malformed(Chunk)),
    ("g\r\n", Malformed(Chunk)),
    ("1g\r\n", Malformed(Chunk)),
    (";a\r\n", Malformed(Chunk)),
    ("1\na\r\n", Malformed(Chunk)),
    ("1\ra\r\n", Malformed(Chunk)),
    ("1\r\r\na", Malformed(Chunk)),
    ("1\r\nab\r\n", Malformed(Chunk)),
    ("1\r\na\n0\r\n\r\n", Malformed(Chunk)),
    ("1\r\na\r0\r\n\r\n", Malformed(Chunk)),
    ("1\r\na0\r\n\r\n", Malformed(Chunk)),
    ("1\r\na\r\n\r\n", Malformed(Chunk)),
    ("10000000000000000\r\n", Malformed(Chunk)),
    ("00000000000000001\r\n", Malformed(Chunk)),
    ("fffffffffffffffff\r\n", Malformed(Chunk)),
    ("1\0\r\na\r\n", Malformed(Chunk)),
    ("1;\r\na\r\n", Malformed(Chunk)),
    ("1; \r\na\r\n", Malformed(Chunk)),
    ("1;a;\r\na\r\n", Malformed(Chunk)),
    ("1;a \r\na\r\n", Malformed(Chunk)),
    ("1;a=\r\na\r\n", Malformed(Chunk)),
    ("1;a=b \r\na\r\n", Malformed(Chunk)),
    ("1;a=\"b\" \r\na\r\n", Malformed(Chunk)),
    ("1;=b\r\na\r\n", Malformed(Chunk)),
    ("1;a=b=c\r\na\r\n", Malformed(Chunk)),
    ("1;a b\r\na\r\n", Malformed(Chunk)),
    ("1;a=b c\r\na\r\n", Malformed(Chunk)),
    ("1;a=\"b\r\na\r\n", Malformed(Chunk)),
    ("1;a=\"b\"c\r\na\r\n", Malformed(Chunk)),
    ("1;a=\"\\\0\"\r\na\r\n", Malformed(Chunk)),
    ("1;a=\"\u{7f}\"\r\na\r\n", Malformed(Chunk)),
    ("1;a\n\r\na\r\n", Malformed(Chunk)),
    ("1;a\rb\r\n", Malformed(Chunk)),
    ("1;(\r\na\r\n", Malformed(Chunk)),
    ("1,a\r\na\r\n", Malformed(Chunk)),
    ("0\r\n\rX", Malformed(LineEnd)),
    ("0\r\n\n", Malformed(LineEnd)),
    ("0\r\nX: y\n\r\n", Malformed(LineEnd)),
    ("0\r\nX: y\r\n\n", Malformed(LineEnd)),
    ("0\r\nX y\r\n\r\n", Malformed(FieldName)),
    ("0\r\nX : y\r\n\r\n", Malformed(FieldName)),
    ("0\r\n: y\r\n\r\n", Malformed(FieldName)),
    ("0\r\n X: y\r\n\r\n", Malformed(FoldedLine)),
    ("0\r\nX: y\r\n z\r\n\r\n", Malformed(FoldedLine)),
    ("0\r\nX: y\0\r\n\r\n", Malformed(FieldValue)),
    ("0\r\nContent-Length: 1\r\n\r\n", Malformed(Trailer)),
    ("0\r\nContent_Length: 1\r\n\r\n", Malformed(Trailer)),
    ("0\r\nset_cookie: 1\r\n\r\n", Malformed(Trailer)),
    ("0\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed(Trailer)),
    ("0\r\nHost: a\r\n\r\n", Malformed(Trailer)),
    ("0\r\nTrailer: x\r\n\r\n", Malformed(Trailer)),
    ("0\r\nConnection: close\r\n\r\n", Malformed(Trailer)),
    ("0\r\nContent-Type: a/b\r\n\r\n", Malformed(Trailer)),
    ("0\r\ncontent-encoding: gzip\r\n\r\n", Malformed(Trailer)),
    ("0\r\nAuthorization: x\r\n\r\n", Malformed(Trailer)),
    ("0\r\nSet-Cookie: x\r\n\r\n", Malformed(Trailer)),
    ("0\r\nCookie: x\r\n\r\n", Malformed(Trailer)),
    ("0\r\nX-Forwarded-For: x\r\n\r\n", Malformed(Trailer)),
    ("0\r\nTE: trailers\r\n\r\n", Malformed(Trailer)),
];

#[test]
fn bad_chunked_bodies() {
    for (input, fault) in BAD {
        let got = feed_in_all_ways(BodyLength::Framed, input.as_bytes());
        assert_eq!(got, Err(*fault), "{input:?}");
    }
}

#[test]
fn bounds_of_chunked_bodies() {
    let extension = |length: usize| format!("1;{}\r\na\r\n", "x".repeat(length));
    let trailers = |count: usize| format!("0\r\n{}\r\n", "X: y\r\n".repeat(count));
    let large = |length: usize| format!("0\r\nX: {}\r\n\r\n", "x".repeat(length));
    let cases = [
        (extension(255), None),
        (extension(256), Some(Malformed(Chunk))),
        // Extensions that outweigh the data by far, each of them short enough.
        (extension(250).repeat(60), None),
        (extension(250).repeat(80), Some(Malformed(Chunk))),
        // Honest small chunks may go on for ever.
        ("1\r\na\r\n".repeat(50_000), None),
        (trailers(64), None),
        (trailers(65), Some(TooManyFields)),
        (large(8 * 1024 - 5), None),
        (large(8 * 1024 - 4), Some(HeadTooLarge)),
        (format!("0\r\n{}", "x".repeat(9000)), Some(HeadTooLarge)),
    ];
    for (input, fault) in cases {
        for part in [1, 7, input.len()] {
            let got = feed(BodyLength::Framed, input.as_bytes().chunks(part));
            assert_eq!(got.err(), fault, "{} bytes in parts of {part}", input.len());
        }
    }
}

#[test]
fn the_largest_chunk_does_not_overflow() {
    let mut decoder = BodyDecoder::new(BodyLength::Framed);
    let piece = decoder.decode(b"FFFFFFFFFFFFFFFF\r\nabc").unwrap();
    assert_eq!(piece, Piece { consumed: 21, data: 18..21, state: BodyState::More });
    assert_eq!(decoder.decode(b"def").unwrap().data, 0..3);
}

#[test]
fn known_lengths() {
    for (length, input, data, rest, done) in [
        (0, "", "", 0, true),
        (0, "abc", "", 3, true),
        (3, "ab", "ab", 0, false),
        (3, "abc", "abc", 0, true),
        (3, "abcdef", "abc", 3, true),
        (u64::MAX, "abc", "abc", 0, false),
    ] {
        let got = feed_in_all_ways(BodyLength::Known(length), input.as_bytes()).unwrap();
        let want = Outcome { data: data.as_bytes().to_vec(), trailers: vec![], rest, done };
        assert_eq!(got, want, "{length} {input}");
    }
    let mut decoder = BodyDecoder::new(BodyLength::Known(5));
    assert_eq!(decoder.remaining_hint(), Some(5));
    decoder.decode(b"ab").unwrap();
    assert_eq!(decoder.remaining_hint(), Some(3));
    assert_eq!(BodyDecoder::new(BodyLength::Framed).remaining_hint(), None);
    assert_eq!(BodyDecoder::new(BodyLength::UntilClose).remaining_hint(), None);
}

#[test]
fn the_end_of_the_connection() {
    let cases: &[(BodyLength, &[u8], Result<(), FaultKind>)] = &[
        (BodyLength::Empty, b"", Ok(())),
        (BodyLength::Known(2), b"ab", Ok(())),
        (BodyLength::Known(2), b"a", Err(Closed)),
        (BodyLength::UntilClose, b"", Ok(())),
        (BodyLength::UntilClose, b"abc", Ok(())),
        (BodyLength::Framed, b"", Err(Closed)),
        (BodyLength::Framed, b"1\r\na\r\n", Err(Closed)),
        (BodyLength::Framed, b"0\r\n", Err(Closed)),
        (BodyLength::Framed, b"0\r\n\r\n", Ok(())),
    ];
    for (length, input, want) in cases {
        let mut decoder = BodyDecoder::new(*length);
        decoder.decode(input).unwrap();
        assert_eq!(decoder.on_eof(), *want, "{length:?} {}", input.escape_ascii());
        assert_eq!(decoder.is_done(), want.is_ok());
    }
}

#[test]
fn decoders_are_small() {
    assert!(size_of::<BodyDecoder>() <= 64, "{}", size_of::<BodyDecoder>());
}

#[test]
fn what_is_encoded_is_decoded() {
    let parts: [&[u8]; 4] = [b"hello", b", ", &[0; 70_000], b"!"];
    let mut out = Vec::new();
    for part in parts {
        encode_chunk_start(&mut out, part.len());
        out.extend_from_slice(part);
        out.extend_from_slice(CHUNK_END);
    }
    encode_chunk_start(&mut out, 0);
    let mut trailers = sluice_message::Fields::new();
    trailers.push(b"x-sum", b"1").unwrap();
    trailers.push(b"content-length", b"1").unwrap();
    trailers.push(b"connection", b"close").unwrap();
    encode_last_chunk(&mut out, Some(&trailers));
    let got = feed(BodyLength::Framed, out.chunks(1000)).unwrap();
    assert_eq!(got.data, parts.concat());
    assert_eq!(got.trailers, [("x-sum".to_owned(), "1".to_owned())]);
    assert!(got.done);
    let mut out = Vec::new();
    encode_last_chunk(&mut out, None);
    assert_eq!(out, b"0\r\n\r\n");
}
