//! Client and server over two byte vectors: the way a caller drives connections, as an example.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop here"
)]

use std::collections::HashMap;
use std::sync::LazyLock;

use sluice_message::{
    BodyLength, Expectation, FieldId, Fields, Method, RequestHead, ResponseHead, TargetForm,
};
use sluice_wire::h2::{
    ClientConnection, Config, End, Event, Input, RequestOptions, ResponseOptions, Scheme,
    ServerConnection, StreamId, Tunnel,
};

const REQUESTS: u32 = 1000;
const AT_ONCE: usize = 100;
/// Larger than the window of a stream, so that both sides have to give windows back.
const CONTENT: usize = 150_000;

fn config() -> Config {
    Config { stream_window: 60_000, connection_window: 200_000, ..Config::default() }
}

/// What a stream still has to send and has got.
#[derive(Debug, Default)]
struct Exchange {
    number: u32,
    sent: usize,
    received: usize,
}

/// The content of every request, each from another place on.
static CONTENTS: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..CONTENT + 1000).map(|at| u8::try_from(at % 251).unwrap()).collect());

fn content(number: u32) -> &'static [u8] {
    let start = usize::try_from(number).unwrap();
    &CONTENTS[start..start + CONTENT]
}

fn request(number: u32) -> RequestHead {
    let mut head = RequestHead::new();
    head.method = Method::Post;
    head.method_text = head.fields.append(b"POST").unwrap();
    head.target = head.fields.append(format!("/items/{number}?x=y").as_bytes()).unwrap();
    head.form = TargetForm::Origin;
    head.authority = head.fields.append(b"a.example:8443").unwrap();
    head.fields.push(b"User-Agent", b"test").unwrap();
    head.fields.push(b"X-Number", number.to_string().as_bytes()).unwrap();
    head.fields.push(b"Cookie", b"secret=1").unwrap();
    head.fields.push(b"TE", b"trailers, deflate").unwrap();
    head
}

fn trailers(number: u32) -> Fields {
    let mut fields = Fields::new();
    fields.push(b"X-Check", number.to_string().as_bytes()).unwrap();
    fields
}

/// Sends as much content as windows allow, and the trailers behind it.
macro_rules! send_content {
    ($connection:expr, $out:expr, $stream:expr, $exchange:expr) => {{
        let content = content($exchange.number);
        let rest = &content[$exchange.sent..];
        if !rest.is_empty() {
            $exchange.sent += $connection.data($out, $stream, rest, End::More).unwrap();
            if $exchange.sent == CONTENT {
                $connection.trailers($out, $stream, &trailers($exchange.number)).unwrap();
            }
        }
    }};
}

struct Server {
    connection: ServerConnection,
    exchanges: HashMap<StreamId, Exchange>,
}

