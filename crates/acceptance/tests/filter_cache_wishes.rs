//! What clients wish is heeded as far as origins allow it, and what is kept may be compressed before or behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use sluice_acceptance::config;
use sluice_acceptance::filters::{Reply, ask, ask_both, ask_http2};
use sluice_testkit::{Exchange, Origin, Scratch, Sluice};

const ETAG: &str = "ETag: \"one\"";

/// What the origin says about each path, whoever asks.
fn answer(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.sink_body()?;
    let head = exchange.head();
    let (target, known) = (head.target.clone(), head.fields.first("if-none-match").is_some());
    let control = match target.as_str() {
        "/fresh" => "max-age=600",
        "/immutable" => "max-age=600, immutable",
        "/must" => "max-age=60, must-revalidate",
        _ => "max-age=60",
    };
    let control = format!("Cache-Control: {control}");
    // Those that are not fresh were made 100 seconds ago, the others five.
    let age = if control.contains("=600") { "Age: 5" } else { "Age: 100" };
    let etag = if head.method == "HEAD" { "ETag: \"two\"" } else { ETAG };
    if known {
        return exchange.answer(304, &[&control, age, etag], "");
    }
    exchange.answer(200, &[&control, age, etag], format!("content of {target}"))
}

fn gateway(origin: &Origin, options: &str, filters: &str) -> Sluice {
    let address = origin.address();
    Sluice::start(&config(&format!(
        "[filter.pages.cache]\nmemory = \"16MiB\"\n{options}\n\
         [filter.smaller.compress]\nencodings = [\"gzip\"]\n\
         [[route]]\npath = \"/*\"\nproxy = \"{address}\"\nfilters = [{filters}]\n\
         [[route]]\npath = \"/unused/*\"\nrespond = \"x\"\nfilters = [\"smaller\"]\n"
    )))
}

fn status(reply: &Reply) -> &str {
    reply.values("cache-status").last().copied().unwrap_or_default()
}

fn is_hit(reply: &Reply) -> bool {
    status(reply).starts_with("sluice; hit;")
}

/// What comes of a wish, by both protocols: whether what is kept was given without asking.
fn wish(gateway: &Sluice, target: &str, wish: &str) -> bool {
    let line = format!("Cache-Control: {wish}");
    let first = ask(gateway, target, &["-H", &line]);
    let second = ask_http2(gateway, target, &["-H", &line]);
    for reply in [&first, &second] {
        assert_eq!(reply.content, format!("content of {target}"), "{target} {wish}: {reply:?}");
    }
    assert_eq!(is_hit(&first), is_hit(&second), "{target} {wish}: {first:?} {second:?}");
    is_hit(&first)
}

#[test]
fn wishes_of_clients_are_heeded_as_far_as_origins_allow() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "", "\"pages\"");
    for target in ["/fresh", "/immutable", "/must", "/stale"] {
        assert_eq!(ask(&gateway, target, &[]).status, 200);
    }
    let rows = [
        // RFC 9111, 5.2.1.1: at most so old.
        ("/fresh", "max-age=600", true),
        ("/fresh", "max-age=4", false),
        ("/fresh", "max-age=0", false),
        // RFC 9111, 5.2.1.2: forty seconds too old.
        ("/stale", "max-stale", true),
        ("/stale", "max-stale=1000", true),
        ("/stale", "max-stale=10", false),
        ("/must", "max-stale", false),
        ("/stale", "max-stale, max-age=50", false),
        // RFC 9111, 5.2.1.3: fresh for so long at least.
        ("/fresh", "min-fresh=60", true),
        ("/fresh", "min-fresh=601", false),
        ("/stale", "max-stale, min-fresh=1", false),
        // RFC 9111, 5.2.1.4.
        ("/fresh", "no-cache", false),
        // RFC 8246, 2.1: asking again before it is stale is of no use; who insists is heard.
        ("/immutable", "max-age=0", true),
        ("/immutable", "no-cache", false),
    ];
    for (target, words, expected) in rows {
        let before = origin.requests().len();
        assert_eq!(wish(&gateway, target, words), expected, "{target} {words}");
        assert_eq!(origin.requests().len() == before, expected, "{target} {words}");
    }
    // RFC 9111, 5.2.1.7.
    let only = ["-H", "Cache-Control: only-if-cached"];
    assert!(is_hit(&ask_both(&gateway, "/fresh", &only, &["etag"])));
    assert_eq!(ask_both(&gateway, "/none", &only, &["cache-status"]).status, 504);
    gateway.stop();
}

