//! Scripts through the whole of `sluice bench`: what the server sees, and the exit code.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Parser;

use super::super::bench::bench;
use super::wire::server;
use crate::arguments::BenchArguments;
use crate::console::Refusal;
use crate::run::Stopper;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: BenchArguments,
}

/// A file that is gone when the test is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-script-{}-{number}.yml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(line: &str, text: &str) -> Result<u8, Refusal> {
    let file = Scratch::new(text);
    let words = format!("bench {line} {}", file.0.display());
    let parsed = Line::try_parse_from(words.split_whitespace()).unwrap();
    bench(&parsed.arguments, &file.0, &Stopper::default())
}

fn script(address: &str, runner: &str, requests: &str) -> String {
    format!("runner: {{default_endpoint: 'http://{address}', {runner}}}\nrequests:\n{requests}")
}

const TWO: &str = "  - request: {url: /a}\n  - request: {url: /b, method: POST, body: x}\n";

#[test]
fn the_server_sees_exactly_as_many_requests_as_were_asked_for() {
    for (options, count) in [
        ("-c 3 -t 1 -l 100", 100),
        ("-c 7 -t 2 -l 101", 101),
        ("-c 4 -t 2 -l 1", 1),
        ("-c 8 -t 2 -l 3", 3),
        ("-c 3 -t 2 -r 2000 -l 41", 41),
    ] {
        let (address, seen) = server();
        let code = run(options, &script(&address, "", TWO));
        // A busy machine may miss the rate.
        assert!(code == Ok(0) || options.contains("-r") && code == Ok(4), "{options} {code:?}");
        assert_eq!(seen.lock().unwrap().len(), count, "{options}");
    }
}

#[test]
fn rounds_are_those_of_each_worker() {
    let (address, seen) = server();
    let text = script(&address, "total_rounds: 5, no_warm: true", TWO);
    assert_eq!(run("-c 3 -t 2", &text), Ok(0));
    assert_eq!(seen.lock().unwrap().len(), 30);
}

#[test]
fn exit_codes() {
    let failing = "  - request: {url: /fail}\n    assert: {equals: {_ctx.response.status: 200}}\n";
    let closing = "  - request: {url: /close}\n";
    let (some_fail, some_close) = (format!("{TWO}{failing}"), format!("{TWO}{closing}"));
    let (some_fail, some_close) = (some_fail.as_str(), some_close.as_str());
    let rows = [
        (some_fail, "", 0),
        (some_fail, "assert_error: true", 0),
        (some_fail, "assert_invalid: true", 1),
        (some_close, "", 0),
        (some_close, "assert_invalid: true", 0),
        (some_close, "assert_error: true", 2),
        // A run in which nothing went well never looks good.
        (failing, "", 1),
        (closing, "", 1),
        (closing, "assert_error: true", 2),
        (TWO, "assert_error: true, assert_invalid: true", 0),
    ];
    for (requests, runner, code) in rows {
        let (address, _) = server();
        let text = script(&address, runner, requests);
        assert_eq!(run("-c 2 -t 1 -l 9", &text), Ok(code), "{requests} {runner}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_sent() {
    let (address, seen) = server();
    let wrong = script(&address, "", "  - request: {url: '/$[[x]]'}\n");
    assert_eq!(run("", &wrong).map_err(|refusal| refusal.code), Err(2));
    let good = script(&address, "", TWO);
    for options in ["-P 2", "-X PUT", "-b x", "-r 1..2"] {
        let refusal = run(options, &good).unwrap_err();
        assert!(refusal.message.contains("does not go with a script"), "{refusal:?}");
        assert_eq!(refusal.code, 2);
    }
    assert!(seen.lock().unwrap().is_empty());
    let gone = Line::try_parse_from(["bench", "gone.yml"]).unwrap();
    let refusal = bench(&gone.arguments, Path::new("gone.yml"), &Stopper::default()).unwrap_err();
    assert!(refusal.message.contains("cannot read gone.yml"), "{refusal:?}");
}
