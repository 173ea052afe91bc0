//! Texts are replaced in content while it passes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::config;
use sluice_acceptance::filters::{ask_both, page_example};
use sluice_testkit::{Exchange, Origin, Sluice, behaviour};

const PAGE: &str = "<title>Home</title> <a href=http://shop.internal/x>http://shop.internal/</a>";

fn page(kind: &str) -> Origin {
    let kind = format!("Content-Type: {kind}");
    Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.answer(200, &[&kind, "ETag: \"x\"", "Accept-Ranges: bytes"], PAGE)
    })
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let origin = page("text/html");
    let address = origin.address().to_string();
    let example = page_example("body_replace.md", &[("127.0.0.1:9001", &address)], "");
    let gateway = Sluice::start(&example);
    let fields = ["etag", "accept-ranges", "content-type"];
    let reply = ask_both(&gateway, "/", &["-H", "Accept-Encoding: gzip"], &fields);
    assert_eq!(
        reply.content,
        "<title>Home - Shop</title> <a href=https://shop.example/x>https://shop.example/</a>"
    );
    assert_eq!((reply.value("etag"), reply.value("accept-ranges")), ("W/\"x\"", ""));
    assert!(
        origin.requests().iter().all(|request| request.fields.first("accept-encoding").is_none())
    );
    let head = ask_both(&gateway, "/", &["-I"], &fields);
    assert_eq!((head.status, head.content.as_str()), (200, ""));
    gateway.stop();
}

#[test]
fn content_that_cannot_be_searched_passes_as_it_is() {
    let rules = "filters = [{ body_replace = { rules = [{ text = \"Home\", with = \"X\" }] } }]";
    for kind in ["image/png", "application/octet-stream"] {
        let origin = page(kind);
        let gateway = Sluice::start(&config(&format!(
            "[[route]]\nproxy = \"http://{}\"\n{rules}\n",
            origin.address()
        )));
        let reply = ask_both(&gateway, "/", &[], &["content-length", "etag"]);
        assert_eq!((reply.content.as_str(), reply.value("etag")), (PAGE, "\"x\""));
        gateway.stop();
    }
}

#[test]
fn content_of_requests_is_replaced_however_long_it_is() {
    let origin = Origin::start(behaviour::mirror);
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\nproxy = \"http://{}\"\n\
         filters = [{{ body_replace = {{ of = \"requests\", rules = [{{ text = \"needle\", with = \"pin\" }}] }} }}]\n",
        origin.address()
    )));
    let scratch = sluice_testkit::Scratch::new();
    let long = "hay needle ".repeat(20_000);
    let file = format!("@{}", scratch.write("content", &long).display());
    let options = ["-H", "Content-Type: text/plain", "--data-binary", &file];
    let reply = ask_both(&gateway, "/", &options, &[]);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.content, "hay pin ".repeat(20_000));
    gateway.stop();
}

#[test]
fn what_cannot_be_searched_for_is_told() {
    let scratch = sluice_testkit::Scratch::new();
    let rows = [
        ("rules = []", "this replaces nothing"),
        ("rules = [{ with = \"a\" }]", "a rule has a `text` or a `regex`"),
        ("rules = [{ text = \"\", with = \"a\" }]", "an empty text is found everywhere"),
        ("rules = [{ regex = \"^a\", with = \"a\" }]", "have no place in content"),
        ("rules = [{ regex = \"(a*)*\", with = \"a\" }]", "matches nothing at all"),
        ("rules = [{ regex = \"[ab]*a[ab]{18}\", with = \"a\" }]", "too large"),
        ("types = [\"html\"], rules = [{ text = \"a\", with = \"b\" }]", "is no media type"),
    ];
    for (options, message) in rows {
        let text = config(&format!(
            "[[route]]\nrespond = \"ok\"\nfilters = [{{ body_replace = {{ {options} }} }}]\n"
        ));
        let file = scratch.write("sluice.toml", &text);
        let checked = sluice_testkit::run(&["check", "--config", &file.display().to_string()], "");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(checked.code != Some(0) && said.contains(message), "{options}: {said}");
    }
}
