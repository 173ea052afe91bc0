//! `sluice bench URL`: what is sent, what is counted, what is written.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use sluice_acceptance::config;
use sluice_acceptance::load::{Measured, bench, bench_in, bench_plainly};
use sluice_acceptance::peers::{encrypted_nginx, nginx};
use sluice_testkit::{Gate, Origin, Scratch, Sluice, behaviour};

/// Locations of an nginx.
const SECRET: &str = "location / { return 200 \"secret\"; }";

fn hello() -> Sluice {
    Sluice::start(&config("[[route]]\npath = \"/\"\nrespond = \"Hello, World!\"\n"))
}

fn url(address: &str) -> String {
    format!("http://{address}/")
}

#[test]
fn a_closed_loop_for_a_time_shows_itself_and_reports() {
    let sluice = hello();
    let done = bench(&["-c", "8", "-d", "1100ms", &url(&sluice.address("web"))]);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    assert!(done.number("/seconds") >= 1.1);
    let responses = done.number("/responses");
    assert_eq!(done.number("/requests"), responses);
    assert_eq!(done.number("/statuses/200"), responses);
    assert_eq!(done.number("/latency/count"), responses);
    let seconds = done.json["series"].as_array().unwrap();
    let sum: f64 = seconds.iter().map(|second| second["responses"].as_f64().unwrap()).sum();
    assert_eq!(sum, responses);
    // Not a terminal: one plain line for each whole second.
    let live: Vec<&str> = done.finished.stderr.lines().collect();
    assert_eq!(live.len(), 1, "{live:?}");
    assert!(live[0].starts_with("   1s  ") && live[0].contains("/s  errors 0  p99 "), "{live:?}");
    assert!(live[0].ends_with(" left"), "{live:?}");
    for part in ["8 connections", "closed loop", "Rate ", "Received", "Status      200: ", "p99.99"]
    {
        assert!(done.finished.stdout.contains(part), "{part}: {}", done.finished.stdout);
    }
    sluice.stop();
}

#[test]
fn a_count_is_kept_exactly_whoever_answers() {
    let (sluice, peer) = (hello(), nginx("", "location / { return 200 \"Hello\"; }"));
    for address in [sluice.address("web"), peer.address.clone()] {
        for threads in ["1", "2"] {
            bench(&["-c", "7", "-t", threads, "-n", "1001", &url(&address)]).assert_good(1001.0);
        }
    }
    sluice.stop();
}

#[test]
fn method_headers_and_body_arrive_as_given() {
    let origin = Origin::start(behaviour::mirror);
    let scratch = Scratch::new();
    scratch.write("body.txt", "from a file");
    let target = format!("http://{}/a/b?c=d", origin.address());
    let rows: [(&[&str], &str, &str); 4] = [
        (&[], "GET", ""),
        (&["--method", "DELETE", "-H", "Accept: text/plain", "-H", "X-Two: 2"], "DELETE", ""),
        (&["--body", "typed"], "POST", "typed"),
        (&["-X", "PUT", "--body-file", "body.txt", "-H", "Host: other"], "PUT", "from a file"),
    ];
    for (words, method, body) in rows {
        let line = [&["-c", "2", "-n", "5", "--expect-body", body, &target], words].concat();
        let done = bench_plainly(&scratch, &line);
        assert_eq!(done.code, Some(0), "{words:?} {done:?}");
        let seen = origin.last_request();
        assert_eq!((seen.method.as_str(), seen.target.as_str()), (method, "/a/b?c=d"));
        for pair in words.windows(2).filter(|pair| pair[0] == "-H") {
            let (name, value) = pair[1].split_once(": ").unwrap();
            assert_eq!(seen.fields.first(name), Some(value));
        }
        assert_eq!(seen.fields.all("host").count(), 1);
        let length = (!body.is_empty()).then(|| body.len().to_string());
        assert_eq!(seen.fields.first("content-length"), length.as_deref(), "{words:?}");
    }
    assert_eq!((origin.requests().len(), origin.complete_requests()), (20, 20));
}

#[test]
fn connections_are_kept_or_not() {
    let origin = Origin::start(behaviour::fixed(200, "x"));
    bench(&["-c", "3", "-n", "30", &url(origin.address())]).assert_good(30.0);
    assert_eq!(origin.connections(), 3);
    bench(&["-c", "3", "-n", "30", "--no-keepalive", &url(origin.address())]).assert_good(30.0);
    assert_eq!(origin.connections(), 33);
    assert_eq!(origin.last_request().fields.first("connection"), Some("close"));
}

