//! HTTP/2 with origins: connections that requests share, and everything that may befall them.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::http2::{Appetite, Http2Client};
use sluice_acceptance::http2_origin::{Deed, Http2Origin};
use sluice_acceptance::tls::made;
use sluice_acceptance::{config, eventually, metric, passing};
use sluice_message::BodyLength;
use sluice_testkit::{ByteScript, Origin, Scratch, Signal, Sluice, behaviour, get, run};
use sluice_wire::h2::{Config, End, ErrorCode};

fn before(origin: &str, more: &str) -> Sluice {
    Sluice::start(&passing("", origin, &format!("protocol = \"http2\"\n{more}")))
}

/// Memory in use, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn requests_share_a_connection() {
    let origin = Http2Origin::start(|request| {
        let trailers = vec![("x-sum", "7")];
        Deed::Answer(200, vec![("x-one", "1")], request.path.as_bytes().to_vec(), trailers)
    });
    let sluice = before(&origin.address(), "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let asked: Vec<_> = (0..50)
        .map(|n| client.begin(("GET", &format!("/{n}")), &[("te", "trailers")], BodyLength::Empty))
        .collect();
    for (n, stream) in asked.into_iter().enumerate() {
        let answer = client.wait(stream);
        assert_eq!((answer.status(), answer.text()), (200, format!("/{n}")));
        assert_eq!(answer.field("x-one"), Some("1"));
        assert_eq!(answer.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    }
    // Clients that speak HTTP/1.1 share it too.
    assert_eq!(get(&sluice.address("web"), "/h1").text(), "/h1");
    assert_eq!((origin.connections(), origin.requests()), (1, 51));
    let admin = sluice.admin();
    assert_eq!(metric(&admin, "sluice_upstream_connects_total{upstream=\"origin\"}"), 1);
    let seen = &origin.seen()[0];
    assert_eq!((seen.method.as_str(), seen.authority.as_str()), ("GET", "a.example"));
    let field = |name: &str| seen.fields.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
    assert_eq!(field("te"), Some("trailers"), "or no origin would send any to gRPC's clients");
    assert_eq!(field("x-forwarded-for"), Some("127.0.0.1"));
    assert!(field("connection").is_none());
    sluice.stop();
}

#[test]
fn content_and_trailers_go_up() {
    let origin = Http2Origin::start(|request| {
        let said = format!("{} {:?}", request.content.len(), request.trailers);
        Deed::text(&said)
    });
    let sluice = before(&origin.address(), "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let stream = client.begin(("POST", "/"), &[], BodyLength::Framed);
    let piece = vec![b'x'; 100_000];
    (0..30).for_each(|_| client.send(stream, &piece, End::More));
    client.send_trailers(stream, "x-check", "7");
    assert_eq!(client.wait(stream).text(), "3000000 [(\"x-check\", \"7\")]");
    let stream = client.begin(("PUT", "/"), &[], BodyLength::Known(3));
    client.send(stream, b"abc", End::Stream);
    assert_eq!(client.wait(stream).text(), "3 []");
    let length = |n: usize| {
        let fields = origin.seen()[n].fields.clone();
        fields.into_iter().find(|it| it.0 == "content-length").map(|it| it.1)
    };
    assert_eq!((length(0), length(1)), (None, Some("3".to_owned())));
    sluice.stop();
}

#[test]
fn the_host_is_what_it_would_be_in_http_1() {
    let origin = Http2Origin::start(|request| Deed::text(&request.authority));
    let sluice = before(&origin.address(), "host = \"inner.example\"");
    let web = sluice.address("web");
    assert_eq!(Http2Client::connect(&web).get("/").text(), "inner.example");
    assert_eq!(get(&web, "/").text(), "inner.example");
    sluice.stop();
}

#[test]
fn more_connections_are_opened_when_one_is_full() {
    let config = Config { streams: 2, ..Config::default() };
    let origin = Http2Origin::with(config, |request| match request.path.as_str() {
        "/wait" => Deed::Silence,
        _ => Deed::text("now"),
    });
    let sluice = before(&origin.address(), "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    for _ in 0..5 {
        client.begin(("GET", "/wait"), &[], BodyLength::Empty);
    }
    assert!(eventually(|| origin.requests() == 5));
    assert_eq!(origin.connections(), 3);
    assert_eq!(client.get("/").text(), "now", "there is a place left");
    assert_eq!(origin.connections(), 3);
    drop(client);
    sluice.stop();
}

#[test]
fn what_an_origin_did_not_look_at_is_asked_again() {
    // Not even a POST is lost: nothing of it was done.
    for deed in [Deed::Reset(ErrorCode::REFUSED_STREAM), Deed::TurnAway] {
        let origin = Http2Origin::start(move |request| match request.number {
            1 => deed.clone(),
            _ => Deed::text("done"),
        });
        let sluice = before(&origin.address(), "retry = { attempts = 2 }");
        let mut client = Http2Client::connect(&sluice.address("web"));
        assert_eq!(client.get("/").text(), "done");
        let stream = client.begin(("POST", "/"), &[], BodyLength::Empty);
        let answer = client.wait(stream);
        assert_eq!((answer.status(), answer.text().as_str()), (200, "done"));
        assert_eq!(origin.requests(), 3);
        sluice.stop();
    }
}

#[test]
fn a_connection_that_ends_takes_no_more_requests_and_loses_none() {
    // GOAWAY with the streams under way still served: here, from the second request on a connection.
    let origin = Http2Origin::start(|request| match (request.connection, request.path.as_str()) {
        (0, "/last") => Deed::Raw(
            // GOAWAY that names this stream as the last one, then nothing else on this stream.
            [&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0][..]].concat(),
        ),
        _ => Deed::text(&format!("connection {}", request.connection)),
    });
    let sluice = before(&origin.address(), "timeout = { read = \"1s\" }");
    let mut client = Http2Client::connect(&sluice.address("web"));
    assert_eq!(client.get("/").text(), "connection 0");
    let last = client.begin(("GET", "/last"), &[], BodyLength::Empty);
    assert!(eventually(|| origin.requests() == 2));
    assert!(eventually(|| client.get("/").text() == "connection 1"));
    assert_eq!(client.wait(last).status(), 504, "it was not given up before its time");
    assert!(eventually(|| origin.open_connections() == 1), "the one that ended is closed");
    sluice.stop();
}

#[test]
fn a_connection_that_breaks_costs_what_cannot_be_repeated() {
    let origin = Http2Origin::start(|request| match (request.connection, request.path.as_str()) {
        (_, "/half") => Deed::Half(vec![b'x'; 10]),
        (0, "/close") => Deed::Close,
        _ => Deed::text("done"),
    });
    let sluice = before(&origin.address(), "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    assert_eq!(client.get("/").text(), "done");
    let half = client.begin(("GET", "/half"), &[], BodyLength::Empty);
    assert_eq!(client.wait_for_head(half), 200);
    let post = client.begin(("POST", "/close"), &[], BodyLength::Empty);
    assert_eq!(client.wait(post).status(), 502);
    let cut = client.wait(half);
    assert!(cut.reset.is_some(), "half an answer must not look whole: {cut:?}");
    // What does no harm is asked again over a fresh connection.
    assert_eq!(client.get("/close").text(), "done");
    assert_eq!(origin.connections(), 2);
    sluice.stop();
}

#[test]
fn a_get_on_a_connection_that_breaks_is_repeated() {
    let origin = Http2Origin::start(|request| match (request.connection, request.path.as_str()) {
        (0, "/close") => Deed::Close,
        _ => Deed::text("done"),
    });
    let sluice = before(&origin.address(), "");
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "done");
    assert_eq!(get(&web, "/close").text(), "done");
    assert_eq!((origin.connections(), origin.requests()), (2, 3));
    sluice.stop();
}

#[test]
fn a_stream_that_is_reset_is_a_fault_of_the_origin() {
    let origin = Http2Origin::start(|request| match request.path.as_str() {
        "/reset" => Deed::Reset(ErrorCode::INTERNAL_ERROR),
        "/half" => Deed::HalfThenReset(vec![b'x'; 10], ErrorCode::INTERNAL_ERROR),
        "/early" => Deed::HalfThenReset(Vec::new(), ErrorCode::NO_ERROR),
        _ => Deed::text("done"),
    });
    let sluice = before(&origin.address(), "retry = { attempts = 0 }");
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "done");
    assert_eq!(get(&web, "/reset").status, 502);
    let mut client = Http2Client::connect(&web);
    let stream = client.begin(("GET", "/half"), &[], BodyLength::Empty);
    assert!(client.wait(stream).reset.is_some());
    assert_eq!(client.get("/").text(), "done", "others are not touched");
    assert_eq!(origin.connections(), 1);
    let admin = sluice.admin();
    let faults = "sluice_faults_total{side=\"upstream\",reason=\"reset\"}";
    assert!(eventually(|| metric(&admin, faults) == 2));
    sluice.stop();
}