#[test]
fn a_head_that_says_something_else_takes_out_what_is_kept() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "", "\"pages\"");
    assert_eq!(ask(&gateway, "/fresh", &[]).value("etag"), "\"one\"");
    assert!(is_hit(&ask(&gateway, "/fresh", &["-I"])), "it is answered from what is kept");
    let head = ask(&gateway, "/fresh", &["-I", "-H", "Cache-Control: no-cache"]);
    assert_eq!((head.status, head.value("etag")), (200, "\"two\""));
    assert!(!is_hit(&ask(&gateway, "/fresh", &[])), "what was kept is out of date");
    gateway.stop();
}

#[test]
fn compressed_answers_are_kept_for_those_who_want_them() {
    let body = "all work and no play makes jack a dull boy\n".repeat(200);
    let sent = body.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        let lines = ["Cache-Control: max-age=600", "Content-Type: text/plain", ETAG];
        exchange.answer(200, &lines, sent.clone())
    });
    let gateway = gateway(&origin, "", "\"pages\", \"smaller\"");
    let fields = ["content-encoding", "etag", "vary"];
    for round in 0..3 {
        let small =
            ask_both(&gateway, "/a", &["--compressed", "-H", "Accept-Encoding: gzip"], &fields);
        assert_eq!((small.value("content-encoding"), small.value("etag")), ("gzip", "W/\"one\""));
        assert!(small.value("vary").eq_ignore_ascii_case("accept-encoding"), "{small:?}");
        assert!(small.content == body && (round == 0 || is_hit(&small)), "{round}: {small:?}");
        let length: usize = small.value("content-length").parse().unwrap_or(0);
        assert!(round == 0 || (1..1000).contains(&length), "{round}: kept small: {length}");
        let plain = ask_both(&gateway, "/a", &[], &fields);
        assert_eq!((plain.value("content-encoding"), plain.value("etag")), ("", "\"one\""));
        assert!(plain.content == body && (round == 0 || is_hit(&plain)), "{round}");
    }
    assert_eq!(origin.requests().len(), 2, "once for each");
    // What a client has is known by the tag it was given, by both protocols.
    let options = ["-H", "Accept-Encoding: gzip", "-H", "If-None-Match: W/\"one\""];
    let same = ask_both(&gateway, "/a", &options, &["etag", "vary", "cache-control"]);
    assert_eq!((same.status, same.content.as_str(), same.value("etag")), (304, "", "W/\"one\""));
    assert!(is_hit(&same), "{same:?}");
    let options = ["-H", "If-None-Match: \"two\""];
    assert_eq!(ask_both(&gateway, "/a", &options, &["etag"]).status, 200);
    assert_eq!(origin.requests().len(), 2);
    gateway.stop();
}

fn with_disk(folder: &Path) -> String {
    let folder = folder.display();
    format!("entry_limit = \"64KiB\"\ndisk = {{ path = \"{folder}\", size = \"64MiB\" }}")
}

#[test]
fn what_is_kept_may_be_compressed_each_time_it_is_given() {
    let body: String = (0..200_000).map(|line| format!("line {line}\n")).collect();
    let sent = body.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        let lines = ["Cache-Control: max-age=600", "Content-Type: text/plain", ETAG];
        exchange.answer(200, &lines, sent.clone())
    });
    let scratch = Scratch::new();
    // Large enough to lie on the disk alone: a part of a file goes through the filter.
    let gateway = gateway(&origin, &with_disk(scratch.path()), "\"smaller\", \"pages\"");
    assert_eq!(ask(&gateway, "/a", &[]).content, body);
    let options = ["--compressed", "-H", "Accept-Encoding: gzip"];
    for _ in 0..2 {
        let small = ask_both(&gateway, "/a", &options, &["content-encoding", "etag"]);
        assert_eq!((small.value("content-encoding"), small.value("etag")), ("gzip", "W/\"one\""));
        assert!(is_hit(&small) && small.content == body);
    }
    assert_eq!(origin.requests().len(), 1);
    gateway.stop();
}
