//! What an origin can do wrong, and what the client gets to see of it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{self, Read};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use sluice_acceptance::{PREAMBLE, eventually, metric, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Origin, SOON, Scratch, Sluice, State, ask, behaviour,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Answers that mean nothing, or two things at once.
const MALFORMED: &[(&str, &str)] = &[
    ("bare-lf", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"),
    ("lf-in-fields", "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\r\nhi"),
    (
        "both-framings",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!"),
    ("length-list", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nhi!"),
    ("signed-length", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi"),
    ("huge-length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhi"),
    ("unknown-coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi"),
    ("chunked-twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ("space-before-colon", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nhi"),
    ("nul", "HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 2\r\n\r\nhi"),
    ("no-colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"),
    ("two-digits", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status-099", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
    ("version", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("no-http", "SSH-2.0-OpenSSH_9.9\r\n\r\n"),
    (
        "switch-nobody-asked-for",
        "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ),
];

type Boxed = Box<dyn Fn(&mut Exchange) -> io::Result<()> + Send + Sync>;

/// What origins do, the status it becomes and the reason given.
fn misbehaviours() -> Vec<(&'static str, Boxed, u16, &'static str)> {
    let large = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(70_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(300));
    let interims = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100);
    let mut list: Vec<(&'static str, Boxed, u16, &'static str)> = vec![
        ("closes", Box::new(behaviour::close_unanswered), 502, "closed"),
        ("resets", Box::new(behaviour::reset), 502, "reset"),
        ("half-a-head", Box::new(behaviour::raw(b"HTTP/1.1 200 O", After::Close)), 502, "closed"),
        ("silent", Box::new(hold), 504, "response_timed_out"),
        ("large", Box::new(behaviour::raw(large.as_bytes(), After::Close)), 502, "head_too_large"),
        ("many", Box::new(behaviour::raw(many.as_bytes(), After::Close)), 502, "too_many_fields"),
        ("interims", Box::new(behaviour::raw(interims.as_bytes(), After::Close)), 502, "malformed"),
    ];
    for (name, bytes) in MALFORMED {
        let play = behaviour::raw(bytes.as_bytes(), After::Close);
        list.push((name, Box::new(play), 502, "malformed"));
    }
    list
}

/// Says nothing until the gateway goes.
fn hold(exchange: &mut Exchange) -> io::Result<()> {
    exchange.sink_body()?;
    let _ = exchange.raw().0.read(&mut [0; 64])?;
    exchange.then(After::Close);
    Ok(())
}

#[test]
fn each_misbehaviour_has_its_answer_and_the_client_goes_on() {
    let mut config =
        format!("workers = 1\n{PREAMBLE}[[route]]\npath = \"/\"\nrespond = \"well\"\n");
    let mut cases = Vec::new();
    for (name, play, status, reason) in misbehaviours() {
        let origin = Origin::start(play);
        config += &format!(
            "[upstream.{name}]\nservers = [\"{}\"]\ntimeout = {{ read = \"1s\" }}\n\
             [[route]]\npath = \"/{name}\"\nproxy = \"{name}\"\n",
            origin.address()
        );
        cases.push((name, origin, status, reason));
    }
    let sluice = Sluice::start(&config);
    for (name, origin, status, reason) in &cases {
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.read_response(Asked::Get).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(answer.status, *status, "{name}: {answer:?}");
        assert!(answer.text().ends_with(&format!(": {reason}\n")), "{name}: {answer:?}");
        // Not a line of what the origin said, and interim answers aside it is the only answer.
        assert_eq!(answer.fields.first("a"), None, "{name}: {answer:?}");
        assert_eq!(client.send(GET).read_response(Asked::Get).unwrap().text(), "well", "{name}");
        assert_eq!(origin.requests().len(), 1, "{name}: a fresh connection is no reason to repeat");
        assert!(origin.wait_for_open_connections(0), "{name}: nothing of it is kept");
    }
    sluice.stop();
}

/// Beginnings of answers that have no end.
const BROKEN_OFF: &[(&str, &str, After)] = &[
    ("length, closed", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", After::Close),
    ("length, reset", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", After::Reset),
    ("length, nothing", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", After::Close),
    (
        "chunked, in a chunk",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
        After::Close,
    ),
    (
        "chunked, between",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n",
        After::Close,
    ),
    (
        "chunked, no end",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n0\r\n",
        After::Close,
    ),
    (
        "chunked, reset",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n",
        After::Reset,
    ),
    (
        "chunk size",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\nx\r\n",
        After::Close,
    ),
    (
        "chunk end",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhaha\r\n0\r\n\r\n",
        After::Close,
    ),
    (
        "chunk lf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nha\r\n0\r\n\r\n",
        After::Close,
    ),
    (
        "trailer",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n0\r\nA : b\r\n\r\n",
        After::Close,
    ),
    ("until close, reset", "HTTP/1.1 200 OK\r\n\r\nhalf", After::Reset),
];

#[test]
fn nobody_takes_half_an_answer_for_the_whole() {
    for (name, bytes, after) in BROKEN_OFF {
        // The head and then the rest: in one piece a fault may be seen before anything was sent on.
        let (head, rest) = bytes.split_at(bytes.find("\r\n\r\n").unwrap() + 4);
        let (head, rest, after) = (head.to_owned(), rest.to_owned(), *after);
        let origin = Origin::start(move |exchange: &mut Exchange| {
            exchange.write(&head)?;
            exchange.write(&rest)?;
            // The client has seen the beginning before the end comes.
            exchange.sink_body()?;
            exchange.then(after);
            Ok(())
        });
        let sluice = Sluice::start(&passing("", origin.address(), ""));
        for version in ["1.1", "1.0"] {
            let mut client = ByteScript::connect(&sluice.address("web"));
            client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
            let (got, state) = client.read_to_end();
            let text = String::from_utf8_lossy(&got);
            assert_eq!(state, State::Reset, "{name}, {version}: {text}");
            assert!(!text.ends_with("\r\n0\r\n\r\n"), "{name}, {version}: {text}");
        }
        let samples = ["closed", "reset", "malformed"].map(|reason| {
            let sample = "sluice_faults_total{side=\"upstream\",reason=";
            metric(&sluice.admin(), &format!("{sample}\"{reason}\"}}"))
        });
        assert_eq!(samples.iter().sum::<u64>(), 2, "{name}: {samples:?}");
        sluice.stop();
    }
}

#[test]
fn an_origin_that_does_not_accept_is_given_up_in_time() {
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap()).unwrap();
    listen(&full, 0).unwrap();
    let address: std::net::SocketAddr = getsockname(&full).unwrap().try_into().unwrap();
    // One more than the queue holds; whoever comes now is not heard.
    let filling = std::net::TcpStream::connect(address).unwrap();
    let sluice = Sluice::start(&passing(
        "",
        &address.to_string(),
        "timeout = { connect = \"400ms\" }\nretry = { attempts = 0 }",
    ));
    let begun = Instant::now();
    let answer = ask(&sluice.address("web"), GET);
    assert_eq!((answer.status, answer.text().contains("connect_timed_out")), (504, true));
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(400) && waited < SOON, "{waited:?}");
    drop(filling);
    sluice.stop();
}

#[test]
fn a_refused_connection_and_a_missing_socket_are_bad_gateways() {
    let gone = Origin::start(behaviour::fixed(200, "")).address().to_owned();
    let scratch = Scratch::new();
    for server in [gone, format!("unix:{}/none.sock", scratch.path().display())] {
        let sluice = Sluice::start(&passing("", &server, ""));
        let answer = ask(&sluice.address("web"), GET);
        let expected = "502 Bad Gateway: connect_failed\n";
        assert_eq!((answer.status, answer.text().as_str()), (502, expected), "{server}");
        assert!(
            metric(&sluice.admin(), "sluice_upstream_connect_failures_total{upstream=\"origin\"}")
                >= 1
        );
        sluice.stop();
    }
}

#[test]
fn a_name_that_resolves_to_nothing_is_no_server() {
    let names = sluice_testkit::NameServer::start();
    let resolver = format!("[resolver]\nservers = [\"{}\"]\n\n", names.address());
    let config = passing(&resolver, "nowhere.test:80", "");
    let sluice = Sluice::start(&config);
    let answer = ask(&sluice.address("web"), GET);
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (503, "503 Service Unavailable: no_server\n")
    );
    sluice.stop();
}

#[test]
fn a_client_that_goes_takes_its_request_along() {
    let origin = Origin::start(|exchange: &mut Exchange| match exchange.head().target.as_str() {
        "/upload" => exchange.sink_body().map(drop),
        "/download" => behaviour::stream(1 << 40)(exchange),
        _ => hold(exchange),
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let requests = [
        "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc",
        "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        "GET /download HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for (count, request) in requests.iter().flat_map(|request| [request; 2]).enumerate() {
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(request);
        assert!(origin.wait_for_requests(count + 1), "{request}");
        let begun = Instant::now();
        if count % 2 == 0 {
            drop(client)
        } else {
            client.reset()
        }
        assert!(origin.wait_for_open_connections(0), "{request}");
        assert!(begun.elapsed() < SOON, "{request}");
    }
    let closed = "sluice_faults_total{side=\"downstream\",reason=";
    assert!(eventually(|| {
        let count = |reason| metric(&sluice.admin(), &format!("{closed}\"{reason}\"}}"));
        count("closed") + count("reset") == 10
    }));
    sluice.stop();
}

#[test]
fn words_nobody_asked_for_are_nobodys_answer() {
    const EVIL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let rows = [
        ("GET", format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi{EVIL}")),
        ("GET", format!("HTTP/1.1 204 No Content\r\n\r\n{EVIL}")),
        ("GET", format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nabc{EVIL}")),
        ("HEAD", format!("HTTP/1.1 200 OK\r\nContent-Length: 48\r\n\r\n{EVIL}")),
        ("GET", format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{EVIL}")),
    ];
    for (method, bytes) in rows {
        let origin = Origin::start(behaviour::raw(bytes.as_bytes(), After::Next));
        let sluice = Sluice::start(&passing("", origin.address(), ""));
        let mut client = ByteScript::connect(&sluice.address("web"));
        let asked = if method == "HEAD" { Asked::Head } else { Asked::Get };
        for round in 1..=3 {
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
            let answer = client.read_response(asked).unwrap();
            assert_ne!(answer.text(), "evil", "{bytes}");
            assert_eq!(origin.connections(), round, "no connection is used again: {bytes}");
        }
        assert!(client.unread().is_empty());
        sluice.stop();
    }
}
