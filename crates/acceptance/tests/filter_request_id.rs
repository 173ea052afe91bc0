//! Each request has an identifier that origin, client and log share.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::config;
use sluice_acceptance::filters::{ask, ask_http2, page_example};
use sluice_testkit::{Origin, Sluice, behaviour};

#[test]
fn the_example_of_the_page_makes_identifiers() {
    let gateway = Sluice::start(&page_example("request_id.md", &[], "").replacen(
        "log.access = \"off\"\n",
        "",
        1,
    ));
    let mut seen = Vec::new();
    for reply in [ask(&gateway, "/", &[]), ask_http2(&gateway, "/", &[]), ask(&gateway, "/", &[])] {
        let id = reply.value("x-request-id").to_owned();
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
        assert!(id.split('-').nth(2).is_some_and(|part| part.starts_with('7')), "{id}");
        seen.push(id);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3);
    gateway.stop();
}

#[test]
fn identifiers_are_taken_over_from_those_who_may() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let route = |path: &str, options: &str| {
        format!(
            "[[route]]\npath = \"/{path}\"\nproxy = \"http://{}\"\nfilters = [{{ request_id = {{ {options} }} }}]\n",
            origin.address()
        )
    };
    let rest = [
        route("always", "accept = \"always\""),
        route("never", "accept = \"never\""),
        route("nobody", ""),
        route("quiet", "respond = false, header = \"x-trace\""),
    ];
    let gateway = Sluice::start(&config(&rest.concat()));
    for (path, brought, taken) in [
        ("/always", "abc-1", true),
        ("/always", "a b", false),
        ("/always", "<script>", false),
        ("/never", "abc-1", false),
        ("/nobody", "abc-1", false),
    ] {
        let field = format!("X-Request-Id: {brought}");
        for ask in [ask, ask_http2] {
            let reply = ask(&gateway, path, &["-H", &field]);
            let id = reply.value("x-request-id");
            assert_eq!(id == brought, taken, "{path} {brought} {id}");
            let request = origin.last_request();
            assert_eq!(request.fields.all("x-request-id").collect::<Vec<_>>(), [id]);
        }
    }
    let reply = ask(&gateway, "/quiet", &["-H", "X-Request-Id: mine"]);
    assert!(reply.values("x-trace").is_empty());
    let request = origin.last_request();
    assert_eq!(request.fields.all("x-trace").count(), 1);
    gateway.stop();
}
