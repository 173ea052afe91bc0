//! What the filter makes of answers.

use super::*;
use crate::scene::Scene;
use sluice_coding::{Bounds, Decoder};
use sluice_message::BodyLength;

type Lines<'l> = &'l [(&'l str, &'l str)];

const HTML: (&str, &str) = ("content-type", "text/html; charset=utf-8");
const ALL: (&str, &str) = ("Accept-Encoding", "gzip, br, zstd");

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
        assert!(out.len() * 10 < page.len());
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
    let rows: [(Lines<'_>, u16, Lines<'_>, &[&str]); 24] = [
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
                let memo = Memo { wish, guarded, untouched, chosen };
                assert_eq!(Memo::of(memo.numbers()), memo);
            }
        }
    }
}