#[test]
fn pipelined_requests_do_not_wait_for_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Not a byte before all four requests are here.
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
        while seen.windows(4).filter(|end| end == b"\r\n\r\n").count() < 4 {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..count]);
        }
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".repeat(4);
        stream.write_all(answer.as_bytes()).unwrap();
        // Until the client has gone.
        let _ = stream.read(&mut piece);
    });
    let target = format!("http://{address}/");
    bench(&["-c", "1", "-n", "4", "-P", "4", "--timeout", "9s", &target]).assert_good(4.0);
    server.join().unwrap();
    let refused = bench(&["-P", "4", "--no-keepalive", &target]).finished;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--no-keepalive"), "{}", refused.stderr);
}

#[test]
fn pipelines_are_answered_by_real_servers() {
    let (sluice, peer) = (hello(), nginx("", "location / { return 200 \"Hello\"; }"));
    for address in [sluice.address("web"), peer.address.clone()] {
        let line = ["-c", "3", "-P", "16", "-n", "3001", &url(&address)];
        bench(&line).assert_good(3001.0);
    }
    sluice.stop();
}

#[test]
fn an_answer_that_does_not_come_in_time_is_an_error() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let line = ["-c", "2", "-n", "4", "--timeout", "50ms", &url(origin.address())];
    let done = bench(&line);
    gate.open();
    assert_eq!(done.finished.code, Some(1));
    assert_eq!((done.number("/errors/timeout"), done.number("/responses")), (4.0, 0.0));
    assert!(done.finished.stdout.contains("timeout: 4 ("), "{}", done.finished.stdout);
}

#[test]
fn status_and_body_are_judged() {
    let routes = "[[route]]\npath = \"/\"\nrespond = \"Hello, World!\"\n\
                  [[route]]\npath = \"/gone\"\nrespond = { status = 410, body = \"gone\" }\n";
    let sluice = Sluice::start(&config(routes));
    let web = sluice.address("web");
    let rows: [(&str, &[&str], i32, &str); 7] = [
        ("/", &["--expect-status", "200", "--expect-body", "World"], 0, "none"),
        ("/", &["--expect-status", "204,3xx"], 1, "unexpected status: 6"),
        ("/", &["--expect-body", "Moon"], 1, "unexpected body: 6"),
        ("/gone", &[], 1, "unexpected status: 6"),
        ("/gone", &["--expect-status", "410"], 0, "none"),
        ("/gone", &["--expect-status", "any"], 0, "none"),
        ("/gone", &["--expect-status", "9"], 2, ""),
    ];
    for (path, words, code, errors) in rows {
        let target = format!("http://{web}{path}");
        let done = bench(&[&["-c", "2", "-n", "6", &target], words].concat()).finished;
        assert_eq!(done.code, Some(code), "{path} {words:?} {done:?}");
        if code < 2 {
            let line = format!("Errors      {errors}");
            assert!(done.stdout.contains(&line), "{path} {words:?} {}", done.stdout);
        }
    }
    sluice.stop();
}

#[test]
fn a_unix_socket_takes_the_place_of_the_host() {
    let scratch = Scratch::new();
    let socket = scratch.path().join("web.sock");
    let text = format!(
        "[admin]\naddress = \"off\"\n[log]\naccess = \"off\"\n[[listener]]\nname = \"web\"\n\
         address = \"unix:{}\"\n[[route]]\npath = \"/\"\nhost = \"some.example\"\nrespond = \"x\"\n",
        socket.display()
    );
    let sluice = Sluice::start(&text);
    let path = socket.display().to_string();
    bench(&["-c", "4", "-n", "100", "--unix", &path, "http://some.example/"]).assert_good(100.0);
    sluice.stop();
}

