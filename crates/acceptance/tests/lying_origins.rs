//! Origins that break off, lie about lengths or send what nobody requested: no client gets a wrong
//! body, no truncated body looks whole, and no POST arrives twice.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "lying_origins/lies.rs"]
mod lies;

use lies::{
    Allowed, Client, Http1, Http2, LIES, Outcome, POISON, Request, SHORTENED_BY, answer_with_lie,
    truth,
};
use sluice_acceptance::http2_origin::{Deed, Http2Origin};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Origin, Sluice};
use sluice_wire::h2::{Config, ErrorCode};

/// A body that fits into no socket buffer and no window at once.
const UPLOAD: usize = 400_000;

/// Ways of configuring the gateway: name, lines of the upstream, filters of the route.
const GATEWAYS: &[(&str, &str, &str)] = &[
    ("plain", "", ""),
    (
        "retries",
        "retry = { attempts = 2, on = [\"connect\", \"reset\", \"timeout\", \"5xx\"], \
         buffer = \"1MiB\", hedge = { after = \"100ms\", most = 1 } }\n\
         health = { path = \"/honest/health\", interval = \"50ms\" }\n\
         ejection = { failures = 1000, limit = \"50%\" }\n",
        "",
    ),
    ("cache", "", "\"kept\", \"small\""),
    (
        "everything",
        "retry = { attempts = 2, on = [\"connect\", \"reset\", \"timeout\"], buffer = \"1MiB\", \
         hedge = { after = \"100ms\", most = 1 } }\n\
         health = { path = \"/honest/health\", interval = \"50ms\" }\n",
        "\"small\", \"kept\"",
    ),
];

fn gateway(origins: &[&str], upstream: &str, filters: &str) -> Sluice {
    let servers = origins.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ");
    Sluice::start(&format!(
        "workers = 1\n{}",
        config(&format!(
            "[filter.kept.cache]\nmemory = \"64MiB\"\n[filter.small.compress]\n\
             encodings = [\"gzip\"]\nlevels = {{ gzip = 1 }}\n\
             [upstream.origin]\nservers = [{servers}]\ntimeout = {{ read = \"400ms\", write = \"400ms\" }}\n{upstream}\n\
             [[route]]\nproxy = \"origin\"\nbody_limit = \"off\"\nfilters = [{filters}]\n"
        ))
    ))
}

/// Fails unless `outcome` is what may come of this.
#[track_caller]
fn assert_allowed(outcome: &Outcome, target: &str, allowed: Allowed, about: &str) {
    let (status, content) = match outcome {
        Outcome::Broken(why) => {
            assert_eq!(allowed, Allowed::FailureOrBroken, "{about}: {why}");
            return;
        }
        Outcome::Whole { status, content } => (*status, content),
    };
    let content = content.as_ref().unwrap_or_else(|| panic!("{about}: a broken content coding"));
    let text = String::from_utf8_lossy(content);
    assert!(!text.contains(POISON), "{about}: a body with what came behind a response");
    let whole = truth(target);
    match status {
        200 if allowed == Allowed::Shortened => {
            assert!(whole.len() - SHORTENED_BY == content.len(), "{about}: another length");
            assert!(whole.starts_with(content), "{about}: a wrong body");
        }
        200 => {
            assert!(allowed != Allowed::Failure, "{about}: a response made of half a head");
            assert!(content.len() == whole.len(), "{about}: {} bytes look whole", content.len());
            assert!(*content == whole, "{about}: a wrong body");
        }
        204 => assert_eq!(allowed, Allowed::NoContent, "{about}"),
        502..=504 => assert!(
            matches!(allowed, Allowed::Failure | Allowed::FailureOrBroken),
            "{about}: {status} {text}"
        ),
        _ => panic!("{about}: {status} {text}"),
    }
}

