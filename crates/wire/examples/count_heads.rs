//! Decodes and encodes in a loop, to count instructions under `valgrind --tool=callgrind`.
#![allow(clippy::expect_used, clippy::panic, reason = "a measuring program may stop")]

use std::hint::black_box;

use sluice_message::{BodyLength, Fields, RequestHead, ResponseHead};
use sluice_wire::h1::{
    Decoded, Limits, RequestFraming, ResponseFraming, decode_request, decode_response,
    encode_request, encode_response,
};
use sluice_wire::h2::{Config, End, Event, Input, PREFACE, ResponseOptions, ServerConnection};

const SMALL: &[u8] =
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: h2load nghttp2/1.52.0\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2024/how-things-work?ref=home&page=2 HTTP/1.1\r\n\
Host: www.example.com\r\n\
Connection: keep-alive\r\n\
sec-ch-ua: \"Chromium\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n\
sec-ch-ua-mobile: ?0\r\n\
sec-ch-ua-platform: \"Linux\"\r\n\
Upgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-Dest: document\r\n\
Referer: https://www.example.com/\r\n\
Accept-Encoding: gzip, deflate, br\r\n\
Accept-Language: en-GB,en;q=0.9\r\n\
Cookie: session=0123456789abcdef\r\n\r\n";

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sat, 21 Nov 2026 01:00:00 GMT\r\n\
Content-Type: text/plain\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\n";

const LIMITS: Limits = Limits { head: 32 * 1024, fields: 100, target: 8 * 1024 };

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let rounds = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(100_000);
    let mut request = RequestHead::new();
    let mut origin = ResponseHead::new();
    let mut answer = ResponseHead::new();
    answer.status = 200;
    answer.fields.push(b"content-type", b"text/plain").expect("an empty head has space");
    if what.starts_with("h2-") {
        answer.fields.push(b"server", b"sluice").expect("it still has");
    }
    let mut out = Vec::with_capacity(4096);
    let mut exchanges = Exchanges::new();
    decode(if what == "encode-browser" { BROWSER } else { SMALL }, &mut request);
    for _ in 0..rounds {
        match what.as_str() {
            "decode-small" => decode(black_box(SMALL), &mut request),
            "decode-browser" => decode(black_box(BROWSER), &mut request),
            "decode-response" => {
                let got =
                    decode_response(black_box(RESPONSE), &LIMITS, request.method, &mut origin);
                assert!(matches!(got, Ok(Decoded::Complete { .. })));
            }
            "encode-answer" => {
                out.clear();
                encode_response(&mut out, black_box(&answer), &answer_framing());
            }
            "encode-small" | "encode-browser" => {
                out.clear();
                encode_request(&mut out, black_box(&request), RequestFraming::default());
            }
            "h2-varied" => {
                exchanges.vary();
                exchanges.next(&mut request, black_box(&answer), &mut out);
            }
            "h2-exchange" => exchanges.next(&mut request, black_box(&answer), &mut out),
            _ => panic!(
                "usage: count (h2-exchange|h2-varied|decode-small|decode-browser|decode-response|encode-answer|encode-small|encode-browser) [ROUNDS]"
            ),
        }
        black_box((&request, &origin, &out));
    }
}

/// Requests as h2load sends them over one connection, each answered with 13 bytes.
struct Exchanges {
    connection: ServerConnection,
    frame: Vec<u8>,
    number: u32,
    trailers: Fields,
}

impl Exchanges {
    fn new() -> Self {
        let mut connection = ServerConnection::server(&Config::default());
        let mut hello = PREFACE.to_vec();
        // SETTINGS, and a window that lasts.
        hello.extend_from_slice(b"\0\0\0\x04\0\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x7f\0\0\0");
        // Both fields come into the table with the first request.
        hello.extend_from_slice(b"\0\0\x2d\x01\x05\0\0\0\x01\x82\x84\x86\x41\x0e127.0.0.1:8080");
        hello.extend_from_slice(b"\x7a\x18h2load nghttp2/1.52.0...");
        let mut input = Input::new(&hello);
        let (mut head, mut trailers) = (RequestHead::new(), Fields::new());
        while connection.next(&mut input, 0, &mut head, &mut trailers).is_ok_and(|e| e.is_some()) {}
        assert_eq!(connection.streams(), 1);
        connection.flush(&mut Vec::new());
        let frame = b"\0\0\x05\x01\x05\0\0\0\x01\x82\x84\x86\xbf\xbe".to_vec();
        Self { connection, frame, number: 3, trailers }
    }

    /// Asks for `/` and `/index.html` in turns.
    fn vary(&mut self) {
        if let Some(path) = self.frame.get_mut(10) {
            *path ^= 1;
        }
    }

    #[inline(never)]
    fn next(&mut self, head: &mut RequestHead, answer: &ResponseHead, out: &mut Vec<u8>) {
        out.clear();
        if self.number > 0x7fff_fff0 || self.connection.streams() > 1 {
            *self = Self::new();
        }
        if let Some(place) = self.frame.get_mut(5..9) {
            place.copy_from_slice(&self.number.to_be_bytes());
        }
        self.number += 2;
        let mut input = Input::new(black_box(&self.frame));
        let event = self.connection.next(&mut input, 0, head, &mut self.trailers);
        let Ok(Some(Event::Head { about, .. })) = event else { panic!("{event:?}") };
        let options = ResponseOptions {
            strict_transport: None,
            request: head.method,
            body: BodyLength::Known(13),
            date: Some(b"Sat, 21 Nov 2026 01:00:00 GMT"),
            end: End::More,
        };
        let (connection, stream) = (&mut self.connection, about.stream);
        let answered = connection.respond(out, stream, answer, &options);
        let sent = connection.data(out, stream, b"Hello, world!", End::Stream);
        if sent != Ok(13) {
            // The window is used up, which a client would widen.
            *self = Self::new();
        }
        assert!(answered.is_ok());
    }
}

#[inline(never)]
fn decode(input: &[u8], head: &mut RequestHead) {
    let got = decode_request(input, &LIMITS, head);
    assert!(matches!(got, Ok(Decoded::Complete { .. })));
}

fn answer_framing() -> ResponseFraming<'static> {
    ResponseFraming {
        body: BodyLength::Known(13),
        date: Some(b"Sat, 21 Nov 2026 01:00:00 GMT"),
        ..ResponseFraming::default()
    }
}
