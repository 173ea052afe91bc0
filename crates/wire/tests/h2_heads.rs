//! Heads through both sides of a connection: what goes in comes out, and means what it means in HTTP/1.1.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop here"
)]

use sluice_message::{
    BodyLength, Expectation, FaultKind, FieldId, Fields, Method, RequestHead, ResponseHead, Version,
};
use sluice_wire::h1::{Decoded, RequestFraming, decode_request, decode_response, encode_request};
use sluice_wire::h2::{
    ClientConnection, Config, End, Event, Input, RequestOptions, ResponseOptions, Scheme,
    ServerConnection, StreamId, Tunnel,
};

/// Both sides of a connection, greeted.
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
    request: RequestHead,
    response: ResponseHead,
}

impl Pair {
    fn new() -> Self {
        let config = Config::default();
        let mut pair = Self {
            client: ClientConnection::client(&config),
            server: ServerConnection::server(&config),
            request: RequestHead::new(),
            response: ResponseHead::new(),
        };
        for _ in 0..2 {
            let mut up = Vec::new();
            pair.client.flush(&mut up);
            pair.up(&up);
            let mut down = Vec::new();
            pair.server.flush(&mut down);
            pair.down(&down);
        }
        pair
    }

    /// The last event at the server.
    fn up(&mut self, bytes: &[u8]) -> Option<Event> {
        let mut input = Input::new(bytes);
        let mut last = None;
        while let Some(event) =
            self.server.next(&mut input, 0, &mut self.request, &mut Fields::new()).unwrap()
        {
            last = Some(event);
        }
        assert_eq!(input.consumed(), bytes.len());
        last
    }

    fn down(&mut self, bytes: &[u8]) -> Option<Event> {
        let mut input = Input::new(bytes);
        let mut last = None;
        while let Some(event) =
            self.client.next(&mut input, 0, &mut self.response, &mut Fields::new()).unwrap()
        {
            last = Some(event);
        }
        assert_eq!(input.consumed(), bytes.len());
        last
    }

    /// Sends a request; the server's head is filled.
    fn ask(&mut self, head: &RequestHead) -> StreamId {
        let end = if head.has_content() { End::More } else { End::Stream };
        let options = RequestOptions {
            scheme: Scheme::Https,
            body: head.body,
            expectation: head.expectation,
            end,
            tunnel: Tunnel::AsInHead,
        };
        let mut out = Vec::new();
        self.client.request(&mut out, head, &options).unwrap();
        match self.up(&out) {
            Some(Event::Head { about, end: got }) if got == end => about.stream,
            other => panic!("{other:?}"),
        }
    }

    /// Answers it; the client's head is filled.
    fn answer(&mut self, stream: StreamId, head: &ResponseHead, request: Method) {
        let end = if head.body == BodyLength::Empty { End::Stream } else { End::More };
        let options =
            &ResponseOptions { request, body: head.body, date: None, strict_transport: None, end };
        let mut out = Vec::new();
        self.server.respond(&mut out, stream, head, options).unwrap();
        let got = self.down(&out);
        assert!(matches!(got, Some(Event::Head { end: have, .. }) if have == end), "{got:?}");
        if end == End::More {
            out.clear();
            let content = match head.body {
                BodyLength::Known(length) => vec![b'x'; usize::try_from(length).unwrap()],
                _ => Vec::new(),
            };
            self.server.data(&mut out, stream, &content, End::Stream).unwrap();
            assert!(matches!(self.down(&out), Some(Event::Data { end: End::Stream, .. })));
        }
    }
}

fn limits() -> sluice_wire::h1::Limits {
    Config::default().limits
}

fn h1(text: &str) -> RequestHead {
    let mut head = RequestHead::new();
    let got = decode_request(text.as_bytes(), &limits(), &mut head);
    assert_eq!(got, Ok(Decoded::Complete { consumed: text.len() }), "{text}");
    head
}