fn clients(address: &str) -> [(&'static str, Box<dyn Client>); 2] {
    [("HTTP/1.1", Box::new(Http1::new(address))), ("HTTP/2", Box::new(Http2::new(address)))]
}

/// Nothing that failed may be left behind: neither a connection that counts nor a request.
#[track_caller]
fn assert_clean(gateway: &Sluice, about: &str) {
    let active =
        || metric(&gateway.admin(), "sluice_upstream_active_requests{upstream=\"origin\"}");
    assert!(eventually(|| active() == 0), "{about}: {} requests are under way", active());
    assert_eq!(metric(&gateway.admin(), "sluice_panics_total"), 0, "{about}");
}

#[test]
fn no_lie_reaches_a_client_as_the_truth() {
    for (name, upstream, filters) in GATEWAYS {
        let origins = [Origin::start(answer_with_lie), Origin::start(answer_with_lie)];
        let addresses = [origins[0].address(), origins[1].address()];
        let servers = if upstream.is_empty() { &addresses[..1] } else { &addresses[..] };
        let gateway = gateway(servers, upstream, filters);
        for (protocol, mut client) in clients(&gateway.address("web")) {
            let honest = |client: &mut dyn Client, about: &str| {
                let target = format!("/honest/behind/{about}").replace(' ', "-");
                let request = Request { method: "GET", target: &target, body: b"" };
                let outcome = client.send(request);
                assert_allowed(&outcome, &target, Allowed::Truth, about);
            };
            let silence = ("silence", Allowed::Failure);
            let lies = LIES.iter().map(|lie| (lie.name, lie.allowed)).chain([silence]);
            for (lie, allowed) in lies {
                let about = format!("{name} {protocol} {lie}");
                let target = format!("/{lie}/{protocol}/get");
                let request = Request { method: "GET", target: &target, body: b"" };
                // Twice: a cache must not have kept what was wrong.
                for _ in 0..2 {
                    assert_allowed(&client.send(request), &target, allowed, &about);
                    honest(&mut *client, &about);
                }
            }
        }
        assert_clean(&gateway, name);
        gateway.stop();
    }
}

#[test]
fn no_post_arrives_twice() {
    let body = vec![b'u'; UPLOAD];
    for (name, upstream, filters) in GATEWAYS {
        let origins = [Origin::start(answer_with_lie), Origin::start(answer_with_lie)];
        let addresses = [origins[0].address(), origins[1].address()];
        let servers = if upstream.is_empty() { &addresses[..1] } else { &addresses[..] };
        let gateway = gateway(servers, upstream, filters);
        for (protocol, mut client) in clients(&gateway.address("web")) {
            let silence = ("silence", Allowed::Failure, false);
            let lies = LIES.iter().map(|lie| (lie.name, lie.allowed, lie.early));
            for (lie, allowed, early) in lies.chain([silence]) {
                for (size, body) in [("small", &body[..100]), ("large", &body[..])] {
                    let about = format!("{name} {protocol} {lie} {size}");
                    let target = format!("/{lie}/{protocol}/post/{size}");
                    let request = Request { method: "POST", target: &target, body };
                    let outcome = client.send(request);
                    // Whoever is still sending may see the connection end before the response.
                    let allowed = if early { Allowed::FailureOrBroken } else { allowed };
                    assert_allowed(&outcome, &target, allowed, &about);
                    let arrived = || {
                        let heads = origins.iter().flat_map(Origin::requests);
                        heads.filter(|head| head.target == target).count()
                    };
                    // None, if the origin had closed a kept connection by then.
                    assert!(arrived() <= 1, "{about}: it arrived {} times", arrived());
                }
            }
        }
        assert_clean(&gateway, name);
        gateway.stop();
    }
}

#[test]
fn a_response_that_is_cut_anywhere_never_looks_whole() {
    for (name, upstream, filters) in [GATEWAYS[0], GATEWAYS[3]] {
        let origin = Origin::start(answer_with_lie);
        let gateway = gateway(&[origin.address()], upstream, filters);
        for (protocol, mut client) in clients(&gateway.address("web")) {
            for seed in 0..60 {
                for reset in 0..2 {
                    let target = format!("/cut-{reset}-{seed}/{protocol}");
                    let about = format!("{name} {protocol} {target}");
                    let request = Request { method: "GET", target: &target, body: b"" };
                    let outcome = client.send(request);
                    assert_allowed(&outcome, &target, Allowed::FailureOrBroken, &about);
                }
            }
        }
        assert_clean(&gateway, name);
        gateway.stop();
    }
}

/// Frames of HTTP/2 as an origin may send them on a stream: type, flags, payload.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// GOAWAY with NO_ERROR: streams up to `last` are served.
fn goaway(last: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
    frame(7, 0, 0, &payload)
}

/// A head with `:status: 200`, an entry of the static table (RFC 7541, appendix A).
fn head(stream: u32) -> Vec<u8> {
    frame(1, 4, stream, &[0x88])
}

/// DATA frames of at most 16 KiB, the last one with END_STREAM if `end`.
fn data(stream: u32, content: &[u8], end: bool) -> Vec<u8> {
    let pieces: Vec<&[u8]> = content.chunks(16_000).collect();
    let count = pieces.len();
    let frames = pieces.into_iter().enumerate().map(|(number, piece)| {
        let last = end && number + 1 == count;
        frame(0, u8::from(last), stream, piece)
    });
    frames.collect::<Vec<_>>().concat()
}

/// What an origin over HTTP/2 does with a request whose target begins with this name.
fn lie_over_http2(name: &str, stream: u32, content: &[u8]) -> Deed {
    let half = &content[..content.len() / 2];
    let text = |bytes: &[u8]| Deed::Answer(200, CACHEABLE.to_vec(), bytes.to_vec(), Vec::new());
    match name {
        "half-then-silence" => Deed::Half(half.to_vec()),
        "half-then-reset" => Deed::HalfThenReset(half.to_vec(), ErrorCode::INTERNAL_ERROR),
        "half-then-cancel" => Deed::HalfThenReset(half.to_vec(), ErrorCode::CANCEL),
        "half-then-no-error" => Deed::HalfThenReset(half.to_vec(), ErrorCode::NO_ERROR),
        "half-then-close" => Deed::RawThenClose([head(stream), data(stream, half, false)].concat()),
        "reset" => Deed::Reset(ErrorCode::INTERNAL_ERROR),
        "refuse" => Deed::Reset(ErrorCode::REFUSED_STREAM),
        "close" => Deed::Close,
        "silence" => Deed::Silence,
        "garbage" => Deed::Raw(POISON.repeat(40).into_bytes()),
        "goaway-then-all" => Deed::Raw(
            [head(stream), data(stream, half, false), goaway(stream)]
                .into_iter()
                .chain([data(stream, &content[half.len()..], true)])
                .collect::<Vec<_>>()
                .concat(),
        ),
        "goaway-then-close" => {
            Deed::RawThenClose([head(stream), data(stream, half, false), goaway(stream)].concat())
        }
        "data-behind-the-end" => Deed::Raw(
            [head(stream), data(stream, content, true), data(stream, POISON.as_bytes(), true)]
                .concat(),
        ),
        "another-stream" => {
            Deed::Raw([head(stream), data(stream + 2, POISON.as_bytes(), true)].concat())
        }
        "data-without-a-head" => Deed::Raw(data(stream, POISON.as_bytes(), true)),
        "long-length" => Deed::Raw(
            [with_length(stream, content.len() + 1), data(stream, content, true)].concat(),
        ),
        "short-length" => Deed::Raw(
            [with_length(stream, content.len() - 100), data(stream, content, true)].concat(),
        ),
        "many-interim" => {
            // `:status: 103` as a literal with the name of entry 8.
            let interim = frame(1, 4, stream, &[0x08, 3, b'1', b'0', b'3']);
            Deed::Raw([interim.repeat(1000), head(stream), data(stream, content, true)].concat())
        }
        "huge-head" => {
            let mut block = vec![0x88];
            // `x: aaa...` 300 times, as literals without indexing.
            for _ in 0..300 {
                block.extend_from_slice(&[0, 1, b'x', 50]);
                block.extend_from_slice(&[b'a'; 50]);
            }
            Deed::Raw([frame(1, 4, stream, &block), data(stream, content, true)].concat())
        }
        _ => text(content),
    }
}

const CACHEABLE: [(&str, &str); 2] =
    [("content-type", "text/plain"), ("cache-control", "max-age=600")];

/// `:status: 200` and a Content-Length, whose name is entry 28 of the static table.
fn with_length(stream: u32, length: usize) -> Vec<u8> {
    let digits = length.to_string();
    let mut block = vec![0x88, 0x0f, 28 - 15, u8::try_from(digits.len()).unwrap()];
    block.extend_from_slice(digits.as_bytes());
    frame(1, 4, stream, &block)
}

/// Names of what origins over HTTP/2 do, and what may come of it.
const LIES_OVER_HTTP2: &[(&str, Allowed)] = &[
    ("honest", Allowed::Truth),
    ("half-then-silence", Allowed::FailureOrBroken),
    ("half-then-reset", Allowed::FailureOrBroken),
    ("half-then-cancel", Allowed::FailureOrBroken),
    ("half-then-no-error", Allowed::FailureOrBroken),
    ("half-then-close", Allowed::FailureOrBroken),
    ("reset", Allowed::Failure),
    ("refuse", Allowed::Failure),
    ("close", Allowed::Failure),
    ("silence", Allowed::Failure),
    ("garbage", Allowed::Failure),
    ("goaway-then-all", Allowed::Truth),
    ("goaway-then-close", Allowed::FailureOrBroken),
    ("data-behind-the-end", Allowed::Truth),
    ("another-stream", Allowed::FailureOrBroken),
    ("data-without-a-head", Allowed::Failure),
    ("long-length", Allowed::FailureOrBroken),
    ("short-length", Allowed::FailureOrBroken),
    ("many-interim", Allowed::Failure),
    ("huge-head", Allowed::Failure),
];

fn lying_over_http2(config: Config) -> Http2Origin {
    Http2Origin::with(config, |request| {
        let name = request.path.split('/').nth(1).unwrap_or_default();
        lie_over_http2(name, request.stream, &truth(&request.path))
    })
}

#[test]
fn no_lie_over_http2_reaches_a_client_as_the_truth() {
    // One stream at a time, and as many as usual.
    for streams in [1, 128] {
        for (name, upstream, filters) in GATEWAYS {
            let origin = lying_over_http2(Config { streams, ..Config::default() });
            let upstream = format!("protocol = \"http2\"\n{upstream}");
            let gateway = gateway(&[&origin.address()], &upstream, filters);
            for (protocol, mut client) in clients(&gateway.address("web")) {
                for (lie, allowed) in LIES_OVER_HTTP2 {
                    for (method, body) in [("GET", &b""[..]), ("POST", &[b'u'; 1000][..])] {
                        let about = format!("{name} {streams} {protocol} {method} {lie}");
                        let target = format!("/{lie}/{protocol}/{method}");
                        let request = Request { method, target: &target, body };
                        assert_allowed(&client.send(request), &target, *allowed, &about);
                        let honest = format!("/honest/behind/{lie}/{protocol}/{method}");
                        let request = Request { method: "GET", target: &honest, body: b"" };
                        let outcome = client.send(request);
                        assert_allowed(&outcome, &honest, Allowed::Truth, &about);
                    }
                    let posted = format!("/{lie}/{protocol}/POST");
                    let seen = origin.seen();
                    let arrived = seen.iter().filter(|request| request.path == posted).count();
                    // An origin that refuses a stream says that it has done nothing with it.
                    assert!(arrived == 1 || *lie == "refuse", "{name} {posted}: {arrived} times");
                }
            }
            assert_clean(&gateway, name);
            gateway.stop();
        }
    }
}

#[test]
fn a_window_that_never_opens_ends_the_request_in_time() {
    let body = vec![b'u'; UPLOAD];
    for (name, upstream, filters) in GATEWAYS {
        let origin = lying_over_http2(Config { stream_window: 0, ..Config::default() });
        let upstream = format!("protocol = \"http2\"\n{upstream}");
        let gateway = gateway(&[&origin.address()], &upstream, filters);
        for (protocol, mut client) in clients(&gateway.address("web")) {
            for body in [&body[..100], &body[..]] {
                let about = format!("{name} {protocol} {}", body.len());
                let target = format!("/honest/stalled/{protocol}/{}", body.len());
                let request = Request { method: "POST", target: &target, body };
                let outcome = client.send(request);
                assert_allowed(&outcome, &target, Allowed::FailureOrBroken, &about);
                let request = Request { method: "GET", target: "/honest/behind", body: b"" };
                let outcome = client.send(request);
                assert_allowed(&outcome, "/honest/behind", Allowed::Truth, &about);
            }
        }
        assert_eq!(origin.seen().iter().filter(|it| it.method == "POST").count(), 0, "{name}");
        assert_clean(&gateway, name);
        gateway.stop();
    }
}
