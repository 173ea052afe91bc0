//! Headers that change responses at common servers: what one client provokes by them, no other client is given.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fmt::Write as _;

use sluice_acceptance::PREAMBLE;
use sluice_testkit::{Exchange, Origin, Sluice, ask};

/// Names that frameworks, servers and CDNs read, and that the literature on cache poisoning tries.
const OVERRIDES: &[&str] = &[
    "X-Original-URL",
    "X-Original-URI",
    "X-Original-Host",
    "X-Rewrite-URL",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-HTTP-Host-Override",
    "X-HTTP-Status-Code-Override",
    "X-HTTP-DestinationURL",
    "X-Method-Override",
    "X-Host",
    "X-Backend-Host",
    "X-Wap-Profile",
    "X-Amz-Website-Redirect-Location",
    "X-Script-Name",
    "X-Request-URI",
    "Request-URI",
    "Base-URL",
    "X-Middleware-Subrequest",
    "X-Middleware-Prefetch",
    "X-Invoke-Path",
    "X-Invoke-Status",
    "Surrogate-Capability",
    "Proxy",
    "Translate",
];

/// What proxies say of how a request came.
const ORIGINS: &[&str] = &[
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Scheme",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Forwarded-Path",
    "X-Forwarded-Uri",
    "X-Forwarded",
    "Front-End-Https",
    "X-Url-Scheme",
    "X-Scheme",
    "X-Proto",
    "CF-Visitor",
    "CF-IPCountry",
    "CloudFront-Forwarded-Proto",
    "CloudFront-Is-Mobile-Viewer",
    "Fastly-SSL",
    "Fastly-Host",
];

/// What proxies say of the client.
const CLIENTS: &[&str] = &[
    "X-Real-IP",
    "True-Client-IP",
    "CF-Connecting-IP",
    "CF-Ray",
    "Fastly-Client-IP",
    "X-Client-IP",
    "Client-IP",
    "X-Cluster-Client-IP",
    "X-Azure-ClientIP",
];

/// Says every header in its body, and lets it be cached.
fn reflect(exchange: &mut Exchange) -> std::io::Result<()> {
    let lines = exchange.head().lines.join("\n");
    exchange.answer(200, &["Cache-Control: max-age=600"], lines)
}

fn body(address: &str, path: &str, lines: &str) -> String {
    let reply = ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}Connection: close\r\n\r\n"),
    );
    String::from_utf8_lossy(&reply.body).into_owned()
}

fn start(origin: &Origin, trusted: &str, listener: &str, key: &str) -> Sluice {
    let mut config = format!("{trusted}{PREAMBLE}{listener}\n[filter.pages.cache]\n{key}\n");
    write!(config, "[[route]]\nproxy = \"http://{}\"\nfilters = [\"pages\"]\n", origin.address())
        .unwrap();
    Sluice::start(&config)
}

#[test]
fn nobody_is_given_what_a_header_has_provoked() {
    let origin = Origin::start(reflect);
    let trusted = "trusted_proxies = [\"127.0.0.1\"]\n";
    for (trusted, names) in
        [("", [OVERRIDES, ORIGINS, CLIENTS].concat()), (trusted, [OVERRIDES, ORIGINS].concat())]
    {
        let gateway = start(&origin, trusted, "", "");
        let web = gateway.address("web");
        for (at, name) in names.iter().enumerate() {
            let path = format!("/{at}");
            let provoked = body(&web, &path, &format!("{name}: evil\r\n"));
            let given = body(&web, &path, "");
            assert!(!given.contains("evil"), "{trusted}{name}: {provoked}\n{given}");
            // What is cached is given to nobody who sends the header either, unless that says the same.
            let told = body(&web, &path, &format!("{name}: other\r\n"));
            assert!(!told.contains("evil"), "{trusted}{name}: {told}");
        }
        // Without any of them things are cached.
        let before = origin.requests().len();
        assert_eq!(body(&web, "/0", ""), body(&web, "/0", ""));
        assert_eq!(origin.requests().len(), before);
        gateway.stop();
    }
}

#[test]
fn what_trusted_proxies_say_is_part_of_the_key() {
    let origin = Origin::start(reflect);
    let gateway = start(&origin, "trusted_proxies = [\"127.0.0.1\"]\n", "", "");
    let web = gateway.address("web");
    let asked = |lines: &str| {
        let before = origin.requests().len();
        body(&web, "/", lines);
        origin.requests().len() - before
    };
    for (lines, count) in [
        ("X-Forwarded-Port: 81\r\n", 1),
        ("X-Forwarded-Port: 81\r\nX-Real-IP: 192.0.2.1\r\n", 0),
        ("X-Forwarded-Port: 82\r\n", 1),
        ("X-Forwarded-Port: 81\r\n", 0),
        ("Forwarded: for=192.0.2.1;proto=https\r\n", 1),
        ("Forwarded: for=192.0.2.2;proto=https\r\n", 0),
        ("Forwarded: for=192.0.2.2;proto=http\r\n", 1),
        ("Forwarded: for=192.0.2.2;proto=https;host=b\r\n", 1),
    ] {
        assert_eq!(asked(lines), count, "{lines}");
    }
    gateway.stop();
}

#[test]
fn names_that_look_like_a_part_of_the_key_share_nothing() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        let lines = exchange.head().lines.join("\n");
        exchange.answer(200, &["Cache-Control: max-age=600", "Vary: X-Kind"], lines)
    });
    let gateway = start(
        &origin,
        "",
        "ambiguous_headers = \"keep\"",
        "key = [\"scheme\", \"host\", \"path\", \"query\", \"header:x-tenant\"]",
    );
    let web = gateway.address("web");
    for (at, line) in
        ["X_Tenant: evil", "x.kind: evil", "X_Host: evil", "X_Kind: evil"].iter().enumerate()
    {
        let path = format!("/{at}");
        assert!(body(&web, &path, &format!("{line}\r\n")).contains("evil"), "{line} is kept");
        for other in ["", "X-Kind: evil\r\n", "X-Tenant: a\r\n"] {
            let given = body(&web, &path, other);
            assert!(!given.to_lowercase().contains(&line.to_lowercase()), "{line}: {given}");
        }
    }
    // Other names of that kind do no harm.
    body(&web, "/other", "Device_Id: 5\r\n");
    let before = origin.requests().len();
    body(&web, "/other", "");
    assert_eq!(origin.requests().len(), before);
    gateway.stop();
}
