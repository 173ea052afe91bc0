//! Commands that end at once: check, schema, completions, version, and a wrong command line.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_testkit::{Scratch, run};

#[test]
fn a_good_file_is_ok() {
    let scratch = Scratch::new();
    let file = scratch.write("a.yaml", "listener:\n  - address: 127.0.0.1:0\n");
    let name = file.display().to_string();
    let done = run(&["check", "-c", &name], "");
    assert_eq!((done.code, done.stdout), (Some(0), format!("{name}: ok\n")), "{}", done.stderr);
}

#[test]
fn every_problem_of_a_bad_file_is_told_with_its_line() {
    let scratch = Scratch::new();
    let text =
        "[[listener]]\nadress = \"127.0.0.1:80\"\n\n[[route]]\npath = \"/\"\nproxy = \"api\"\n";
    let name = scratch.write("a.toml", text).display().to_string();
    let done = run(&["check", "-c", &name], "");
    assert_eq!(done.code, Some(1));
    assert_eq!(done.stdout, "");
    for part in ["a.toml:2:1", "adress = ", "^^^^^^", "a.toml:6:9", "2 problems"] {
        assert!(done.stderr.contains(part), "{part} in\n{}", done.stderr);
    }
    assert!(!done.stderr.contains('\u{1b}'), "no colours into a pipe");
    let started = run(&["run", "-c", &name], "");
    assert_eq!(started.code, Some(1));
    assert!(started.stderr.contains("a.toml:2:1"), "{}", started.stderr);
}

#[test]
fn commands_and_their_exit_codes() {
    let rows: [(&[&str], i32, &str); 8] = [
        (&["--version"], 0, "sluice "),
        (&["--help"], 0, "check"),
        (&["schema"], 0, "\"listener\""),
        (&["completions", "bash"], 0, "--proxy"),
        (&["completions", "no-shell"], 2, ""),
        (&["check"], 2, ""),
        (&["run", "-c", "x", "--respond", "y"], 2, ""),
        (&["check", "-c", "/nowhere/x.toml"], 1, ""),
    ];
    for (arguments, code, part) in rows {
        let done = run(arguments, "");
        assert_eq!(done.code, Some(code), "{arguments:?}: {}", done.stderr);
        assert!(done.stdout.contains(part), "{arguments:?}: {}", done.stdout);
        assert_eq!(done.stderr.is_empty(), code == 0, "{arguments:?}: {}", done.stderr);
    }
}
