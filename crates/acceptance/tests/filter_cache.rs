//! The cache gives again what it may, asks again when it has to, and tells who did what.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;

use sluice_acceptance::filters::{Reply, ask, ask_both, ask_http2, page_example};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Exchange, Origin, Sluice};

const ETAG: &str = "ETag: \"one\"";
const CHANGED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";

/// What the origin says about each path; the content names path and query.
fn answer(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.sink_body()?;
    let head = exchange.head();
    let target = head.target.clone();
    let known = head.fields.first("if-none-match") == Some("\"one\"");
    let kind = head.fields.first("x-kind").unwrap_or("none").to_owned();
    let host = head.fields.first("x-forwarded-host").unwrap_or("none").to_owned();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let body = format!("content of {target}");
    match path.as_str() {
        "/fresh" | "/fresh/a" | "/fresh/b" => {
            let tag = format!("Surrogate-Key: all {}", path.rsplit('/').next().unwrap());
            exchange.answer(200, &["Cache-Control: max-age=600", &tag, ETAG, CHANGED], body)
        }
        "/shared" => exchange.answer(200, &["Cache-Control: public, max-age=600"], body),
        "/expires" => {
            let lines =
                ["Date: Sun, 06 Nov 1994 08:49:37 GMT", "Expires: Sun, 06 Nov 2094 08:49:37 GMT"];
            exchange.answer(200, &lines, body)
        }
        "/silent" => exchange.answer(200, &[], body),
        "/private" => exchange.answer(200, &["Cache-Control: private, max-age=600"], body),
        "/no-store" => exchange.answer(200, &["Cache-Control: no-store, max-age=600"], body),
        "/cookie" => exchange.answer(200, &["Cache-Control: max-age=600", "Set-Cookie: a=b"], body),
        "/star" => exchange.answer(200, &["Cache-Control: max-age=600", "Vary: *"], body),
        "/targeted" => exchange.answer(
            200,
            &["Cache-Control: no-store", "CDN-Cache-Control: max-age=600"],
            body,
        ),
        "/vary" => {
            let lines = ["Cache-Control: max-age=600", "Vary: X-Kind"];
            exchange.answer(200, &lines, format!("kind {kind}"))
        }
        "/host" => exchange.answer(200, &["Cache-Control: max-age=600"], format!("host {host}")),
        "/ask" if known => exchange.answer(304, &["Cache-Control: max-age=600", ETAG], ""),
        // Stale when it comes, and to be confirmed.
        "/ask" => exchange.answer(200, &["Cache-Control: max-age=60", "Age: 100", ETAG], body),
        "/background" if known => exchange.answer(304, &["Cache-Control: max-age=600", ETAG], ""),
        "/background" => {
            let lines = ["Cache-Control: max-age=60, stale-while-revalidate=600", "Age: 100", ETAG];
            exchange.answer(200, &lines, body)
        }
        "/failing" if known => exchange.answer(503, &[], "sorry"),
        "/failing" => {
            let lines = ["Cache-Control: max-age=60, stale-if-error=600", "Age: 100", ETAG];
            exchange.answer(200, &lines, body)
        }
        "/must" if known => exchange.answer(503, &[], "sorry"),
        "/must" => {
            let lines = [
                "Cache-Control: max-age=60, must-revalidate, stale-if-error=600",
                "Age: 100",
                ETAG,
            ];
            exchange.answer(200, &lines, body)
        }
        "/close" => {
            exchange.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\r\nsome")?;
            exchange.then(sluice_testkit::After::Close);
            Ok(())
        }
        _ => exchange.answer(404, &[], "nothing here"),
    }
}

fn gateway(origin: &Origin, options: &str) -> Sluice {
    Sluice::start(&text(origin, options, ""))
}

fn text(origin: &Origin, options: &str, rest: &str) -> String {
    let address = origin.address();
    config(&format!(
        "[filter.pages.cache]\nmemory = \"16MiB\"\n{options}\n{rest}\
         [[route]]\npath = \"/*\"\nproxy = \"{address}\"\nfilters = [\"pages\"]\n"
    ))
}

