//! HTTP/2 with clients: many requests at once, in front of origins that speak HTTP/1.1.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use sluice_acceptance::http2::{Appetite, Http2Client};
use sluice_acceptance::tls::{curl, made};
use sluice_acceptance::{config, eventually, metric};
use sluice_message::BodyLength;
use sluice_testkit::{After, Asked, ByteScript, Gate, Origin, Signal, Sluice, behaviour, get};
use sluice_wire::h2::{End, ErrorCode};

fn answering() -> Sluice {
    Sluice::start(&config("[[route]]\npath = \"/*\"\nrespond = \"hello\"\n"))
}

fn proxying(origin: &Origin, more: &str) -> Sluice {
    let upstream = format!("[upstream.api]\nservers = \"{}\"\n{more}\n\n", origin.address());
    let route = "[[route]]\npath = \"/*\"\nproxy = \"api\"\n";
    Sluice::start(&format!("workers = 1\n{}", config(&(upstream + route))))
}

/// Memory in use, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn one_port_speaks_both_versions() {
    let sluice = answering();
    let web = sluice.address("web");
    let mut client = Http2Client::connect(&web);
    for _ in 0..3 {
        let answer = client.get("/");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
        assert_eq!(answer.field("content-length"), Some("5"));
        assert!(answer.field("date").is_some() && answer.field("connection").is_none());
    }
    assert_eq!(get(&web, "/").text(), "hello");
    let head = client.begin(("HEAD", "/"), &[], BodyLength::Empty);
    let head = client.wait(head);
    assert_eq!(
        (head.status(), head.field("content-length"), head.content.len()),
        (200, Some("5"), 0)
    );
    // A preface that comes byte by byte is one all the same.
    let mut script = ByteScript::connect(&web);
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0" {
        script.send([*byte]);
    }
    // The server's SETTINGS, which are no HTTP/1.1.
    assert_eq!(&script.read_exactly(5).unwrap()[3..], [4, 0]);
    sluice.stop();
}

#[test]
fn where_it_is_switched_off_it_is_a_bad_request() {
    let text = config("[[route]]\npath = \"/*\"\nrespond = \"hello\"\n");
    let text = text.replacen(
        "127.0.0.1:0\"\n\n[[route",
        "127.0.0.1:0\"\nhttp2 = { enabled = false }\n\n[[route",
        1,
    );
    let sluice = Sluice::start(&text);
    let mut script = ByteScript::connect(&sluice.address("web"));
    script.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(script.read_response(Asked::Get).unwrap().status, 400);
    sluice.stop();
}

#[test]
fn where_it_is_required_nothing_else_is_spoken() {
    let text = config("[[route]]\npath = \"/*\"\nrespond = \"hello\"\n");
    let required = "127.0.0.1:0\"\nhttp2 = { required = true }\n";
    let encrypted = "[[listener]]\nname = \"tls\"\naddress = \"127.0.0.1:0\"\ntls = { self_signed = true }\n\
                     http2 = { required = true }\n";
    let text =
        text.replacen("127.0.0.1:0\"\n\n[[route", &format!("{required}{encrypted}\n[[route"), 1);
    let sluice = Sluice::start(&text);
    assert_eq!(Http2Client::connect(&sluice.address("web")).get("/").text(), "hello");
    let mut script = ByteScript::connect(&sluice.address("web"));
    script.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (said, _) = script.read_to_end();
    // GOAWAY because of PROTOCOL_ERROR, behind the settings.
    assert!(said.windows(8).any(|it| it == [0, 0, 0, 0, 0, 0, 0, 1]), "{said:?}");
    let url = format!("https://{}/", sluice.address("tls"));
    let done = curl(&["-k", "--http2", &url]);
    assert!(done.text.starts_with("HTTP/2 200"), "{done:?}");
    let done = curl(&["-k", "--http1.1", &url]);
    assert!(done.code != Some(0) && done.text.is_empty(), "{done:?}");
    sluice.stop();
}

