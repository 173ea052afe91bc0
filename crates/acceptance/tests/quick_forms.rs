//! A gateway without a file: the welcome page and the quick forms.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use sluice_acceptance::filters::ask;
use sluice_testkit::{Origin, Sluice, behaviour, get, run, unclaimed_port};

#[test]
fn nothing_said_is_a_welcome() {
    let sluice = Sluice::try_start_with(&["run", "--listen", "127.0.0.1:0"]).unwrap();
    let web = sluice.address("web");
    let page = get(&web, "/");
    assert_eq!(page.fields.first("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().contains("sluice run -c"), "{}", page.text());
    assert_eq!(get(&web, "/health").status, 200);
    assert_eq!(get(&web, "/else").status, 404);
    sluice.stop();
}

#[test]
fn a_text_answers_everything() {
    let arguments = ["run", "--respond", "Hello ${HOME}", "--listen", "127.0.0.1:0"];
    let sluice = Sluice::try_start_with(&arguments).unwrap();
    assert_eq!(get(&sluice.address("web"), "/any/where?x=y").text(), "Hello ${HOME}");
    sluice.stop();
}

#[test]
fn an_origin_gets_everything() {
    let origin = Origin::start(behaviour::fixed(200, "origin"));
    let forms = [origin.address().to_owned(), format!("http://{}", origin.address())];
    for form in forms {
        let arguments = ["run", "--proxy", &form, "--listen", "127.0.0.1:0", "--workers", "1"];
        let sluice = Sluice::try_start_with(&arguments).unwrap();
        assert_eq!(get(&sluice.address("web"), "/x?y=z").text(), "origin");
        assert_eq!(origin.last_request().target, "/x?y=z");
        sluice.stop();
    }
}

#[test]
fn a_wrong_word_is_told_in_plain_words() {
    let rows = [
        (["run", "--proxy", "example.com"], "has no port"),
        (["run", "--proxy", "ftp://a:1"], "ftp://"),
        (["run", "--listen", "elsewhere"], "is not an address"),
    ];
    for (arguments, part) in rows {
        let done = run(&arguments, "");
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
}

/// The file that `make run` starts, on ports of its own.
#[test]
fn the_quick_start_serves_files_and_keeps_what_it_compressed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("examples/quickstart.toml")).unwrap();
    let port = unclaimed_port();
    let text = text
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("127.0.0.1:9180", "127.0.0.1:0")
        .replace("127.0.0.1:9001", &format!("127.0.0.1:{port}"))
        .replace("examples/site", &root.join("examples/site").display().to_string());
    let page = std::fs::read_to_string(root.join("examples/site/index.html")).unwrap();
    let sluice = Sluice::start(&text);
    assert_eq!(ask(&sluice, "/", &[]).content, "Hello, World!");
    assert_eq!(ask(&sluice, "/demo/hello", &[]).content, "Hello from the origin!");
    assert_eq!(ask(&sluice, "/files/", &[]).content, page);
    assert_eq!(
        ask(&sluice, "/files/style.css", &[]).value("content-type"),
        "text/css; charset=utf-8"
    );
    let gzip = ["--compressed", "-H", "Accept-Encoding: gzip"];
    let file = ask(&sluice, "/files/", &gzip);
    assert_eq!((file.content.as_str(), file.value("content-encoding")), (page.as_str(), "gzip"));
    for expected in ["sluice; fwd=uri-miss; stored", "sluice; hit; ttl="] {
        let kept = ask(&sluice, "/demo/page", &gzip);
        assert_eq!(
            (kept.content.as_str(), kept.value("content-encoding")),
            (page.as_str(), "gzip")
        );
        assert!(kept.value("cache-status").starts_with(expected), "{kept:?}");
    }
    sluice.stop();
}