/// How often the origin was asked for this target since it was asked last.
fn asked(origin: &Origin, target: &str) -> usize {
    origin.requests().iter().filter(|request| request.target == target).count()
}

fn outcome(gateway: &Sluice, outcome: &str) -> u64 {
    let sample = format!("sluice_filter_outcomes_total{{filter=\"pages\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &sample)
}

fn status(reply: &Reply) -> &str {
    reply.values("cache-status").last().copied().unwrap_or_default()
}

/// A POST to a page of the admin listener: status and content.
fn admin(gateway: &Sluice, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(gateway.admin()).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, content) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), content.to_owned())
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let origin = Origin::start(answer);
    let text = page_example("cache.md", &[("127.0.0.1:9000", origin.address())], "");
    let gateway = Sluice::start(&text);
    let first = ask(&gateway, "/fresh", &[]);
    assert_eq!((first.status, status(&first)), (200, "sluice; fwd=uri-miss; stored"));
    assert_eq!(first.values("surrogate-key"), [""; 0]);
    let again = ask_both(&gateway, "/fresh", &[], &["etag", "cache-control", "date"]);
    assert_eq!((again.status, again.content.as_str()), (200, "content of /fresh"));
    assert!(status(&again).starts_with("sluice; hit; ttl="), "{again:?}");
    assert!(again.value("age").parse::<u64>().unwrap() < 600, "{again:?}");
    assert_eq!(asked(&origin, "/fresh"), 1);
    // Errors are kept for a while, and parameters that do not count never reach the origin.
    for target in ["/none?utm_source=x", "/none", "/none?utm_medium=y"] {
        assert_eq!(ask_http2(&gateway, target, &[]).status, 404);
    }
    assert_eq!((asked(&origin, "/none"), origin.requests().len()), (1, 2));
    assert_eq!(ask(&gateway, "/fresh", &["-X", "PURGE"]).content, "{\"purged\":1}\n");
    assert_eq!(status(&ask(&gateway, "/fresh", &[])), "sluice; fwd=uri-miss; stored");
    gateway.stop();
}

#[test]
fn answers_are_kept_if_they_may_be() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "");
    let cookie: &[&str] = &["-H", "Cookie: s=1"];
    let secret: &[&str] = &["-H", "Authorization: Basic eDp5"];
    let rows: &[(&str, &[&str], &str)] = &[
        ("/fresh", &[], ""),
        ("/expires", &[], ""),
        ("/targeted", &[], ""),
        ("/shared", cookie, ""),
        ("/shared?secret", secret, ""),
        ("/silent", &[], "no-lifetime"),
        ("/private", &[], "private"),
        ("/no-store", &[], "no-store"),
        ("/cookie", &[], "set-cookie"),
        ("/star", &[], "vary"),
        ("/close", &[], "no-length"),
        ("/fresh?cookie", cookie, "cookie"),
        ("/fresh?secret", secret, "authorization"),
    ];
    for (target, options, refusal) in rows {
        let [first, second] =
            [ask(&gateway, target, options), ask_http2(&gateway, target, options)];
        assert_eq!((first.status, second.status), (200, 200), "{target}");
        assert_eq!(first.content, second.content, "{target}");
        if refusal.is_empty() {
            assert_eq!(asked(&origin, target), 1, "{target}");
            assert!(status(&second).starts_with("sluice; hit"), "{target}: {second:?}");
        } else {
            assert_eq!(asked(&origin, target), 2, "{target}");
            let detail = format!("sluice; fwd=uri-miss; detail={refusal}");
            assert_eq!(status(&second), detail, "{target}");
        }
    }
    assert!(metric(&gateway.admin(), "sluice_cache_entries{filter=\"pages\"}") == 5);
    gateway.stop();
}

