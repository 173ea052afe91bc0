//! WebSocket in the judgement of Autobahn's cases, through the gateway.
//!
//! kosoku runs them as a client: all 301 of groups 1 to 10 (framing, pings, reserved bits and opcodes,
//! fragmentation, UTF-8, closing, limits up to 16 MiB), and 36 of groups 12 and 13 (compression), whose
//! others differ in the size of their messages. gorilla/websocket answers. The gateway stands between them,
//! in HTTP/1.1; then two of them, which speak HTTP/2 with each other, plainly and over TLS.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::process::Command;

use sluice_acceptance::{metric, passing, peers};
use sluice_testkit::{Scratch, Sluice};

/// Framing, pings, reserved bits and opcodes, fragmentation, UTF-8, closing, fragments made by a sender.
const FRAMES: [&str; 8] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"];

/// Messages and frames from 64 KiB to 16 MiB, in fragments, in pieces, and many small ones.
const LARGE: [&str; 1] = ["9.*"];

/// Large messages in one frame, in many, written in pieces, and many small ones.
const SOME_LARGE: [&str; 6] = ["9.1.6", "9.2.6", "9.3.4", "9.4.4", "9.5.1", "9.7.1"];

/// Every offer of compression, with three sizes of messages: a thousand of each go both ways.
fn compressed() -> Vec<String> {
    let offers = (1..=5).map(|n| format!("12.{n}")).chain((1..=7).map(|n| format!("13.{n}")));
    offers.flat_map(|offer| ["1", "3", "5"].map(|size| format!("{offer}.{size}"))).collect()
}

/// What all cases came to: their verdicts about the exchange and about its end.
type Verdicts = BTreeMap<String, (String, String)>;

/// Has the cases run against an address.
fn judged(address: &str, cases: &[&str]) -> Verdicts {
    let scratch = Scratch::new();
    let url = format!("ws://{address}/m");
    let done = Command::new("kosoku")
        .args(["--parallelism", "4", "--outdir"])
        .arg(scratch.path())
        .args(cases.iter().flat_map(|case| ["--include", case]))
        .arg(url)
        .output()
        .expect("kosoku is installed: `make test` does that");
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    let index = std::fs::read(scratch.path().join("index.json")).expect(&said);
    let agents: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let word = |case: &serde_json::Value, name: &str| case[name].as_str().unwrap().to_owned();
    let cases = agents.as_object().unwrap().values().flat_map(|agent| agent.as_object().unwrap());
    let verdicts =
        cases.map(|(id, case)| (id.clone(), (word(case, "behavior"), word(case, "behaviorClose"))));
    verdicts.collect()
}

/// Invalid UTF-8 that is found when its message is whole need not be `OK`: that is the server's.
const OF_THE_SERVER: &str = "6.4.";

/// Nor need messages before a frame that makes the server give the connection up, over HTTP/2: its reset takes away what
/// was not passed on yet (RFC 9113, 5.4.2).
const BEFORE_A_RESET: &str = "4.";

/// Every case of them is passed, but for these that may be less strict, and what Autobahn has no opinion about.
fn all_pass(verdicts: &Verdicts, count: usize, lenient: &[&str]) {
    let fine = |(id, (exchange, end)): (&String, &(String, String))| {
        let informational = ["7.1.6", "7.13.1", "7.13.2"].contains(&id.as_str());
        match (exchange.as_str(), end.as_str()) {
            ("OK", "OK") => true,
            ("NON-STRICT", "OK") => lenient.iter().any(|group| id.starts_with(group)),
            ("INFORMATIONAL", "INFORMATIONAL") => informational,
            _ => false,
        }
    };
    let failed: Vec<_> = verdicts.iter().filter(|verdict| !fine(*verdict)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(verdicts.len(), count);
}

fn opened(sluice: &Sluice) -> u64 {
    let labels = "upstream=\"origin\",protocol=\"websocket\"";
    metric(&sluice.admin(), &format!("sluice_upstream_tunnels_opened_total{{{labels}}}"))
}

#[test]
fn all_cases_pass_over_http_1() {
    let peer = peers::websocket();
    let sluice = Sluice::start(&passing("", &peer.address, ""));
    let compressed = compressed();
    let compressed = compressed.iter().map(String::as_str);
    let cases: Vec<&str> = FRAMES.into_iter().chain(LARGE).chain(compressed).collect();
    all_pass(&judged(&sluice.address("web"), &cases), 337, &[OF_THE_SERVER]);
    assert_eq!(opened(&sluice), 337);
    sluice.stop();
}

/// Two gateways: the first one asks the second one, whose listener has these lines, in HTTP/2.
fn over_http_2(listener: &str, upstream: &str, cases: &[&str], count: usize) {
    let peer = peers::websocket();
    let inner = Sluice::start(&passing(listener, &peer.address, ""));
    let asking = format!("protocol = \"http2\"\n{upstream}");
    let outer = Sluice::start(&passing("", &inner.address("web"), &asking));
    let lenient = [OF_THE_SERVER, BEFORE_A_RESET];
    all_pass(&judged(&outer.address("web"), cases), count, &lenient);
    let tunnels = u64::try_from(count).unwrap();
    assert_eq!((opened(&outer), opened(&inner)), (tunnels, tunnels));
    let connects = "sluice_upstream_connects_total{upstream=\"origin\"}";
    assert!(metric(&outer.admin(), connects) < 10, "they are streams of a few connections");
    outer.stop();
    inner.stop();
}

#[test]
fn all_cases_pass_over_http_2() {
    let compressed = compressed();
    let compressed = compressed.iter().map(String::as_str);
    let cases: Vec<&str> = FRAMES.into_iter().chain(SOME_LARGE).chain(compressed).collect();
    over_http_2("", "", &cases, 289);
}

#[test]
fn all_cases_of_framing_pass_over_tls() {
    let upstream = "tls = { verify = \"none\" }";
    over_http_2("tls = { self_signed = true }", upstream, &FRAMES, 247);
}