#[test]
fn an_origin_that_breaks_the_rules_is_left() {
    let rows: [&[u8]; 3] = [
        // DATA on a stream nobody opened; HEADERS with a broken block; a frame that is too large.
        &[0, 0, 1, 0, 0, 0, 0, 0, 99, 0],
        &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0xFF],
        &[0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1],
    ];
    for row in rows {
        let bytes = row.to_vec();
        let origin = Http2Origin::start(move |request| match request.number {
            0 => Deed::Raw(bytes.clone()),
            _ => Deed::text("done"),
        });
        let sluice = before(&origin.address(), "retry = { attempts = 0 }");
        let web = sluice.address("web");
        assert_eq!(get(&web, "/").status, 502, "{row:?}");
        assert_eq!(get(&web, "/").text(), "done");
        assert_eq!(origin.connections(), 2);
        sluice.stop();
    }
}

#[test]
fn an_origin_that_speaks_another_protocol_is_named() {
    let origin = Origin::start(behaviour::fixed(200, "hello"));
    let sluice = before(origin.address(), "");
    assert_eq!(get(&sluice.address("web"), "/").status, 502);
    let said = sluice.wait_for_line("no_http2");
    assert!(said.contains("(the server does not begin as HTTP/2 does)"), "{said}");
    let admin = sluice.admin();
    assert_eq!(metric(&admin, "sluice_faults_total{side=\"upstream\",reason=\"no_http2\"}"), 1);
    sluice.stop();
}

