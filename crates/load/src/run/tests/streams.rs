//! Runs over HTTP/2, against servers of the test that speak it by the codec's other side.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;

use sluice_message::{BodyLength, Fields, Method, RequestHead, ResponseHead};
use sluice_wire::h2::{
    Config, End, Error, ErrorCode, Event, Flood, Input, Reason, ResponseOptions, ServerConnection,
    StreamId,
};

use super::*;
use crate::h2::prepare_stream;

/// A server on a free port; it ends with the process.
struct Streams {
    address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    connections: AtomicU64,
    /// The most requests without an answer on one connection.
    most: AtomicU64,
    trouble: Mutex<Vec<String>>,
}

/// One accepted connection.
struct Peer {
    codec: ServerConnection,
    socket: TcpStream,
    out: Vec<u8>,
    /// Content that is still to be sent, and the trailer behind it.
    pending: Vec<(StreamId, Vec<u8>, Option<&'static str>)>,
    /// Whether it is to be closed.
    closed: bool,
}

/// A request that is whole.
struct Asked {
    stream: StreamId,
    /// Its number on the connection, from 0.
    number: u64,
    /// Method, authority, target.
    line: String,
    body: Vec<u8>,
}

impl Streams {
    fn start(config: Config, serve: impl Fn(&mut Peer, &Asked) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let (shared, serve) = (Arc::clone(&counts), Arc::new(serve));
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                socket.set_nodelay(true).unwrap();
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let (counts, serve) = (Arc::clone(&shared), Arc::clone(&serve));
                std::thread::spawn(move || {
                    let codec = ServerConnection::server(&config);
                    let (out, pending) = (Vec::new(), Vec::new());
                    let mut peer = Peer { codec, socket, out, pending, closed: false };
                    if let Err(why) = peer.serve(&counts, &*serve) {
                        counts.trouble.lock().unwrap().push(why);
                    }
                });
            }
        });
        Self { address, counts }
    }

    fn plan(&self, requests: u64, depth: u32, body: &[u8]) -> Plan {
        let body = (!body.is_empty()).then(|| body.to_vec());
        over(self.address, &wish("", body), (requests, depth))
    }

    fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    fn most(&self) -> u64 {
        self.counts.most.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn assert_untroubled(&self) {
        assert_eq!(*self.counts.trouble.lock().unwrap(), Vec::<String>::new());
    }
}

fn over(address: SocketAddr, wish: &Wish, (requests, depth): (u64, u32)) -> Plan {
    let url = format!("http://{address}/path?query");
    let target = Target::parse(&url).unwrap();
    Plan {
        work: Work::Streams(Arc::new(prepare_stream(&target, wish).unwrap())),
        pipeline: depth,
        ..plan(&url, requests)
    }
}

impl Peer {
    fn serve(&mut self, counts: &Counts, react: &dyn Fn(&mut Self, &Asked)) -> Result<(), String> {
        let (mut head, mut trailers) = (RequestHead::new(), Fields::new());
        let mut asked: HashMap<u32, Asked> = HashMap::new();
        let (mut buffer, mut read, mut number) = (Vec::new(), [0; 20_000], 0);
        while !self.closed {
            self.push();
            let Ok(length @ 1..) = self.socket.read(&mut read) else { return Ok(()) };
            buffer.extend_from_slice(&read[..length]);
            let mut input = Input::new(&buffer);
            let mut whole = Vec::new();
            loop {
                let event = self.codec.next(&mut input, 0, &mut head, &mut trailers);
                match event.map_err(|error| format!("{error:?}"))? {
                    None => break,
                    Some(Event::Head { about, end }) => {
                        let [method, authority, target] =
                            [head.method_text(), head.authority(), head.target()]
                                .map(String::from_utf8_lossy);
                        let line = format!("{method} {authority} {target}");
                        let (stream, body) = (about.stream, Vec::new());
                        asked.insert(stream.get(), Asked { stream, number, line, body });
                        number += 1;
                        counts.requests.fetch_add(1, Ordering::Relaxed);
                        let open = u64::try_from(self.codec.streams()).unwrap();
                        counts.most.fetch_max(open, Ordering::Relaxed);
                        whole.extend((end == End::Stream).then_some(stream));
                    }
                    Some(Event::Data { about, data, end }) => {
                        self.codec.consume(about.stream, data.len());
                        if let Some(asked) = asked.get_mut(&about.stream.get()) {
                            asked.body.extend_from_slice(&input.bytes()[data]);
                        }
                        whole.extend((end == End::Stream).then_some(about.stream));
                    }
                    Some(Event::Failed { error, .. }) => return Err(format!("{error:?}")),
                    Some(_) => {}
                }
            }
            let consumed = input.consumed();
            buffer.drain(..consumed);
            for stream in whole {
                if let Some(asked) = asked.remove(&stream.get()) {
                    react(self, &asked);
                }
            }
        }
        Ok(())
    }