#[test]
fn conditions_ranges_and_heads_are_answered_from_what_is_kept() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "");
    // The first request has a condition that holds: it is told so, and the answer is kept.
    let same = ["-H", "If-None-Match: \"one\""];
    let first = ask(&gateway, "/fresh", &same);
    assert_eq!((first.status, first.content.as_str()), (304, ""));
    assert_eq!(first.values("content-length"), [""; 0]);
    let rows: &[(&[&str], u16, &str)] = &[
        (&[], 200, "content of /fresh"),
        (&same, 304, ""),
        (&["-H", "If-None-Match: \"two\""], 200, "content of /fresh"),
        (&["-H", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"], 304, ""),
        (&["-H", "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT"], 200, "content of /fresh"),
        (&["-H", "Range: bytes=0-6"], 206, "content"),
        (&["-H", "Range: bytes=-5"], 206, "fresh"),
        (&["-H", "Range: bytes=11-"], 206, "/fresh"),
        (&["-H", "Range: bytes=100-"], 416, ""),
        (&["-H", "Range: bytes=6-0"], 200, "content of /fresh"),
        (&["-H", "Range: bytes=0-6", "-H", "If-Range: \"one\""], 206, "content"),
        (&["-H", "Range: bytes=0-6", "-H", "If-Range: \"two\""], 200, "content of /fresh"),
        (&["-H", "Range: bytes=0-6", "-H", "If-None-Match: \"one\""], 304, ""),
    ];
    for (options, code, content) in rows {
        let reply = ask_both(&gateway, "/fresh", options, &["content-range", "etag"]);
        assert_eq!((reply.status, reply.content.as_str()), (*code, *content), "{options:?}");
        assert!(status(&reply).starts_with("sluice; hit"), "{options:?}: {reply:?}");
        assert_eq!(
            reply.value("content-length").is_empty(),
            *code == 304,
            "{options:?}: {reply:?}"
        );
    }
    let part = ask(&gateway, "/fresh", &["-H", "Range: bytes=0-6"]);
    assert_eq!(part.value("content-range"), "bytes 0-6/17");
    let head = ask_both(&gateway, "/fresh", &["-I"], &["content-length"]);
    assert_eq!((head.status, head.value("content-length")), (200, "17"));
    assert_eq!(origin.requests().len(), 1);
    // All from the first byte on is all: it is kept, and told as what was asked for.
    let whole = ask(&gateway, "/shared", &["-H", "Range: bytes=0-"]);
    assert_eq!((whole.status, whole.value("content-range")), (206, "bytes 0-17/18"));
    assert_eq!(ask(&gateway, "/shared", &[]).status, 200);
    assert_eq!(asked(&origin, "/shared"), 1);
    gateway.stop();
}

#[test]
fn what_is_not_fresh_is_confirmed() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "");
    assert_eq!(status(&ask(&gateway, "/ask", &[])), "sluice; fwd=uri-miss; stored");
    let confirmed = ask(&gateway, "/ask", &[]);
    assert_eq!((confirmed.status, confirmed.content.as_str()), (200, "content of /ask"));
    assert_eq!(status(&confirmed), "sluice; fwd=stale; fwd-status=304");
    assert_eq!(confirmed.value("cache-control"), "max-age=600");
    let last = origin.last_request();
    assert_eq!(last.fields.first("if-none-match"), Some("\"one\""));
    assert!(status(&ask_http2(&gateway, "/ask", &[])).starts_with("sluice; hit; ttl="));
    assert_eq!(asked(&origin, "/ask"), 2);
    // Clients may ask for it, too, and for nothing but what is kept.
    let again =
        ask(&gateway, "/ask", &["-H", "Cache-Control: no-cache", "-H", "If-None-Match: \"one\""]);
    assert_eq!((again.status, asked(&origin, "/ask")), (304, 3));
    let only = ["-H", "Cache-Control: only-if-cached"];
    assert_eq!(ask(&gateway, "/ask", &only).status, 200);
    assert_eq!(ask_both(&gateway, "/fresh", &only, &["cache-status"]).status, 504);
    gateway.stop();
}