#[test]
fn requests_are_passed_on_and_answers_back() {
    let origin = Origin::start(behaviour::echo);
    let sluice = proxying(&origin, "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let fields = [("x-one", "1"), ("cookie", "a=1"), ("cookie", "b=2")];
    let body = BodyLength::Framed;
    let stream = client.begin(("POST", "/items?x=1"), &fields, body);
    client.send(stream, b"con", End::More);
    client.send(stream, b"tent", End::More);
    client.send_trailers(stream, "x-check", "7");
    let answer = client.wait(stream);
    assert_eq!(answer.status(), 200);
    let text = answer.text().to_ascii_lowercase();
    assert!(text.starts_with("post /items?x=1 http/1.1\n"), "{text}");
    for line in
        ["host: a.example\n", "x-one: 1\n", "cookie: a=1; b=2\n", "x-forwarded-for: 127.0.0.1\n"]
    {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(text.ends_with("\n\ncontent\nx-check: 7"), "{text}");
    // Of a known length.
    let stream = client.begin(("PUT", "/"), &[], BodyLength::Known(3));
    client.send(stream, b"abc", End::Stream);
    let text = client.wait(stream).text();
    assert!(
        text.to_ascii_lowercase().contains("content-length: 3\n") && text.ends_with("\n\nabc"),
        "{text}"
    );
    assert_eq!(origin.complaints(), Vec::<String>::new());
    sluice.stop();
}

#[test]
fn trailers_and_interim_answers_come_through() {
    let origin = Origin::start(behaviour::chunked(&["one", "two"], &["X-Sum: 6"]));
    let sluice = proxying(&origin, "");
    let answer = Http2Client::connect(&sluice.address("web")).get("/");
    assert_eq!(answer.text(), "onetwo");
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "6".to_owned())]);
    sluice.stop();
    let origin = Origin::start(behaviour::raw(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        After::Next,
    ));
    let sluice = proxying(&origin, "");
    let answer = Http2Client::connect(&sluice.address("web")).get("/");
    assert_eq!((answer.statuses.as_slice(), answer.text().as_str()), (&[103, 200][..], "ok"));
    sluice.stop();
}

#[test]
fn a_request_that_waits_holds_no_other_up() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let upstream = format!("[upstream.api]\nservers = \"{}\"\n\n", origin.address());
    let routes = "[[route]]\npath = \"/slow\"\nproxy = \"api\"\n\n[[route]]\npath = \"/*\"\nrespond = \"now\"\n";
    let sluice = Sluice::start(&config(&(upstream + routes)));
    let mut client = Http2Client::connect(&sluice.address("web"));
    let slow: Vec<_> =
        (0..20).map(|_| client.begin(("GET", "/slow"), &[], BodyLength::Empty)).collect();
    for _ in 0..50 {
        assert_eq!(client.get("/fast").text(), "now");
    }
    assert!(origin.wait_for_requests(20));
    gate.open();
    for stream in slow {
        assert_eq!(client.wait(stream).text(), "late");
    }
    sluice.stop();
}