    /// Sends what there is, as far as windows allow.
    fn push(&mut self) {
        for (stream, content, trailer) in &mut self.pending {
            let end = if trailer.is_none() { End::Stream } else { End::More };
            let taken = self.codec.data(&mut self.out, *stream, content, end).unwrap_or(0);
            content.drain(..taken);
            if let (true, Some(trailer)) = (content.is_empty(), *trailer) {
                let mut fields = Fields::new();
                fields.push(b"x-trailer", trailer.as_bytes()).unwrap();
                let _ = self.codec.trailers(&mut self.out, *stream, &fields);
            }
        }
        self.pending.retain(|(_, content, _)| !content.is_empty());
        self.codec.flush(&mut self.out);
        let _ = self.socket.write_all(&std::mem::take(&mut self.out));
    }

    fn answer(&mut self, stream: StreamId, content: &[u8], trailer: Option<&'static str>) {
        let mut head = ResponseHead::new();
        head.status = 200;
        head.fields.push(b"server", b"test").unwrap();
        let options = ResponseOptions {
            strict_transport: None,
            request: Method::Get,
            body: BodyLength::Framed,
            date: None,
            end: if content.is_empty() { End::Stream } else { End::More },
        };
        if self.codec.respond(&mut self.out, stream, &head, &options).is_ok() && !content.is_empty()
        {
            self.pending.push((stream, content.to_vec(), trailer));
        }
    }
}

/// Answers everything with a hello.
fn hello(peer: &mut Peer, asked: &Asked) {
    peer.answer(asked.stream, b"hello", None);
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    for (requests, connections, threads, depth) in
        [(1, 1, 1, 1), (1000, 10, 1, 1), (777, 5, 3, 20), (3, 8, 2, 100), (5000, 1, 1, 100)]
    {
        let server = Streams::start(Config::default(), |peer, asked| {
            assert!(
                asked.line.starts_with("GET 127.0.0.1:") && asked.line.ends_with(" /path?query")
            );
            hello(peer, asked);
        });
        let outcome = outcome(Plan { connections, threads, ..server.plan(requests, depth, b"") });
        assert_eq!((outcome.requests, outcome.responses), (requests, requests));
        assert_eq!(outcome.statuses, BTreeMap::from([(200, requests)]));
        assert_eq!(outcome.errors, Errors::default());
        assert_eq!((outcome.latency.count, server.requests()), (requests, requests));
        assert_eq!((outcome.streams, outcome.pipeline), (depth, 1));
        assert_eq!(outcome.protocol.as_deref(), Some("HTTP/2"));
        assert!(server.connections() <= u64::from(connections));
        server.assert_untroubled();
    }
}

#[test]
fn streams_are_under_way_together() {
    // Answers only once eight requests are there.
    let waiting = Mutex::new(Vec::new());
    let server = Streams::start(Config::default(), move |peer, asked| {
        let mut waiting = waiting.lock().unwrap();
        waiting.push(asked.stream);
        if waiting.len() == 8 {
            // The last one first.
            waiting.drain(..).rev().for_each(|stream| peer.answer(stream, b"hello", None));
        }
    });
    let outcome = outcome(Plan { connections: 1, ..server.plan(80, 8, b"") });
    assert_eq!((outcome.responses, outcome.errors), (80, Errors::default()));
    assert_eq!(server.most(), 8);
}

#[test]
fn a_server_that_allows_few_streams_gets_no_more() {
    let config = Config { streams: 3, ..Config::default() };
    let server = Streams::start(config, hello);
    let outcome = outcome(server.plan(200, 10, b""));
    assert_eq!((outcome.responses, outcome.errors), (200, Errors::default()));
    assert_eq!(outcome.streams_allowed, Some(3));
    assert!(server.most() <= 3, "{}", server.most());
    server.assert_untroubled();
}

#[test]
fn content_larger_than_windows_goes_both_ways_and_trailers_end_it() {
    let config = Config { stream_window: 10_000, connection_window: 70_000, ..Config::default() };
    let server = Streams::start(config, |peer, asked| {
        peer.answer(asked.stream, &asked.body, Some("over"));
    });
    let body: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8).collect();
    let expected = Expected { body: Some(body.clone()), ..Expected::default() };
    let outcome = outcome(Plan { expected, ..server.plan(40, 5, &body) });
    assert_eq!((outcome.responses, outcome.errors), (40, Errors::default()));
    assert!(outcome.bytes_sent > 40 * 150_000 && outcome.bytes_received > 40 * 150_000);
    server.assert_untroubled();
}