#[test]
fn stale_answers_bridge_refreshes_and_failures() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "");
    for target in ["/background", "/failing", "/must"] {
        assert_eq!(ask(&gateway, target, &[]).status, 200);
    }
    let stale = ask(&gateway, "/background", &[]);
    assert_eq!(stale.content, "content of /background");
    assert!(status(&stale).starts_with("sluice; hit; ttl=-4"), "{stale:?}");
    assert!(eventually(|| outcome(&gateway, "refreshed") == 1));
    let fresh = ask_http2(&gateway, "/background", &[]);
    assert!(
        status(&fresh).starts_with("sluice; hit; ttl=59") || status(&fresh).ends_with("ttl=600")
    );
    assert_eq!(asked(&origin, "/background"), 2);
    let helped = ask(&gateway, "/failing", &[]);
    assert_eq!((helped.status, helped.content.as_str()), (200, "content of /failing"));
    assert_eq!(status(&helped), "sluice; fwd=stale; fwd-status=503");
    assert_eq!(ask(&gateway, "/must", &[]).status, 503);
    // The same when nobody is there to answer.
    drop(origin);
    assert!(eventually(|| ask_http2(&gateway, "/failing", &[]).content == "content of /failing"));
    assert!(ask(&gateway, "/must", &[]).status >= 500);
    assert!(outcome(&gateway, "stale_error") >= 2);
    gateway.stop();
}

#[test]
fn variants_hosts_and_spellings_are_kept_apart() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "query_order = \"by_name\"\n");
    let table = [
        ("a", "sluice; fwd=uri-miss; stored"),
        ("b", "sluice; fwd=vary-miss; stored"),
        ("a", "sluice; hit; ttl="),
        ("b", "sluice; hit; ttl="),
    ];
    for (kind, expected) in table {
        let reply = ask(&gateway, "/vary", &["-H", &format!("X-Kind: {kind}")]);
        assert_eq!(reply.content, format!("kind {kind}"));
        assert!(status(&reply).starts_with(expected), "{kind}: {}", status(&reply));
    }
    assert_eq!(
        (ask(&gateway, "/vary", &[]).content.as_str(), asked(&origin, "/vary")),
        ("kind none", 3)
    );
    assert_eq!(ask(&gateway, "/fresh?b=1&a=2", &[]).content, "content of /fresh?a=2&b=1");
    assert_eq!(ask_http2(&gateway, "/fresh?a=2&b=1", &[]).content, "content of /fresh?a=2&b=1");
    assert_eq!(asked(&origin, "/fresh?a=2&b=1"), 1);
    for host in ["one.example", "two.example", "ONE.example"] {
        assert_eq!(ask(&gateway, "/fresh", &["-H", &format!("Host: {host}")]).status, 200);
    }
    assert_eq!(asked(&origin, "/fresh"), 2);
    // All spellings of a path are one entry: the origin would get the same one for each.
    for target in ["/x/../fresh", "/%66resh", "//fresh"] {
        assert_eq!(ask(&gateway, target, &["-H", "Host: one.example"]).status, 200, "{target}");
        assert_eq!(asked(&origin, "/fresh"), 2, "{target}");
    }
    gateway.stop();
}

#[test]
fn answers_that_only_say_that_an_origin_failed_say_why_it_was_asked() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "");
    drop(origin);
    let table: [(&[&str], &str); 4] = [
        (&[], "sluice; fwd=uri-miss"),
        (&["-I"], "sluice; fwd=uri-miss"),
        (&["-X", "POST", "-d", "x"], "sluice; fwd=method"),
        (&["-X", "GET", "-d", "x"], "sluice; fwd=bypass"),
    ];
    for (options, expected) in table {
        let reply = ask(&gateway, "/fresh", options);
        assert_eq!((reply.status, status(&reply)), (502, expected), "{options:?}");
    }
    gateway.stop();
}

