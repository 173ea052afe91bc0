//! Every feature over every pair of HTTP/1.1 and HTTP/2 with clients and with origins, encrypted or not.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "matrix/chain.rs"]
mod chain;
#[path = "matrix/content.rs"]
mod content;

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use chain::{Chain, Leg, Length, Security, Version, large};
use sluice_acceptance::websocket::{Client, Ended, More, Opcode, Way};
use sluice_acceptance::{eventually, metric, passing};
use sluice_testkit::Sluice;

/// Looks at one thing the gateway does.
type Feature = fn(&Chain);

/// What has to be the same whatever is spoken.
const FEATURES: &[(&str, Feature)] = &[
    ("methods", methods),
    ("content of known length", known_content),
    ("content of unknown length", unknown_content),
    ("large answers", large_answers),
    ("answers without content", no_content),
    ("fields of requests", request_fields),
    ("fields of answers", answer_fields),
    ("who asks", forwarded),
    ("trailers", trailers),
    ("interim answers", interim),
    ("answers that break off", half),
    ("own answers", own_answers),
    ("filters", filters),
    ("refusals", refusals),
    ("failures of origins", failures),
    ("answers of origins that say no", passed_refusals),
    ("routes", routes),
    ("retries", retries),
    ("hedges", hedges),
    ("sticky sessions", sticky),
    ("checks", checks),
    ("mirrors", mirrors),
    ("limits", limits),
    ("access log", access_log),
    ("metrics", metrics),
    ("events", events),
    ("tunnels", tunnels),
    ("files", content::files),
    ("compressed answers", content::compressed),
    ("kept answers", content::cached),
];

