//! What the filter makes of answers.

use super::*;
use crate::scene::Scene;
use sluice_coding::{Bounds, Decoder};
use sluice_filter::{Behind, Body, Source, Whole};
use sluice_message::BodyLength;

type Lines<'l> = &'l [(&'l str, &'l str)];

const HTML: (&str, &str) = ("content-type", "text/html; charset=utf-8");
const ALL: (&str, &str) = ("Accept-Encoding", "gzip, br, zstd");
const PART: (&str, &str) = ("content-range", "bytes 0-1/2000");

fn filter_with(breach: Breach) -> Compress {
    let options = CompressOptions {
        codings: vec![Coding::Brotli, Coding::Zstd, Coding::Gzip],
        levels: Levels { gzip: 6, brotli: 5, zstd: 3 },
        types: vec![
            MediaRange::Prefix("text/".into()),
            MediaRange::Exact("application/json".into()),
            MediaRange::Suffix("+json".into()),
        ],
        minimum: 100,
        breach,
        memory: 1 << 20,
    };
    Compress::new(options, Arc::new(FilterMeter::new(1, Compress::OUTCOMES)))
}

fn filter() -> Compress {
    filter_with(Breach::Prevented)
}

/// An exchange that the filter has seen both heads of.
fn shown(filter: &Compress, asked: Lines<'_>, status: u16, lines: Lines<'_>) -> Scene {
    let mut scene = Scene::new("GET", "/", asked).answered(status, lines);
    assert!(scene.ask(filter).is_none());
    scene.answer(filter);
    scene
}

fn transform(filter: &Compress, scene: &mut Scene) -> Option<Box<dyn Transform>> {
    scene.with_response(|context| filter.response_body(context))
}

#[test]
fn heads_and_content_agree_about_the_coding() {
    for (asked, coding) in [("gzip", Coding::Gzip), ("br", Coding::Brotli), ("zstd", Coding::Zstd)]
    {
        let filter = filter();
        let lines = [
            HTML,
            ("ETag", "\"x\""),
            ("Accept-Ranges", "bytes"),
            ("Repr-Digest", "sha-256=:x:"),
            ("Content-Encoding", "identity"),
        ];
        let mut scene = shown(&filter, &[("accept-encoding", asked)], 200, &lines);
        let encoding = format!("content-encoding: {asked}");
        let expected = [
            "content-type: text/html; charset=utf-8",
            "vary: Accept-Encoding",
            &encoding,
            "etag: W/\"x\"",
        ];
        assert_eq!(scene.response_lines(), expected);
        let mut made = transform(&filter, &mut scene).unwrap();
        let (mut out, page) = (Vec::new(), "all work and no play ".repeat(100));
        for piece in page.as_bytes().chunks(333) {
            made.push(piece, &mut out).unwrap();
        }
        made.end(&mut None, &mut out).unwrap();
        assert!(out.len() * 4 < page.len());
        let mut decoder = Decoder::new(coding, Bounds { most: 1 << 20, expansion: 1000 });
        let mut plain = Vec::new();
        decoder.push(&out, &mut plain).unwrap();
        assert_eq!((decoder.finish(), plain), (Ok(()), page.into_bytes()));
    }
}

