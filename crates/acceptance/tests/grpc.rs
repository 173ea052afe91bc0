//! gRPC calls: how the gateway answers them itself, deadlines, retries by status, what is counted.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{self, Read};

use sluice_acceptance::http2::{Answered, Http2Client};
use sluice_acceptance::{config, eventually, metric};
use sluice_message::BodyLength;
use sluice_testkit::{After, Exchange, Gate, Origin, Sluice, ask, behaviour};
use sluice_wire::h2::{End, ErrorCode};

const CALL: &[(&str, &str)] = &[("content-type", "application/grpc"), ("te", "trailers")];

/// A message of five bytes, framed.
const MESSAGE: &[u8] = b"\0\0\0\0\x05hello";

/// One message and the end of the call, in the trailers.
fn answering(status: u8) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        exchange.sink_body()?;
        exchange.write(ANSWER_HEAD)?;
        exchange.write(b"a\r\n")?;
        exchange.write(MESSAGE)?;
        exchange.write(format!("\r\n0\r\ngrpc-status: {status}\r\ngrpc-message: done\r\n\r\n"))
    }
}

const ANSWER_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The end of the call and nothing else, with further fields.
fn refusing(status: u8, more: &'static str) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange| {
        exchange.sink_body()?;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n";
        exchange.write(format!("{head}grpc-status: {status}\r\n{more}\r\n"))
    }
}

fn proxying(servers: &[&Origin], upstream: &str, route: &str) -> Sluice {
    let servers: Vec<String> = servers.iter().map(|it| format!("\"{}\"", it.address())).collect();
    let servers = servers.join(", ");
    let text = format!(
        "[upstream.api]\nservers = [{servers}]\n{upstream}\n\n[[route]]\nname = \"api\"\n\
         path = \"/a.B/*\"\nproxy = \"api\"\n{route}\n\n[[route]]\npath = \"/get\"\nmethod = \"GET\"\n\
         respond = \"x\"\n"
    );
    let text = config(&text).replacen("access = \"off\"", "access = \"{grpc.status} {fault}\"", 1);
    Sluice::start(&format!("workers = 1\n{text}"))
}

fn call(client: &mut Http2Client, path: &str, more: &[(&str, &str)]) -> Answered {
    let fields: Vec<(&str, &str)> = CALL.iter().chain(more).copied().collect();
    let stream = client.begin(("POST", path), &fields, BodyLength::Framed);
    client.send(stream, MESSAGE, End::Stream);
    client.wait(stream)
}

/// Status and message of a call that was answered with a head alone.
fn refusal(answer: &Answered) -> (&str, &str) {
    assert_eq!((answer.status(), answer.field("content-type")), (200, Some("application/grpc")));
    assert!(answer.content.is_empty() && answer.trailers.is_empty());
    // What a client has not sent yet is not wanted any more (RFC 9113, 8.1).
    assert!(answer.reset.is_none_or(|code| code == ErrorCode::NO_ERROR));
    (answer.field("grpc-status").unwrap(), answer.field("grpc-message").unwrap())
}

fn calls(sluice: &Sluice, of: &str, status: &str) -> u64 {
    let label = if of == "route" { "route" } else { "upstream" };
    let name = format!("sluice_{of}_grpc_calls_total{{{label}=\"api\",status=\"{status}\"}}");
    metric(&sluice.admin(), &name)
}

