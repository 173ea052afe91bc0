//! What listeners make of requests that leave something open: no `Host`, two authorities, TRACE, `Forwarded`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::filters::{ask, ask_http2};
use sluice_acceptance::peers::nginx;
use sluice_acceptance::{PREAMBLE, metric};
use sluice_testkit::{ByteScript, Origin, Sluice, ask as ask_raw, behaviour};

#[test]
fn trace_is_refused_unless_it_is_allowed() {
    let origin = Origin::start(behaviour::echo);
    let start = |option: &str| {
        let routes = format!(
            "[[route]]\npath = \"/get\"\nmethod = \"GET\"\nproxy = \"http://{0}\"\n\
             [[route]]\npath = \"/*\"\nproxy = \"http://{0}\"\n",
            origin.address()
        );
        Sluice::start(&format!("{PREAMBLE}{option}\n{routes}"))
    };
    let gateway = start("");
    for ask in [ask, ask_http2] {
        let reply = ask(&gateway, "/a", &["-X", "TRACE", "-H", "Cookie: secret=1"]);
        assert_eq!(
            (reply.status, reply.value("allow")),
            (405, "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH")
        );
        assert!(!reply.content.contains("secret"));
        let reply = ask(&gateway, "/get", &["-X", "TRACE"]);
        assert_eq!(reply.status, 405);
        assert!(reply.value("allow").contains("GET") && !reply.value("allow").contains("TRACE"));
    }
    let reply = ask_raw(gateway.address("web").as_str(), "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!reply.fields.first("allow").unwrap().contains("TRACE"));
    assert_eq!(origin.requests().len(), 0);
    assert_eq!(
        metric(
            &gateway.admin(),
            "sluice_faults_total{side=\"downstream\",reason=\"method_not_allowed\"}"
        ),
        4
    );
    gateway.stop();
    let gateway = start("trace_method = \"allow\"");
    for ask in [ask, ask_http2] {
        assert_eq!(ask(&gateway, "/a", &["-X", "TRACE"]).status, 200);
    }
    assert!(origin.requests().iter().all(|request| request.method == "TRACE"));
    gateway.stop();
}

#[test]
fn a_request_without_host_is_for_the_address_it_came_to() {
    let origin = Origin::start(behaviour::echo);
    // A server that refuses an empty `Host`.
    let strict = nginx("", "location / { return 200 \"$http_host\"; }");
    let gateway = Sluice::start(&format!(
        "{PREAMBLE}[[route]]\nhost = \"named.example\"\nrespond = \"named\"\n\
         [[route]]\npath = \"/strict\"\nproxy = \"http://{}\"\n\
         [[route]]\npath = \"/away\"\nredirect = {{ to = \"https://{{host}}/there\" }}\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{}\"\n",
        strict.address,
        origin.address()
    ));
    let web = gateway.address("web");
    let text = |path: &str, more: &str| {
        let reply = ask_raw(&web, &format!("GET {path} HTTP/1.0\r\n{more}\r\n"));
        (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
    };
    assert_eq!(text("/strict", ""), (200, web.clone()));
    let (status, content) = text("/", "X-A: b\r\n");
    let hosts: Vec<&str> =
        content.lines().filter(|line| line.to_lowercase().starts_with("host:")).collect();
    assert_eq!((status, hosts), (200, vec![format!("host: {web}").as_str()]), "{content}");
    assert!(content.contains(&format!("x-forwarded-host: {web}")), "{content}");
    assert_eq!(text("/", "Host: named.example\r\n"), (200, "named".to_owned()));
    // An absolute target names its host, with or without the header.
    let reply = ask_raw(&web, "GET http://named.example/ HTTP/1.0\r\n\r\n");
    assert_eq!(String::from_utf8_lossy(&reply.body), "named");
    // HTTP/1.1 needs one (RFC 9112, 3.2).
    assert_eq!(ask_raw(&web, "GET / HTTP/1.1\r\n\r\n").status, 400);
    let away = ask_raw(&web, "GET /away HTTP/1.0\r\n\r\n");
    assert!(away.fields.first("location").unwrap().starts_with("https://127.0.0.1"));
    gateway.stop();
}

#[test]
fn an_authority_and_a_host_that_mean_the_same_are_one() {
    let gateway = Sluice::start(&format!("{PREAMBLE}[[route]]\nrespond = \"{{request.host}}\"\n"));
    // curl sends `Host` as `:authority`; a second one it would not send.
    let web = gateway.address("web");
    for (host, authority, status) in [
        ("a.example:80", "a.example", 200),
        ("A.EXAMPLE", "a.example:", 200),
        ("a.example:443", "a.example", 400),
        ("b.example", "a.example", 400),
    ] {
        let got = two_authorities(&web, authority, host);
        assert_eq!(got, status, "{authority} and {host}");
    }
    gateway.stop();
}

/// The status of a request over HTTP/2 with both, 400 if its stream is reset. No client writes such a head: it is put
/// together here, of literals without an index (RFC 7541, 6.2.2).
fn two_authorities(address: &str, authority: &str, host: &str) -> u16 {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", authority),
        ("host", host),
    ];
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend([&[0, length(name)][..], name.as_bytes()].concat());
        block.extend([&[length(value)][..], value.as_bytes()].concat());
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // HEADERS with END_STREAM and END_HEADERS, on stream 1.
    bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    let mut client = ByteScript::connect(address);
    client.send(bytes);
    loop {
        let header = client.read_exactly(9).unwrap();
        let length = usize::from(header[1]) << 8 | usize::from(header[2]);
        let payload = client.read_exactly(length).unwrap();
        match (header[3], payload.first()) {
            // `:status: 200` of the static table.
            (1, Some(0x88)) => return 200,
            (1, _) | (3, _) => return 400,
            _ => {}
        }
    }
}

#[test]
fn forwarded_of_a_trusted_proxy_names_the_client() {
    let origin = Origin::start(behaviour::echo);
    let start = |trusted: &str| {
        Sluice::start(&format!(
            "{trusted}{}\n[[route]]\nproxy = \"http://{}\"\nfilters = [{{ ip = {{ deny = [\"192.0.2.7\"] }} }}]\n",
            PREAMBLE,
            origin.address()
        ))
    };
    let refused = [
        "Forwarded: for=192.0.2.7",
        "Forwarded: for=198.51.100.1, for=\"192.0.2.7:4711\";proto=https",
    ];
    let passed = [
        "Forwarded: for=192.0.2.7, for=198.51.100.1",
        "Forwarded: for=192.0.2.7, for=unknown",
        "X-Other: for=192.0.2.7",
    ];
    for (trusted, status) in [("trusted_proxies = [\"127.0.0.1\"]\n", 403), ("", 200)] {
        let gateway = start(trusted);
        for ask in [ask, ask_http2] {
            for line in refused {
                assert_eq!(ask(&gateway, "/", &["-H", line]).status, status, "{trusted} {line}");
                // What most proxies write is read first.
                let both = ["-H", line, "-H", "X-Forwarded-For: 198.51.100.1"];
                assert_eq!(ask(&gateway, "/", &both).status, 200, "{trusted} {line}");
            }
            for line in passed {
                assert_eq!(ask(&gateway, "/", &["-H", line]).status, 200, "{trusted} {line}");
            }
        }
        gateway.stop();
    }
}