#[test]
fn answers_that_must_stay_what_they_are_do() {
    let coded = "content-encoding: br";
    let vary = "vary: Accept-Encoding";
    let rows: [(Lines<'_>, u16, Lines<'_>, &[&str]); 31] = [
        (&[ALL], 200, &[HTML], &[vary, coded]),
        (&[ALL], 404, &[HTML], &[vary, coded]),
        (&[ALL], 200, &[("content-type", "application/problem+json")], &[vary, coded]),
        (&[ALL], 200, &[("content-type", "image/png")], &[]),
        (&[ALL], 200, &[], &[]),
        (&[ALL], 200, &[HTML, ("content-encoding", "gzip")], &[]),
        (&[ALL], 200, &[HTML, ("content-encoding", "aes128gcm")], &[]),
        (&[ALL], 200, &[HTML, ("cache-control", "max-age=1, no-transform")], &[]),
        (&[ALL, ("cache-control", "no-transform")], 200, &[HTML], &[]),
        (&[ALL], 206, &[HTML, ("content-range", "bytes 0-1/2")], &[]),
        (&[ALL], 200, &[HTML, ("content-range", "bytes 0-1/2")], &[]),
        // Parts say what the whole would (RFC 9110, 15.3.7).
        (&[ALL], 206, &[HTML, PART], &[vary]),
        (&[], 206, &[HTML, ("content-range", "bytes 0-1/*")], &[vary]),
        (&[ALL], 206, &[("content-type", "multipart/byteranges; boundary=x")], &[vary]),
        (&[ALL], 206, &[("content-type", "image/png"), ("content-range", "bytes 0-1/2000")], &[]),
        (&[ALL], 206, &[HTML, PART, ("content-encoding", "gzip")], &[]),
        (&[ALL], 206, &[HTML, PART, ("cache-control", "no-transform")], &[]),
        (&[ALL, ("cache-control", "no-transform")], 206, &[HTML, PART], &[]),
        (&[ALL], 204, &[HTML], &[]),
        (&[ALL], 200, &[HTML, ("content-length", "0")], &[]),
        (&[ALL], 200, &[HTML, ("content-length", "99")], &[]),
        (&[ALL], 200, &[HTML, ("content-length", "100")], &[vary, coded]),
        // Calls, whatever types are configured.
        (&[ALL], 200, &[("content-type", "application/grpc+json")], &[]),
        (&[ALL], 200, &[("content-type", "application/grpc-web+json")], &[]),
        // What another client would get is said to those who get something else.
        (&[], 200, &[HTML], &[vary]),
        (&[("accept-encoding", "deflate")], 200, &[HTML], &[vary]),
        (&[("accept-encoding", "identity")], 200, &[HTML], &[vary]),
        (&[("accept-encoding", "identity")], 200, &[HTML, ("vary", "*")], &[]),
        // Who refuses plain content gets none, however little is gained.
        (
            &[("accept-encoding", "br, identity;q=0")],
            200,
            &[("content-type", "image/png")],
            &[vary, coded],
        ),
        (
            &[("accept-encoding", "br, *;q=0")],
            200,
            &[HTML, ("content-length", "5")],
            &[vary, coded],
        ),
        (&[("accept-encoding", "br, *;q=0")], 200, &[HTML, ("cache-control", "no-transform")], &[]),
    ];
    for (asked, status, lines, added) in rows {
        let filter = filter();
        let mut scene = shown(&filter, asked, status, lines);
        let told = scene.response_lines();
        let new: Vec<&str> = told
            .iter()
            .map(String::as_str)
            .filter(|line| !lines.iter().any(|(name, value)| *line == format!("{name}: {value}")))
            .collect();
        assert_eq!(new, added, "{asked:?} {status} {lines:?}");
        let made = transform(&filter, &mut scene).is_some();
        assert_eq!(made, added.contains(&coded), "{asked:?} {status} {lines:?}");
    }
}

#[test]
fn what_the_client_wants_is_noted_before_others_change_the_request() {
    let filter = filter();
    let mut scene = Scene::new("GET", "/", &[ALL]).answered(200, &[HTML]);
    assert!(scene.ask(&filter).is_none());
    scene.request.fields.remove_named(|name| name == b"Accept-Encoding");
    // Routed anew.
    assert!(scene.ask(&filter).is_none());
    scene.answer(&filter);
    assert!(transform(&filter, &mut scene).is_some());
    // A filter in front has answered: the request was never seen.
    let mut unseen = Scene::new("GET", "/", &[ALL]).answered(200, &[HTML]);
    unseen.answer(&filter);
    assert!(transform(&filter, &mut unseen).is_some());
}