#[test]
fn a_slow_reader_holds_nobody_up_and_costs_a_window() {
    let origin = Http2Origin::start(|request| match request.path.as_str() {
        "/large" => Deed::Answer(200, Vec::new(), vec![b'x'; 64 << 20], Vec::new()),
        _ => Deed::text("now"),
    });
    let sluice = before(&origin.address(), "");
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "now");
    let memory = resident(sluice.pid());
    let slow: Vec<Http2Client> = (0..4)
        .map(|_| {
            let mut slow = Http2Client::connect(&web);
            slow.set_appetite(Appetite::Sated);
            let stream = slow.begin(("GET", "/large"), &[], BodyLength::Empty);
            assert_eq!(slow.wait_for_head(stream), 200);
            slow
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(get(&web, "/").text(), "now");
    }
    assert_eq!(origin.connections(), 1);
    let grown = resident(sluice.pid()).saturating_sub(memory);
    assert!(grown < 16 * 1024, "four answers of 64 MiB that nobody reads cost {grown} KiB");
    drop(slow);
    sluice.stop();
}

#[test]
fn one_whom_nobody_waits_for_is_told() {
    let origin = Http2Origin::start(|request| match request.path.as_str() {
        "/half" => Deed::Half(vec![b'x'; 10]),
        _ => Deed::text("done"),
    });
    let sluice = before(&origin.address(), "http2 = { streams = 1 }");
    let web = sluice.address("web");
    let mut client = Http2Client::connect(&web);
    let half = client.begin(("GET", "/half"), &[], BodyLength::Empty);
    assert_eq!(client.wait_for_head(half), 200);
    let busy = "sluice_upstream_active_requests{upstream=\"origin\"}";
    assert_eq!(metric(&sluice.admin(), busy), 1);
    client.reset(half);
    // The place is free again.
    assert!(eventually(|| metric(&sluice.admin(), busy) == 0));
    (0..5).for_each(|_| assert_eq!(get(&web, "/").text(), "done"));
    assert_eq!(origin.connections(), 1);
    // The same for a client of HTTP/1.1.
    let mut script = ByteScript::connect(&web);
    script.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(eventually(|| metric(&sluice.admin(), busy) == 1));
    drop(script);
    assert!(eventually(|| metric(&sluice.admin(), busy) == 0));
    sluice.stop();
}

