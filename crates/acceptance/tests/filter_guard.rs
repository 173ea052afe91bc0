//! The guard refuses requests by method and size, whatever they come by.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, ask_both, page_example};
use sluice_acceptance::{config, metric};
use sluice_testkit::{Origin, Sluice, behaviour};

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let gateway = Sluice::start(&page_example("guard.md", &[], ""));
    let long = format!("/{}", "a".repeat(100));
    let rows: [(&str, &[&str], u16); 5] = [
        ("/", &[], 200),
        ("/", &["-X", "DELETE"], 405),
        (&long, &[], 414),
        ("/", &["-d", "1234567890"], 200),
        ("/", &["-I"], 405),
    ];
    for (path, options, status) in rows {
        let reply = ask_both(&gateway, path, options, &["allow", "content-type"]);
        assert_eq!(reply.status, status, "{path} {options:?}");
        let allow = if status == 405 { "GET, POST" } else { "" };
        assert_eq!(reply.value("allow"), allow, "{path} {options:?}");
    }
    // curl loses the answer when the stream it is still sending on is reset.
    assert_eq!(ask(&gateway, "/", &["-d", "12345678901"]).status, 413);
    let count = |outcome| {
        let labels = format!("{{filter=\"/*/guard\",outcome=\"{outcome}\"}}");
        metric(&gateway.admin(), &format!("sluice_filter_outcomes_total{labels}"))
    };
    assert_eq!((count("passed"), count("refused")), (4, 7));
    gateway.stop();
}

#[test]
fn content_whose_length_nobody_announced_is_cut_off() {
    let origin = Origin::start(behaviour::echo);
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\npath = \"/known/*\"\nproxy = \"http://{0}\"\n\
         filters = [{{ guard = {{ body = 10, length_required = true }} }}]\n\
         [[route]]\nproxy = \"http://{0}\"\nfilters = [{{ guard = {{ body = 10 }} }}]\n",
        origin.address()
    )));
    let chunked = ["-H", "Transfer-Encoding: chunked", "-d"];
    let with = |content: &'static str| [&chunked[..], &[content]].concat();
    assert_eq!(ask(&gateway, "/", &with("12345678901")).status, 413);
    assert_eq!(ask(&gateway, "/", &with("1234567890")).status, 200);
    assert_eq!(ask(&gateway, "/known/", &with("1")).status, 411);
    assert_eq!(ask(&gateway, "/known/", &["-d", "1"]).status, 200);
    gateway.stop();
}

#[test]
fn fields_are_counted_and_measured() {
    let route =
        |guard: &str| format!("filters = [{{ guard = {{ {guard} }} }}]\nrespond = \"ok\"\n");
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\npath = \"/few\"\n{}[[route]]\npath = \"/short\"\n{}",
        route("fields = 10"),
        route("header = 200"),
    )));
    let many: Vec<String> = (0..20).map(|number| format!("x-{number}: 1")).collect();
    let many: Vec<&str> = many.iter().flat_map(|field| ["-H", field.as_str()]).collect();
    let long = format!("x-long: {}", "y".repeat(300));
    assert_eq!(ask_both(&gateway, "/few", &[], &[]).status, 200);
    assert_eq!(ask_both(&gateway, "/few", &many, &[]).status, 431);
    assert_eq!(ask_both(&gateway, "/short", &["-H", &long], &[]).status, 431);
    assert_eq!(ask_both(&gateway, "/short", &["-H", "x: y"], &[]).status, 200);
    gateway.stop();
}
