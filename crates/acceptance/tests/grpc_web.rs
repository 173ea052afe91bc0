//! gRPC-Web: calls of browsers, binary and text, in front of origins that speak gRPC alone.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io;

use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::{config, metric};
use sluice_message::BodyLength;
use sluice_testkit::{Asked, ByteScript, Exchange, Gate, Origin, Sluice, ask, behaviour};
use sluice_wire::grpc_web::{TextDecoder, TextEncoder};
use sluice_wire::h2::End;

const MESSAGE: &[u8] = b"\0\0\0\0\x05hello";
const TRAILERS: &[u8] = b"\x80\0\0\0\x1cgrpc-status: 5\r\nx-trail: 1\r\n";

/// Answers with the messages it got, as gRPC has them, and trailers.
fn echoing(exchange: &mut Exchange) -> io::Result<()> {
    let body = exchange.read_body()?;
    exchange.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc+proto\r\n\
          Transfer-Encoding: chunked\r\n\r\n",
    )?;
    exchange.write(format!("{:x}\r\n", body.bytes.len()))?;
    exchange.write(&body.bytes)?;
    exchange.write("\r\n0\r\nGrpc-Status: 5\r\nX-Trail: 1\r\n\r\n")
}

fn proxying(origins: &[&Origin], upstream: &str) -> Sluice {
    let servers: Vec<String> = origins.iter().map(|it| format!("\"{}\"", it.address())).collect();
    Sluice::start(&format!(
        "workers = 1\n{}",
        config(&format!(
            "[upstream.api]\nservers = [{}]\n{upstream}\n\n[[route]]\nname = \"api\"\n\
             proxy = \"api\"\ngrpc = {{ web = true }}\n",
            servers.join(", ")
        ))
    ))
}

fn request(kind: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\n\
         Content-Length: {length}\r\n\r\n{content}"
    )
}

fn to_text(bytes: &[u8]) -> String {
    let (mut encoder, mut text) = (TextEncoder::default(), Vec::new());
    encoder.encode(bytes, &mut text);
    encoder.pad(&mut text);
    String::from_utf8(text).unwrap()
}

fn from_text(text: &[u8]) -> Vec<u8> {
    let (mut decoder, mut bytes) = (TextDecoder::default(), Vec::new());
    decoder.decode(text, &mut bytes).unwrap();
    decoder.finish().unwrap();
    bytes
}

#[test]
fn trailers_become_the_last_part_of_the_content() {
    let origin = Origin::start(echoing);
    let sluice = proxying(&[&origin], "");
    let web = sluice.address("web");
    let content = String::from_utf8(MESSAGE.to_vec()).unwrap();
    let answer = ask(&web, &request("application/grpc-web+proto", &content));
    assert_eq!((answer.status, answer.body), (200, [MESSAGE, TRAILERS].concat()));
    assert_eq!(answer.fields.first("content-type"), Some("application/grpc-web+proto"));
    assert!(answer.trailers.0.is_empty());
    let received = origin.last_request();
    assert_eq!(received.fields.first("content-type"), Some("application/grpc+proto"));
    assert_eq!(received.fields.first("te"), Some("trailers"));
    assert_eq!(received.fields.first("content-length"), Some("10"));
    // Plain calls on the same route stay what they are.
    let answer = ask(&web, &request("application/grpc", &content));
    assert_eq!(
        (answer.body.as_slice(), answer.trailers.first("grpc-status")),
        (MESSAGE, Some("5"))
    );
    let counted = "sluice_route_grpc_calls_total{route=\"api\",status=\"not_found\"}";
    assert_eq!(metric(&sluice.admin(), counted), 2);
    assert_eq!(origin.complaints(), Vec::<String>::new());
    sluice.stop();
}

