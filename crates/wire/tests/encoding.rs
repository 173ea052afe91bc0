//! Heads on their way out: what is passed on, what is dropped, what is made anew.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop here")]

use sluice_message::{
    BodyLength, Expectation, FieldId, Method, Persistence, RequestHead, ResponseHead, Version,
};
use sluice_wire::h1::{
    Decoded, Limits, RequestFraming, ResponseFraming, Upgrade, decode_request, decode_response,
    encode_request, encode_response,
};

const LIMITS: Limits = Limits { head: 4096, fields: 100, target: 1024 };

fn request(input: &str) -> RequestHead {
    let mut head = RequestHead::new();
    let got = decode_request(input.as_bytes(), &LIMITS, &mut head);
    assert_eq!(got, Ok(Decoded::Complete { consumed: input.len() }), "{input:?}");
    head
}

fn response(input: &str, request: Method) -> ResponseHead {
    let mut head = ResponseHead::new();
    let got = decode_response(input.as_bytes(), &LIMITS, request, &mut head);
    assert_eq!(got, Ok(Decoded::Complete { consumed: input.len() }), "{input:?}");
    head
}

fn sent(head: &RequestHead, framing: RequestFraming) -> String {
    let mut out = b"before".to_vec();
    encode_request(&mut out, head, framing);
    String::from_utf8(out.split_off(6)).unwrap()
}

fn answered(head: &ResponseHead, framing: &ResponseFraming<'_>) -> String {
    let mut out = b"before".to_vec();
    encode_response(&mut out, head, framing);
    String::from_utf8(out.split_off(6)).unwrap()
}

/// Lines behind a request line and `Host: a`, and what is left of them; empty line left out.
const REQUESTS: &[(&str, &str)] = &[
    ("", ""),
    ("X: y\r\n", "X: y\r\n"),
    ("X:y\r\nZ:   z  \r\n", "X:y\r\nZ:   z  \r\n"),
    ("Connection: keep-alive\r\nX: y\r\n", "X: y\r\n"),
    ("X: y\r\nConnection: close\r\nZ: z\r\n", "X: y\r\nZ: z\r\n"),
    ("Keep-Alive: 5\r\nProxy-Connection: x\r\nX: y\r\n", "X: y\r\n"),
    ("Proxy-Authorization: x\r\nProxy-Authenticate: x\r\n", ""),
    ("Connection: x-hop\r\nX-Hop: 1\r\nx-hop: 2\r\nX-Hops: 3\r\n", "X-Hops: 3\r\n"),
    ("X-Hop: 1\r\nConnection: close, X-HOP ,\r\nConnection: y\r\nY: 2\r\nZ: 3\r\n", "Z: 3\r\n"),
    ("Connection: x-hop\r\nX_Hop: 1\r\nx.hop: 2\r\nX_Hops: 3\r\n", "X_Hops: 3\r\n"),
    ("Connection: host, x\r\nX: y\r\n", ""),
    ("Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\nX: y\r\n", "X: y\r\n"),
    ("TE: trailers\r\nConnection: te\r\n", "connection: te\r\nte: trailers\r\n"),
    ("TE: gzip, Trailers\r\n", "connection: te\r\nte: trailers\r\n"),
    ("TE: gzip\r\n", ""),
    ("Content-Length: 005\r\nX: y\r\n", "X: y\r\ncontent-length: 5\r\n"),
    ("Content-Length: 0\r\n", "content-length: 0\r\n"),
    (
        "Trailer: x\r\nTransfer-Encoding: chunked\r\nX: y\r\n",
        "Trailer: x\r\nX: y\r\ntransfer-encoding: chunked\r\n",
    ),
    ("Expect: 100-continue\r\nX: y\r\n", "X: y\r\n"),
    ("Via: 1.1 b\r\nX-Forwarded-For: c\r\n", "Via: 1.1 b\r\nX-Forwarded-For: c\r\n"),
];

