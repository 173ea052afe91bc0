//! Large content that lies in a file goes from there to the client by the kernel, and is never read by the program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::{Command, Stdio};

use sluice_acceptance::filters::ask;
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Exchange, Origin, Scratch, Sluice, binary};

const LARGE: usize = 3_000_000;

/// The file that strace writes.
const CALLS: &str = "calls";

/// The program as strace's parent, so that it is the one that gets signals.
fn traced(scratch: &Scratch) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-D", "-f", "-e", "trace=sendfile", "-o", CALLS]).arg(binary());
    strace.stdin(Stdio::null()).current_dir(scratch.path());
    strace
}

/// Bytes that went out by sendfile so far. What other threads do meanwhile cuts lines in two; the second has the result.
fn sent(gateway: &Sluice) -> usize {
    let text = std::fs::read_to_string(gateway.scratch().path().join(CALLS)).unwrap_or_default();
    let results = text.lines().filter(|line| line.contains("sendfile"));
    results.filter_map(|line| line.rsplit_once("= ")?.1.trim().parse::<usize>().ok()).sum()
}

#[test]
fn large_files_and_large_answers_on_the_disk_are_sent_by_the_kernel() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; LARGE])
    });
    let files = Scratch::new();
    std::fs::write(files.path().join("large"), vec![b'y'; LARGE]).unwrap();
    let kept = Scratch::new();
    let (root, folder) = (files.path().display(), kept.path().display());
    let address = origin.address();
    let text = config(&format!(
        "[filter.pages.cache]\nmemory = \"16MiB\"\nentry_limit = \"256KiB\"\n\
         disk = {{ path = \"{folder}\", size = \"64MiB\" }}\n\
         [[route]]\npath = \"/kept\"\nproxy = \"{address}\"\nfilters = [\"pages\"]\n\
         [[route]]\npath = \"/*\"\n[route.files]\nroot = '{root}'\n"
    ));
    let gateway = Sluice::start_by(&format!("workers = 1\n{text}"), traced);
    let host = ["-H", "Host: a"];
    assert!(ask(&gateway, "/large", &host).content == "y".repeat(LARGE));
    assert!(eventually(|| sent(&gateway) == LARGE), "{}", sent(&gateway));
    assert!(ask(&gateway, "/kept", &host).content == "x".repeat(LARGE), "from the origin");
    let entries = format!("sluice_cache_disk_entries{{folder=\"{folder}\"}}");
    assert!(eventually(|| metric(&gateway.admin(), &entries) == 1));
    assert!(eventually(|| sent(&gateway) >= LARGE), "{}", sent(&gateway));
    let before = sent(&gateway);
    let hit = ask(&gateway, "/kept", &host);
    assert!(hit.value("cache-status").contains("; hit;"), "{:?}", hit.fields);
    assert!(hit.content == "x".repeat(LARGE), "from the disk");
    assert!(eventually(|| sent(&gateway) == before + LARGE), "{}", sent(&gateway));
    assert_eq!(origin.requests().len(), 1);
    gateway.stop();
}