#[test]
fn large_content_goes_both_ways_and_a_slow_reader_costs_no_memory() {
    const LENGTH: usize = 8 << 20;
    let origin = Origin::start(behaviour::mirror);
    let sluice = proxying(&origin, "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let content: Vec<u8> = (0..=255).cycle().take(LENGTH).collect();
    let stream = client.begin(("POST", "/"), &[], BodyLength::Known(8 << 20));
    client.send(stream, &content, End::Stream);
    let answer = client.wait(stream);
    assert!(answer.content == content, "{} bytes", answer.content.len());
    sluice.stop();

    let origin = Origin::start(behaviour::stream(256 << 20));
    let sluice = proxying(&origin, "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    client.set_appetite(Appetite::Sated);
    let before = resident(sluice.pid());
    let stream = client.begin(("GET", "/"), &[], BodyLength::Empty);
    assert_eq!(client.wait_for_head(stream), 200);
    // No more comes than the window allows, and another request is answered all the same.
    while client.received(stream) < 256 * 1024 {
        assert!(client.turn());
    }
    let grown = resident(sluice.pid()).saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
    client.reset(stream);
    assert!(origin.wait_for_open_connections(0), "the origin is let go");
    sluice.stop();
}

#[test]
fn a_client_that_gives_up_frees_the_origin() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let sluice = proxying(&origin, "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let stream = client.begin(("GET", "/"), &[], BodyLength::Empty);
    assert!(origin.wait_for_requests(1));
    client.reset(stream);
    assert!(eventually(|| {
        metric(&sluice.admin(), "sluice_upstream_active_requests{upstream=\"api\"}") == 0
    }));
    gate.open();
    // The connection goes on.
    assert_eq!(client.get("/").text(), "late");
    // So it is when all of the connection goes.
    drop(client);
    assert!(eventually(|| metric(
        &sluice.admin(),
        "sluice_listener_connections{listener=\"web\"}"
    ) == 0));
    sluice.stop();
}

#[test]
fn content_that_nobody_asked_for_may_follow_its_answer() {
    let sluice = answering();
    let mut client = Http2Client::connect(&sluice.address("web"));
    for length in [BodyLength::Known(10), BodyLength::Framed] {
        let stream = client.begin(("POST", "/"), &[], length);
        assert_eq!(client.wait_for_head(stream), 200);
        assert_eq!(client.get("/").text(), "hello", "the stream stands in nobody's way");
        client.send(stream, b"1234567890", End::Stream);
        let answer = client.wait(stream);
        assert_eq!((answer.text().as_str(), answer.reset), ("hello", None));
    }
    // More than a little is not waited for.
    let long = client.begin(("POST", "/"), &[], BodyLength::Known(100_000));
    assert_eq!(client.wait_for_head(long), 200);
    let longer = client.begin(("POST", "/"), &[], BodyLength::Framed);
    assert_eq!(client.wait_for_head(longer), 200);
    client.send(longer, &[b'x'; 60_000], End::More);
    client.send(longer, &[b'x'; 6_000], End::More);
    for stream in [long, longer] {
        while client.reset_code(stream).is_none() {
            assert!(client.turn());
        }
        assert_eq!(client.reset_code(stream), Some(ErrorCode::NO_ERROR));
    }
    assert_eq!(client.get("/").text(), "hello");
    sluice.stop();
}

#[test]
fn an_answer_that_breaks_off_is_reset() {
    let origin = Origin::start(behaviour::cut_short(10, "half", After::Close));
    let sluice = proxying(&origin, "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let answer = client.get("/");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "half"));
    assert_eq!(answer.reset, Some(ErrorCode::INTERNAL_ERROR));
    sluice.stop();
}

#[test]
fn requests_that_cannot_be_served_are_answered() {
    let sluice =
        Sluice::start(&config("[[route]]\npath = \"/known\"\nmethod = \"GET\"\nrespond = \"x\"\n"));
    let mut client = Http2Client::connect(&sluice.address("web"));
    assert_eq!(client.get("/unknown").status(), 404);
    let stream = client.begin(("DELETE", "/known"), &[], BodyLength::Empty);
    let answer = client.wait(stream);
    assert_eq!((answer.status(), answer.field("allow")), (405, Some("GET, HEAD")));
    let large = "x".repeat(40_000);
    let stream = client.begin(("GET", "/known"), &[("x-large", &large)], BodyLength::Empty);
    assert_eq!(client.wait(stream).status(), 431);
    assert_eq!(client.get("/known").status(), 200);
    sluice.stop();
}

#[test]
fn a_drain_lets_requests_finish_and_names_the_last() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let mut sluice = proxying(&origin, "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let stream = client.begin(("GET", "/"), &[], BodyLength::Empty);
    assert!(origin.wait_for_requests(1));
    sluice.signal(Signal::Drain);
    while client.goodbye.is_none() {
        assert!(client.turn());
    }
    assert_eq!(client.goodbye, Some(ErrorCode::NO_ERROR));
    gate.open();
    assert_eq!(client.wait(stream).text(), "late");
    client.wait_for_end();
    assert_eq!(sluice.wait_for_exit(), Some(0));
}

#[test]
fn who_breaks_the_rules_is_told_and_logged() {
    let sluice = answering();
    let mut client = Http2Client::connect(&sluice.address("web"));
    assert_eq!(client.get("/").status(), 200);
    // DATA on a stream nobody opened.
    client.send_raw(&[0, 0, 0, 0, 0, 0, 0, 0, 99]);
    client.wait_for_end();
    assert_eq!(client.goodbye, Some(ErrorCode::PROTOCOL_ERROR));
    sluice.wait_for_line("HTTP/2 connection ended: stream_state (protocol_error)");
    let count = "sluice_listener_http2_errors_total{listener=\"web\",reason=\"stream_state\"}";
    assert_eq!(metric(&sluice.admin(), count), 1);
    sluice.stop();
}

#[test]
fn a_client_that_stalls_in_a_frame_is_left_and_its_requests_with_it() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let upstream = format!("[upstream.api]\nservers = \"{}\"\n\n", origin.address());
    let text = config(&(upstream + "[[route]]\npath = \"/*\"\nproxy = \"api\"\n"));
    let web = "name = \"web\"\n";
    let hasty = format!("{web}timeout = {{ head = \"200ms\" }}\n");
    let sluice = Sluice::start(&text.replacen(web, &hasty, 1));
    let mut client = Http2Client::connect(&sluice.address("web"));
    let _waiting = client.begin(("GET", "/"), &[], BodyLength::Empty);
    assert!(origin.wait_for_requests(1));
    // A PING that never comes to its end.
    client.send_raw(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2]);
    client.ignore_rest();
    let active = "sluice_upstream_active_requests{upstream=\"api\"}";
    assert!(eventually(|| metric(&sluice.admin(), active) == 0));
    gate.open();
    sluice.stop();
}

#[test]
fn an_idle_connection_is_closed_with_a_word() {
    let text = config("[[route]]\npath = \"/*\"\nrespond = \"hello\"\n");
    let web = "name = \"web\"\n";
    let hasty = format!("{web}timeout = {{ idle = \"200ms\" }}\n");
    let sluice = Sluice::start(&text.replacen(web, &hasty, 1));
    let mut client = Http2Client::connect(&sluice.address("web"));
    assert_eq!(client.get("/").status(), 200);
    client.wait_for_end();
    assert_eq!(client.goodbye, Some(ErrorCode::NO_ERROR));
    sluice.stop();
}

#[test]
fn requests_taken_back_at_once_end_a_connection_and_no_other() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let sluice = proxying(&origin, "");
    let mut other = Http2Client::connect(&sluice.address("web"));
    let waiting = other.begin(("GET", "/"), &[], BodyLength::Empty);
    assert!(origin.wait_for_requests(1));
    let mut client = Http2Client::connect(&sluice.address("web"));
    let _first = client.begin(("GET", "/"), &[], BodyLength::Empty);
    let mut flood = Vec::new();
    for number in (3_u32..).step_by(2).take(5000) {
        // HEADERS: GET / http a, all from the static table but the authority.
        flood.extend_from_slice(&[0, 0, 6, 1, 5]);
        flood.extend_from_slice(&number.to_be_bytes());
        flood.extend_from_slice(&[0x82, 0x84, 0x86, 0x41, 1, b'a']);
        flood.extend_from_slice(&[0, 0, 4, 3, 0]);
        flood.extend_from_slice(&number.to_be_bytes());
        flood.extend_from_slice(&[0, 0, 0, 8]);
    }
    client.send_raw(&flood);
    client.ignore_rest();
    sluice.wait_for_line("(enhance_your_calm)");
    gate.open();
    assert_eq!(other.wait(waiting).text(), "late");
    sluice.stop();
}