#[test]
fn another_body_or_status_than_expected_is_an_error() {
    let server = Streams::start(Config::default(), hello);
    let body = |text: &[u8]| Expected { body: Some(text.to_vec()), ..Expected::default() };
    let good = outcome(Plan { expected: body(b"ell"), ..server.plan(20, 4, b"") });
    assert_eq!(good.errors, Errors::default());
    let bad = outcome(Plan { expected: body(b"bye"), ..server.plan(20, 4, b"") });
    assert_eq!(bad.errors, Errors { unexpected_body: 20, ..Errors::default() });
    let statuses = Statuses::parse("204").unwrap();
    let expected = Expected { statuses, ..Expected::default() };
    let bad = outcome(Plan { expected, ..server.plan(20, 4, b"") });
    assert_eq!(bad.errors, Errors { unexpected_status: 20, ..Errors::default() });
}

#[test]
fn an_announced_end_loses_nothing() {
    let server = Streams::start(Config::default(), |peer, asked| {
        if asked.number == 4 {
            peer.codec.drain();
            peer.codec.end_drain();
        }
        hello(peer, asked);
    });
    let outcome = outcome(server.plan(300, 7, b""));
    assert_eq!((outcome.requests, outcome.responses), (300, 300));
    assert_eq!(outcome.errors, Errors::default());
    assert!(server.connections() > 10, "{}", server.connections());
}

#[test]
fn a_connection_for_each_request() {
    let server = Streams::start(Config::default(), hello);
    let keepalive = Keepalive::Off;
    let outcome = outcome(Plan { keepalive, ..server.plan(50, 1, b"") });
    assert_eq!((outcome.responses, outcome.errors), (50, Errors::default()));
    assert_eq!(server.connections(), 50);
}

#[test]
fn resets_and_ends_with_an_error_are_counted_with_their_words() {
    let server = Streams::start(Config::default(), |peer, asked| match asked.number % 5 {
        2 => peer.codec.reset(asked.stream, ErrorCode::INTERNAL_ERROR),
        _ => hello(peer, asked),
    });
    let done = finished(Plan { connections: 1, ..server.plan(100, 5, b"") });
    assert_eq!((done.outcome.requests, done.outcome.responses), (100, 80));
    assert_eq!(done.outcome.errors, Errors { read: 20, ..Errors::default() });
    assert_eq!(done.reasons["read"], "the server reset the stream: internal_error");
    // Nobody else suffers from it.
    assert_eq!(server.connections(), 1);

    let server = Streams::start(Config::default(), |peer, _| {
        let reason = Reason::Flood(Flood::Resets);
        peer.codec.fail(Error { code: ErrorCode::ENHANCE_YOUR_CALM, reason });
        peer.push();
        peer.closed = true;
    });
    let done = finished(server.plan(12, 3, b""));
    assert_eq!((done.outcome.requests, done.outcome.responses), (12, 0));
    assert_eq!(done.outcome.errors, Errors { read: 12, ..Errors::default() });
    let why = &done.reasons["read"];
    assert!(why.contains("GOAWAY enhance_your_calm"), "{why}");
}

