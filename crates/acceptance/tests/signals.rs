//! Signals, the service manager, and a log that is moved away.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use sluice_acceptance::config;
use sluice_testkit::{Deadline, PATIENCE, Scratch, Signal, Sluice, binary, get};

fn wait_for_lines(path: &Path, count: usize) -> String {
    let deadline = Deadline::patient();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count {
            return text;
        }
        assert!(deadline.remaining().is_some(), "{count} lines in {}: {text}", path.display());
        std::thread::yield_now();
    }
}

#[test]
fn a_log_that_was_moved_is_opened_again() {
    let text = "[admin]\naddress = \"127.0.0.1:0\"\n[log]\naccess = \"{request.target} {response.status}\"\n\
                file = \"access.log\"\n[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
                [[route]]\npath = \"/*\"\nrespond = \"x\"\n";
    let sluice = Sluice::start(text);
    let (log, moved) =
        (sluice.scratch().path().join("access.log"), sluice.scratch().path().join("access.log.1"));
    let _ = get(&sluice.address("web"), "/one");
    assert_eq!(wait_for_lines(&log, 1), "/one 200\n");
    std::fs::rename(&log, &moved).unwrap();
    sluice.signal(Signal::ReopenLogs);
    sluice.wait_for_line("reopened");
    let _ = get(&sluice.address("web"), "/two");
    assert_eq!(wait_for_lines(&log, 1), "/two 200\n");
    assert_eq!(wait_for_lines(&moved, 1), "/one 200\n");
    let metrics = get(&sluice.admin(), "/metrics").text();
    assert!(
        metrics.contains("_access_log_lines_total{result=\"written\"} 2")
            || metrics.contains("written_total 2"),
        "{metrics}"
    );
    sluice.stop();
}

#[test]
fn lines_of_the_last_requests_are_written_before_the_end() {
    let text = "[admin]\naddress = \"127.0.0.1:0\"\n[log]\naccess = \"combined\"\n[[listener]]\n\
                name = \"web\"\naddress = \"127.0.0.1:0\"\n[[route]]\npath = \"/*\"\nrespond = \"x\"\n";
    let mut sluice = Sluice::start(text);
    for number in 0..20 {
        let _ = get(&sluice.address("web"), &format!("/{number}"));
    }
    sluice.signal(Signal::Interrupt);
    assert_eq!(sluice.wait_for_exit(), Some(0));
    assert!(sluice.stdout().wait_after(0, "GET /19 HTTP/1.1").is_some());
    assert_eq!(sluice.stdout().so_far().len(), 20);
}

#[test]
fn the_service_manager_is_told() {
    let scratch = Scratch::new();
    let path = scratch.path().join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let file = scratch.write("sluice.toml", config("[[route]]\nrespond = \"x\"\n"));
    let mut child = Command::new(binary())
        .args(["run", "-c"])
        .arg(&file)
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let told = || {
        let mut buffer = [0; 256];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let signal = |name: &str| {
        let id = child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    };
    assert_eq!(told(), "READY=1");
    signal("-HUP");
    let reloading = told();
    let (word, time) = reloading.split_once('\n').unwrap();
    assert_eq!(word, "RELOADING=1");
    assert!(time.strip_prefix("MONOTONIC_USEC=").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(told(), "READY=1");
    signal("-TERM");
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