#[test]
fn encrypted_connections_choose_it_in_the_handshake() {
    let made = made(&["localhost"]);
    let directory = sluice_testkit::Scratch::new();
    made.write(directory.path(), "web");
    let (cert, key) = (directory.path().join("web.pem"), directory.path().join("web.key"));
    let tls = format!(
        "tls = {{ certificates = [{{ cert = \"{}\", key = \"{}\" }}], hsts = \"on\" }}\n",
        cert.display(),
        key.display()
    );
    let text = config("[[route]]\npath = \"/*\"\nrespond = \"hello\"\n");
    let text =
        text.replacen("127.0.0.1:0\"\n\n[[route", &format!("127.0.0.1:0\"\n{tls}\n[[route"), 1);
    let sluice = Sluice::start(&text);
    let port = sluice.address("web");
    let port = port.rsplit(':').next().unwrap().trim_end_matches('/');
    let url = format!("https://localhost:{port}/");
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let output = Command::new("curl")
            .args(["-sS", option, "--resolve", &format!("localhost:{port}:127.0.0.1")])
            .args(["--cacert", cert.to_str().unwrap(), "-D", "-", "-w", " %{http_version}", &url])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.ends_with(&format!("hello {version}")), "{output:?}");
        assert!(text.contains("strict-transport-security: max-age="), "{text}");
    }
    sluice.stop();
}