#[test]
fn text_is_base64_both_ways_whatever_its_groups() {
    let origin = Origin::start(echoing);
    let sluice = proxying(&[&origin], "");
    let web = sluice.address("web");
    let halves = [to_text(&MESSAGE[..4]), to_text(&MESSAGE[4..])].concat();
    assert!(halves.trim_end_matches('=').contains('='), "padding in the middle");
    for content in [to_text(MESSAGE), halves] {
        let answer = ask(&web, &request("application/grpc-web-text", &content));
        assert_eq!(answer.fields.first("content-type"), Some("application/grpc-web-text+proto"));
        assert_eq!(from_text(&answer.body), [MESSAGE, TRAILERS].concat());
    }
    // As chunks of three characters, over HTTP/2.
    let large = [&b"\0\0\x01\0\0"[..], &vec![7; 65536]].concat();
    let mut client = Http2Client::connect(&web);
    let kind = [("content-type", "application/grpc-web-text")];
    let stream = client.begin(("POST", "/a.B/C"), &kind, BodyLength::Framed);
    for piece in to_text(&large).as_bytes().chunks(1021) {
        client.send(stream, piece, End::More);
    }
    client.send(stream, b"", End::Stream);
    let answer = client.wait(stream);
    assert_eq!(from_text(&answer.content), [&large, TRAILERS].concat());
    drop(client);
    // What is no Base64 is the client's fault.
    for content in ["AAAA!AAA", "AAAAA"] {
        let answer = ask(&web, &request("application/grpc-web-text", content));
        assert_eq!(answer.fields.first("grpc-status"), Some("13"), "{content}");
    }
    sluice.stop();
}

#[test]
fn messages_come_as_they_are_sent() {
    let gate = Gate::new();
    let of_origin = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\n\
              Transfer-Encoding: chunked\r\n\r\na\r\n\0\0\0\0\x05hello\r\n",
        )?;
        of_origin.pass();
        exchange.write(b"0\r\n\r\n")
    });
    let sluice = proxying(&[&origin], "");
    let mut script = ByteScript::connect(&sluice.address("web"));
    script.send(request("application/grpc-web-text", &to_text(MESSAGE)));
    // All of the message, although it is no multiple of three bytes.
    let sofar = script.read_until(b"\r\nbw==\r\n").unwrap();
    assert!(String::from_utf8_lossy(&sofar).contains("\r\nAAAAAAVoZWxs\r\n"));
    gate.open();
    // An origin that says nothing of the end has not said that it was a good one.
    let rest = script.read_until(b"\r\n0\r\n\r\n").unwrap();
    let text = String::from_utf8_lossy(&rest).into_owned();
    let frame = text.lines().find(|line| line.len() > 8).unwrap();
    assert_eq!(from_text(frame.as_bytes()), b"\x80\0\0\0\x10grpc-status: 2\r\n");
    sluice.stop();
}

#[test]
fn calls_that_end_at_once_keep_their_meaning_and_are_tried_again() {
    let refusing = |exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.answer(200, &["Content-Type: application/grpc", "Grpc-Status: 14"], "")
    };
    let origin = Origin::start(refusing);
    let sluice = proxying(&[&origin], "");
    let text = request("application/grpc-web-text", &to_text(MESSAGE));
    let answer = ask(&sluice.address("web"), &text);
    assert_eq!((answer.fields.first("grpc-status"), answer.body.len()), (Some("14"), 0));
    assert_eq!(answer.fields.first("content-type"), Some("application/grpc-web-text"));
    sluice.stop();
    let good = Origin::start(echoing);
    let retry = "retry = { attempts = 1, on = [\"grpc:unavailable\"], buffer = \"1KiB\" }";
    let sluice = proxying(&[&origin, &good], retry);
    for _ in 0..2 {
        let answer = ask(&sluice.address("web"), &text);
        assert_eq!(from_text(&answer.body), [MESSAGE, TRAILERS].concat());
    }
    sluice.stop();
}

#[test]
fn answers_of_others_stay_as_they_are() {
    let origin = Origin::start(behaviour::fixed(503, "closed for lunch"));
    let sluice = proxying(&[&origin], "");
    let mut script = ByteScript::connect(&sluice.address("web"));
    script.send(request("application/grpc-web", "\0\0\0\0\0"));
    let answer = script.read_response(Asked::Get).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (503, "closed for lunch"));
    sluice.stop();
}