#[test]
fn requests_lose_what_is_for_this_hop() {
    for (lines, kept) in REQUESTS {
        let head = request(&format!("POST /a?b HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let framing = RequestFraming { body: head.body, ..RequestFraming::default() };
        let want = format!("POST /a?b HTTP/1.1\r\nHost: a\r\n{kept}\r\n");
        assert_eq!(sent(&head, framing), want);
    }
}

#[test]
fn request_lines_are_made_where_they_cannot_be_copied() {
    let cases = [
        ("GET /a HTTP/1.0\r\nHost: a\r\n\r\n", "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("GET /a HTTP/1.0\r\n\r\n", "GET /a HTTP/1.1\r\nhost: \r\n\r\n"),
        ("GET http://b/a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a HTTP/1.1\r\nhost: b\r\n\r\n"),
        ("GET http://b/a HTTP/1.1\r\nHost: b\r\n\r\n", "GET /a HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("GET http://b HTTP/1.1\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("GET http://b?c HTTP/1.1\r\nHost: b\r\n\r\n", "GET /?c HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("OPTIONS http://b HTTP/1.1\r\nHost: b\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"),
        // The target goes on as the client wrote it; routes match the normal form.
        ("GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    for (input, want) in cases {
        assert_eq!(sent(&request(input), RequestFraming::default()), want);
    }
}

#[test]
fn changed_heads_are_sent_as_changed() {
    let mut head = request("GET /a HTTP/1.1\r\nHost: a\r\nX: y\r\nCookie: z\r\nU: v\r\n\r\n");
    head.fields.remove(FieldId::Cookie);
    head.fields.push(b"x-forwarded-for", b"1.2.3.4").unwrap();
    head.target = head.fields.append(b"/new").unwrap();
    let want = "GET /new HTTP/1.1\r\nHost: a\r\nX: y\r\nU: v\r\nx-forwarded-for: 1.2.3.4\r\n\r\n";
    assert_eq!(sent(&head, RequestFraming::default()), want);
}

/// A client must not take away what the gateway says about it by calling it hop-by-hop.
#[test]
fn only_what_the_sender_wrote_can_be_nominated() {
    let mut head = request(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: fake\r\nConnection: x-forwarded-for, x-real-ip\r\n\r\n",
    );
    head.fields.push(b"x-forwarded-for", b"1.2.3.4").unwrap();
    head.fields.push(b"x-real-ip", b"1.2.3.4").unwrap();
    let want =
        "GET / HTTP/1.1\r\nHost: a\r\nx-forwarded-for: 1.2.3.4\r\nx-real-ip: 1.2.3.4\r\n\r\n";
    assert_eq!(sent(&head, RequestFraming::default()), want);
}

#[test]
fn upgrades_and_expectations_pass_if_told_so() {
    let head = request(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTE: trailers\r\nExpect: 100-continue\r\n\r\n",
    );
    let framing = RequestFraming {
        upgrade: Upgrade::Yes,
        expectation: Expectation::Continue,
        ..RequestFraming::default()
    };
    let want = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nExpect: 100-continue\r\nconnection: upgrade, te\r\nte: trailers\r\n\r\n";
    assert_eq!(sent(&head, framing), want);
}

#[test]
fn bodies_of_requests() {
    let head = request("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    for (body, line) in [
        (BodyLength::Empty, ""),
        (BodyLength::Known(0), "content-length: 0\r\n"),
        (BodyLength::Known(u64::MAX), "content-length: 18446744073709551615\r\n"),
        (BodyLength::Framed, "transfer-encoding: chunked\r\n"),
        (BodyLength::UntilClose, "transfer-encoding: chunked\r\n"),
    ] {
        let framing = RequestFraming { body, ..RequestFraming::default() };
        assert_eq!(sent(&head, framing), format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\n"));
    }
}

/// Head of the origin, framing, what is sent.
#[test]
fn responses() {
    let plain = ResponseFraming::default();
    let known = ResponseFraming { body: BodyLength::Known(5), ..plain };
    let old = ResponseFraming { version: Version::Http10, ..known };
    let close = ResponseFraming { persistence: Persistence::Close, ..known };
    let until = ResponseFraming { body: BodyLength::UntilClose, ..plain };
    let head = ResponseFraming { request: Method::Head, ..plain };
    let upgrade = ResponseFraming { upgrade: Upgrade::Yes, ..plain };
    let cases: &[(&str, ResponseFraming<'_>, &str)] = &[
        (
            "200 OK\r\nX: y\r\nContent-Length: 5\r\nZ: z",
            known,
            "200 OK\r\nX: y\r\nZ: z\r\ncontent-length: 5",
        ),
        ("200 Fine\r\nContent-Length: 5", known, "200 Fine\r\ncontent-length: 5"),
        ("200\r\nContent-Length: 5", known, "200 OK\r\ncontent-length: 5"),
        ("299\r\nContent-Length: 5", known, "299 \r\ncontent-length: 5"),
        (
            "200 OK\r\nContent-Length: 5",
            old,
            "200 OK\r\ncontent-length: 5\r\nconnection: keep-alive",
        ),
        ("200 OK\r\nContent-Length: 5", close, "200 OK\r\ncontent-length: 5\r\nconnection: close"),
        ("200 OK\r\nX: y", until, "200 OK\r\nX: y\r\nconnection: close"),
        (
            "200 OK\r\nTransfer-Encoding: chunked",
            ResponseFraming { body: BodyLength::Framed, ..plain },
            "200 OK\r\ntransfer-encoding: chunked",
        ),
        ("200 OK\r\nX: y", plain, "200 OK\r\nX: y\r\ncontent-length: 0"),
        (
            "200 OK\r\nConnection: x\r\nKeep-Alive: 5\r\nX: y\r\nZ: z",
            plain,
            "200 OK\r\nZ: z\r\ncontent-length: 0",
        ),
        ("200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade", plain, "200 OK\r\ncontent-length: 0"),
        ("204 No Content\r\nContent-Length: 5", known, "204 No Content"),
        ("304 Not Modified\r\nContent-Length: 5", plain, "304 Not Modified\r\nContent-Length: 5"),
        ("304 Not Modified", plain, "304 Not Modified"),
        ("200 OK\r\nContent-Length: 5", head, "200 OK\r\nContent-Length: 5"),
        ("200 OK", head, "200 OK"),
        (
            "200 OK",
            ResponseFraming { body: BodyLength::Known(7), ..head },
            "200 OK\r\ncontent-length: 7",
        ),
        ("103 Early Hints\r\nLink: a\r\nContent-Length: 5", close, "103 Early Hints\r\nLink: a"),
        (
            "101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade",
            upgrade,
            "101 Switching Protocols\r\nUpgrade: x\r\nconnection: upgrade",
        ),
        (
            "426 Upgrade Required\r\nUpgrade: x",
            ResponseFraming { persistence: Persistence::Close, ..upgrade },
            "426 Upgrade Required\r\nUpgrade: x\r\ncontent-length: 0\r\nconnection: upgrade, close",
        ),
        ("200 OK", ResponseFraming { request: Method::Connect, ..known }, "200 OK"),
    ];
    for (input, framing, want) in cases {
        let head = response(&format!("HTTP/1.1 {input}\r\n\r\n"), framing.request);
        assert_eq!(answered(&head, framing), format!("HTTP/1.1 {want}\r\n\r\n"), "{input:?}");
    }
}

#[test]
fn dates_are_added_where_they_are_missing() {
    let framing = ResponseFraming { date: Some(b"now"), ..ResponseFraming::default() };
    for (input, want) in [
        ("200 OK\r\n", "200 OK\r\ndate: now\r\ncontent-length: 0\r\n"),
        ("200 OK\r\nDate: then\r\n", "200 OK\r\nDate: then\r\ncontent-length: 0\r\n"),
        ("103 Early Hints\r\n", "103 Early Hints\r\n"),
        ("304 Not Modified\r\n", "304 Not Modified\r\ndate: now\r\n"),
    ] {
        let head = response(&format!("HTTP/1.1 {input}\r\n"), Method::Get);
        assert_eq!(answered(&head, &framing), format!("HTTP/1.1 {want}\r\n"));
    }
}

#[test]
fn old_clients_get_no_interim_responses() {
    let head = response("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", Method::Get);
    let framing = ResponseFraming { version: Version::Http10, ..ResponseFraming::default() };
    assert_eq!(answered(&head, &framing), "");
}

#[test]
fn answers_made_here() {
    let mut head = ResponseHead::new();
    head.fields.push(b"content-type", b"text/plain").unwrap();
    let framing = ResponseFraming { body: BodyLength::Known(13), ..ResponseFraming::default() };
    for (status, line) in [(200, "200 OK"), (404, "404 Not Found"), (299, "299 ")] {
        head.status = status;
        let want =
            format!("HTTP/1.1 {line}\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\r\n");
        assert_eq!(answered(&head, &framing), want);
    }
}

/// What goes upstream is itself a head without doubt, and says the same.
#[test]
fn requests_survive_the_way_round() {
    for (lines, _) in REQUESTS {
        let head = request(&format!("POST /a?b HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let framing = RequestFraming { body: head.body, ..RequestFraming::default() };
        let first = sent(&head, framing);
        let again = request(&first);
        assert_eq!(again.body, head.body);
        assert_eq!(again.target(), head.target());
        assert_eq!(again.authority(), head.authority());
        assert_eq!(sent(&again, framing), first, "a second hop changes nothing");
    }
}