#[test]
fn an_answer_that_another_filter_replaced_is_not_touched() {
    let filter = filter();
    let mut scene = shown(&filter, &[ALL], 200, &[HTML]);
    scene.response.fields.clear();
    scene.response.fields.push(b"content-type", b"text/plain").unwrap();
    assert!(transform(&filter, &mut scene).is_none());
    // The next answer of the same exchange is judged anew.
    scene.response.fields.push(b"content-encoding", b"gzip").unwrap();
    scene.answer(&filter);
    assert!(transform(&filter, &mut scene).is_none());
}

#[test]
fn another_site_learns_nothing_by_the_length() {
    let site = ("Sec-Fetch-Site", "cross-site");
    let cookie = ("Cookie", "session=1");
    let rows: [(Lines<'_>, bool); 7] = [
        (&[ALL, site, cookie], false),
        (&[ALL, site, ("Authorization", "Basic eA==")], false),
        (&[ALL, site, cookie, ("Sec-Fetch-User", "?1")], true),
        (&[ALL, site], true),
        (&[ALL, ("Sec-Fetch-Site", "same-origin"), cookie], true),
        (&[ALL, cookie], true),
        (&[("accept-encoding", "br, *;q=0"), site, cookie], false),
    ];
    for (asked, coded) in rows {
        let filter = filter();
        let mut scene = shown(&filter, asked, 200, &[HTML]);
        assert_eq!(transform(&filter, &mut scene).is_some(), coded, "{asked:?}");
        assert!(scene.response_lines().contains(&"vary: Accept-Encoding".to_owned()));
        let careless = filter_with(Breach::Ignored);
        let mut scene = shown(&careless, asked, 200, &[HTML]);
        assert!(transform(&careless, &mut scene).is_some(), "{asked:?}");
    }
}

#[test]
fn an_answer_to_head_says_what_get_would() {
    let filter = filter();
    let heads = ["GET", "HEAD"].map(|method| {
        let lines = [HTML, ("Content-Length", "5000"), ("etag", "\"x\"")];
        let mut scene = Scene::new(method, "/", &[ALL]).answered(200, &lines);
        scene.response.body =
            if method == "HEAD" { BodyLength::Empty } else { BodyLength::Known(5000) };
        scene.ask(&filter);
        scene.answer(&filter);
        let changed = transform(&filter, &mut scene).is_some();
        (scene.response_lines(), changed)
    });
    assert_eq!(heads[0], heads[1]);
    assert!(heads[0].1);
}

#[test]
fn an_answer_that_nothing_changed_speaks_of_the_weak_tag() {
    let filter = filter();
    let asked = [ALL, ("If-None-Match", "W/\"x\"")];
    let scene = shown(&filter, &asked, 304, &[("etag", "\"x\"")]);
    assert_eq!(scene.response_lines(), ["etag: W/\"x\"", "vary: Accept-Encoding"]);
    let asked = [ALL, ("If-None-Match", "\"x\"")];
    let scene = shown(&filter, &asked, 304, &[("etag", "\"x\"")]);
    assert_eq!(scene.response_lines(), ["etag: \"x\""]);
}

#[test]
fn events_can_be_read_as_they_come() {
    let filter = filter();
    let events = ("content-type", "text/event-stream");
    let mut scene = shown(&filter, &[("accept-encoding", "gzip")], 200, &[events]);
    let mut made = transform(&filter, &mut scene).unwrap();
    let mut decoder = Decoder::new(Coding::Gzip, Bounds { most: 1 << 20, expansion: 1000 });
    let (mut out, mut plain) = (Vec::new(), Vec::new());
    for number in 1..=3 {
        out.clear();
        made.push(b"data: x\n\n", &mut out).unwrap();
        made.flush(&mut out);
        decoder.push(&out, &mut plain).unwrap();
        assert_eq!(plain, b"data: x\n\n".repeat(number));
    }
    // What has a length is not made larger by pauses.
    let mut scene = shown(&filter, &[("accept-encoding", "gzip")], 200, &[HTML]);
    scene.response.body = BodyLength::Known(5000);
    let mut made = transform(&filter, &mut scene).unwrap();
    out.clear();
    made.push(b"a", &mut out).unwrap();
    let before = out.len();
    made.flush(&mut out);
    assert_eq!(out.len(), before);
}

#[test]
fn notes_keep_everything() {
    let codings = Coding::ALL;
    let wishes = codings.iter().flat_map(|it| [Wish::Coded(*it), Wish::CodedOnly(*it)]);
    for wish in wishes.chain([Wish::Plain]) {
        for (guarded, untouched) in [(false, true), (true, false)] {
            for chosen in [None, Some(Coding::Gzip), Some(Coding::Zstd)] {
                for print in [None, Some(Print(0x0123_4567_89ab_cdef, 0xfedc_ba98))] {
                    let memo = Memo { wish, guarded, untouched, chosen, print };
                    assert_eq!(Memo::of(memo.numbers()), memo);
                }
            }
        }
    }
}

const PLAIN: &str = "all work and no play makes a dull page, ";

fn page() -> Vec<u8> {
    PLAIN.repeat(100).into_bytes()
}

/// Asks for a page of an origin and compresses it, or gets what was kept.
fn fetch(filter: &Compress, asked: Lines<'_>, lines: Lines<'_>) -> Result<Vec<u8>, usize> {
    let mut scene = Scene::new("GET", "/page", asked).answered(200, &[&[HTML], lines].concat());
    scene.response.body = BodyLength::Known(page().len().try_into().unwrap());
    scene.ask(filter);
    match scene.answer(filter) {
        ResponseVerdict::Replace(reply) => Ok(reply.body.bytes().unwrap().to_vec()),
        ResponseVerdict::Continue => {
            let Some(mut made) = transform(filter, &mut scene) else { return Err(0) };
            let mut out = Vec::new();
            made.push(&page(), &mut out).unwrap();
            made.end(&mut None, &mut out).unwrap();
            Err(out.len())
        }
        ResponseVerdict::Wait(_) => panic!("it waits for nothing"),
    }
}

#[test]
fn the_same_answer_is_compressed_once() {
    let tag = ("etag", "\"x\"");
    for coding in ["gzip", "br", "zstd"] {
        let filter = filter();
        let asked = [("accept-encoding", coding)];
        let made = fetch(&filter, &asked, &[tag]).unwrap_err();
        assert_eq!(fetch(&filter, &asked, &[tag]).unwrap().len(), made, "{coding}");
        assert_eq!(fetch(&filter, &asked, &[("ETag", "W/\"x\"")]).unwrap().len(), made);
        assert!(fetch(&filter, &asked, &[("etag", "\"y\"")]).is_err(), "it has changed");
        assert!(fetch(&filter, &[("accept-encoding", "identity")], &[tag]).is_err());
    }
}

#[test]
fn what_is_not_surely_the_same_is_compressed_again() {
    let tag = ("etag", "\"x\"");
    let rows: [(Lines<'_>, Lines<'_>, bool); 15] = [
        (&[ALL], &[tag], true),
        (&[ALL], &[], false),
        (&[ALL], &[("last-modified", "yesterday")], true),
        (&[ALL, ("cookie", "a=b")], &[("last-modified", "yesterday")], false),
        (&[ALL, ("cookie", "a=b")], &[tag], true),
        (&[ALL], &[tag, ("cache-control", "no-store")], false),
        (&[ALL], &[tag, ("cache-control", "max-age=1, Private")], false),
        (&[ALL], &[tag, ("cache-control", "private=\"x\"")], false),
        (&[ALL], &[tag, ("set-cookie", "a=b")], false),
        (&[ALL, ("authorization", "x")], &[tag], false),
        (&[ALL, ("authorization", "x")], &[tag, ("cache-control", "public")], true),
        (&[ALL], &[tag, ("vary", "*")], false),
        (&[ALL], &[tag, ("vary", "accept-encoding, accept-language")], true),
        (&[ALL], &[("etag", "\"\"")], false),
        (&[ALL], &[("etag", "x")], false),
    ];
    for (asked, lines, kept) in rows {
        let filter = filter();
        assert!(fetch(&filter, asked, lines).is_err());
        assert_eq!(fetch(&filter, asked, lines).is_ok(), kept, "{asked:?} {lines:?}");
    }
    // What the answer depends on is part of what it is kept by.
    let filter = filter();
    let lines = [tag, ("vary", "accept-language")];
    assert!(fetch(&filter, &[ALL, ("accept-language", "de")], &lines).is_err());
    assert!(fetch(&filter, &[ALL, ("accept-language", "en")], &lines).is_err());
    assert!(fetch(&filter, &[ALL, ("accept-language", "de")], &lines).is_ok());
}

#[test]
fn answers_in_memory_are_known_by_their_content() {
    let filter = filter();
    let give = |content: &[u8], behind: Behind| {
        let mut scene = Scene::new("GET", "/", &[ALL]).answered(200, &[HTML]);
        scene.source = Source::Gateway;
        scene.response.body = BodyLength::Known(content.len().try_into().unwrap());
        scene.body = Body::Bytes(content.to_vec());
        scene.ask(&filter);
        scene.with_response(|context| {
            context.behind = behind;
            if let ResponseVerdict::Replace(_) = filter.on_response_head(context) {
                return true;
            }
            let mut made = filter.response_body(context).unwrap();
            let mut out = Vec::new();
            made.push(context.whole.bytes().unwrap(), &mut out).unwrap();
            made.end(&mut None, &mut out).unwrap();
            false
        })
    };
    let page = page();
    // A byte that is no part of any sample.
    let mut other = page.clone();
    other[1100] ^= 1;
    assert!(!give(&page, Behind::Nothing) && give(&page, Behind::Nothing));
    assert!(give(&page, Behind::Watches), "whoever looks on has nothing to see of it");
    assert!(!give(&page, Behind::Alters));
    assert!(!give(&other, Behind::Nothing));
    assert!(give(&other, Behind::Nothing) && !give(&page, Behind::Nothing));
}

#[test]
fn answers_of_an_origin_are_seen_by_whoever_looks_on() {
    let filter = filter();
    let ask = |behind: Behind| {
        let lines = [HTML, ("etag", "\"x\"")];
        let mut scene = Scene::new("GET", "/", &[ALL]).answered(200, &lines);
        scene.ask(&filter);
        scene.with_response(|context| {
            assert!(matches!(context.whole, Whole::Unknown));
            context.behind = behind;
            if let ResponseVerdict::Replace(_) = filter.on_response_head(context) {
                return true;
            }
            let mut made = filter.response_body(context).unwrap();
            made.push(&page(), &mut Vec::new()).unwrap();
            made.end(&mut None, &mut Vec::new()).unwrap();
            false
        })
    };
    // Without a length it is compressed fast, and well elsewhere.
    assert!(!ask(Behind::Nothing) && ask(Behind::Nothing));
    assert!(!ask(Behind::Watches) && !ask(Behind::Alters));
}

#[test]
fn content_that_broke_off_is_not_kept_and_the_next_one_tries() {
    let filter = filter();
    let tag = ("etag", "\"x\"");
    let mut scene = Scene::new("GET", "/page", &[ALL]).answered(200, &[HTML, tag]);
    scene.response.body = BodyLength::Known(page().len().try_into().unwrap());
    scene.ask(&filter);
    scene.answer(&filter);
    let mut made = transform(&filter, &mut scene).unwrap();
    made.push(&page()[..100], &mut Vec::new()).unwrap();
    // Meanwhile others get it, without anything being kept of theirs.
    assert!(fetch(&filter, &[ALL], &[tag]).is_err());
    assert!(fetch(&filter, &[ALL], &[tag]).is_err());
    drop(made);
    assert!(fetch(&filter, &[ALL], &[tag]).is_err());
    assert!(fetch(&filter, &[ALL], &[tag]).is_ok());
}