/// All features over these legs to clients, and each there is to origins.
fn every_feature(down: Leg) {
    let mut failed = Vec::new();
    for up in Leg::ALL {
        let chain = Chain::start(down, up);
        for (name, feature) in FEATURES {
            if catch_unwind(AssertUnwindSafe(|| feature(&chain))).is_err() {
                failed.push(format!("{name}: {down} from clients, {up} to origins"));
            }
        }
        if failed.is_empty() {
            chain.stop();
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn http1_clients() {
    every_feature(Leg::ALL[0]);
}

#[test]
fn http2_clients() {
    every_feature(Leg::ALL[1]);
}

#[test]
fn encrypted_http1_clients() {
    every_feature(Leg::ALL[2]);
}

#[test]
fn encrypted_http2_clients() {
    every_feature(Leg::ALL[3]);
}

fn methods(chain: &Chain) {
    for method in ["GET", "DELETE", "OPTIONS", "STRANGE"] {
        let reply = chain.ask("/pass/echo/a%20b?x=1&y", &["-X", method]);
        assert_eq!(reply.status(), 200);
        let asked = format!("{method} /pass/echo/a%20b?x=1&y HTTP/1.1\n");
        assert!(reply.text().starts_with(&asked), "{}", reply.text());
    }
    let reply = chain.all(&["/pass/name"; 2], &["-I", "-o", "/dev/null", "-o", "/dev/null"]);
    assert_eq!((reply.code, reply.statuses()), (0, vec![200, 200]));
    assert_eq!(reply.fields("content-length"), ["3"]);
    let reply = chain.all(&["/pass/name"; 5], &[]);
    assert_eq!((reply.code, reply.text().as_str()), (0, "oneoneoneoneone"));
}

fn known_content(chain: &Chain) {
    let content = &large()[..1 << 20];
    let file = chain.file(content);
    let reply = chain.ask("/pass/mirror?known", &["--data-binary", &file]);
    assert!(reply.content == content, "{} bytes", reply.content.len());
    assert_eq!(reply.statuses().last(), Some(&200));
    let origin = chain.received("/pass/mirror?known");
    assert_eq!(origin.fields.first("content-length"), Some("1048576"));
    let reply = chain.ask("/pass/echo", &["--data-binary", "small"]);
    assert_eq!(reply.status(), 200);
    assert!(reply.text().ends_with("\n\nsmall"), "{}", reply.text());
    let reply = chain.ask("/pass/sink", &["-X", "PUT", "--data-binary", ""]);
    assert_eq!((reply.status(), reply.text().as_str()), (200, "0"));
}

fn unknown_content(chain: &Chain) {
    let content = &large()[..1 << 20];
    let reply = chain.send("/pass/mirror?unknown", content);
    assert!(reply.content == content, "{} bytes", reply.content.len());
    assert_eq!(reply.statuses().last(), Some(&200));
    let origin = chain.received("/pass/mirror?unknown");
    assert_eq!(origin.fields.first("transfer-encoding"), Some("chunked"));
    assert_eq!(chain.send("/pass/sink", b"").text(), "0");
}

fn large_answers(chain: &Chain) {
    let content = large();
    let reply = chain.get("/pass/large");
    assert_eq!((reply.status(), reply.fields("content-length")), (200, vec!["4194304"]));
    assert!(reply.content == content, "{} bytes", reply.content.len());
    let reply = chain.get("/pass/chunks");
    assert_eq!((reply.status(), reply.fields("content-length").len()), (200, 0));
    assert!(reply.content == content, "{} bytes", reply.content.len());
}

fn no_content(chain: &Chain) {
    // Two at a time: if one had content after all, the other would show it.
    let reply = chain.all(&["/pass/none", "/pass/name"], &[]);
    assert_eq!((reply.statuses(), reply.text().as_str()), (vec![204, 200], "one"));
    let known = ["-H", "If-None-Match: \"v1\""];
    let reply = chain.all(&["/pass/known", "/pass/name"], &known);
    assert_eq!((reply.statuses(), reply.text().as_str()), (vec![304, 200], "one"));
    let reply = chain.ask("/pass/known", &known);
    assert_eq!((reply.status(), reply.fields("etag")), (304, vec!["\"v1\""]));
    assert_eq!(chain.received("/pass/known").fields.first("if-none-match"), Some("\"v1\""));
}

fn request_fields(chain: &Chain) {
    let arguments = [
        "-H",
        "X-One: 1",
        "-H",
        "X-Two: a, b;c=\"d\"",
        "-H",
        "Cookie: a=1; b=2",
        "-H",
        "Connection: X-Hop",
        "-H",
        "Keep-Alive: 5",
        "-H",
        "Proxy-Connection: keep-alive",
        "-A",
        "agent/1",
    ];
    assert_eq!(chain.ask("/pass/echo?fields", &arguments).status(), 200);
    let request = chain.received("/pass/echo?fields");
    let field = |name| request.fields.all(name).collect::<Vec<_>>();
    assert_eq!(field("x-one"), ["1"]);
    assert_eq!(field("x-two"), ["a, b;c=\"d\""]);
    assert_eq!(field("cookie"), ["a=1; b=2"]);
    assert_eq!(field("user-agent"), ["agent/1"]);
    for hop in ["keep-alive", "proxy-connection", "http2-settings", "upgrade"] {
        assert!(field(hop).is_empty(), "{hop} in {:?}", request.lines);
    }
    assert!(!field("connection").iter().any(|it| it.to_lowercase().contains("x-hop")));
}

fn answer_fields(chain: &Chain) {
    let reply = chain.get("/pass/fields");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "fields"));
    assert_eq!(reply.fields("x-one"), ["1"]);
    assert_eq!(reply.fields("set-cookie"), ["a=1", "b=2; Path=/"]);
    for hop in ["x-hop", "keep-alive"] {
        assert!(reply.fields(hop).is_empty(), "{hop} in {reply:?}");
    }
}

/// The other gateway adds its own neighbour to what the one in front of it has said.
fn forwarded(chain: &Chain) {
    let forged = ["-H", "X-Forwarded-For: 1.2.3.4", "-H", "X-Forwarded-Proto: gopher"];
    assert_eq!(chain.ask("/pass/echo?who", &forged).status(), 200);
    let request = chain.received("/pass/echo?who");
    let field = |name| request.fields.all(name).collect::<Vec<_>>().join(", ");
    let host = format!("localhost:{}", chain.sluice.address("web").rsplit(':').next().unwrap());
    assert_eq!(field("x-forwarded-for"), "127.0.0.1, 127.0.0.1");
    assert_eq!(field("x-forwarded-proto"), chain.down.scheme());
    assert_eq!((field("x-forwarded-host"), field("host")), (host.clone(), host));
    let received_by = |element: &str| element.split_once(" sluice-").unwrap().0.to_owned();
    let via: Vec<String> = field("via").split(", ").map(received_by).collect();
    assert_eq!(via, [chain.down.number(), chain.up.number()]);
    let by = format!("proto={}", chain.down.scheme());
    assert!(field("forwarded").contains(&by), "{}", field("forwarded"));
}

fn trailers(chain: &Chain) {
    let reply = chain.ask("/pass/trailers", &["-H", "TE: trailers"]);
    assert_eq!((reply.status(), reply.text().as_str()), (200, "onetwo"));
    assert_eq!(reply.trailers.join("").trim().to_lowercase(), "x-sum: 6");
}

fn interim(chain: &Chain) {
    let reply = chain.get("/pass/hints");
    assert_eq!((reply.code, reply.statuses()), (0, vec![103, 200]), "{reply:?}");
    assert!(reply.heads[0].to_lowercase().contains("link: </a>"), "{reply:?}");
    assert_eq!(reply.text(), "final");
}

fn half(chain: &Chain) {
    let mut client = chain.begin("/pass/half", &["-N"]);
    let mut output = client.stdout.take().unwrap();
    let mut content = [0; 4];
    output.read_exact(&mut content).expect("what came before the end");
    assert_eq!(&content, b"half");
    chain.gates.half.open();
    let reply = chain.reply(client.wait_with_output().unwrap());
    assert_eq!(reply.statuses(), [200]);
    assert_ne!(reply.code, 0, "half was taken for the whole");
}

fn own_answers(chain: &Chain) {
    let reply = chain.get("/own/hello");
    assert_eq!((reply.status(), reply.text().as_str()), (203, "hello"));
    assert_eq!((reply.fields("x-own"), reply.fields("content-length")), (vec!["yes"], vec!["5"]));
    let reply = chain.ask("/own/hello", &["-I", "-o", "/dev/null"]);
    assert_eq!(reply.status(), 203);
    assert_eq!(reply.fields("content-length"), ["5"]);
    let reply = chain.get("/own/moved/a?b=c");
    assert_eq!(reply.status(), 308);
    assert_eq!(reply.fields("location"), ["https://new.test/own/moved/a?b=c"]);
}

fn filters(chain: &Chain) {
    let fields = ["-H", "X-Asks: 1", "-H", "X-Secret: 1", "-H", "X-Asked: forged"];
    for content in [
        &["--data-binary", "say hello"][..],
        &["-H", "Transfer-Encoding: chunked", "-d", "say hello"],
    ] {
        let reply = chain.ask("/filtered/a/echo?b", &[&fields, content].concat());
        let text = reply.text();
        assert_eq!((reply.status(), reply.fields("x-filtered")), (200, vec!["200"]), "{text}");
        assert!(text.starts_with("POST /seen/a/echo?b HTTP/1.1\n"), "{text}");
        assert!(text.contains("\nx-asked: /seen/a/echo of 127.0.0.1\n"), "{text}");
        assert!(text.ends_with("say goodbye"), "{text}");
        assert!(!text.to_lowercase().contains("x-secret") && !text.contains("forged"), "{text}");
    }
    assert!(chain.get("/filtered/echo").text().starts_with("GET /seen/echo HTTP/1.1\n"));
    let reply = chain.ask("/filtered/echo", &["-X", "DELETE"]);
    assert_eq!((reply.status(), reply.fields("allow")), (405, vec!["GET, POST"]));
    let reply = chain.get("/filtered/fields");
    assert_eq!((reply.status(), reply.fields("content-length")), (200, vec![]));
    for length in [Length::Known, Length::Unknown] {
        assert_eq!(chain.early_status("/filtered/sink", &[b'x'; 101], length), 413, "{length:?}");
    }
}

fn refusals(chain: &Chain) {
    assert_eq!(chain.get("/nowhere").status(), 404);
    let reply = chain.ask("/own/read", &["-X", "DELETE"]);
    assert_eq!((reply.status(), reply.fields("allow")), (405, vec!["GET, HEAD"]));
    assert_eq!(chain.ask("/small/sink", &["--data-binary", "1234"]).status(), 200);
    for length in [Length::Known, Length::Unknown] {
        assert_eq!(chain.early_status("/small/sink", b"12345", length), 413, "{length:?}");
    }
    let large = format!("X-Large: {}", "x".repeat(40_000));
    assert_eq!(chain.ask("/own/read", &["-H", &large]).statuses(), [431]);
    let long = format!("/own/{}", "x".repeat(10_000));
    assert_eq!(chain.get(&long).statuses(), [414]);
}

fn failures(chain: &Chain) {
    let reply = chain.get("/nobody/name");
    assert_eq!((reply.status(), reply.text().contains("connect_failed")), (502, true));
    let reply = chain.get("/hasty/silent");
    assert_eq!((reply.status(), reply.text().contains("timed_out")), (504, true));
    assert_eq!(chain.get("/hasty/name").text(), "one", "others are still served");
}

fn passed_refusals(chain: &Chain) {
    let reply = chain.get("/pass/busy");
    assert_eq!((reply.status(), reply.text().as_str()), (503, "busy"));
    assert_eq!(reply.fields("x-reason"), ["maintenance"]);
}

fn routes(chain: &Chain) {
    assert_eq!(chain.get("/which").text(), "any");
    assert_eq!(chain.ask("/which", &["-H", "Host: other.test"]).text(), "host");
    assert_eq!(chain.ask("/which", &["-H", "X-Tenant: acme"]).text(), "header");
    assert_eq!(chain.ask("/which", &["-H", "X-Tenant: other"]).text(), "any");
    assert_eq!(chain.get("/which?v=2").text(), "query");
    assert_eq!(chain.ask("/which", &["-H", "Cookie: a=b; beta=1"]).text(), "cookie");
}

fn retries(chain: &Chain) {
    let reply = chain.get("/again/once");
    assert_eq!(reply.status(), 200);
    let tries = Chain::targets(&chain.one).iter().filter(|it| *it == "/again/once").count();
    assert_eq!(tries, 2);
    let count = "sluice_upstream_retries_total{upstream=\"again\"}";
    assert!(eventually(|| metric(&chain.sluice.admin(), count) == 1));
}

fn hedges(chain: &Chain) {
    let reply = chain.all(&["/hedged/slow"; 4], &[]);
    assert_eq!((reply.code, reply.text().as_str()), (0, "twotwotwotwo"));
    let won = "sluice_upstream_hedges_won_total{upstream=\"hedged\"}";
    assert!(eventually(|| metric(&chain.sluice.admin(), won) >= 1));
}

fn sticky(chain: &Chain) {
    let first = chain.get("/both/name");
    let cookies = first.fields("set-cookie");
    assert_eq!((first.status(), cookies.len()), (200, 1), "{first:?}");
    let pair = cookies[0].split(';').next().unwrap();
    assert!(pair.starts_with("sluice_server="), "{pair}");
    let back = chain.all(&["/both/name"; 6], &["-H", &format!("Cookie: a=b; {pair}")]);
    assert_eq!(back.text(), first.text().repeat(6));
    assert!(back.fields("set-cookie").is_empty(), "{back:?}");
}

fn checks(chain: &Chain) {
    let available = |upstream: &str| {
        let labels = format!("{{upstream=\"{upstream}\",server=\"{}\"}}", chain.servers[0]);
        metric(&chain.sluice.admin(), &format!("sluice_server_available{labels}"))
    };
    assert!(eventually(|| available("well") == 1), "a server that is well");
    assert_eq!(chain.get("/well/name").text(), "one");
    assert!(eventually(|| available("ill") == 0), "a server that says it is not");
    assert_eq!(chain.get("/ill/name").status(), 503);
}

fn mirrors(chain: &Chain) {
    let path = "/copied/mirror?x=1";
    let reply = chain.ask(path, &["--data-binary", "content"]);
    assert_eq!((reply.status(), reply.text().as_str()), (200, "content"));
    let copied = || chain.two.requests().into_iter().find(|it| it.target == path && it.complete);
    assert!(eventually(|| copied().is_some()));
    let copy = copied().unwrap();
    assert_eq!((copy.method.as_str(), copy.fields.first("content-length")), ("POST", Some("7")));
    let failed = "sluice_route_mirror_failures_total{route=\"copied\"}";
    assert_eq!(metric(&chain.sluice.admin(), failed), 0);
}

fn limits(chain: &Chain) {
    let waiting = chain.begin("/narrow/held", &[]);
    assert!(eventually(|| Chain::targets(&chain.one).contains(&"/narrow/held".to_owned())));
    let reply = chain.get("/narrow/name");
    assert_eq!((reply.status(), reply.fields("retry-after")), (503, vec!["1"]));
    chain.gates.held.open();
    let reply = chain.reply(waiting.wait_with_output().unwrap());
    assert_eq!((reply.status(), reply.text().as_str()), (200, "one"));
    let active = "sluice_concurrency_active_requests{route=\"narrow\"}";
    assert!(eventually(|| metric(&chain.sluice.admin(), active) == 0));
    assert_eq!(chain.get("/narrow/name").status(), 200);
}

fn access_log(chain: &Chain) {
    let (version, scheme) = (chain.down.name(), chain.down.scheme());
    let line = |needle: &str| chain.sluice.stdout().wait_after(0, needle).expect("a line");
    assert_eq!(chain.get("/pass/name?logged").status(), 200);
    let (expected, server) = (format!("{version} {scheme} 200 pass one"), &chain.servers[0]);
    assert_eq!(line("?logged"), format!("GET /pass/name?logged {expected} {server} -"));
    assert_eq!(chain.get("/missed?logged").status(), 404);
    let expected = format!("{version} {scheme} 404 - - - no_route");
    assert_eq!(line("/missed"), format!("GET /missed?logged {expected}"));
}

fn metrics(chain: &Chain) {
    let reply = chain.all(&["/counted/name", "/counted/none", "/counted/busy"], &[]);
    assert_eq!(reply.statuses(), [200, 204, 503]);
    let rows = [
        ("sluice_route_requests_total{route=\"counted\"}", 3),
        ("sluice_route_responses_total{route=\"counted\",class=\"2xx\"}", 2),
        ("sluice_route_responses_total{route=\"counted\",class=\"5xx\"}", 1),
        ("sluice_upstream_requests_total{upstream=\"counted\"}", 3),
        ("sluice_upstream_active_requests{upstream=\"counted\"}", 0),
    ];
    let admin = chain.sluice.admin();
    for (sample, count) in rows {
        assert!(
            eventually(|| metric(&admin, sample) == count),
            "{sample}: {}",
            metric(&admin, sample)
        );
    }
}

/// The origin sends the second event when the client has seen the first.
fn events(chain: &Chain) {
    let mut client = chain.begin("/pass/events", &["-N"]);
    let mut output = client.stdout.take().unwrap();
    let mut event = [0; 11];
    output.read_exact(&mut event).expect("the first event alone");
    assert_eq!(&event, b"data: one\n\n");
    chain.gates.events.open();
    output.read_exact(&mut event).expect("the second event");
    assert_eq!(&event, b"data: two\n\n");
    let reply = chain.reply(client.wait_with_output().unwrap());
    assert_eq!((reply.status(), reply.fields("content-type")), (200, vec!["text/event-stream"]));
}

/// curl opens none, and the client that does speaks no TLS: another gateway does so for it.
fn tunnels(chain: &Chain) {
    let (way, protocol) = match chain.down.version {
        Version::Http1 => (Way::Old, "http1"),
        Version::Http2 => (Way::New, "http2"),
    };
    let address = chain.sluice.address("web");
    let encrypting = (chain.down.security == Security::Tls).then(|| {
        let tls = "tls = { verify = \"none\", server_name = \"a.example\" }";
        Sluice::start(&passing("", &address, &format!("protocol = \"{protocol}\"\n{tls}")))
    });
    let address = encrypting.as_ref().map_or(address, |gateway| gateway.address("web"));
    let (mut client, status, _) = Client::ask(way, &address, "/chat/chat", &[]);
    assert_eq!(status, if way == Way::Old { 101 } else { 200 });
    for payload in [&b"hello"[..], &large()[..300_000]] {
        client.send_frame(Opcode::Binary, More::No, payload);
        assert!(client.read_frame().payload == payload, "{} bytes", payload.len());
    }
    client.send_frame(Opcode::Close, More::No, b"\x03\xE8bye");
    assert_eq!(client.read_frame().opcode, Opcode::Close);
    client.finish();
    assert_eq!(client.read_to_end(), (Vec::new(), Ended::Well));
    drop(client);
    if let Some(gateway) = encrypting {
        gateway.stop();
    }
}
