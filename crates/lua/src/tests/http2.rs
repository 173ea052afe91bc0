//! `silly.net.http` over HTTP/2: a handler cannot tell the difference, and a peer that breaks rules does no harm.

use std::io::{Read, Write};
use std::net::TcpStream;

use sluice_message::BodyLength;
use sluice_testkit::http2::{Appetite, Http2Client};
use sluice_wire::h2::{End, ErrorCode};

use super::scripted::{PATIENCE, Scripted};

/// A server whose handler knows these paths.
fn server(settings: &str) -> (Scripted, String) {
    let mut script = Scripted::start(&format!(
        "local http = require 'silly.net.http'
         local acts = {{}}
         acts['/echo'] = function(s) local b, e = s:readall() s:respond(200, {{}}) s:closewrite(b or e) end
         acts['/chunks'] = function(s) s:respond(200, {{Upper = 'x'}}) s:write('a') s:write{{'b', 'c'}} s:closewrite('d', {{['x-trailer'] = '1'}}) end
         acts['/trailers'] = function(s) s:readall() report(s.trailer['x-end']) s:respond(200, {{}}) s:closewrite('', {{['x-trailer'] = '2'}}) end
         acts['/length'] = function(s) s:respond(200, {{['content-length'] = 3}}) report(s:write('ab'), s:write('cd')) s:closewrite('c') end
         acts['/short'] = function(s) s:respond(200, {{['content-length'] = 3}}) s:closewrite('a') end
         acts['/nothing'] = function(s) s:respond(204, {{}}) report(s:write('x')) s:closewrite() end
         acts['/closed'] = function(s) s:respond(404, {{}}, true) report(s:write('x')) end
         acts['/silent'] = function(s) end
         acts['/fails'] = function(s) error('on purpose') end
         acts['/half'] = function(s) s:respond(200, {{}}) s:write('a') error('half way') end
         acts['/splits'] = function(s) report((pcall(s.respond, s, 200, {{x = 'a\\r\\nb: c'}})), (pcall(s.respond, s, 200, {{['x y'] = 'a'}})), (pcall(s.respond, s, 200, {{[':status'] = '1'}}))) s:respond(200, {{}}, true) end
         acts['/facts'] = function(s)
            report(s.method, s.path, s.version, s.header['x-a'], s.header.cookie, s.query.b, s.remoteaddr ~= nil, s.scheme)
            s:respond(200, {{['set-cookie'] = {{'a=1', 'b=2'}}, connection = 'close'}}, true)
         end
         acts['/large'] = function(s) s:respond(200, {{}}) report('large', s:closewrite(('x'):rep(500000))) end
         acts['/waits'] = function(s) report('begins') report('read', s:read()) s:respond(200, {{}}, true) end
         acts['/sleeps'] = function(s) time.sleep(600000) end
         acts['/later'] = function(s) while not go do time.sleep(5) end s:respond(200, {{}}) s:closewrite(tostring(#s:readall())) end
         acts['/go'] = function(s) go = true s:respond(200, {{}}, true) end
         acts['/early'] = function(s) s:respond(200, {{}}) s:closewrite('enough') end
         local l = assert(http.listen{{addr = '127.0.0.1:0', {settings} handler = function(s)
            local act = acts[s.path]
            if act then return act(s) end
            s:respond(200, {{['content-type'] = 'text/plain', date = 'now'}}) s:closewrite('hello')
         end}})
         report(l.addr)"
    ));
    let address = script.line();
    (script, address)
}

fn post(client: &mut Http2Client, path: &str, content: &str) -> sluice_wire::h2::StreamId {
    let stream = client.begin(("POST", path), &[], BodyLength::Framed);
    client.send(stream, content.as_bytes(), End::Stream);
    stream
}

#[test]
fn answers_are_those_of_http_1() {
    let (mut script, address) = server("");
    let mut client = Http2Client::connect(&address);
    let hello = client.get("/hello");
    assert_eq!((hello.status(), hello.text().as_str()), (200, "hello"));
    assert_eq!(hello.field("content-length"), Some("5"));
    assert_eq!(hello.field("date"), Some("now"));
    let chunks = client.get("/chunks");
    assert_eq!((chunks.text().as_str(), chunks.field("upper")), ("abcd", Some("x")));
    assert_eq!(chunks.trailers, [("x-trailer".to_owned(), "1".to_owned())]);
    assert_eq!(chunks.field("content-length"), None);
    assert!(chunks.field("date").is_some_and(|date| date.ends_with("GMT")));
    let length = client.get("/length");
    assert_eq!((length.text().as_str(), length.field("content-length")), ("abc", Some("3")));
    script.expect(&["true false Message too long (90)"]);
    assert_eq!(client.get("/short").reset, Some(ErrorCode::INTERNAL_ERROR));
    let nothing = client.get("/nothing");
    assert_eq!((nothing.status(), nothing.field("content-length")), (204, None));
    script.expect(&["true"]);
    assert_eq!(client.get("/closed").status(), 404);
    script.expect(&["false Socket is closed (10004)"]);
    let head = client.begin(("HEAD", "/hello"), &[], BodyLength::Empty);
    let head = client.wait(head);
    assert_eq!((head.text().as_str(), head.field("content-length")), ("", Some("5")));
}

#[test]
fn handlers_that_fail_are_answered_for() {
    let (mut script, address) = server("");
    let mut client = Http2Client::connect(&address);
    assert_eq!(client.get("/silent").status(), 500);
    let fails = client.get("/fails");
    assert_eq!((fails.status(), fails.text().as_str()), (500, "Internal Server Error\n"));
    let half = client.get("/half");
    assert_eq!((half.status(), half.reset), (200, Some(ErrorCode::INTERNAL_ERROR)));
    assert_eq!(client.get("/splits").status(), 200);
    script.expect(&["false false false"]);
    // Everything above came over one connection, which is as good as before.
    assert_eq!(client.get("/hello").text(), "hello");
}

#[test]
fn requests_come_whole_with_trailers_and_expectations() {
    let (mut script, address) = server("");
    let mut client = Http2Client::connect(&address);
    let fields = [("x-a", "1"), ("x-a", "2"), ("cookie", "a=1"), ("cookie", "b=2")];
    let stream = client.begin(("GET", "/./facts?b=%41"), &fields, BodyLength::Empty);
    let facts = client.wait(stream);
    script.expect(&["GET /facts HTTP/2 1, 2 a=1; b=2 A true http"]);
    let cookies = facts.fields.iter().filter(|(name, _)| name == "set-cookie").count();
    assert_eq!((cookies, facts.field("connection")), (2, None));
    let stream = post(&mut client, "/echo", "content");
    assert_eq!(client.wait(stream).text(), "content");
    let stream = client.begin(("POST", "/trailers"), &[], BodyLength::Framed);
    client.send(stream, b"content", End::More);
    client.send_trailers(stream, "x-end", "yes");
    assert_eq!(client.wait(stream).trailers, [("x-trailer".to_owned(), "2".to_owned())]);
    script.expect(&["yes"]);
    let stream = client.begin(("POST", "/echo"), &[("expect", "100-continue")], BodyLength::Framed);
    client.send(stream, b"late", End::Stream);
    let echo = client.wait(stream);
    assert_eq!((echo.statuses.as_slice(), echo.text().as_str()), (&[100, 200][..], "late"));
    let stream = client.begin(("POST", "/echo"), &[("expect", "magic")], BodyLength::Framed);
    assert_eq!(client.wait(stream).status(), 417);
    let large = "x".repeat(300_000);
    let stream = post(&mut client, "/echo", &large);
    assert_eq!(client.wait(stream).text(), large);
}

#[test]
fn who_does_not_read_stops_its_stream_and_no_other() {
    let (mut script, address) = server("");
    let mut client = Http2Client::connect(&address);
    client.settle();
    client.set_appetite(Appetite::Sated);
    let large = client.begin(("GET", "/large"), &[], BodyLength::Empty);
    assert_eq!(client.wait_for_head(large), 200);
    // The stream's window is shut, the connection's is not.
    client.read(large, 65_535);
    let closed = client.begin(("GET", "/closed"), &[], BodyLength::Empty);
    assert_eq!(client.wait(closed).status(), 404);
    script.expect(&["false Socket is closed (10004)"]);
    client.reset(large);
    script.expect(&["large false Connection reset by peer (104)"]);
    // A handler that does not read leaves the client's content in the client.
    client.set_appetite(Appetite::Hungry);
    let later = client.begin(("POST", "/later"), &[], BodyLength::Framed);
    client.send(later, &[b'x'; 65_535], End::More);
    assert_eq!(client.get("/hello").text(), "hello");
    assert_eq!(client.get("/go").status(), 200);
    client.send(later, &[b'x'; 65_535], End::Stream);
    assert_eq!(client.wait(later).text(), "131070");
}

#[test]
fn shut_windows_are_not_waited_for_for_ever() {
    let (mut script, address) = server("timeout = 100,");
    let mut client = Http2Client::connect(&address);
    client.set_appetite(Appetite::Sated);
    let large = client.begin(("GET", "/large"), &[], BodyLength::Empty);
    assert_eq!(client.wait(large).reset, Some(ErrorCode::CANCEL));
    script.expect(&["large false Operation timed out (110)"]);
    // Neither is content, nor another request.
    let mut client = Http2Client::connect(&address);
    let waits = client.begin(("POST", "/waits"), &[], BodyLength::Framed);
    script.expect(&["begins", "read nil Operation timed out (110)"]);
    assert_eq!(client.wait_for_head(waits), 200);
    client.wait_for_end();
    assert_eq!(client.goodbye, Some(ErrorCode::NO_ERROR));
}

#[test]
fn streams_that_are_reset_tell_their_handlers() {
    let (mut script, address) = server("");
    let mut client = Http2Client::connect(&address);
    let waits = client.begin(("POST", "/waits"), &[], BodyLength::Framed);
    script.expect(&["begins"]);
    client.reset(waits);
    script.expect(&["read nil Connection reset by peer (104)"]);
    let waits = client.begin(("POST", "/waits"), &[], BodyLength::Framed);
    script.expect(&["begins"]);
    drop(client);
    script.expect(&["read nil Connection reset by peer (104)"]);
    let _ = waits;
    // An answer may come before its request has ended; of the rest only so much is taken.
    let mut client = Http2Client::connect(&address);
    let early = client.begin(("POST", "/early"), &[], BodyLength::Framed);
    assert_eq!(client.wait(early).text(), "enough");
    assert_eq!(client.get("/hello").text(), "hello");
}

#[test]
fn handlers_of_streams_that_were_reset_count() {
    let (_script, address) = server("");
    let mut client = Http2Client::connect(&address);
    client.settle();
    for _ in 0..100 {
        let sleeps = client.begin(("GET", "/sleeps"), &[], BodyLength::Empty);
        client.reset(sleeps);
    }
    let refused = client.begin(("GET", "/hello"), &[], BodyLength::Empty);
    assert_eq!(client.wait(refused).reset, Some(ErrorCode::REFUSED_STREAM));
    assert_eq!(Http2Client::connect(&address).get("/hello").text(), "hello");
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// GET / http a, which changes nothing in the table.
const REQUEST: &[u8] = &[0x82, 0x84, 0x86, 0x01, 1, b'a'];

/// Sends all of it, as far as it is taken, and gives what comes until the end of the connection.
fn exchange(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be cut off in the middle, and a reset may take answers away.
    let _ = socket.write_all(bytes);
    let mut all = Vec::new();
    let _ = socket.read_to_end(&mut all);
    all
}

#[test]
fn floods_end_their_connection_and_no_other() {
    let (_script, address) = server("");
    let mut other = Http2Client::connect(&address);
    let opened = |stream| frame(1, 5, stream, REQUEST);
    let reset = |stream| [opened(stream), frame(3, 0, stream, &[0, 0, 0, 8])].concat();
    let floods: [(&str, Vec<u8>); 7] = [
        ("resets", (1_u32..).step_by(2).take(2_000).flat_map(reset).collect()),
        ("settings", frame(4, 0, 0, &[]).repeat(5_000)),
        ("pings", frame(6, 0, 0, &[0; 8]).repeat(5_000)),
        ("empty", [frame(1, 4, 1, REQUEST), frame(0, 0, 1, &[]).repeat(5_000)].concat()),
        ("windows", frame(8, 0, 0, &[0, 0, 0, 1]).repeat(5_000)),
        ("priorities", frame(2, 0, 1, &[0, 0, 0, 0, 1]).repeat(5_000)),
        (
            "continuations",
            [frame(1, 0, 1, REQUEST), frame(9, 0, 1, b"\x82").repeat(5_000)].concat(),
        ),
    ];
    for (name, flood) in floods {
        exchange(&address, &[PREFACE, &frame(4, 0, 0, &[]), &flood].concat());
        assert_eq!(other.get("/hello").text(), "hello", "{name}");
    }
}

#[test]
fn what_is_no_http_2_ends_the_connection() {
    let (_script, address) = server("");
    let settings = frame(4, 0, 0, &[]);
    let large = frame(1, 4, 1, &[REQUEST, &b"\x00\x01x\x7f\x81\x3e"[..]].concat());
    for (name, bytes) in [
        ("nothing", Vec::new()),
        ("garbage", b"garbage ".repeat(5_000)),
        ("no settings", frame(6, 0, 0, &[0; 8])),
        ("large frame", [settings.clone(), vec![0xff; 9]].concat()),
        ("block", [settings.clone(), frame(1, 5, 1, &[0xff; 100])].concat()),
        ("cut block", [settings.clone(), large].concat()),
        ("half a frame", [settings.clone(), frame(0, 0, 1, &[b'x'; 100])[..50].to_vec()].concat()),
        ("content of nobody", [settings.clone(), frame(0, 0, 1, b"x")].concat()),
        ("even stream", [settings.clone(), frame(1, 5, 2, REQUEST)].concat()),
    ] {
        let mut socket = TcpStream::connect(&address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(PREFACE).unwrap();
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        // The server ends it too: whatever it says comes to an end.
        let _ = socket.read_to_end(&mut Vec::new());
        assert_eq!(Http2Client::connect(&address).get("/hello").text(), "hello", "{name}");
    }
    // What was answered came whole: a client that breaks a rule is told which kind of rule.
    let all = exchange(&address, &[PREFACE, &settings, &frame(6, 0, 1, &[0; 8])].concat());
    let goodbye = [&[0, 0, 8, 7, 0, 0, 0, 0, 0][..], &[0; 4], &[0, 0, 0, 1]].concat();
    assert!(all.ends_with(&goodbye), "{all:?}");
}