#[test]
fn nobody_changes_what_others_get() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "");
    // RFC 9110, 9.3.1: a GET with content goes by, and leaves nothing.
    let fat = ask(&gateway, "/fresh", &["-X", "GET", "-d", "q=evil"]);
    assert_eq!(status(&fat), "sluice; fwd=bypass");
    for name in ["X-Original-URL", "X-HTTP-Method-Override", "X-Host", "x-rewrite-url"] {
        let steered = ask_http2(&gateway, "/fresh", &["-H", &format!("{name}: /evil")]);
        assert_eq!(status(&steered), "sluice; fwd=bypass", "{name}");
    }
    assert_eq!(status(&ask(&gateway, "/fresh", &[])), "sluice; fwd=uri-miss; stored");
    let forged = ask(&gateway, "/host", &["-H", "X-Forwarded-Host: evil.example"]);
    assert!(!forged.content.contains("evil"), "{forged:?}");
    assert!(!ask(&gateway, "/host", &[]).content.contains("evil"));
    // Conditions of others are the origin's to judge, and upgrades are no answers.
    let other = ask(&gateway, "/fresh", &["-H", "If-Match: \"one\""]);
    assert_eq!(status(&other), "sluice; fwd=bypass");
    gateway.stop();
}

#[test]
fn purges_and_unsafe_requests_take_answers_out() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "purge_from = \"192.0.2.0/24\"\n");
    let host = gateway.address("web").to_string();
    let all = ["/fresh", "/fresh/a", "/fresh/b"];
    let misses = |expected: &[&str]| {
        for target in all {
            let missed = status(&ask(&gateway, target, &[])).contains("fwd=uri-miss");
            assert_eq!(missed, expected.contains(&target), "{target} of {expected:?}");
        }
    };
    misses(&all);
    misses(&[]);
    let purge = |what: &str| admin(&gateway, &format!("/caches/pages/purge?{what}"));
    let (code, said) = purge(&format!("url=http://{host}/fresh"));
    assert_eq!(
        (code, said.contains("\"purged\":1") || said.contains("\"purged\": 1")),
        (200, true)
    );
    misses(&["/fresh"]);
    assert_eq!(purge(&format!("prefix=http://{host}/fresh/")).0, 200);
    misses(&["/fresh/a", "/fresh/b"]);
    assert_eq!(purge("tag=b").0, 200);
    misses(&["/fresh/b"]);
    assert_eq!(purge("tag=all").0, 200);
    misses(&all);
    assert_eq!(purge("all").0, 200);
    misses(&all);
    assert_eq!(purge("all&soft").0, 200);
    let soft = ask(&gateway, "/fresh", &[]);
    assert_eq!(origin.last_request().fields.first("if-none-match"), Some("\"one\""), "{soft:?}");
    assert_eq!((purge("nothing=1").0, admin(&gateway, "/caches/x/purge?all").0), (400, 404));
    assert_eq!(ask(&gateway, "/fresh", &["-X", "PURGE"]).status, 403);
    // RFC 9111, 4.4.
    misses(&[]);
    assert_eq!(ask(&gateway, "/fresh", &["-d", "change"]).status, 200);
    misses(&["/fresh"]);
    assert_eq!(ask_http2(&gateway, "/fresh/a", &["-X", "DELETE"]).status, 200);
    misses(&["/fresh/a"]);
    // One that fails changes nothing.
    assert_eq!(ask(&gateway, "/none", &["-d", "change"]).status, 404);
    misses(&[]);
    gateway.stop();
}

#[test]
fn what_is_kept_outlives_reloads() {
    let origin = Origin::start(answer);
    let gateway = gateway(&origin, "");
    assert_eq!(ask(&gateway, "/fresh", &[]).status, 200);
    // With other options, too, as long as requests are told apart as before.
    for options in ["", "ttl = { 404 = \"10s\" }\n", "stale_if_error = \"5s\"\n"] {
        let rest = "[[route]]\npath = \"/new\"\nrespond = \"new\"\n";
        gateway.reload(&text(&origin, options, rest));
        assert!(
            status(&ask_http2(&gateway, "/fresh", &[])).starts_with("sluice; hit"),
            "{options}"
        );
    }
    gateway.reload(&text(&origin, "key = [\"path\"]\n", ""));
    assert_eq!(status(&ask(&gateway, "/fresh", &[])), "sluice; fwd=uri-miss; stored");
    gateway.stop();
}