#[test]
fn curl_and_nghttp_are_answered_with_and_without_encryption() {
    let origin = Origin::start(behaviour::echo);
    let upstream = format!("[upstream.api]\nservers = \"{}\"\n\n", origin.address());
    let route = "[[route]]\npath = \"/*\"\nproxy = \"api\"\n";
    let encrypted =
        "[[listener]]\nname = \"tls\"\naddress = \"127.0.0.1:0\"\ntls = { self_signed = true }\n\n";
    let sluice = Sluice::start(&config(&format!("{encrypted}{upstream}{route}")));
    let plain = format!("http://{}/some?x=1", sluice.address("web"));
    let secure = format!("https://{}/some?x=1", sluice.address("tls"));
    let content = "c".repeat(300_000);
    let scratch = sluice_testkit::Scratch::new();
    scratch.write("content", &content);
    let file = scratch.path().join("content").display().to_string();
    for (url, how) in [(&plain, "--http2-prior-knowledge"), (&secure, "--http2")] {
        let done = curl(&["-k", how, "--data-binary", &format!("@{file}"), url]);
        let text = done.text.to_ascii_lowercase();
        assert!(text.starts_with("http/2 200"), "{done:?}");
        assert!(text.contains("post /some?x=1 http/1.1") && text.ends_with(&content), "{url}");
        let output = Command::new("nghttp").args(["-v", "-d", &file, url]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
        assert!(output.status.success(), "{text}");
        assert!(text.contains(":status: 200") && text.contains("post /some?x=1 http/1.1"), "{url}");
        assert!(!text.contains("rst_stream frame") && text.contains("no_error"), "{url}");
    }
    assert_eq!(origin.complaints(), Vec::<String>::new());
    sluice.stop();
}

#[test]
fn a_foreign_client_loads_it() {
    let origin = Origin::start(behaviour::fixed(200, "origin"));
    let sluice = proxying(&origin, "");
    let url = format!("http://{}/x", sluice.address("web").trim_start_matches("http://"));
    let output =
        Command::new("h2load").args(["-n", "2000", "-c", "4", "-m", "50", &url]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("2000 succeeded, 0 failed, 0 errored"), "{text}");
    assert!(text.contains("status codes: 2000 2xx"), "{text}");
    sluice.stop();
}
