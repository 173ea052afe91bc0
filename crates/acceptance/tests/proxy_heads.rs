//! Heads on their way to an origin and back: what goes, what is added, what stays to the byte.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::passing;
use sluice_testkit::{
    Asked, ByteScript, Exchange, Fields, Framing, Origin, Received, Response, Scratch, Sluice, ask,
    behaviour,
};

/// What an origin gets of each of these requests, all from one address.
fn received(config: impl Fn(&str) -> String, requests: &[String]) -> Vec<Received> {
    let origin = Origin::start(behaviour::fixed(200, ""));
    let sluice = Sluice::start(&config(origin.address()));
    for request in requests {
        let answer = ask(&sluice.address("web"), request);
        assert_eq!(answer.status, 200, "{request}: {answer:?}");
    }
    sluice.stop();
    origin.requests()
}

fn plainly(address: &str) -> String {
    passing("", address, "")
}

/// `Via` without the pseudonym that each process has of its own.
fn via(fields: &Fields) -> Vec<String> {
    let named = |value: &str| match value.split_once(" sluice-") {
        Some((version, own)) if own.len() == 12 => format!("{version} sluice"),
        _ => value.to_owned(),
    };
    fields.all("via").map(named).collect()
}

fn all<'a>(fields: &'a Fields, name: &'a str) -> Vec<&'a str> {
    fields.all(name).collect()
}

#[test]
fn lines_nobody_changed_go_up_byte_for_byte() {
    let kept = [
        "User-Agent: curl/8  (two  spaces,\ttab)",
        "ACCEPT:*/*",
        "x-Case: MiXeD",
        "X-Empty:",
        "Cookie: a=1; b=\"2\"",
        "Cookie: c=3",
        "X-Latin: caf\u{e9}",
        "Authorization: Basic Zm9v",
        "Cache-Control: no-cache",
        "X-Last:   padded",
    ];
    let dropped = ["Connection: keep-alive", "Keep-Alive: timeout=5", "Proxy-Connection: close"];
    // The dropped ones at every place between.
    let mut requests = Vec::new();
    for place in 0..=kept.len() {
        let mut lines: Vec<&str> = kept.to_vec();
        dropped.iter().for_each(|line| lines.insert(place, line));
        requests.push(format!("GET /a HTTP/1.1\r\nHost: h.test\r\n{}\r\n\r\n", lines.join("\r\n")));
    }
    for request in received(plainly, &requests) {
        assert_eq!(request.lines[0], "GET /a HTTP/1.1");
        assert_eq!(request.lines[1], "Host: h.test");
        assert_eq!(request.lines[2..2 + kept.len()], kept, "{request:?}");
        let added: Vec<&str> =
            request.fields.0.iter().skip(1 + kept.len()).map(|(n, _)| n.as_str()).collect();
        assert_eq!(
            added,
            ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "via"],
            "nothing else is added"
        );
    }
}