#[test]
fn calls_go_through_with_message_trailers_and_status() {
    let origin = Origin::start(answering(0));
    let sluice = proxying(&[&origin], "", "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let answer = call(&mut client, "/a.B/C", &[("x-meta", "1")]);
    assert_eq!((answer.status(), answer.content.as_slice()), (200, MESSAGE));
    let trailers: Vec<_> = answer.trailers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(trailers, [("grpc-status", "0"), ("grpc-message", "done")]);
    let request = origin.last_request();
    for line in ["te: trailers", "content-type: application/grpc", "x-meta: 1"] {
        assert!(request.lines.iter().any(|it| it.eq_ignore_ascii_case(line)), "{request:?}");
    }
    assert_eq!((calls(&sluice, "route", "ok"), calls(&sluice, "upstream", "ok")), (1, 1));
    assert_eq!(origin.complaints(), Vec::<String>::new());
    drop(client);
    sluice.stop();
}

#[test]
fn the_gateway_answers_calls_in_their_own_words() {
    let origin = Origin::start(behaviour::reset);
    let sluice = proxying(&[&origin], "", "body_limit = 100");
    let web = sluice.address("web");
    let mut client = Http2Client::connect(&web);
    let answer = call(&mut client, "/nowhere", &[]);
    assert_eq!(refusal(&answer), ("12", "404 Not Found: no_route"));
    assert_eq!(answer.field("content-length"), None, "the head is all there is");
    let answer = call(&mut client, "/get", &[]);
    assert_eq!(refusal(&answer), ("2", "405 Method Not Allowed: method_not_allowed"));
    let answer = call(&mut client, "/a.B/C", &[]);
    assert_eq!(refusal(&answer), ("14", "502 Bad Gateway: reset"));
    assert_eq!(calls(&sluice, "route", "unavailable"), 1);
    assert_eq!(
        metric(&sluice.admin(), "sluice_faults_total{side=\"upstream\",reason=\"reset\"}"),
        1
    );
    let fields = [CALL[0], ("content-length", "101")];
    let stream = client.begin(("POST", "/a.B/C"), &fields, BodyLength::Known(101));
    assert_eq!(refusal(&client.wait(stream)), ("8", "413 Content Too Large: body_too_large"));
    // The web dialects hear of it in their own type, HTTP/1.1 without content.
    let stream = client.begin(
        ("POST", "/x"),
        &[("content-type", "application/grpc-web-text+proto")],
        BodyLength::Empty,
    );
    let answer = client.wait(stream);
    assert_eq!(answer.field("content-type"), Some("application/grpc-web-text"));
    assert_eq!(answer.field("grpc-status"), Some("12"));
    let request = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\
                   Content-Length: 0\r\n\r\n";
    let answer = ask(&web, request);
    assert_eq!((answer.status, answer.fields.first("grpc-status")), (200, Some("12")));
    assert_eq!((answer.fields.first("content-length"), answer.body.len()), (Some("0"), 0));
    // Everybody else reads HTTP.
    let stream = client.begin(("POST", "/x"), &[], BodyLength::Empty);
    assert_eq!(client.wait(stream).status(), 404);
    assert!(sluice.stdout().wait_after(0, "unavailable reset").is_some());
    drop(client);
    sluice.stop();
}

#[test]
fn a_call_that_breaks_off_ends_with_a_status() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.write(ANSWER_HEAD)?;
        exchange.write(b"8\r\n\0\0\0\0\x05hel\r\n")?;
        exchange.then(After::Close);
        Ok(())
    });
    let sluice = proxying(&[&origin], "", "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let answer = call(&mut client, "/a.B/C", &[]);
    assert_eq!(answer.content, &MESSAGE[..8]);
    assert_eq!(answer.trailers[0], ("grpc-status".to_owned(), "14".to_owned()));
    assert_eq!(answer.reset, None);
    assert_eq!(calls(&sluice, "route", "unavailable"), 1);
    drop(client);
    sluice.stop();
}

#[test]
fn deadlines_end_calls_and_are_passed_on() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), answering(0)));
    let sluice = proxying(&[&origin], "ejection = { failures = 1 }", "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let answer = call(&mut client, "/a.B/C", &[("grpc-timeout", "50m")]);
    assert_eq!(refusal(&answer), ("4", "504 Gateway Timeout: deadline_exceeded"));
    let told = origin.last_request().fields.first("grpc-timeout").unwrap().to_owned();
    let nanos: u64 = told.trim_end_matches('n').parse().unwrap();
    assert!(told.ends_with('n') && (1..=50_000_000).contains(&nanos), "{told}");
    assert!(origin.wait_for_open_connections(0), "the origin hears that nobody waits");
    gate.open();
    // What clients wish is not held against servers; what is no time is passed on as it is.
    let answer = call(&mut client, "/a.B/C", &[("grpc-timeout", "soon")]);
    assert_eq!(answer.content, MESSAGE);
    assert_eq!(origin.last_request().fields.first("grpc-timeout"), Some("soon"));
    assert_eq!(calls(&sluice, "route", "deadline_exceeded"), 1);
    drop(client);
    sluice.stop();
}

