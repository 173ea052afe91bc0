//! `sluice bench --http2`: against nginx, with and without encryption, and where it cannot work.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::load::{bench, bench_in, bench_plainly};
use sluice_acceptance::peers::{Peer, encrypted_nginx, nginx, nginx_with};
use sluice_testkit::{Origin, Scratch, behaviour};

const HELLO: &str = "location / { return 200 \"Hello, World!\"; }";

/// nginx that speaks HTTP/2 as soon as ALPN says so.
fn encrypted_http2() -> Peer {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let keys = "ssl_certificate certificate.pem; ssl_certificate_key key.pem;\n\
                ssl_protocols TLSv1.2 TLSv1.3;";
    nginx_with("ssl http2", &format!("{keys}\n{HELLO}"), |scratch| {
        scratch.write("certificate.pem", made.cert.pem());
        scratch.write("key.pem", made.signing_key.serialize_pem());
    })
}

#[test]
fn a_count_is_kept_exactly_with_and_without_encryption() {
    let (plain, encrypted) = (nginx("http2", HELLO), encrypted_http2());
    let targets = [format!("http://{}/", plain.address), format!("https://{}/", encrypted.address)];
    for target in &targets {
        for streams in ["1", "20"] {
            let line = ["--http2", "-m", streams, "-c", "3", "-n", "2001", "--insecure", target];
            let done = bench(&[&line[..], &["--expect-body", "Hello, World!"]].concat());
            done.assert_good(2001.0);
            assert_eq!(done.number("/statuses/200"), 2001.0);
            assert_eq!(done.json["protocol"], "HTTP/2");
            assert_eq!(done.number("/streams"), streams.parse::<f64>().unwrap());
            let shown = &done.finished.stdout;
            assert!(shown.contains(&format!("HTTP/2, {streams} stream")), "{shown}");
        }
    }
    let done = bench(&["--http2", "-n", "10", "--insecure", &targets[1]]);
    assert_eq!(done.json["tls"]["version"], "1.3");
    let suite = done.json["tls"]["suite"].as_str().unwrap();
    assert!(suite.starts_with("TLS_") && done.finished.stdout.contains(suite), "{suite}");
    assert!(bench(&["--http2", "-n", "10", &targets[0]]).json["tls"].is_null());
}

#[test]
fn an_open_loop_and_users_speak_it_too() {
    let peer = nginx("http2", HELLO);
    let target = format!("http://{}/", peer.address);
    let open = bench(&["--http2", "-m", "10", "-c", "2", "--rate", "1000/s", "-n", "200", &target]);
    open.assert_good(200.0);
    assert!(open.percentile("uncorrected", 50.0) > 0.0);
    let words = ["--users", "5", "--requests-each", "30", "--warmup", "0s"];
    bench(&[&["--http2", "-m", "4", &target][..], &words].concat()).assert_good(150.0);
}

#[test]
fn a_server_that_ends_connections_after_some_requests_loses_none() {
    let peer = nginx("http2", &format!("keepalive_requests 50;\n{HELLO}"));
    let target = format!("http://{}/", peer.address);
    bench(&["--http2", "-m", "8", "-c", "2", "-n", "1000", &target]).assert_good(1000.0);
}

#[test]
fn bodies_larger_than_windows_arrive() {
    let origin = Origin::start(behaviour::sink);
    let server = format!(
        "client_max_body_size 10m;\nlocation / {{ proxy_pass http://{}; }}",
        origin.address()
    );
    let peer = nginx("http2", &server);
    let scratch = Scratch::new();
    scratch.write("large", vec![b'x'; 2_000_000]);
    let line = ["--http2", "-m", "3", "-c", "1", "-n", "6", "--body-file", "large"];
    let target = format!("http://{}/", peer.address);
    bench_in(scratch, &[&line[..], &["--expect-body", "2000000", &target]].concat())
        .assert_good(6.0);
    assert_eq!(origin.sunk(), 12_000_000);
}