#[test]
fn fields_of_one_hop_stay_on_it() {
    let rows: &[(&[&str], &[&str], &[&str])] = &[
        // Lines of the request, names that must not arrive, names that must.
        (
            &["Connection: X-Secret", "X-Secret: 1", "X-Open: 2"],
            &["connection", "x-secret"],
            &["x-open"],
        ),
        (
            &["Connection: close, x-a , X-B", "X-A: 1", "X-b: 2", "X-C: 3"],
            &["x-a", "x-b"],
            &["x-c"],
        ),
        (&["X-A: 1", "Connection: x-a", "Connection: x-b", "X-B: 1"], &["x-a", "x-b"], &[]),
        (
            &["Keep-Alive: timeout=5", "Proxy-Connection: keep-alive"],
            &["keep-alive", "proxy-connection"],
            &[],
        ),
        (&["TE: gzip", "Trailer: X-T"], &["te"], &[]),
        (
            &["Upgrade: h2c", "HTTP2-Settings: x", "Connection: HTTP2-Settings"],
            &["upgrade", "http2-settings"],
            &[],
        ),
        (&["Upgrade: websocket"], &["upgrade", "connection"], &[]),
        (&["Proxy-Authorization: Basic eA=="], &["proxy-authorization"], &[]),
        // What the gateway itself says cannot be nominated away, nor what routes and frames.
        (
            &["Connection: x-forwarded-for, via, forwarded, host"],
            &[],
            &["x-forwarded-for", "via", "forwarded", "host"],
        ),
    ];
    let requests: Vec<String> = rows
        .iter()
        .map(|(lines, ..)| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", lines.join("\r\n")))
        .collect();
    for (request, (lines, gone, here)) in received(plainly, &requests).iter().zip(rows) {
        for name in *gone {
            assert_eq!(request.fields.first(name), None, "{name} of {lines:?} in {request:?}");
        }
        for name in *here {
            assert!(request.fields.first(name).is_some(), "{name} of {lines:?} in {request:?}");
        }
    }
}

#[test]
fn a_content_length_cannot_be_nominated_away() {
    let request =
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 3\r\n\r\nabc";
    let seen = received(plainly, &[request.to_owned()]);
    assert_eq!((all(&seen[0].fields, "content-length"), seen[0].complete), (vec!["3"], true));
}

const FORGED: &str = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n\
                      X-Forwarded-Host: evil.test\r\nForwarded: for=6.6.6.6\r\nVia: 1.0 edge\r\n";

#[test]
fn origins_are_told_of_the_client_and_of_nobody_it_made_up() {
    for forged in ["", FORGED] {
        let request = format!("GET / HTTP/1.1\r\nHost: h.test:81\r\n{forged}\r\n");
        let seen = received(plainly, &[request]);
        let fields = &seen[0].fields;
        assert_eq!(all(fields, "x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(all(fields, "x-forwarded-proto"), ["http"]);
        assert_eq!(all(fields, "x-forwarded-host"), ["h.test:81"]);
        assert_eq!(all(fields, "forwarded"), ["for=127.0.0.1;host=\"h.test:81\";proto=http"]);
        let expected: &[&str] =
            if forged.is_empty() { &["1.1 sluice"] } else { &["1.0 edge", "1.1 sluice"] };
        assert_eq!(via(fields), expected);
    }
}

#[test]
fn a_trusted_proxys_word_is_continued() {
    let request = format!("GET / HTTP/1.1\r\nHost: h.test\r\n{FORGED}\r\n");
    let trusting = |networks: &str| {
        let line = format!("trusted_proxies = [{networks}]\n");
        received(|address| line.clone() + &passing("", address, ""), std::slice::from_ref(&request))
    };
    let seen = trusting("\"10.0.0.0/8\", \"127.0.0.0/8\"");
    let fields = &seen[0].fields;
    assert_eq!(all(fields, "x-forwarded-for"), ["6.6.6.6", "127.0.0.1"]);
    assert_eq!(all(fields, "x-forwarded-proto"), ["https"]);
    assert_eq!(all(fields, "x-forwarded-host"), ["evil.test"]);
    let element = "for=127.0.0.1;host=\"h.test\";proto=http";
    assert_eq!(all(fields, "forwarded"), ["for=6.6.6.6", element]);
    assert_eq!(via(fields), ["1.0 edge", "1.1 sluice"]);
    assert_eq!(all(&trusting("\"10.0.0.0/8\"")[0].fields, "x-forwarded-for"), ["127.0.0.1"]);
}

#[test]
fn the_host_is_the_clients_the_targets_or_the_configured_one() {
    let rows = [
        ("", "GET / HTTP/1.1\r\nHost: Client.Test:8080\r\n\r\n", "Client.Test:8080", "/"),
        (
            "",
            "GET http://target.test/a?b HTTP/1.1\r\nHost: other.test\r\n\r\n",
            "target.test",
            "/a?b",
        ),
        ("", "GET http://target.test HTTP/1.1\r\nHost: target.test\r\n\r\n", "target.test", "/"),
        (
            "",
            "GET http://target.test?q HTTP/1.1\r\nHost: target.test\r\n\r\n",
            "target.test",
            "/?q",
        ),
        ("host = \"set.test\"", "GET / HTTP/1.1\r\nHost: client.test\r\n\r\n", "set.test", "/"),
        (
            "host = \"set.test:1\"",
            "GET http://t.test/ HTTP/1.1\r\nHost: t.test\r\n\r\n",
            "set.test:1",
            "/",
        ),
        ("host = \"set.test\"", "GET / HTTP/1.0\r\n\r\n", "set.test", "/"),
        ("", "GET /old HTTP/1.0\r\nHost: client.test\r\n\r\n", "client.test", "/old"),
    ];
    for (upstream, request, host, target) in rows {
        let seen = received(|address| passing("", address, upstream), &[request.to_owned()]);
        assert_eq!(all(&seen[0].fields, "host"), [host], "{request}");
        assert_eq!((seen[0].target.as_str(), seen[0].minor), (target, 1), "{request}");
        if !upstream.is_empty() && request.contains("Host") {
            let told = seen[0].fields.first("x-forwarded-host").unwrap();
            assert_ne!(told, host, "the origin still learns what the client asked for");
        }
    }
}

#[test]
fn methods_and_targets_in_their_normal_form_are_not_touched() {
    let lines = [
        "GET /",
        "GET /?",
        "GET /?a=b&a=b&&;=",
        "GET /%41%2f%zz%",
        "GET /?q=%00%ff'\"<>",
        "GET /a;b=c,d:e@f!g$h&i",
        "DELETE /x",
        "OPTIONS /x",
        "PURGE /x",
        "M-SEARCH /x",
        "PROPFIND /x",
        "X /x",
        "GET /%E2%82%AC",
    ];
    let origin = Origin::start(behaviour::fixed(200, ""));
    let sluice = Sluice::start(&plainly(origin.address()));
    for line in lines {
        let before = origin.requests().len();
        let answer = ask(&sluice.address("web"), &format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let seen = origin.requests();
        // What has no one meaning is refused; whatever passes is what the client wrote.
        match answer.status {
            200 => assert_eq!(seen.last().unwrap().lines[0], format!("{line} HTTP/1.1")),
            400 => assert_eq!((seen.len(), line), (before, "GET /%41%2f%zz%")),
            other => panic!("{line}: {other}"),
        }
    }
    sluice.stop();
}

/// What clients get of this answer.
fn answered(bytes: &str, request: &str) -> Response {
    let origin = Origin::start(behaviour::raw(bytes.as_bytes(), sluice_testkit::After::Next));
    let sluice = Sluice::start(&plainly(origin.address()));
    let answer = ask(&sluice.address("web"), request);
    sluice.stop();
    answer
}

#[test]
fn answers_lose_what_belongs_to_one_hop_and_nothing_else() {
    let bytes = "HTTP/1.1 299 Very Fine Indeed\r\nServer: x/1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
                 Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\n\
                 Proxy-Authenticate: Basic\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Empty:\r\n\
                 Upgrade: h2c\r\nContent-Length: 2\r\n\r\nhi";
    let answer = answered(bytes, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, answer.reason.as_str()), (299, "Very Fine Indeed"));
    for name in ["connection", "x-hop", "keep-alive", "upgrade"] {
        assert_eq!(answer.fields.first(name), None, "{name}: {answer:?}");
    }
    assert_eq!(all(&answer.fields, "set-cookie"), ["a=1", "b=2"]);
    assert_eq!(all(&answer.fields, "date"), ["Thu, 01 Jan 1970 00:00:00 GMT"]);
    assert_eq!(all(&answer.fields, "x-empty"), [""]);
    let names: Vec<&str> = answer.fields.0.iter().map(|(name, _)| name.as_str()).take(4).collect();
    assert_eq!(names, ["Server", "Date", "Set-Cookie", "set-cookie"], "{answer:?}");
    let dateless = answered(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(all(&dateless.fields, "date").len(), 1);
}

#[test]
fn clients_of_the_old_protocol_get_what_they_understand() {
    let keeping = "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    let known = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let answer = answered(known, "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!((answer.text().as_str(), answer.framing), ("hi", Framing::Length));
    assert!(!answer.fields.has_token("connection", "keep-alive"));
    let answer = answered(known, keeping);
    assert!(answer.fields.has_token("connection", "keep-alive"), "{answer:?}");
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-T: 1\r\n\r\n";
    let answer = answered(chunked, keeping);
    assert_eq!((answer.text().as_str(), answer.framing), ("hi", Framing::UntilClose));
    assert_eq!(answer.fields.first("transfer-encoding"), None);
    // An origin of the old protocol.
    let old = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let answer = answered(old, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.minor, answer.text().as_str()), (1, "hi"));
}

#[test]
fn heads_arrive_whole_in_any_pieces_and_over_unix_sockets() {
    let scratch = Scratch::new();
    let origin = Origin::start_unix(&scratch.path().join("o.sock"), |exchange: &mut Exchange| {
        for byte in b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\n\r\nhi" {
            exchange.write([*byte])?;
        }
        Ok(())
    });
    let config = plainly(origin.address());
    let local = format!("unix:{}/web.sock", scratch.path().display());
    let sluice = Sluice::start(&config.replacen(
        "name = \"web\"\naddress = \"127.0.0.1:0\"",
        &format!("name = \"web\"\naddress = \"{local}\""),
        1,
    ));
    assert_eq!(sluice.address("web"), local);
    let mut client = ByteScript::connect(&local);
    client.send_pieces(b"GET /pieces HTTP/1.1\r\nHost: a\r\nX-Long: 0123456789\r\n\r\n", 1);
    let answer = client.read_response(Asked::Get).unwrap();
    assert_eq!((answer.text().as_str(), answer.fields.first("x-a")), ("hi", Some("b")));
    assert_eq!(origin.last_request().fields.first("x-long"), Some("0123456789"));
    sluice.stop();
}
