//! Browsers are told which pages may use what, and what pages may do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::config;
use sluice_acceptance::filters::{ask_both, page_example};
use sluice_testkit::{Exchange, Origin, Sluice};

const FIELDS: [&str; 6] = [
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
    "vary",
];

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let gateway = Sluice::start(&page_example("cors.md", &[], ""));
    let put = "Access-Control-Request-Method: PUT";
    let reply = ask_both(
        &gateway,
        "/api/",
        &["-X", "OPTIONS", "-H", "Origin: https://shop.example", "-H", put],
        &FIELDS,
    );
    let values: Vec<&str> = FIELDS.iter().map(|name| reply.value(name)).collect();
    assert_eq!(reply.status, 204);
    assert_eq!(
        values,
        [
            "https://shop.example",
            "true",
            "GET, HEAD, POST, PUT, PATCH, DELETE",
            "content-type, x-token",
            "3600",
            "origin, access-control-request-method, access-control-request-headers"
        ]
    );
    for origin in ["https://evil.example", "https://shop.example.evil.example", "null"] {
        let origin = format!("Origin: {origin}");
        let asked = ["-X", "OPTIONS", "-H", &origin, "-H", put];
        let refused = ask_both(&gateway, "/api/", &asked, &FIELDS);
        assert_eq!((refused.status, refused.value(FIELDS[0])), (403, ""));
        let passed = ask_both(&gateway, "/api/", &["-H", &origin], &FIELDS);
        assert_eq!((passed.content.as_str(), passed.value(FIELDS[0])), ("data\n", ""));
        assert_eq!(passed.value("vary"), "origin");
    }
    let allowed = ask_both(&gateway, "/api/", &["-H", "Origin: https://a.shop.example"], &FIELDS);
    assert_eq!(allowed.value(FIELDS[0]), "https://a.shop.example");
    assert_eq!(allowed.content, "data\n");
    gateway.stop();
}

#[test]
fn what_the_origin_says_of_it_is_replaced() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.answer(200, &["Access-Control-Allow-Origin: *"], "ok")
    });
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\nproxy = \"http://{}\"\nfilters = [{{ cors = {{ origins = \"https://a\" }} }}]\n",
        origin.address()
    )));
    let reply = ask_both(&gateway, "/", &["-H", "Origin: https://b"], &FIELDS);
    assert_eq!((reply.status, reply.values(FIELDS[0]).len()), (200, 0));
    gateway.stop();
}

#[test]
fn credentials_are_not_for_everybody() {
    let scratch = sluice_testkit::Scratch::new();
    let rows = [
        ("origins = \"*\", credentials = true", "not for pages of all origins"),
        ("origins = \"shop.example\"", "is no origin"),
        ("origins = \"~ (\"", "regular expression"),
        ("methods = \"GET\"", "origins"),
    ];
    for (options, message) in rows {
        let text = config(&format!(
            "[[route]]\nrespond = \"ok\"\nfilters = [{{ cors = {{ {options} }} }}]\n"
        ));
        let file = scratch.write("sluice.toml", &text);
        let checked = sluice_testkit::run(&["check", "--config", &file.display().to_string()], "");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(checked.code != Some(0) && said.contains(message), "{options}: {said}");
    }
}

#[test]
fn pages_are_secured_as_the_example_says() {
    let example = page_example("security.md", &[], "");
    let rest = "[[route]]\npath = \"/down\"\nproxy = \"http://127.0.0.1:1\"\n\
                filters = [{ security = { frame_options = \"off\", opener_policy = \"unsafe-none\" } }]\n";
    let gateway = Sluice::start(&format!("{example}{rest}"));
    let fields = [
        "strict-transport-security",
        "x-content-type-options",
        "x-frame-options",
        "referrer-policy",
        "content-security-policy",
        "permissions-policy",
        "cross-origin-opener-policy",
        "cross-origin-resource-policy",
    ];
    let values = |path: &str| {
        let reply = ask_both(&gateway, path, &[], &fields);
        fields.map(|name| reply.value(name).to_owned())
    };
    let referrer = "strict-origin-when-cross-origin";
    let plain = ["", "nosniff", "DENY", referrer, "default-src 'self'", "", "same-origin", ""];
    assert_eq!(values("/"), plain);
    assert_eq!(values("/down"), ["", "nosniff", "", referrer, "", "", "unsafe-none", ""]);
    gateway.stop();
}