#[test]
fn a_stream_that_is_never_answered_runs_out_of_time_alone() {
    let server = Streams::start(Config::default(), |peer, asked| match asked.number {
        3 => {}
        _ => hello(peer, asked),
    });
    // The rest goes on meanwhile, and for longer than the stream may take.
    let mode = Mode::Open { rate_per_second: 200.0 };
    let timeout = Duration::from_millis(150);
    let done = finished(Plan { connections: 1, mode, timeout, ..server.plan(100, 8, b"") });
    assert_eq!((done.outcome.requests, done.outcome.responses), (100, 99));
    assert_eq!(done.outcome.errors, Errors { timeout: 1, ..Errors::default() });
    assert!(done.reasons["timeout"].contains("no whole answer within"), "{:?}", done.reasons);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_silent_server_costs_its_connection() {
    let server = Streams::start(Config::default(), |peer, asked| {
        if asked.number < 3 {
            hello(peer, asked);
        }
    });
    let timeout = Duration::from_millis(100);
    let plan = Plan { connections: 1, timeout, ..server.plan(10, 1, b"") };
    let outcome = outcome(plan);
    // Three answers, then silence, three times; and one answer.
    assert_eq!((outcome.requests, outcome.responses), (10, 8));
    assert_eq!(outcome.errors, Errors { timeout: 2, ..Errors::default() });
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_server_that_lets_nobody_in_times_out() {
    let server = Streams::start(Config { streams: 0, ..Config::default() }, hello);
    let timeout = Duration::from_millis(50);
    let done = finished(Plan { connections: 1, timeout, ..server.plan(2, 4, b"") });
    assert_eq!(done.outcome.errors, Errors { timeout: 2, ..Errors::default() });
    assert!(done.reasons["timeout"].contains("let no stream be opened"), "{:?}", done.reasons);
}

#[test]
fn what_is_no_http2_ends_the_run_or_counts() {
    let rows: [(&[u8], &str); 3] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no HTTP/2: it is \"HTTP/1.1 400 Bad Request"),
        (b"SSH-2.0-OpenSSH_9\r\n", "no HTTP/2: it is \"SSH-2.0"),
        (b"", "may not speak HTTP/2 without encryption"),
    ];
    for (bytes, part) in rows {
        let server = Server::start(move |connection| {
            connection.read_some();
            connection.write(bytes);
        });
        let address = server.url()[7..].trim_end_matches('/').parse().unwrap();
        let plan = over(address, &wish("", None), (10, 1));
        let Failure::Unreachable(why) = run(plan, &Stopper::default(), silence()).unwrap_err()
        else {
            panic!("{part}");
        };
        assert!(why.contains(part) && why.contains("leave --http2 out"), "{why}");
        assert!(why.starts_with(&address.to_string()), "{why}");
    }
    // A frame of a length nobody allowed, in place of an answer.
    let server = Streams::start(Config::default(), |peer, asked| match asked.number {
        5 => peer.out.extend_from_slice(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"),
        _ => hello(peer, asked),
    });
    let done = finished(Plan { connections: 1, ..server.plan(6, 1, b"") });
    assert_eq!(done.outcome.errors, Errors { protocol: 1, ..Errors::default() });
    let why = &done.reasons["protocol"];
    assert!(why.contains("breaks a rule of HTTP/2: frame size"), "{why}");
}

#[test]
fn a_server_that_closes_instead_of_answering_is_named() {
    let server = Streams::start(Config::default(), |peer, _| peer.closed = true);
    let done = finished(server.plan(6, 1, b""));
    assert_eq!(done.outcome.errors, Errors { read: 6, ..Errors::default() });
    assert!(done.reasons["read"].contains("instead of answering"), "{:?}", done.reasons);
}

#[test]
fn open_loops_warm_ups_and_users_work_over_streams() {
    let server = Streams::start(Config::default(), hello);
    let mode = Mode::Open { rate_per_second: 2000.0 };
    let open = outcome(Plan { mode, ..server.plan(300, 20, b"") });
    assert_eq!((open.responses, open.errors), (300, Errors::default()));
    assert!(open.uncorrected.is_some());
    let before = server.requests();
    let warmup = Duration::from_millis(200);
    let warm = outcome(Plan { warmup, ..server.plan(50, 5, b"") });
    assert_eq!((warm.requests, warm.latency.count), (50, 50));
    assert!(server.requests() - before > 50);
    let before = (server.requests(), server.connections());
    let mode = Mode::Users { users: 7, requests_each: 30, ramp_seconds: 0.1 };
    let extent = Extent::default();
    let users = outcome(Plan { mode, extent, ..server.plan(1, 4, b"") });
    assert_eq!((users.requests, users.connections), (210, 7));
    assert_eq!((server.requests() - before.0, server.connections() - before.1), (210, 7));
    server.assert_untroubled();
}

#[test]
fn latency_counts_from_when_a_request_was_due() {
    // Holds the first request back until fifty have come: only streams can bring them.
    let waiting = Mutex::new(Vec::new());
    let server = Streams::start(Config::default(), move |peer, asked| {
        let mut waiting = waiting.lock().unwrap();
        waiting.push(asked.stream);
        if asked.number >= 49 {
            waiting.drain(..).for_each(|stream| peer.answer(stream, b"hello", None));
        }
    });
    let mode = Mode::Open { rate_per_second: 1000.0 };
    let outcome = outcome(Plan { connections: 1, mode, ..server.plan(100, 50, b"") });
    assert_eq!((outcome.responses, outcome.errors), (100, Errors::default()));
    // The first was due 49 ms before the fiftieth.
    assert!(outcome.latency.max_micros >= 48_000, "{:?}", outcome.latency);
}
