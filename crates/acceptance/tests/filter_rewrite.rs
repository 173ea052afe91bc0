//! Origins are asked for other paths, queries and hosts than clients asked for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::config;
use sluice_acceptance::filters::{ask_both, page_example};
use sluice_testkit::{Origin, Sluice, behaviour};

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let address = origin.address().to_string();
    let example = page_example("rewrite.md", &[("127.0.0.1:9001", &address)], "");
    let gateway = Sluice::start(&example);
    let rows = [
        ("/api/orders?page=2&utm_source=mail", "/v2/orders?page=2", false),
        ("//%61pi/orders", "/v2/orders", false),
        ("/users/7", "/lookup?user=7", true),
        ("/users/a%3fb", "/lookup?user=a%253Fb", true),
    ];
    for (path, target, internal) in rows {
        let before = origin.requests().len();
        assert_eq!(ask_both(&gateway, path, &[], &[]).status, 200, "{path}");
        let requests = origin.requests();
        assert_eq!(requests.len(), before + 2);
        for request in requests.iter().skip(before) {
            assert_eq!(request.target, target, "{path}");
            assert_eq!(
                request.fields.all("host").collect::<Vec<_>>() == ["users.internal"],
                internal,
                "{path}"
            );
        }
    }
    gateway.stop();
}

#[test]
fn a_changed_request_may_be_for_another_route() {
    let gateway = Sluice::start(&config(
        "[[route]]\npath = \"/new/*\"\nrespond = \"new\"\n\
         [[route]]\npath = \"/old/*\"\nrespond = \"old\"\n\
         filters = [{ rewrite = { strip_prefix = \"/old\", add_prefix = \"/new\", reroute = true } }]\n\
         [[route]]\npath = \"/circle\"\nrespond = \"never\"\n\
         filters = [{ rewrite = { query = { add = { a = \"b\" } }, reroute = true } }]\n",
    ));
    assert_eq!(ask_both(&gateway, "/old/x", &[], &[]).content, "new");
    assert_eq!(ask_both(&gateway, "/circle", &[], &[]).status, 500);
    gateway.stop();
}

#[test]
fn clients_have_no_way_up_or_out() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\nproxy = \"http://{}\"\n\
         filters = [{{ rewrite = {{ path = \"/public/{{request.parameter.f}}\", host = \"{{request.header.x-host}}\" }} }}]\n",
        origin.address()
    )));
    let host = ["-H", "X-Host: a.example"];
    for path in [
        "/?f=../admin",
        "/?f=%2e%2e/admin",
        "/?f=%252e%252e%2fadmin",
        "/?f=..;/admin",
        "/?f=x%252f..%252fadmin",
        "/?f=a%5cb",
        "/?f=%2500",
        "/?f=a%0d%0aX:%20y",
    ] {
        assert_eq!(ask_both(&gateway, path, &host, &[]).status, 400, "{path}");
    }
    assert_eq!(ask_both(&gateway, "/?f=a", &["-H", "X-Host: a/b"], &[]).status, 400);
    assert!(origin.requests().is_empty());
    assert_eq!(ask_both(&gateway, "/?f=aX:%20y%3f%23", &host, &[]).status, 200);
    for request in origin.requests() {
        assert!(request.target.starts_with("/public/aX:%20y%3F%23?f="), "{}", request.target);
        assert!(request.fields.first("x").is_none());
    }
    gateway.stop();
}

#[test]
fn the_log_shows_what_the_client_asked_for() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let scratch = sluice_testkit::Scratch::new();
    let log = scratch.path().join("access.log");
    let text = config(&format!(
        "[[route]]\nproxy = \"http://{}\"\n\
         filters = [{{ rewrite = {{ path = \"/b\", host = \"b.example\" }} }}]\n",
        origin.address()
    ));
    let logged =
        format!("access = \"{{request.target}} {{request.host}}\"\nfile = \"{}\"", log.display());
    let gateway = Sluice::start(&text.replacen("access = \"off\"", &logged, 1));
    assert_eq!(ask_both(&gateway, "/a?c", &["-H", "Host: a.example"], &[]).status, 200);
    gateway.stop();
    let lines = std::fs::read_to_string(log).unwrap();
    assert_eq!(lines, "/a?c a.example\n/a?c a.example\n");
    assert!(origin.requests().iter().all(|request| request.target == "/b?c"));
}

#[test]
fn origins_are_told_the_host_that_the_client_asked_for() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let address = origin.address();
    let routes = format!(
        "[[route]]\npath = \"/again\"\nproxy = \"http://{address}\"\n\
         filters = [{{ rewrite = {{ path = \"/b\", host = \"c.example\", reroute = true }} }}]\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{address}\"\n\
         filters = [{{ rewrite = {{ host = \"{{request.parameter.to}}.internal\" }} }}]\n"
    );
    let gateway = Sluice::start(&config(&routes));
    let asked = |path: &str, fields: &[&str]| {
        let before = origin.requests().len();
        assert_eq!(ask_both(&gateway, path, fields, &[]).status, 200, "{path}");
        let requests = origin.requests();
        assert_eq!(requests.len(), before + 2);
        requests.into_iter().skip(before)
    };
    let ours = ["-H", "Host: a.example", "-H", "X-Forwarded-Host: evil.example"];
    for (path, host) in [("/?to=x", "x.internal"), ("/?to=y", "y.internal")] {
        for request in asked(path, &ours) {
            assert_eq!(request.fields.all("host").collect::<Vec<_>>(), [host]);
            let told: Vec<&str> = request.fields.all("x-forwarded-host").collect();
            assert_eq!(told, ["a.example"], "{path}");
            let element = "for=127.0.0.1;host=\"a.example\";proto=http";
            assert_eq!(request.fields.all("forwarded").collect::<Vec<_>>(), [element]);
        }
    }
    // The filters of the second route change the host again.
    for request in asked("/again", &ours) {
        assert_eq!(request.fields.first("x-forwarded-host"), Some("a.example"));
        assert_ne!(request.fields.first("host"), Some("a.example"));
    }
    // A proxy that is trusted knows better which host was asked for.
    gateway.reload(&(String::from("trusted_proxies = [\"127.0.0.1\"]\n") + &config(&routes)));
    for request in
        asked("/?to=x", &["-H", "Host: a.example", "-H", "X-Forwarded-Host: www.example"])
    {
        assert_eq!(request.fields.first("host"), Some("x.internal"));
        assert_eq!(request.fields.all("x-forwarded-host").collect::<Vec<_>>(), ["www.example"]);
        let element = "for=127.0.0.1;host=\"a.example\";proto=http";
        assert_eq!(request.fields.all("forwarded").collect::<Vec<_>>(), [element]);
    }
    gateway.stop();
}
