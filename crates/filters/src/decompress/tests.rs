//! What the filter makes of requests and answers.

use super::*;
use crate::scene::Scene;
use sluice_coding::{Encoder, Extent};

type Lines<'l> = &'l [(&'l str, &'l str)];

fn filter(requests: Requests, responses: Responses) -> Decompress {
    let bounds = Bounds { most: 100_000, expansion: 1100 };
    let options =
        DecompressOptions { requests, responses, request_bounds: bounds, response_bounds: bounds };
    Decompress::new(options, Arc::new(FilterMeter::new(1, Decompress::OUTCOMES)))
}

fn everything() -> Decompress {
    filter(Requests::Decoded, Responses::Decoded)
}

fn encode(coding: Coding, content: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new(coding, 5, Extent::Unknown);
    let mut out = Vec::new();
    encoder.push(content, &mut out).unwrap();
    encoder.finish(&mut out).unwrap();
    out
}

fn through(transform: &mut dyn Transform, content: &[u8]) -> Result<Vec<u8>, FaultKind> {
    let mut out = Vec::new();
    let mut pushed = Ok(());
    for piece in content.chunks(7) {
        pushed = pushed.and_then(|()| transform.push(piece, &mut out));
    }
    pushed = pushed.and_then(|()| transform.end(&mut None, &mut out));
    pushed.map(|()| out).map_err(|Broken| transform.fault())
}

#[test]
fn content_of_requests_is_made_plain() {
    for (name, layers) in [
        ("gzip", &[Coding::Gzip][..]),
        ("X-Gzip", &[Coding::Gzip]),
        ("br", &[Coding::Brotli]),
        ("zstd", &[Coding::Zstd]),
        ("gzip, identity, zstd", &[Coding::Gzip, Coding::Zstd]),
    ] {
        let filter = everything();
        let lines = [("Content-Encoding", name), ("Content-Digest", "x"), ("content-type", "a/b")];
        let mut scene = Scene::new("POST", "/", &lines);
        scene.request.body = sluice_message::BodyLength::Known(5);
        assert!(scene.ask(&filter).is_none(), "{name}");
        let mut made = scene.with_request(|context| filter.request_body(context)).unwrap();
        assert_eq!(scene.request_lines(), ["content-type: a/b"]);
        let content = layers.iter().fold(b"hello".to_vec(), |content, it| encode(*it, &content));
        assert_eq!(through(&mut *made, &content), Ok(b"hello".to_vec()), "{name}");
    }
}

#[test]
fn requests_that_cannot_be_made_plain_are_refused() {
    let filter = everything();
    for name in ["compress", "gzip, aes128gcm", "gzip, gzip, gzip"] {
        let mut scene = Scene::new("POST", "/", &[("Content-Encoding", name)]);
        assert!(scene.ask(&filter).is_none(), "without content nothing is hidden");
        scene.request.body = sluice_message::BodyLength::Framed;
        let reply = scene.ask(&filter).unwrap();
        let told = reply.fields.values_of(b"accept-encoding").next();
        assert_eq!((reply.status, told), (415, Some(&b"gzip, br, zstd, deflate"[..])), "{name}");
    }
}

#[test]
fn content_that_lies_or_explodes_is_told_apart() {
    let filter = everything();
    let ask = |content: &[u8]| {
        let mut scene = Scene::new("POST", "/", &[("Content-Encoding", "gzip")]);
        let made = scene.with_request(|context| filter.request_body(context));
        through(&mut *made.unwrap(), content)
    };
    let malformed = Err(FaultKind::Malformed(Syntax::Content));
    assert_eq!(ask(b"hello"), malformed);
    let whole = encode(Coding::Gzip, b"hello");
    assert_eq!(ask(&whole[..whole.len() - 1]), malformed);
    assert_eq!(ask(&encode(Coding::Gzip, &[0; 100_001])), Err(FaultKind::BodyTooLarge));
    assert_eq!(ask(&encode(Coding::Gzip, &[0; 100_000])).map(|it| it.len()), Ok(100_000));
    // The bound is that of each layer.
    let mut scene = Scene::new("POST", "/", &[("Content-Encoding", "gzip, gzip")]);
    let made = scene.with_request(|context| filter.request_body(context));
    let twice = encode(Coding::Gzip, &encode(Coding::Gzip, &[0; 200_000]));
    assert_eq!(through(&mut *made.unwrap(), &twice), Err(FaultKind::BodyTooLarge));
}

#[test]
fn answers_are_made_plain_where_that_is_wanted() {
    let gzip = ("content-encoding", "gzip");
    let accepts: Lines<'_> = &[("Accept-Encoding", "gzip")];
    let rows: [(Responses, Lines<'_>, u16, Lines<'_>, bool); 11] = [
        (Responses::Decoded, &[], 200, &[gzip], true),
        (Responses::Decoded, accepts, 404, &[gzip], true),
        (Responses::Decoded, &[], 200, &[], false),
        (Responses::Decoded, &[], 206, &[gzip], false),
        (Responses::Decoded, &[], 204, &[gzip], false),
        (Responses::Decoded, &[], 200, &[("content-encoding", "other")], false),
        (Responses::Decoded, &[], 200, &[gzip, ("cache-control", "no-transform")], false),
        (Responses::Decoded, &[], 200, &[gzip, ("content-type", "application/grpc")], false),
        (Responses::DecodedIfRefused, accepts, 200, &[gzip], false),
        (Responses::DecodedIfRefused, &[], 200, &[gzip], true),
        (Responses::DecodedIfRefused, accepts, 200, &[("content-encoding", "br")], true),
    ];
    for (responses, asked, status, lines, plain) in rows {
        let filter = filter(Requests::Left, responses);
        let mut scene = Scene::new("GET", "/", asked).answered(status, lines);
        scene.answer(&filter);
        let made = scene.with_response(|context| filter.response_body(context));
        assert_eq!(made.is_some(), plain, "{responses:?} {asked:?} {status} {lines:?}");
        let coded = scene.response_lines().iter().any(|line| line.starts_with("content-encoding"));
        let was = lines.iter().any(|(name, _)| *name == "content-encoding");
        assert_eq!(coded, was && !plain, "{responses:?} {asked:?} {status} {lines:?}");
    }
}

#[test]
fn what_is_said_of_the_content_changes_with_it() {
    let lines = [
        ("content-encoding", "gzip"),
        ("ETag", "\"x\""),
        ("accept-ranges", "bytes"),
        ("content-digest", "x"),
    ];
    let filter = filter(Requests::Left, Responses::DecodedIfRefused);
    let mut scene = Scene::new("GET", "/", &[]).answered(200, &lines);
    scene.answer(&filter);
    assert_eq!(scene.response_lines(), ["vary: Accept-Encoding", "etag: W/\"x\""]);
    let mut made = scene.with_response(|context| filter.response_body(context)).unwrap();
    assert_eq!(through(&mut *made, &encode(Coding::Gzip, b"hello")), Ok(b"hello".to_vec()));
}

#[test]
fn phases_are_those_of_what_is_done() {
    let none = filter(Requests::Left, Responses::Left);
    assert_eq!(none.phases(), Phases::NONE);
    let requests = filter(Requests::Decoded, Responses::Left);
    assert_eq!(requests.phases(), Phases::REQUEST_HEAD | Phases::REQUEST_BODY);
}
