//! Server-sent events: each reaches the client before the origin makes the next.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::passing;
use sluice_acceptance::tls::{Held, made};
use sluice_message::BodyLength;
use sluice_testkit::{ByteScript, Exchange, Origin, PATIENCE, Scratch, Sluice, State};

const EVENTS: usize = 20;

/// How many events the client has confirmed.
#[derive(Clone, Default)]
struct Seen(Arc<(Mutex<usize>, Condvar)>);

impl Seen {
    fn confirm(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    /// Waits until so many are confirmed; whether they are.
    fn wait_for(&self, count: usize) -> bool {
        let seen = self.0.0.lock().unwrap();
        let (seen, _) = self.0.1.wait_timeout_while(seen, PATIENCE, |seen| *seen < count).unwrap();
        *seen >= count
    }
}

/// How an origin says where its content ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Chunked,
    UntilClose,
}

fn event(number: usize) -> String {
    format!("id: {number}\ndata: {}\n\n", "x".repeat(number * number * 7))
}

/// An origin that sends an event when the client has seen the one before.
fn teller(seen: &Seen, framing: Framing) -> Origin {
    let seen = seen.clone();
    Origin::start(move |exchange: &mut Exchange| {
        let length = match framing {
            Framing::Chunked => "Transfer-Encoding: chunked",
            Framing::UntilClose => "Connection: close",
        };
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{length}\r\n\r\n");
        exchange.write(head)?;
        for number in 0..EVENTS {
            assert!(seen.wait_for(number), "event {number} was not seen");
            let event = event(number);
            match framing {
                Framing::Chunked => exchange.write(format!("{:x}\r\n{event}\r\n", event.len()))?,
                Framing::UntilClose => exchange.write(event)?,
            }
        }
        match framing {
            Framing::Chunked => exchange.write("0\r\n\r\n"),
            Framing::UntilClose => {
                exchange.then(sluice_testkit::After::Close);
                Ok(())
            }
        }
    })
}

#[test]
fn each_event_comes_when_it_is_made() {
    for framing in [Framing::Chunked, Framing::UntilClose] {
        let seen = Seen::default();
        let origin = teller(&seen, framing);
        let sluice = Sluice::start(&passing("timeout.idle = \"100ms\"", origin.address(), ""));
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.read_until(b"\r\n\r\n").expect("the head before any event");
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
        for number in 0..EVENTS {
            let event = event(number);
            let chunk = format!("{:x}\r\n{event}\r\n", event.len());
            let got = client.read_exactly(chunk.len()).expect("the event");
            assert_eq!(String::from_utf8_lossy(&got), chunk, "{framing:?}");
            seen.confirm();
        }
        assert_eq!(client.read_exactly(5).unwrap(), b"0\r\n\r\n");
        sluice.stop();
    }
}

#[test]
fn each_event_comes_over_http2_beside_others() {
    for framing in [Framing::Chunked, Framing::UntilClose] {
        let seen = Seen::default();
        let origin = teller(&seen, framing);
        let own = "[[route]]\npath = \"/own\"\nrespond = \"own\"\n";
        let text = passing("timeout.idle = \"100ms\"", origin.address(), "") + own;
        let sluice = Sluice::start(&text);
        let mut client = Http2Client::connect(&sluice.address("web"));
        let stream = client.begin(("GET", "/"), &[], BodyLength::Empty);
        assert_eq!(client.wait_for_head(stream), 200);
        for number in 0..EVENTS {
            let event = event(number);
            let got = client.read(stream, event.len());
            assert_eq!(String::from_utf8_lossy(&got), event, "{framing:?}");
            assert_eq!(client.get("/own").text(), "own");
            seen.confirm();
        }
        assert_eq!(client.wait(stream).content, b"");
        sluice.stop();
    }
}

#[test]
fn a_silent_stream_ends_by_the_origins_limit_alone() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        let fields = ["Content-Type: text/event-stream", "Transfer-Encoding: chunked"];
        let head = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", fields.join("\r\n"));
        exchange.write(head + "3\r\n:\n\n\r\n")?;
        // Until the gateway has had enough.
        let mut byte = [0];
        std::io::Read::read(exchange.raw().0, &mut byte).map(|_| ())
    });
    let listener =
        "timeout = { idle = \"50ms\", head = \"50ms\", body = \"50ms\", write = \"50ms\" }";
    let sluice =
        Sluice::start(&passing(listener, origin.address(), "timeout = { read = \"600ms\" }"));
    let begun = std::time::Instant::now();
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, state) = client.read_to_end();
    assert!(bytes.ends_with(b"3\r\n:\n\n\r\n"), "{bytes:?}");
    // Nobody takes what came for the whole.
    assert_eq!(state, State::Reset);
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    sluice.stop();
}

#[test]
fn each_event_comes_through_encryption() {
    let seen = Seen::default();
    let origin = teller(&seen, Framing::Chunked);
    let scratch = Scratch::new();
    made(&["localhost"]).write(scratch.path(), "a");
    let listener = format!("tls.folder = \"{}\"", scratch.path().display());
    let sluice = Sluice::start(&passing(&listener, origin.address(), ""));
    let mut client = Held::open(sluice.address("web").trim_start_matches("https://"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for number in 0..EVENTS {
        client.read_until(&event(number));
        seen.confirm();
    }
    sluice.stop();
}
