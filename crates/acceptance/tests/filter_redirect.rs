//! Clients are sent elsewhere, and answered, by filters.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask_both, page_example};
use sluice_acceptance::{config, metric};
use sluice_testkit::{Origin, Sluice, behaviour};

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let gateway = Sluice::start(&page_example("redirect.md", &[], ""));
    let host = ["-H", "Host: h.example:81"];
    let reply = ask_both(&gateway, "/old/page?a=b", &host, &["location"]);
    assert_eq!(reply.status, 301);
    assert_eq!(reply.value("location"), "http://h.example:81/new/old/page?a=b");
    let reply = ask_both(&gateway, "/x", &["-H", "Host: Example.com"], &["location"]);
    assert_eq!((reply.status, reply.value("location")), (308, "https://www.example.com/x"));
    assert_eq!(ask_both(&gateway, "/x", &["-H", "Host: other.example"], &[]).content, "welcome\n");
    let count = |outcome| {
        let labels = format!("{{filter=\"/*/redirect\",outcome=\"{outcome}\"}}");
        metric(&gateway.admin(), &format!("sluice_filter_outcomes_total{labels}"))
    };
    assert_eq!((count("redirected"), count("passed")), (2, 0));
    gateway.stop();
}

#[test]
fn the_action_has_templates_and_its_old_names() {
    let gateway = Sluice::start(&config(
        "[[route]]\npath = \"/old/*\"\nredirect = { to = \"https://{host}{path}{query}\", status = 308 }\n\
         [[route]]\npath = \"/new/{id}\"\nredirect = \"https://{request.host}/users/{capture.id}?by={url_encode(request.header.x)}\"\n\
         [[route]]\nredirect = \"{request.parameter.to}\"\n",
    ));
    let host = ["-H", "Host: a.example:8080", "-H", "x: b c&d"];
    for (target, status, location) in [
        ("/old/%41?b=c", 308, "https://a.example/old/A?b=c"),
        ("/old/x", 308, "https://a.example/old/x"),
        ("/new/7", 302, "https://a.example/users/7?by=b%20c%26d"),
        ("/?to=//evil.example", 302, "/evil.example"),
        ("/?to=/a%0d%0aset-cookie:b", 302, "/a%0D%0Aset-cookie:b"),
    ] {
        let reply = ask_both(&gateway, target, &host, &["location", "set-cookie"]);
        assert_eq!((reply.status, reply.value("location")), (status, location), "{target}");
        assert_eq!(reply.content, format!("{location}\n"));
    }
    gateway.stop();
}

#[test]
fn who_is_there_passes_and_nobody_is_sent_out() {
    let gateway = Sluice::start(&config(
        "[[route]]\npath = \"/there\"\nrespond = \"there\"\nfilters = [{ redirect = { scheme = \"http\", path = \"/there\" } }]\n\
         [[route]]\nrespond = \"no\"\nfilters = [{ redirect = { path = \"{request.parameter.to}\", keep_query = false } }]\n",
    ));
    assert_eq!(ask_both(&gateway, "/there?a", &[], &[]).content, "there");
    let host = ["-H", "Host: h"];
    for (to, location) in [
        ("//evil.example", "http://h//evil.example"),
        ("https://evil.example", "http://h/https://evil.example"),
        ("/a%0d%0aset-cookie:b", "http://h/a%0D%0Aset-cookie:b"),
    ] {
        let reply = ask_both(&gateway, &format!("/?to={to}"), &host, &["location", "set-cookie"]);
        assert_eq!(reply.values("location"), [location]);
        assert!(reply.values("set-cookie").is_empty());
    }
    gateway.stop();
}

#[test]
fn a_mock_answers_instead_of_the_origin() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let address = origin.address().to_string();
    let gateway = Sluice::start(&page_example("respond.md", &[("127.0.0.1:9001", &address)], ""));
    let mock =
        ask_both(&gateway, "/users/7", &["-H", "X-Mock: yes"], &["x-mocked", "content-type"]);
    assert_eq!((mock.status, mock.content.as_str()), (200, "{\"id\": \"7\"}"));
    assert_eq!(mock.value("x-mocked"), "GET /users/7");
    assert_eq!(mock.value("content-type"), "application/json");
    assert!(origin.requests().is_empty());
    let head = ask_both(&gateway, "/users/7", &["-H", "X-Mock: yes", "-I"], &["content-length"]);
    assert_eq!((head.content.as_str(), head.value("content-length")), ("", "11"));
    assert_eq!(ask_both(&gateway, "/users/7", &[], &[]).status, 200);
    assert_eq!(origin.requests().len(), 2);
    gateway.stop();
}

#[test]
fn mocks_have_content_from_files_and_status_without() {
    let scratch = sluice_testkit::Scratch::new();
    let file = scratch.write("page.html", "<p>{not a template}</p>");
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\npath = \"/page\"\nrespond = \"no\"\nfilters = [{{ respond = {{ file = \"{}\", status = 503 }} }}]\n\
         [[route]]\nrespond = \"no\"\nfilters = [{{ respond = {{ status = 204 }} }}]\n",
        file.display()
    )));
    let page = ask_both(&gateway, "/page", &[], &["content-type"]);
    assert_eq!((page.status, page.content.as_str()), (503, "<p>{not a template}</p>"));
    assert_eq!(page.value("content-type"), "text/html; charset=utf-8");
    assert_eq!(ask_both(&gateway, "/", &[], &[]).status, 204);
    gateway.stop();
}