impl Server {
    fn receive(&mut self, received: &mut Vec<u8>, out: &mut Vec<u8>) {
        let (mut head, mut fields) = (RequestHead::new(), Fields::new());
        let mut input = Input::new(received);
        while let Some(event) = self.connection.next(&mut input, 0, &mut head, &mut fields).unwrap()
        {
            match event {
                Event::Head { about, end } => {
                    assert_eq!(end, End::More);
                    assert_eq!(
                        (head.method, head.body),
                        (Method::Post, BodyLength::Known(150_000))
                    );
                    assert_eq!(head.authority(), b"a.example:8443");
                    assert_eq!(head.fields.value(FieldId::Te), Some(&b"trailers"[..]));
                    assert_eq!(head.fields.value(FieldId::Cookie), Some(&b"secret=1"[..]));
                    let number = str::from_utf8(head.fields.values_of(b"x-number").next().unwrap());
                    let number = number.unwrap().parse().unwrap();
                    assert_eq!(head.target(), format!("/items/{number}?x=y").as_bytes());
                    self.connection.set_tag(about.stream, number);
                    self.exchanges.insert(about.stream, Exchange { number, ..Exchange::default() });
                }
                Event::Data { about, data, .. } => {
                    let exchange = self.exchanges.get_mut(&about.stream).unwrap();
                    assert_eq!(about.tag, exchange.number, "events carry the tag");
                    let want = content(exchange.number);
                    let got = &input.bytes()[data.clone()];
                    assert_eq!(got, &want[exchange.received..exchange.received + got.len()]);
                    exchange.received += got.len();
                    self.connection.consume(about.stream, data.len());
                }
                Event::Trailers { about } => {
                    let exchange = self.exchanges.get_mut(&about.stream).unwrap();
                    assert_eq!(exchange.received, CONTENT);
                    assert_eq!(fields.iter().next().unwrap().0, b"x-check");
                    let mut head = ResponseHead::new();
                    head.status = 200;
                    head.fields.push(b"Content-Type", b"text/plain").unwrap();
                    head.fields.push(b"Connection", b"keep-alive, x-hop").unwrap();
                    head.fields.push(b"X-Hop", b"1").unwrap();
                    let date = Some(&b"Sat, 21 Nov 2026 01:00:00 GMT"[..]);
                    let options = ResponseOptions {
                        strict_transport: None,
                        request: Method::Post,
                        body: BodyLength::Framed,
                        date,
                        end: End::More,
                    };
                    self.connection.respond(out, about.stream, &head, &options).unwrap();
                }
                Event::Settings | Event::Window { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let consumed = input.consumed();
        received.drain(..consumed);
        for (stream, exchange) in &mut self.exchanges {
            if exchange.received == CONTENT && self.connection.tag(*stream).is_some() {
                send_content!(self.connection, out, *stream, exchange);
            }
        }
        self.exchanges.retain(|_, exchange| exchange.sent < CONTENT);
        self.connection.flush(out);
    }
}

struct Client {
    connection: ClientConnection,
    exchanges: HashMap<StreamId, Exchange>,
    started: u32,
    done: u32,
}

impl Client {
    fn send(&mut self, out: &mut Vec<u8>) {
        while self.exchanges.len() < AT_ONCE
            && self.started < REQUESTS
            && self.connection.can_open() > 0
        {
            let head = request(self.started);
            let options = RequestOptions {
                scheme: Scheme::Https,
                body: BodyLength::Known(u64::try_from(CONTENT).unwrap()),
                expectation: Expectation::None,
                end: End::More,
                tunnel: Tunnel::AsInHead,
            };
            let stream = self.connection.request(out, &head, &options).unwrap();
            self.connection.set_tag(stream, self.started);
            let exchange = Exchange { number: self.started, ..Exchange::default() };
            self.exchanges.insert(stream, exchange);
            self.started += 1;
        }
        for (stream, exchange) in &mut self.exchanges {
            send_content!(self.connection, out, *stream, exchange);
        }
        self.connection.flush(out);
    }

    fn receive(&mut self, received: &mut Vec<u8>) {
        let (mut head, mut fields) = (ResponseHead::new(), Fields::new());
        let mut input = Input::new(received);
        while let Some(event) = self.connection.next(&mut input, 0, &mut head, &mut fields).unwrap()
        {
            match event {
                Event::Head { .. } => {
                    assert_eq!((head.status, head.body), (200, BodyLength::Framed));
                    let names: Vec<_> = head.fields.iter().map(|(name, _)| name.to_vec()).collect();
                    assert_eq!(names, [&b"content-type"[..], b"date"]);
                }
                Event::Data { about, data, .. } => {
                    let exchange = self.exchanges.get_mut(&about.stream).unwrap();
                    assert_eq!(about.tag, exchange.number);
                    exchange.received += data.len();
                    self.connection.consume(about.stream, data.len());
                }
                Event::Trailers { about } => {
                    let exchange = self.exchanges.remove(&about.stream).unwrap();
                    assert_eq!(exchange.received, CONTENT);
                    let want = exchange.number.to_string();
                    assert_eq!(
                        fields.iter().collect::<Vec<_>>(),
                        [(&b"x-check"[..], want.as_bytes())]
                    );
                    self.done += 1;
                }
                Event::Settings | Event::Window { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let consumed = input.consumed();
        received.drain(..consumed);
    }
}

#[test]
fn a_thousand_requests_a_hundred_at_a_time() {
    let mut server =
        Server { connection: ServerConnection::server(&config()), exchanges: HashMap::new() };
    let connection = ClientConnection::client(&config());
    let mut client = Client { connection, exchanges: HashMap::new(), started: 0, done: 0 };
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut rounds = 0;
    while client.done < REQUESTS {
        rounds += 1;
        assert!(rounds < 20_000, "stuck at {client:?}", client = client.done);
        client.send(&mut up);
        assert!(up.len() <= 260_000, "no more is on the way than windows allow");
        server.receive(&mut up, &mut down);
        assert!(down.len() <= 260_000);
        client.receive(&mut down);
    }
    assert_eq!((server.connection.streams(), client.connection.streams()), (0, 0));
    // A graceful end: announced, acknowledged by a pong, named, drained.
    server.connection.drain();
    for _ in 0..3 {
        server.connection.flush(&mut down);
        client.receive_end(&mut down);
        client.send(&mut up);
        server.receive(&mut up, &mut down);
    }
    assert!(server.connection.is_drained());
    assert_eq!(client.connection.can_open(), 0);
}

impl Client {
    fn receive_end(&mut self, received: &mut Vec<u8>) {
        let (mut head, mut fields) = (ResponseHead::new(), Fields::new());
        let mut input = Input::new(received);
        while let Some(event) = self.connection.next(&mut input, 0, &mut head, &mut fields).unwrap()
        {
            assert!(matches!(event, Event::GoAway { .. } | Event::Settings), "{event:?}");
        }
        let consumed = input.consumed();
        received.drain(..consumed);
    }
}