/// All that a head says, its version apart.
fn meaning(head: &RequestHead) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let (method, target, path) = (head.method_text(), head.target(), head.path());
    let parts = [method, target, path, head.query(), head.authority(), head.protocol()].map(text);
    let lines: Vec<_> = head.fields.lines().iter().collect();
    let bytes: Vec<_> = lines.iter().map(|line| text(head.fields.slice(line.line()))).collect();
    let ids: Vec<_> = lines.iter().map(|line| line.id).collect();
    let rest = (head.method, head.form, head.body, head.persistence, head.expectation);
    format!("{parts:?} {bytes:?} {ids:?} {rest:?}")
}

/// A request that came by HTTP/1.1 and went on by HTTP/2 is, but for its version, line for line what a
/// server of HTTP/1.1 would have read.
#[test]
fn requests_are_the_same_in_both_protocols() {
    let texts = [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /a/b?c=d HTTP/1.1\r\nhost: a.example:8080\r\naccept: */*\r\nx-y: 1\r\nx-y: 2\r\n\r\n",
        "GET /a/../b//c HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /%61%2f?%zz HTTP/1.1\r\nhost: a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: [::1]:80\r\n\r\n",
        "M-SEARCH / HTTP/1.1\r\nhost: a\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n",
        "PUT /x HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: y\r\ncookie: a=b; c=d\r\n\r\n",
    ];
    let mut pair = Pair::new();
    for _ in 0..4 {
        for text in texts {
            let sent = h1(text);
            let stream = pair.ask(&sent);
            let got = &pair.request;
            assert_eq!(got.version, Version::Http2);
            let connect = sent.method == Method::Connect;
            let body = if connect { BodyLength::Empty } else { sent.body };
            assert_eq!(meaning(got), meaning(&RequestHead { body, ..sent.clone() }), "{text}");
            // And goes on by HTTP/1.1 as it came.
            let mut again = Vec::new();
            let framing = RequestFraming {
                body: got.body,
                expectation: got.expectation,
                ..RequestFraming::default()
            };
            encode_request(&mut again, got, framing);
            let (again, te) =
                (String::from_utf8(again).unwrap(), "connection: te\r\nte: trailers\r\n");
            assert_eq!(again.replace(te, "te: trailers\r\n"), text);
            pair.server.reset(stream, sluice_wire::h2::ErrorCode::NO_ERROR);
            let mut out = Vec::new();
            pair.server.flush(&mut out);
            pair.down(&out);
        }
    }
}

#[test]
fn what_belongs_to_one_hop_stays_there() {
    let mut pair = Pair::new();
    pair.ask(&h1(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Hop, te\r\nKeep-Alive: 1\r\n\
         X-Hop: 1\r\nTE: gzip, trailers\r\nProxy-Authorization: x\r\nUpgrade: h2c\r\nX-Kept: 1\r\n\r\n",
    ));
    let lines: Vec<_> = pair.request.fields.iter().collect();
    assert_eq!(lines, [(&b"host"[..], &b"a"[..]), (b"x-kept", b"1"), (b"te", b"trailers")]);
}

#[test]
fn lengths_of_responses() {
    let known = BodyLength::Known(5);
    let cases = [
        (Method::Get, 200, "", BodyLength::Empty, None),
        (Method::Get, 200, "content-length: 0\r\n", BodyLength::Empty, Some("0")),
        (Method::Head, 200, "content-length: 7\r\n", BodyLength::Empty, Some("7")),
        (Method::Get, 304, "content-length: 7\r\n", BodyLength::Empty, Some("7")),
        (Method::Get, 204, "", BodyLength::Empty, None),
        (Method::Get, 200, "content-length: 5\r\n", known, Some("5")),
        (Method::Get, 200, "", known, Some("5")),
        (Method::Get, 200, "", BodyLength::Framed, None),
        (Method::Get, 200, "content-length: 5\r\n", BodyLength::Framed, None),
    ];
    for (method, status, line, body, want) in cases {
        let mut pair = Pair::new();
        let stream = pair.ask(&h1(&format!("{} / HTTP/1.1\r\nhost: a\r\n\r\n", name(method))));
        let mut head = ResponseHead::new();
        let text = format!("HTTP/1.1 {status} Reason\r\n{line}\r\n");
        decode_response(text.as_bytes(), &limits(), Method::Head, &mut head).unwrap();
        head.body = body;
        pair.answer(stream, &head, method);
        let got = pair.response.fields.value(FieldId::ContentLength);
        assert_eq!(got, want.map(str::as_bytes), "{method:?} {status} {line}");
        assert_eq!(pair.response.status, status);
    }
}

fn name(method: Method) -> &'static str {
    if method == Method::Head { "HEAD" } else { "GET" }
}

/// Random heads over one connection, so that the tables fill, evict and are met again.
#[test]
fn random_heads_go_round() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut pair = Pair::new();
    let mut pool: Vec<(String, String)> = Vec::new();
    for _ in 0..3000 {
        let mut head = RequestHead::new();
        head.method = Method::Get;
        head.method_text = head.fields.append(b"GET").unwrap();
        let target = format!("/{}", random.text(b"abc/=&?%2F~-", 30).replace("%", "%25"));
        head.target = head.fields.append(target.as_bytes()).unwrap();
        head.authority = head.fields.append(b"a.example").unwrap();
        random.fields(&mut head.fields, &mut pool);
        let stream = pair.ask(&head);
        assert_eq!(pair.request.target(), target.as_bytes());
        assert_same(&pair.request.fields, &head.fields, 1);
        let mut answer = ResponseHead::new();
        answer.status = u16::try_from(200 + random.below(400)).unwrap();
        random.fields(&mut answer.fields, &mut pool);
        answer.body = match (answer.status, random.below(3)) {
            (204 | 304, _) | (_, 0) => BodyLength::Empty,
            (_, 1) => BodyLength::Framed,
            _ => BodyLength::Known(3),
        };
        pair.answer(stream, &answer, Method::Get);
        assert_eq!(pair.response.status, answer.status);
        let length = usize::from(answer.body == BodyLength::Known(3));
        let lines = pair.response.fields.iter().count();
        assert_eq!(lines, answer.fields.iter().count() + length);
        let mut kept = pair.response.fields.clone();
        kept.remove(FieldId::ContentLength);
        assert_same(&kept, &answer.fields, 0);
        let mut out = Vec::new();
        pair.client.flush(&mut out);
        pair.up(&out);
    }
}

/// The same lines in the same order, names in lower case, behind so many others; cookies come last.
fn assert_same(got: &Fields, sent: &Fields, before: usize) {
    let got: Vec<_> = got.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
    let sent: Vec<_> = sent.iter().map(|(n, v)| (n.to_ascii_lowercase(), v.to_vec())).collect();
    assert_eq!(got[before..], sent);
}

/// Xorshift (Marsaglia), enough to mix cases.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn text(&mut self, letters: &[u8], most: u64) -> String {
        let count = u64::try_from(letters.len()).unwrap();
        let length = self.below(most);
        (0..length)
            .map(|_| char::from(letters[usize::try_from(self.below(count)).unwrap()]))
            .collect()
    }

    fn fields(&mut self, fields: &mut Fields, pool: &mut Vec<(String, String)>) {
        for _ in 0..self.below(8) {
            let known =
                ["Accept", "x-request-id", "ETag", "Vary", "Authorization", "Via", "server"];
            let pair = if !pool.is_empty() && self.below(3) > 0 {
                let count = u64::try_from(pool.len()).unwrap();
                pool[usize::try_from(self.below(count)).unwrap()].clone()
            } else {
                let name = match self.below(2) {
                    0 => known[usize::try_from(self.below(7)).unwrap()].to_owned(),
                    _ => format!("X{}", self.text(b"abcXYZ-09_", 90)),
                };
                let value = format!(
                    "v{}\u{e4}.",
                    self.text(b"abc \t\"/0\xc3", 200).replace('\u{c3}', "\u{e4}")
                );
                (name, value)
            };
            fields.push(pair.0.as_bytes(), pair.1.as_bytes()).unwrap();
            if pool.len() < 40 {
                pool.push(pair);
            }
        }
    }
}

/// The same request again and again is read by comparing; every change in it is seen all the same.
#[test]
fn repeated_requests_are_told_apart() {
    let mut pair = Pair::new();
    let texts = [
        "GET / HTTP/1.1\r\nhost: a\r\nuser-agent: one\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nuser-agent: two\r\n\r\n",
        "GET /b HTTP/1.1\r\nhost: a\r\nuser-agent: two\r\n\r\n",
    ];
    let mut sequence: Vec<usize> = [0; 6].into_iter().chain([1; 6]).chain([2; 6]).collect();
    sequence.extend([0, 0, 1, 1, 0, 1, 2, 0, 0, 0]);
    for number in sequence {
        let sent = h1(texts[number]);
        let stream = pair.ask(&sent);
        assert_eq!(meaning(&pair.request), meaning(&sent));
        let head = ResponseHead { status: 200, ..ResponseHead::new() };
        pair.answer(stream, &head, Method::Get);
    }
    assert_eq!(pair.server.streams(), 0);
}

/// So are answers.
#[test]
fn repeated_answers_are_told_apart() {
    let mut pair = Pair::new();
    let plain: &[(&str, &str)] = &[("server", "x"), ("content-type", "text/plain")];
    let other: &[(&str, &str)] = &[("server", "x"), ("content-type", "text/html")];
    let answers = [(200, plain, 3), (200, other, 3), (200, plain, 4), (404, plain, 3)];
    let mut sequence: Vec<usize> = (0..4).flat_map(|number| [number; 6]).collect();
    sequence.extend([0, 0, 1, 2, 0, 3, 3, 0, 1, 0, 0, 0, 0]);
    for (round, number) in sequence.into_iter().enumerate() {
        let (status, fields, length) = answers[number];
        let stream = pair.ask(&h1("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
        let mut head = ResponseHead { status, ..ResponseHead::new() };
        for (name, value) in fields {
            head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        if round % 5 == 4 {
            head.fields.remove(FieldId::Server);
        }
        head.body = BodyLength::Known(length);
        pair.answer(stream, &head, Method::Get);
        assert_eq!(pair.response.status, status);
        assert_eq!(pair.response.body, BodyLength::Known(length));
        let got: Vec<_> = pair.response.fields.iter().map(|(_, value)| value).collect();
        let mut want: Vec<_> = head.fields.iter().map(|(_, value)| value).collect();
        let length = length.to_string();
        want.push(length.as_bytes());
        assert_eq!(got, want);
    }
}

/// A head larger than a frame is cut up and put together again; `Expect` goes on only where asked.
#[test]
fn heads_larger_than_a_frame() {
    let mut pair = Pair::new();
    let mut head = h1("GET / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\r\n");
    head.expectation = Expectation::None;
    let value = "v".repeat(9_000);
    for _ in 0..3 {
        head.fields.push(b"x-large", value.as_bytes()).unwrap();
    }
    pair.ask(&head);
    assert_eq!(pair.request.fields.values_of(b"x-large").count(), 3);
    assert_eq!(pair.request.fields.value(FieldId::Expect), None);
    head.fields.push(b"x-large", value.as_bytes()).unwrap();
    let options = RequestOptions {
        scheme: Scheme::Http,
        body: BodyLength::Empty,
        expectation: Expectation::None,
        end: End::Stream,
        tunnel: Tunnel::AsInHead,
    };
    let mut out = Vec::new();
    pair.client.request(&mut out, &head, &options).unwrap();
    let got = pair.up(&out);
    let kind = FaultKind::HeadTooLarge;
    assert!(matches!(got, Some(Event::Unacceptable { kind: have, .. }) if have == kind), "{got:?}");
}
