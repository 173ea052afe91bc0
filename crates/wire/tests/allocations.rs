//! A recycled head is decoded and encoded without a single allocation.
#![allow(clippy::unwrap_used, reason = "a test may stop here")]
#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sluice_message::{BodyLength, Expectation, Fields, Method, RequestHead, ResponseHead};
use sluice_wire::h1::{
    BodyDecoder, Decoded, Limits, RequestFraming, ResponseFraming, decode_request, decode_response,
    encode_chunk_start, encode_last_chunk, encode_request, encode_response,
};
use sluice_wire::h2::{
    ClientConnection, Config, End, Event, Input, RequestOptions, ResponseOptions, Scheme,
    ServerConnection, Tunnel,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LIMITS: Limits = Limits { head: 32 * 1024, fields: 100, target: 8 * 1024 };
const REQUEST: &[u8] = b"POST /a?b=c HTTP/1.1\r\nHost: a.example:8080\r\nUser-Agent: x\r\n\
Accept: */*\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: x\r\nConnection: keep-alive\r\nContent-Length: 13\r\n\r\n";

/// One request and its answer with content over one connection, client and server.
#[test]
fn a_stream_allocates_nothing() {
    let config = Config { connection_window: 1 << 30, ..Config::default() };
    let (mut client, mut server) =
        (ClientConnection::client(&config), ServerConnection::server(&config));
    let mut request = RequestHead::new();
    let complete = Ok(Decoded::Complete { consumed: REQUEST.len() });
    assert_eq!(decode_request(REQUEST, &LIMITS, &mut request), complete);
    let mut answer = ResponseHead::new();
    answer.status = 200;
    answer.fields.push(b"server", b"x").unwrap();
    let (mut head, mut got, mut trailers) =
        (RequestHead::new(), ResponseHead::new(), Fields::new());
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut round = || {
        let options = RequestOptions {
            scheme: Scheme::Http,
            body: BodyLength::Framed,
            expectation: Expectation::None,
            end: End::More,
            tunnel: Tunnel::AsInHead,
        };
        let stream = client.request(&mut up, &request, &options).unwrap();
        assert_eq!(client.data(&mut up, stream, b"content", End::Stream), Ok(7));
        let mut input = Input::new(&up);
        while let Some(event) = server.next(&mut input, 0, &mut head, &mut trailers).unwrap() {
            if let Event::Data { about, data, end: End::Stream } = event {
                server.consume(about.stream, data.len());
                let (request, body) = (Method::Post, BodyLength::Known(7));
                let date = Some(&b"Sat, 21 Nov 2026 01:00:00 GMT"[..]);
                let options =
                    ResponseOptions { request, body, date, strict_transport: None, end: End::More };
                server.respond(&mut down, about.stream, &answer, &options).unwrap();
                assert_eq!(server.data(&mut down, about.stream, b"content", End::Stream), Ok(7));
            }
        }
        server.flush(&mut down);
        assert_eq!(input.consumed(), up.len());
        let mut input = Input::new(&down);
        while let Some(event) = client.next(&mut input, 0, &mut got, &mut trailers).unwrap() {
            if let Event::Data { about, data, .. } = event {
                client.consume(about.stream, data.len());
            }
        }
        assert_eq!(input.consumed(), down.len());
        up.clear();
        down.clear();
        client.flush(&mut up);
        assert_eq!((client.streams(), server.streams()), (0, 0));
    };
    for _ in 0..8 {
        round();
    }
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..100 {
        round();
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
}

#[test]
fn a_recycled_head_allocates_nothing() {
    let mut request = RequestHead::new();
    let mut response = ResponseHead::new();
    let mut out = Vec::new();
    let mut round = || {
        out.clear();
        let partial = decode_request(&REQUEST[..50], &LIMITS, &mut request);
        assert_eq!(partial, Ok(Decoded::Partial));
        let complete = Ok(Decoded::Complete { consumed: REQUEST.len() });
        assert_eq!(decode_request(REQUEST, &LIMITS, &mut request), complete);
        let framing = RequestFraming { body: request.body, ..RequestFraming::default() };
        encode_request(&mut out, &request, framing);
        let complete = Ok(Decoded::Complete { consumed: RESPONSE.len() });
        assert_eq!(decode_response(RESPONSE, &LIMITS, Method::Post, &mut response), complete);
        let framing = ResponseFraming {
            body: response.body,
            date: Some(b"Sat, 21 Nov 2026 01:00:00 GMT"),
            ..ResponseFraming::default()
        };
        encode_response(&mut out, &response, &framing);
        encode_chunk_start(&mut out, 100);
        encode_last_chunk(&mut out, None);
        let mut body = BodyDecoder::new(BodyLength::Framed);
        assert!(
            body.decode(b"5;a=b\r\nhello\r\n0\r\n\r\n").is_ok_and(|piece| piece.consumed == 19)
        );
        assert!(body.is_done());
    };
    round();
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..100 {
        round();
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    assert!(before > 0, "the allocator counts");
}