#[test]
fn certificates_are_checked_unless_told_otherwise() {
    let peer = encrypted_nginx(&["localhost", "127.0.0.1"], SECRET);
    let target = format!("https://{}/", peer.address);
    let refused = bench(&["-c", "2", "-n", "10", &target]).finished;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("certificate"), "{}", refused.stderr);
    let certificate = peer.scratch().path().join("certificate.pem").display().to_string();
    for words in [&["--insecure"][..], &["--ca", &certificate]] {
        let line = ["-c", "3", "-n", "60", "--expect-body", "secret", &target];
        bench(&[&line[..], words].concat()).assert_good(60.0);
        let line = ["-c", "2", "-n", "10", "--no-keepalive", &target];
        bench(&[&line[..], words].concat()).assert_good(10.0);
    }
    let port = peer.address.rsplit(':').next().unwrap();
    let named = format!("https://localhost:{port}/");
    bench(&["-c", "1", "-n", "5", "--ca", &certificate, &named]).assert_good(5.0);
    let path = peer.scratch().path().join("none").display().to_string();
    let missing = bench(&["--ca", &path, &target]).finished;
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains(&path), "{}", missing.stderr);
}

#[test]
fn a_trusted_certificate_is_for_its_own_names_only() {
    let peer = encrypted_nginx(&["other.example"], SECRET);
    let certificate = peer.scratch().path().join("certificate.pem").display().to_string();
    let target = format!("https://{}/", peer.address);
    let refused = bench(&["-c", "1", "-n", "5", "--ca", &certificate, &target]).finished;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("certificate"), "{}", refused.stderr);
    bench(&["-c", "1", "-n", "5", "--insecure", &target]).assert_good(5.0);
}

#[test]
fn what_warms_up_is_not_counted() {
    let origin = Origin::start(behaviour::fixed(200, "x"));
    let done = bench(&["-c", "2", "-n", "50", "--warmup", "100ms", &url(origin.address())]);
    done.assert_good(50.0);
    let seen = origin.requests().len();
    assert!(seen > 50, "{seen}");
}

#[test]
fn files_hold_what_was_measured() {
    let sluice = hello();
    let scratch = Scratch::new();
    let line = ["-c", "2", "-n", "200", "--csv", "r.csv", "--html", "r.html"];
    let target = url(&sluice.address("web"));
    let done: Measured = bench_in(scratch, &[&line[..], &[&target]].concat());
    done.assert_good(200.0);
    let read = |name: &str| std::fs::read_to_string(done.scratch.path().join(name)).unwrap();
    let csv = read("r.csv");
    let [head, row] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
    let cell = |name: &str| {
        let at = head.split(',').position(|column| column == name);
        row.split(',').nth(at.unwrap_or_else(|| panic!("{name} in {head}"))).unwrap().to_owned()
    };
    assert_eq!((cell("responses").as_str(), cell("connections").as_str()), ("200", "2"));
    let html = read("r.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<svg"), "{html}");
    assert!(html.contains(&target) && html.trim_end().ends_with("</html>"));
    // One file: nothing is fetched from anywhere.
    assert!(!html.contains("<script src") && !html.contains("<link"), "{html}");
    let nowhere = bench_plainly(&done.scratch, &["-n", "5", "--csv", "no/such/r.csv", &target]);
    assert_eq!(nowhere.code, Some(2));
    // The figures are not lost with the file.
    assert!(nowhere.stdout.contains("5 answered"), "{nowhere:?}");
    assert!(nowhere.stderr.contains("cannot write no/such/r.csv"), "{nowhere:?}");
    sluice.stop();
}

#[test]
fn a_body_larger_than_any_buffer_comes_back_whole() {
    let origin = Origin::start(behaviour::stream(3_000_000));
    let done = bench(&["-c", "2", "-n", "6", &url(origin.address())]);
    done.assert_good(6.0);
    assert!(done.number("/bytes_received") > 18_000_000.0);
    let origin = Origin::start(behaviour::sink);
    let scratch = Scratch::new();
    scratch.write("large", vec![b'x'; 2_000_000]);
    let line = ["-c", "2", "-n", "4", "--body-file", "large", "--expect-body", "2000000"];
    bench_in(scratch, &[&line[..], &[&url(origin.address())]].concat()).assert_good(4.0);
    assert!(origin.sunk() == 8_000_000, "{}", origin.sunk());
    let chunked = Origin::start(behaviour::chunked(&["ab", "c"], &["X: y"]));
    let line = ["-c", "2", "-n", "10", "--expect-body", "abc", &url(chunked.address())];
    bench(&line).assert_good(10.0);
    let slow = Origin::start(behaviour::slow_writer("abc", Duration::from_millis(1)));
    let line = ["-c", "2", "-n", "6", "--expect-body", "abc", &url(slow.address())];
    bench(&line).assert_good(6.0);
}