#[test]
fn tls_agrees_on_it_or_on_what_there_is() {
    // A gateway as the origin: it offers both, or HTTP/1.1 alone.
    for (http2, protocol, expected) in [
        ("", "negotiate", "HTTP/2.0"),
        ("", "http2", "HTTP/2.0"),
        ("", "http1", "HTTP/1.1"),
        ("http2 = { enabled = false }", "negotiate", "HTTP/1.1"),
    ] {
        let folder = Scratch::new();
        made(&["origin.test"]).write(folder.path(), "origin");
        let origin = Sluice::start(&format!(
            "[admin]\naddress = \"127.0.0.1:0\"\n[log]\n\
             access = \"{{request.version}} {{response.status}}\"\n[[listener]]\nname = \"web\"\n\
             address = \"127.0.0.1:0\"\n{http2}\ntls.folder = \"{}\"\n\
             [[route]]\nrespond = \"hello\"\n",
            folder.path().display()
        ));
        let upstream = format!(
            "protocol = \"{protocol}\"\n\
             tls = {{ verify = \"none\", server_name = \"origin.test\" }}"
        );
        let server = origin.address("web");
        let sluice = Sluice::start(&passing("", &server, &upstream));
        let web = sluice.address("web");
        for _ in 0..3 {
            assert_eq!(get(&web, "/").text(), "hello", "{protocol} {http2}");
        }
        let line = format!("{expected} 200");
        assert!(origin.stdout().wait_after(0, &line).is_some(), "{:?}", origin.stdout().so_far());
        let connects = "sluice_upstream_connects_total{upstream=\"origin\"}";
        assert_eq!(metric(&sluice.admin(), connects), 1);
        sluice.stop();
        origin.stop();
    }
}

#[test]
fn an_idle_connection_is_closed_in_time_and_at_the_end() {
    let origin = Http2Origin::start(|_| Deed::text("done"));
    let sluice = before(&origin.address(), "keepalive = { timeout = \"1s\" }");
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "done");
    assert!(eventually(|| origin.open_connections() == 0), "idle for too long");
    assert_eq!(get(&web, "/").text(), "done");
    assert_eq!(origin.open_connections(), 1);
    sluice.signal(Signal::Drain);
    assert!(eventually(|| origin.open_connections() == 0));
    sluice.stop();
    // Where none are kept, each request has its own.
    let origin = Http2Origin::start(|_| Deed::text("done"));
    let sluice = before(&origin.address(), "keepalive = { idle = 0 }");
    (0..3).for_each(|_| assert_eq!(get(&sluice.address("web"), "/").text(), "done"));
    assert_eq!(origin.connections(), 3);
    assert!(eventually(|| origin.open_connections() == 0));
    sluice.stop();
}

#[test]
fn checks_speak_it_too() {
    let origin = Http2Origin::start(|request| match request.path.as_str() {
        "/health" => Deed::Answer(204, Vec::new(), Vec::new(), Vec::new()),
        _ => Deed::text("done"),
    });
    let upstream = "health = { path = \"/health\", interval = \"100ms\", initial = \"unhealthy\" }";
    let sluice = before(&origin.address(), upstream);
    let web = sluice.address("web");
    assert!(eventually(|| get(&web, "/").status == 200));
    let asked = origin.seen();
    assert!(asked.iter().any(|it| it.path == "/health"));
    sluice.stop();
    let origin = Origin::start(behaviour::fixed(200, "hello"));
    let sluice = before(origin.address(), upstream);
    sluice.wait_for_line("is unhealthy: the server does not speak HTTP/2");
    sluice.stop();
}

#[test]
fn what_makes_no_sense_is_said_at_once() {
    let text = config(
        "[upstream.a]\nservers = \"127.0.0.1:1\"\nprotocol = \"negotiate\"\n\n\
         [[route]]\nproxy = \"a\"\n",
    );
    let scratch = Scratch::new();
    let name = scratch.write("a.toml", &text).display().to_string();
    let refused = run(&["check", "-c", &name], "");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("without TLS nothing is negotiated"), "{}", refused.stderr);
}
