//! HTTP/2 in the judgement of h2spec, all of its cases, the strict ones among them.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use sluice_acceptance::config;
use sluice_testkit::{Origin, Sluice, behaviour};

/// What it says at the end when nothing is wrong.
const ALL: &str = "146 tests, 146 passed, 0 skipped, 0 failed";

/// Some cases end requests wrongly once they have begun: they are passed on, and the origin reads all
/// of one before it answers, so that no answer comes before the end.
fn judged(listener: &str, arguments: &[&str]) -> String {
    let origin = Origin::start(behaviour::echo);
    let upstream = format!("[upstream.api]\nservers = \"{}\"\n\n", origin.address());
    let route = "[[route]]\npath = \"/*\"\nproxy = \"api\"\n";
    let text = config(&(upstream + route));
    let text = text.replacen(
        "127.0.0.1:0\"\n\n[upstream",
        &format!("127.0.0.1:0\"\n{listener}\n\n[upstream"),
        1,
    );
    let sluice = Sluice::start(&text);
    let web = sluice.address("web");
    let port = web.rsplit(':').next().unwrap();
    // It waits as long as this for what does not come; what comes is there at once.
    let done = Command::new("h2spec")
        .args(["--strict", "--timeout", "10", "--host", "127.0.0.1", "--port", port])
        .args(arguments)
        .output()
        .expect("h2spec is installed: `make test` does that");
    sluice.stop();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

#[test]
fn over_tls() {
    let said = judged("tls = { self_signed = true }", &["--tls", "--insecure"]);
    assert!(said.contains(ALL), "{}", last_lines(&said));
}

/// Without TLS a port speaks HTTP/1.1, too: what is no preface of HTTP/2 is answered in that. One case
/// asks for a port that does not.
#[test]
fn without_tls() {
    let said = judged("http2 = { required = true }", &[]);
    assert!(said.contains(ALL), "{}", last_lines(&said));
}

#[test]
fn without_tls_on_a_port_of_both_versions() {
    let said = judged("", &[]);
    assert!(said.contains("146 tests, 145 passed, 0 skipped, 1 failed"), "{}", last_lines(&said));
    assert!(said.contains("× 2: Sends invalid connection preface"), "{}", last_lines(&said));
}