#[test]
fn statuses_and_bodies_are_judged() {
    let peer = nginx("http2", "location / { return 404 \"none\"; }");
    let target = format!("http://{}/", peer.address);
    let rows: [(&[&str], i32, &str); 3] = [
        (&[], 1, "unexpected status: 6"),
        (&["--expect-status", "404", "--expect-body", "none"], 0, "none"),
        (&["--expect-status", "any", "--expect-body", "some"], 1, "unexpected body: 6"),
    ];
    for (words, code, errors) in rows {
        let line = ["--http2", "-m", "3", "-c", "2", "-n", "6", &target];
        let done = bench(&[&line[..], words].concat()).finished;
        assert_eq!(done.code, Some(code), "{words:?} {done:?}");
        assert!(
            done.stdout.contains(&format!("Errors      {errors}")),
            "{words:?} {}",
            done.stdout
        );
    }
}

#[test]
fn handshakes_are_counted_full_and_resumed() {
    let peer = encrypted_http2();
    let target = format!("https://{}/", peer.address);
    for protocol in [&["--http2"][..], &[]] {
        let line = ["-c", "3", "-n", "60", "--no-keepalive", "--insecure", &target];
        let full = bench(&[&line[..], protocol].concat());
        full.assert_good(60.0);
        assert_eq!(full.number("/tls/full_handshakes"), 60.0);
        assert_eq!(full.number("/tls/resumed_handshakes"), 0.0);
        assert!(full.number("/tls/full_rate") > 0.0);
        assert!(full.finished.stdout.contains("Handshakes  60 full ("), "{:?}", full.finished);
        let resumed = bench(&[&line[..], protocol, &["--resume"]].concat());
        resumed.assert_good(60.0);
        // Each client's first.
        assert_eq!(resumed.number("/tls/full_handshakes"), 3.0, "{protocol:?}");
        assert_eq!(resumed.number("/tls/resumed_handshakes"), 57.0, "{protocol:?}");
    }
    // Kept-alive connections are there before anything is measured.
    let kept = bench(&["-c", "3", "-n", "60", "--insecure", &target]);
    assert_eq!(kept.number("/tls/full_handshakes"), 0.0);
}

#[test]
fn servers_that_do_not_speak_it_are_named_with_a_way_out() {
    let (plain, encrypted) = (nginx("", HELLO), encrypted_nginx(&["127.0.0.1"], HELLO));
    let rows = [
        (format!("http://{}/", plain.address), "is no HTTP/2"),
        (format!("https://{}/", encrypted.address), "protocol"),
    ];
    for (target, part) in rows {
        let done = bench(&["--http2", "-c", "2", "-n", "5", "--insecure", &target]).finished;
        assert_eq!(done.code, Some(3), "{done:?}");
        let address = target.split('/').nth(2).unwrap();
        for part in [part, address, "leave"] {
            assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
        }
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let scratch = Scratch::new();
    scratch.write("s.yml", "requests:\n  - request: {url: 'http://127.0.0.1:1/'}\n");
    let url = "http://127.0.0.1:1/";
    let rows: [(&[&str], &str); 6] = [
        (&["--http2", "s.yml"], "--http2"),
        (&["--http2", "redis://127.0.0.1:1"], "--http2"),
        (&["--http2", "-m", "5", "--no-keepalive", url], "--streams needs connections that stay"),
        (&["--no-keepalive", "--resume", url], "https://"),
        (&["--http2", "-H", "Connection: close", url], "no meaning in HTTP/2"),
        (&["-m", "5", url], "--http2"),
    ];
    for (words, part) in rows {
        let done = bench_plainly(&scratch, words);
        assert_eq!(done.code, Some(2), "{words:?} {done:?}");
        assert!(done.stderr.contains(part), "{words:?} {}", done.stderr);
    }
}