#[test]
fn a_stream_ends_at_its_deadline_with_a_status() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.write(ANSWER_HEAD)?;
        exchange.write(b"a\r\n\0\0\0\0\x05hello\r\n")?;
        exchange.sink_body().map(drop)
    });
    let sluice = proxying(&[&origin], "", "grpc = { max_timeout = \"1s\" }");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let stream = client.begin(("POST", "/a.B/C"), CALL, BodyLength::Framed);
    let answer = client.wait(stream);
    assert_eq!(answer.content, MESSAGE);
    assert_eq!(answer.trailers[0], ("grpc-status".to_owned(), "4".to_owned()));
    drop(client);
    sluice.stop();
}

#[test]
fn calls_are_tried_again_by_how_they_ended() {
    let bad = Origin::start(refusing(14, ""));
    let good = Origin::start(answering(0));
    let retry = "retry = { attempts = 1, on = [\"grpc:unavailable\"], buffer = \"1KiB\" }";
    let sluice = proxying(&[&bad, &good], retry, "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    for _ in 0..4 {
        let answer = call(&mut client, "/a.B/C", &[]);
        assert_eq!(answer.content, MESSAGE);
    }
    let failed = bad.requests().len();
    assert!(failed > 0);
    assert_eq!(good.requests().len(), 4);
    assert_eq!(calls(&sluice, "upstream", "unavailable"), u64::try_from(failed).unwrap());
    assert_eq!((calls(&sluice, "route", "ok"), calls(&sluice, "route", "unavailable")), (4, 0));
    drop(client);
    sluice.stop();
}

#[test]
fn only_what_was_named_is_tried_again_and_only_before_anything_came() {
    let rows: [(u8, &'static str, usize); 4] = [
        (5, "", 1),
        (14, "grpc-retry-pushback-ms: -1\r\n", 1),
        (14, "grpc-retry-pushback-ms: 3600000\r\n", 1),
        (14, "grpc-retry-pushback-ms: 20\r\n", 2),
    ];
    let retry = "retry = { attempts = 1, on = [\"grpc:unavailable\"], buffer = \"1KiB\" }";
    for (status, more, tries) in rows {
        let origin = Origin::start(refusing(status, more));
        let sluice = proxying(&[&origin], retry, "");
        let mut client = Http2Client::connect(&sluice.address("web"));
        let answer = call(&mut client, "/a.B/C", &[]);
        assert_eq!(answer.field("grpc-status"), Some(&*status.to_string()));
        assert_eq!(origin.requests().len(), tries, "{status} {more}");
        drop(client);
        sluice.stop();
    }
    let origin = Origin::start(answering(14));
    let sluice = proxying(&[&origin], retry, "");
    let answer = call(&mut Http2Client::connect(&sluice.address("web")), "/a.B/C", &[]);
    assert_eq!((answer.content.as_slice(), origin.requests().len()), (MESSAGE, 1));
    sluice.stop();
}

#[test]
fn servers_are_ejected_by_how_calls_ended() {
    let bad = Origin::start(answering(14));
    let good = Origin::start(answering(0));
    let sluice = proxying(&[&bad, &good], "ejection = { failures = 2 }", "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let out = || {
        let sample =
            format!("sluice_server_available{{upstream=\"api\",server=\"{}\"}}", bad.address());
        metric(&sluice.admin(), &sample) == 0
    };
    for _ in 0..4 {
        let _ = call(&mut client, "/a.B/C", &[]);
    }
    assert!(eventually(out));
    drop(client);
    sluice.stop();
}

#[test]
fn a_client_that_gives_up_is_heard_by_the_origin() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.write(ANSWER_HEAD)?;
        exchange.write(b"a\r\n\0\0\0\0\x05hello\r\n")?;
        // Until the gateway goes.
        exchange.raw().0.read_to_end(&mut Vec::new()).map(drop)
    });
    let sluice = proxying(&[&origin], "", "");
    let mut client = Http2Client::connect(&sluice.address("web"));
    let stream = client.begin(("POST", "/a.B/C"), CALL, BodyLength::Framed);
    client.send(stream, MESSAGE, End::Stream);
    assert_eq!(client.wait_for_head(stream), 200);
    client.reset(stream);
    assert!(origin.wait_for_open_connections(0));
    assert!(eventually(|| calls(&sluice, "route", "cancelled") == 1));
    assert_eq!(client.goodbye, None::<ErrorCode>);
    drop(client);
    sluice.stop();
}
