//! Every rule of a connection, as a table: frames in, events or errors out, however the input is cut.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop here"
)]

mod h2_script;

use h2_script::*;
use sluice_message::{BodyLength, Expectation, Method, RequestHead, ResponseHead, TargetForm};
use sluice_wire::h1::Limits;
use sluice_wire::h2::{
    ClientConnection, Config, Connect, End, ErrorCode, RequestOptions, ResponseOptions, Scheme,
    ServerConnection, Tunnel,
};

fn config() -> Config {
    Config {
        limits: Limits { head: 1000, fields: 10, target: 100 },
        streams: 4,
        stream_window: 70_000,
        connection_window: 80_000,
        ..Config::default()
    }
}

fn server_says(bytes: &[u8], piece: usize) -> String {
    let mut connection = ServerConnection::server(&config());
    converse(&mut connection, &[hello(), bytes.to_vec()].concat(), piece)
}

/// Checks a case in one piece and in pieces of one, two, three and ten bytes.
#[track_caller]
fn server(bytes: &[Vec<u8>], want: &str) {
    let bytes = bytes.concat();
    for piece in [usize::MAX, 1, 2, 3, 10] {
        let said = server_says(&bytes, piece);
        let said = said.strip_prefix("settings").unwrap().trim_start();
        assert_eq!(said, want, "in pieces of {piece}");
    }
}

const HEAD: &str = "head 1 GET / at a end";
const OPEN: &str = "head 1 POST / at a";

fn lines(parts: &[&str]) -> String {
    parts.join("\n")
}

#[test]
fn beginnings() {
    let cases: [(Vec<u8>, &str); 6] = [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "error protocol_error preface"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rx".to_vec(), "error protocol_error preface"),
        ([hello()[..24].to_vec(), get(1)].concat(), "error protocol_error preface"),
        (
            [hello()[..24].to_vec(), frame(SETTINGS, 1, 0, [])].concat(),
            "error protocol_error preface",
        ),
        (hello(), "settings"),
        (hello()[..20].to_vec(), ""),
    ];
    for (bytes, want) in cases {
        for piece in [usize::MAX, 1] {
            let said = converse(&mut ServerConnection::server(&config()), &bytes, piece);
            assert_eq!(said, want);
        }
    }
}

#[test]
fn frames_that_break_the_rule_of_their_type() {
    let size = "error frame_size_error frame_size";
    let cases: [(Vec<u8>, &str); 24] = [
        (frame(DATA, 0, 0, [0]), "error protocol_error stream_id"),
        (frame(HEADERS, BOTH, 0, block(&GET)), "error protocol_error stream_id"),
        (frame(HEADERS, BOTH, 2, block(&GET)), "error protocol_error stream_id"),
        (frame(PRIORITY, 0, 0, [0; 5]), "error protocol_error stream_id"),
        (frame(PRIORITY, 0, 1, [0; 4]), size),
        (frame(PRIORITY, 0, 1, [0, 0, 0, 1, 7]), "error protocol_error dependency"),
        (frame(RESET, 0, 0, [0; 4]), "error protocol_error stream_id"),
        (frame(RESET, 0, 1, [0; 4]), "error protocol_error stream_state"),
        (frame(RESET, 0, 1, [0; 3]), size),
        (frame(SETTINGS, 0, 1, []), "error protocol_error stream_id"),
        (frame(SETTINGS, 0, 0, [0; 3]), size),
        (frame(SETTINGS, 1, 0, [0; 6]), size),
        (settings(&[(2, 2)]), "error protocol_error settings"),
        (settings(&[(4, 1 << 31)]), "error flow_control_error settings"),
        (settings(&[(5, 1)]), "error protocol_error settings"),
        (frame(PUSH, 4, 1, [0, 0, 0, 2]), "error protocol_error push"),
        (frame(PING, 0, 1, [0; 8]), "error protocol_error stream_id"),
        (frame(PING, 0, 0, [0; 6]), size),
        (frame(GO_AWAY, 0, 1, [0; 8]), "error protocol_error stream_id"),
        (frame(WINDOW, 0, 0, [0; 4]), "error protocol_error window"),
        (frame(WINDOW, 0, 1, [0, 0, 0, 1]), "error protocol_error stream_state"),
        (frame(WINDOW, 0, 0, [0; 3]), size),
        (frame(WINDOW, 0, 0, [0x7f, 0xff, 0xff, 0xff]), "error flow_control_error window"),
        (frame(CONTINUATION, 4, 1, []), "error protocol_error continuation"),
    ];
    for (bytes, want) in cases {
        server(&[bytes], want);
    }
    // The header of a frame that is too large is enough.
    server(&[vec![0, 0x40, 1, DATA, 0, 0, 0, 0, 1]], size);
}

#[test]
fn frames_that_are_let_through() {
    server(&[frame(77, 0xff, 0, [1, 2, 3]), get(1)], HEAD);
    server(&[frame(PRIORITY, 0, 9, [0, 0, 0, 1, 7]), get(1)], HEAD);
    server(&[settings(&[(0xfe, 1), (3, 0)]), get(1)], &lines(&["settings", HEAD]));
    server(&[frame(PING, 0, 0, b"12345678")], "");
    server(&[frame(PING, 1, 0, b"12345678")], "pong 12345678");
    server(&[frame(GO_AWAY, 0, 0, [0, 0, 0, 0, 0, 0, 0, 0, b'x'])], "goaway 0 no_error");
    // The reserved bit is ignored.
    server(&[frame(HEADERS, BOTH, 0x8000_0001, block(&GET))], HEAD);
    // Padding and priority.
    let padded = [&[2, 0, 0, 0, 3, 9][..], &block(&GET), &[0, 0]].concat();
    server(&[frame(HEADERS, BOTH | 0x28, 1, padded)], HEAD);
    server(&[post(1), frame(DATA, 9, 1, b"\x03abcde\0\0\0")], &lines(&[OPEN, "data 1 5 end"]));
    server(&[post(1), frame(DATA, 9, 1, b"\x02\0\0")], &lines(&[OPEN, "data 1 0 end"]));
}

#[test]
fn padding_beyond_the_frame() {
    let padding = "error protocol_error padding";
    server(&[frame(HEADERS, BOTH | 8, 1, [9, 0x82])], padding);
    server(&[post(1), frame(DATA, 9, 1, b"\x05abcde")], &lines(&[OPEN, "data 1 0 end"]));
    server(&[post(1), frame(DATA, 9, 1, b"\x06abcde")], &lines(&[OPEN, padding]));
    server(&[post(1), frame(DATA, 9, 1, [])], &lines(&[OPEN, "error frame_size_error frame_size"]));
    let itself = [&[0, 0, 0, 1, 9][..], &block(&GET)].concat();
    server(&[frame(HEADERS, BOTH | 0x20, 1, itself)], "error protocol_error dependency");
}

#[test]
fn header_blocks_in_pieces() {
    let whole = block(&GET);
    let (a, b) = whole.split_at(9);
    let first = || frame(HEADERS, END, 1, a);
    server(&[first(), frame(CONTINUATION, 4, 1, b)], HEAD);
    server(
        &[first(), frame(CONTINUATION, 0, 1, &b[..1]), frame(CONTINUATION, 4, 1, &b[1..])],
        HEAD,
    );
    let broken = "error protocol_error continuation";
    server(&[first(), frame(CONTINUATION, 4, 3, b)], broken);
    server(&[first(), frame(DATA, 0, 1, b)], broken);
    server(&[first(), frame(77, 0, 1, b)], broken);
    server(&[first(), frame(PING, 0, 0, [0; 8])], broken);
    server(&[get(1), frame(CONTINUATION, 4, 1, [])], &lines(&[HEAD, broken]));
    server(&[frame(HEADERS, BOTH, 1, [0xff])], "error compression_error compression");
}

#[test]
fn states_of_streams() {
    let closed = "failed 1 stream_closed stream_state";
    let idle = "error protocol_error stream_state";
    // Idle.
    server(&[frame(DATA, 0, 1, [0])], idle);
    server(&[get(1), frame(DATA, 0, 3, [0])], &lines(&[HEAD, idle]));
    server(&[get(1), frame(WINDOW, 0, 2, [0, 0, 0, 1])], &lines(&[HEAD, idle]));
    // Half-closed (remote).
    server(&[get(1), frame(DATA, 0, 1, [0])], &lines(&[HEAD, closed]));
    server(&[get(1), get(1)], &lines(&[HEAD, closed]));
    server(&[get(1), frame(WINDOW, 0, 1, [0, 0, 0, 1])], HEAD);
    server(&[get(1), frame(PRIORITY, 0, 1, [0, 0, 0, 3, 7])], HEAD);
    server(&[get(1), frame(RESET, 0, 1, [0, 0, 0, 8])], &lines(&[HEAD, "reset 1 cancel"]));
    // Closed by the peer.
    let reset = || frame(RESET, 0, 1, [0, 0, 0, 8]);
    let gone = lines(&[OPEN, "reset 1 cancel"]);
    server(&[post(1), reset(), frame(DATA, 0, 1, [0])], &lines(&[&gone, closed]));
    server(&[post(1), reset(), get(1)], &lines(&[&gone, closed]));
    server(&[post(1), reset(), reset()], &gone);
    server(&[post(1), reset(), frame(WINDOW, 0, 1, [0, 0, 0, 1])], &gone);
    // Closed by this side: what was on its way is ignored.
    let failed = lines(&[HEAD, closed]);
    server(&[get(1), frame(DATA, 0, 1, [0]), frame(DATA, 1, 1, [0]), get(1), reset()], &failed);
    // Never opened, and below one that was.
    server(&[get(5), get(3)], "head 5 GET / at a end\nerror protocol_error stream_id");
}

#[test]
fn streams_that_ended_on_both_sides_are_closed_for_good() {
    for (bytes, want) in [
        (frame(DATA, 1, 1, [0]), "error stream_closed stream_state"),
        (get(1), "error stream_closed stream_state"),
        (frame(WINDOW, 0, 1, [0, 0, 0, 1]), ""),
        (frame(RESET, 0, 1, [0, 0, 0, 8]), ""),
        (get(3), "head 3 GET / at a end"),
    ] {
        let mut connection = ServerConnection::server(&config());
        converse(&mut connection, &[hello(), get(1)].concat(), usize::MAX);
        answer(&mut connection, 1);
        assert_eq!(converse(&mut connection, &bytes, 1), want);
    }
}

/// Answers 200 without content.
fn answer(connection: &mut ServerConnection, number: u32) {
    let mut head = ResponseHead::new();
    head.status = 200;
    let options = ResponseOptions {
        strict_transport: None,
        request: Method::Get,
        body: BodyLength::Empty,
        date: None,
        end: End::Stream,
    };
    let stream = connection.stream(number).unwrap();
    connection.respond(&mut Vec::new(), stream, &head, &options).unwrap();
}

#[test]
fn too_many_streams_are_refused_one_by_one() {
    let want = lines(&[
        "head 1 POST / at a",
        "head 3 POST / at a",
        "head 5 POST / at a",
        "head 7 POST / at a",
        "failed 9 refused_stream too_many_streams",
        "data 1 0 end",
    ]);
    server(&[post(1), post(3), post(5), post(7), post(9), frame(DATA, 1, 1, [])], &want);
}

#[test]
fn content_and_its_length() {
    let post_of = |length: &str| {
        let mut fields = POST.to_vec();
        fields.push(("content-length", length));
        frame(HEADERS, WHOLE, 1, block(&fields))
    };
    let bad = lines(&[OPEN, "failed 1 protocol_error malformed"]);
    server(&[post_of("5"), frame(DATA, 1, 1, b"hello")], &lines(&[OPEN, "data 1 5 end"]));
    server(
        &[post_of("5"), frame(DATA, 0, 1, b"he"), frame(DATA, 1, 1, b"llo")],
        &lines(&[OPEN, "data 1 5 end"]),
    );
    server(&[post_of("6"), frame(DATA, 1, 1, b"hello")], &bad);
    server(&[post_of("4"), frame(DATA, 1, 1, b"hello")], &bad);
    server(&[post_of("4"), frame(DATA, 0, 1, b"hello")], &bad);
    let more = lines(&[OPEN, "data 1 2", "failed 1 protocol_error malformed"]);
    server(&[post_of("5"), frame(DATA, 0, 1, b"he"), frame(HEADERS, BOTH, 1, [])], &more);
    server(&[post_of("5"), frame(DATA, 0, 1, b"he"), frame(DATA, 1, 1, [])], &more);
    let fields = [&GET[..], &[("content-length", "1")]].concat();
    server(&[frame(HEADERS, BOTH, 1, block(&fields))], "failed 1 protocol_error malformed");
}

#[test]
fn trailers() {
    let send = |flags, fields: &[(&str, &str)]| frame(HEADERS, flags, 1, block(fields));
    let bad = lines(&[OPEN, "failed 1 protocol_error malformed"]);
    server(&[post(1), send(BOTH, &[("x-a", "1")])], &lines(&[OPEN, "trailers 1 x-a"]));
    server(&[post(1), send(BOTH, &[])], &lines(&[OPEN, "trailers 1"]));
    server(&[post(1), send(WHOLE, &[("x-a", "1")])], &bad);
    server(&[post(1), send(BOTH, &[(":path", "/")])], &bad);
    server(&[post(1), send(BOTH, &[("content-length", "1")])], &bad);
    server(&[post(1), send(BOTH, &[("connection", "x")])], &bad);
    server(&[post(1), send(BOTH, &[("authorization", "x")])], &bad);
    server(&[post(1), send(BOTH, &[("X-A", "1")])], &bad);
}

#[test]
fn windows() {
    let large = vec![0; 16_000];
    let content = |stream| frame(DATA, 0, stream, &large);
    let open = lines(&["head 1 POST / at a", "head 3 POST / at a"]);
    // Five frames on a stream are more than its window, whoever reads them.
    let five = [post(1), post(3), content(1), content(1), content(1), content(1), content(1)];
    let failed = "failed 1 flow_control_error window_overrun";
    server(&five, &lines(&[&open, "data 1 64000", failed]));
    let over = [&five[..4], &[content(3), content(3), content(3), content(3)]].concat();
    // The connection's is 80000 bytes.
    let whole = lines(&[&open, "data 1 32000", "data 3 48000"]);
    let error = "error flow_control_error window_overrun";
    server(&over, &lines(&[&whole, error]));
    // Windows to send in.
    let most = [0x7f, 0xff, 0xff, 0xff];
    let failed = "failed 1 flow_control_error window";
    server(&[post(1), frame(WINDOW, 0, 1, most)], &lines(&[OPEN, failed]));
    let failed = "failed 1 protocol_error window";
    server(&[post(1), frame(WINDOW, 0, 1, [0; 4])], &lines(&[OPEN, failed]));
    let wide = frame(WINDOW, 0, 1, [0x7f, 0xff, 0, 0]);
    server(&[post(1), wide.clone()], OPEN);
    let error = "error flow_control_error window";
    server(&[post(1), wide, settings(&[(4, 1_000_000)])], &lines(&[OPEN, error]));
}

/// What a request's fields are judged to be.
#[test]
fn requests() {
    const BAD: &str = "failed 1 protocol_error malformed";
    let with = |fields: &[(&'static str, &'static str)]| [&GET[..], fields].concat();
    let only = |fields: &[(&'static str, &'static str)]| fields.to_vec();
    let (m, s, p, a) = (GET[0], GET[1], GET[2], GET[3]);
    let cases: Vec<(Vec<(&str, &str)>, &str)> = vec![
        (only(&[a, p, s, m]), HEAD),
        (only(&[m, s, p]), "unacceptable 1 malformed end"),
        (only(&[m, s, p, ("host", "a")]), HEAD),
        (with(&[("host", "a")]), HEAD),
        (with(&[("host", "A")]), HEAD),
        (with(&[("host", "a:")]), HEAD),
        (only(&[m, (":scheme", "https"), p, a, ("host", "A:443")]), HEAD),
        (only(&[m, (":scheme", "https"), p, a, ("host", "a:80")]), BAD),
        (only(&[m, (":scheme", "http"), p, a, ("host", "a:080")]), HEAD),
        (only(&[m, (":scheme", "http"), p, a, ("host", "a:443")]), BAD),
        (with(&[("host", "a.")]), BAD),
        (with(&[("host", "b")]), BAD),
        (only(&[m, s, p, ("host", "a"), ("host", "a")]), BAD),
        (only(&[m, s, p, (":authority", "u@a")]), "unacceptable 1 malformed end"),
        (only(&[m, s, p, (":authority", "")]), "unacceptable 1 malformed end"),
        (only(&[s, p, a]), BAD),
        (only(&[m, p, a]), BAD),
        (only(&[m, s, a]), BAD),
        (only(&[]), BAD),
        (only(&[m, m, s, p, a]), BAD),
        (only(&[m, s, s, p, a]), BAD),
        (only(&[m, s, p, p, a]), BAD),
        (only(&[m, s, p, a, a]), BAD),
        (only(&[m, s, p, ("x", "y"), a]), BAD),
        (only(&[m, s, (":path", ""), a]), BAD),
        (only(&[m, s, (":path", "x"), a]), BAD),
        (only(&[m, s, (":path", "*"), a]), BAD),
        (only(&[m, s, (":path", "http://a/"), a]), BAD),
        (only(&[m, s, (":path", "/ x"), a]), BAD),
        (only(&[m, s, (":path", "/#x"), a]), BAD),
        (only(&[m, s, (":path", "/\u{e4}"), a]), BAD),
        (only(&[m, s, (":path", "/%zz"), a]), "head 1 GET /%zz at a end"),
        (only(&[m, s, (":path", "/a/../b?c"), a]), "head 1 GET /a/../b?c at a end"),
        (only(&[(":method", "OPTIONS"), s, (":path", "*"), a]), "head 1 OPTIONS * at a end"),
        (only(&[(":method", "G T"), s, p, a]), BAD),
        (only(&[(":method", ""), s, p, a]), BAD),
        (only(&[(":method", "get"), s, p, a]), "head 1 get / at a end"),
        (only(&[m, (":scheme", "ftp"), p, a]), BAD),
        (only(&[m, (":scheme", "HTTP"), p, a]), HEAD),
        (only(&[m, s, p, a, (":status", "200")]), BAD),
        (only(&[m, s, p, a, (":nonsense", "x")]), BAD),
        (only(&[m, s, p, a, (":protocol", "websocket")]), BAD),
        (only(&[(":method", "CONNECT"), (":authority", "a:1")]), "head 1 CONNECT a:1 at a:1 end"),
        (only(&[(":method", "CONNECT"), (":authority", "a")]), "unacceptable 1 malformed end"),
        (only(&[(":method", "CONNECT"), s, p, a]), BAD),
        (only(&[(":method", "CONNECT")]), BAD),
        (with(&[("X-Upper", "1")]), BAD),
        (with(&[("", "1")]), BAD),
        (with(&[("a b", "1")]), BAD),
        (with(&[("x", "a\nb")]), BAD),
        (with(&[("x", "a\0b")]), BAD),
        (with(&[("x", " a")]), BAD),
        (with(&[("x", "a ")]), BAD),
        (with(&[("x", "")]), HEAD),
        (with(&[("connection", "close")]), BAD),
        (with(&[("proxy-connection", "close")]), BAD),
        (with(&[("keep-alive", "1")]), BAD),
        (with(&[("transfer-encoding", "chunked")]), BAD),
        (with(&[("upgrade", "websocket")]), BAD),
        (with(&[("te", "gzip")]), BAD),
        (with(&[("te", "trailers, gzip")]), BAD),
        (with(&[("te", "trailers")]), HEAD),
        (with(&[("content-length", "x")]), BAD),
        (with(&[("content-length", "0"), ("content-length", "0")]), BAD),
        (with(&[("content-length", "0")]), HEAD),
    ];
    for (fields, want) in cases {
        assert_eq!(
            server_says(&frame(HEADERS, BOTH, 1, block(&fields)), usize::MAX),
            format!("settings\n{want}"),
            "{fields:?}"
        );
    }
}

#[test]
fn heads_that_are_too_large_are_answered_and_the_table_stays_right() {
    // `x: 100 bytes` is added to the table, then named ten times in ten bytes.
    let value = "v".repeat(100);
    let mut bytes = vec![0x40, 1, b'x', 100];
    bytes.extend_from_slice(value.as_bytes());
    let bomb = [block(&GET), bytes.clone(), vec![0xbe; 10]].concat();
    let after = [block(&GET), vec![0xbe]].concat();
    let want = lines(&["unacceptable 1 head_too_large end", "head 3 GET / at a end"]);
    server(&[frame(HEADERS, BOTH, 1, bomb), frame(HEADERS, BOTH, 3, after)], &want);
    let many: Vec<(&str, &str)> = GET.into_iter().chain((0..10).map(|_| ("x", ""))).collect();
    server(&[frame(HEADERS, BOTH, 1, block(&many))], "unacceptable 1 too_many_fields end");
    let long = format!("/{}", "x".repeat(100));
    let fields = [GET[0], GET[1], (":path", long.as_str()), GET[3]];
    server(&[frame(HEADERS, BOTH, 1, block(&fields))], "unacceptable 1 target_too_long end");
}

#[test]
fn crumbs_are_joined_and_protocols_kept() {
    use sluice_message::{FieldId, Fields};
    use sluice_wire::h2::Input;
    let config = Config { connect: Connect::Extended, ..config() };
    let mut connection = ServerConnection::server(&config);
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        GET[1],
        (":path", "/chat?x"),
        GET[3],
        ("cookie", "a=1"),
        ("x", "y"),
        ("cookie", "b=2"),
        ("expect", "100-continue"),
    ];
    let bytes = [hello(), frame(HEADERS, WHOLE, 1, block(&fields))].concat();
    let (mut head, mut input) = (RequestHead::new(), Input::new(&bytes));
    while connection.next(&mut input, 0, &mut head, &mut Fields::new()).unwrap().is_some() {}
    assert_eq!((head.method, head.form), (Method::Connect, TargetForm::Origin));
    assert_eq!(
        (head.protocol(), head.path(), head.query()),
        (&b"websocket"[..], &b"/chat"[..], &b"x"[..])
    );
    assert_eq!(head.fields.value(FieldId::Cookie), Some(&b"a=1; b=2"[..]));
    assert_eq!((head.body, head.expectation), (BodyLength::Framed, Expectation::Continue));
    let names: Vec<_> = head.fields.iter().map(|(name, _)| name).collect();
    assert_eq!(names, [&b"host"[..], b"x", b"expect", b"cookie"]);
}

/// Names that origins may take for other ones are noted, wherever the line comes from.
#[test]
fn ambiguous_names_are_noted() {
    use sluice_message::Fields;
    use sluice_wire::h2::{Event, Input};
    let mut connection = ServerConnection::server(&config());
    let (mut head, mut ambiguous) = (RequestHead::new(), Vec::new());
    let requests: [&[(&str, &str)]; 3] = [&[], &[("x_user", "a"), ("b", "c")], &[("x-user", "a")]];
    let mut bytes = hello();
    for (at, more) in [1, 3, 5].into_iter().zip(requests) {
        bytes.extend(frame(HEADERS, BOTH, at, block(&[&GET[..], more].concat())));
    }
    let mut input = Input::new(&bytes);
    while let Some(event) = connection.next(&mut input, 0, &mut head, &mut Fields::new()).unwrap() {
        if matches!(event, Event::Head { .. }) {
            ambiguous.push(head.fields.is_ambiguous());
        }
    }
    assert_eq!(ambiguous, [false, true, false]);
}

#[test]
fn floods_are_ended() {
    let repeat = |frame: &[u8], times: usize| frame.repeat(times);
    let cases = [
        (repeat(&frame(PING, 0, 0, [0; 8]), 1000), "flood_pings"),
        (repeat(&settings(&[]), 1000), "flood_settings"),
        (repeat(&frame(PRIORITY, 0, 1, [0; 5]), 1000), "flood_priorities"),
        (repeat(&frame(99, 0, 1, []), 1000), "flood_priorities"),
        (repeat(&frame(WINDOW, 0, 0, [0, 0, 0, 1]), 2000), "flood_windows"),
        ([post(1), repeat(&frame(DATA, 0, 1, []), 1000)].concat(), "flood_empty"),
        ([post(1), repeat(&frame(DATA, 8, 1, [1, 0]), 1000)].concat(), "flood_empty"),
        (
            [frame(HEADERS, 0, 1, []), repeat(&frame(CONTINUATION, 0, 1, []), 100)].concat(),
            "flood_continuations",
        ),
        (
            [frame(HEADERS, 0, 1, []), repeat(&frame(CONTINUATION, 0, 1, [0; 9000]), 3)].concat(),
            "flood_continuations",
        ),
        (
            (0..1000)
                .flat_map(|n| [get(n * 2 + 1), frame(RESET, 0, n * 2 + 1, [0; 4])].concat())
                .collect(),
            "flood_resets",
        ),
        (
            (0..1000)
                .flat_map(|n| [post(n * 2 + 1), frame(WINDOW, 0, n * 2 + 1, [0; 4])].concat())
                .collect(),
            "flood_provoked_resets",
        ),
        ([get(1), repeat(&frame(RESET, 0, 1, [0; 4]), 2000)].concat(), "flood_stray"),
        (repeat(&frame(PING, 1, 0, [0; 8]), 2000), "flood_stray"),
        (repeat(&frame(GO_AWAY, 0, 0, [0; 8]), 2000), "flood_stray"),
        // The stream is reset by the window of zero.
        (
            [post(1), frame(WINDOW, 0, 1, [0; 4]), repeat(&frame(DATA, 0, 1, [0]), 2000)].concat(),
            "flood_stray",
        ),
        ([post(1), frame(WINDOW, 0, 1, [0; 4]), repeat(&get(1), 2000)].concat(), "flood_stray"),
        // More than may be under way, by a client that never acknowledges how many that is.
        ((0..2000).flat_map(|n| post(n * 2 + 1)).collect(), "flood_stray"),
    ];
    for (bytes, want) in cases {
        let said = server_says(&bytes, usize::MAX);
        assert_eq!(said.lines().last().unwrap(), format!("error enhance_your_calm {want}"));
    }
    // Answers that are not taken pile up to a limit, whatever they answer.
    let mut config = config();
    config.floods.pings = u32::MAX;
    let mut connection = ServerConnection::server(&config);
    let bytes = [hello(), frame(PING, 0, 0, [0; 8]).repeat(10_000)].concat();
    let said = converse(&mut connection, &bytes, usize::MAX);
    assert_eq!(said.lines().last().unwrap(), "error enhance_your_calm flood_backlog");
    let mut out = Vec::new();
    connection.flush(&mut out);
    assert!(out.len() < 20_000);
    let (kind, _, _, payload) = frames(&out).pop().unwrap();
    assert_eq!((kind, &payload[4..]), (GO_AWAY, &[0, 0, 0, 11][..]), "the peer is told why");
}

fn ask(connection: &mut ClientConnection, method: &str) {
    let mut head = RequestHead::new();
    head.method = Method::of(method.as_bytes());
    head.method_text = head.fields.append(method.as_bytes()).unwrap();
    head.target = head.fields.append(b"/").unwrap();
    head.authority = head.fields.append(b"a").unwrap();
    let options = RequestOptions {
        scheme: Scheme::Http,
        body: BodyLength::Empty,
        expectation: Expectation::None,
        end: End::Stream,
        tunnel: Tunnel::AsInHead,
    };
    connection.request(&mut Vec::new(), &head, &options).unwrap();
}

#[track_caller]
fn client(method: &str, bytes: &[Vec<u8>], want: &str) {
    for piece in [usize::MAX, 1, 2, 7] {
        let mut connection = ClientConnection::client(&config());
        ask(&mut connection, method);
        let said = converse(&mut connection, &[settings(&[]), bytes.concat()].concat(), piece);
        assert_eq!(said.strip_prefix("settings").unwrap().trim_start(), want, "pieces of {piece}");
    }
}

#[test]
fn answers_to_requests_that_were_given_up_are_no_matter_how_many() {
    let mut connection = ClientConnection::client(&config());
    let numbers = (1_u32..).step_by(2).take(3_000);
    for number in numbers.clone() {
        ask(&mut connection, "GET");
        connection.reset(connection.stream(number).unwrap(), ErrorCode::CANCEL);
    }
    let answer = |number| {
        let head = frame(HEADERS, WHOLE, number, block(&[(":status", "200")]));
        [head, frame(DATA, 1, number, b"hi")].concat()
    };
    let bytes: Vec<u8> = numbers.flat_map(answer).collect();
    let said = converse(&mut connection, &[settings(&[]), bytes].concat(), usize::MAX);
    assert_eq!(said.trim_end(), "settings");
}

#[test]
fn responses() {
    const BAD: &str = "failed 1 protocol_error malformed";
    let head = |flags, fields: &[(&str, &str)]| frame(HEADERS, flags, 1, block(fields));
    let ok = (":status", "200");
    client("GET", &[head(BOTH, &[ok])], "head 1 200 end");
    client("GET", &[head(WHOLE, &[ok]), frame(DATA, 1, 1, b"hi")], "head 1 200\ndata 1 2 end");
    let early = [head(WHOLE, &[(":status", "103")]), head(BOTH, &[ok])];
    client("GET", &early, "head 1 103\nhead 1 200 end");
    client("GET", &[head(BOTH, &[(":status", "103")])], BAD);
    client("GET", &[head(WHOLE, &[(":status", "101")])], BAD);
    for fields in [
        &[][..],
        &[("x", "y")],
        &[("x", "y"), ok],
        &[ok, ok],
        &[(":status", "20")],
        &[(":status", "2000")],
        &[(":status", "2x0")],
        &[(":status", "099")],
        &[ok, (":path", "/")],
        &[ok, ("connection", "close")],
        &[ok, ("X", "y")],
        &[ok, ("content-length", "1")],
    ] {
        client("GET", &[head(BOTH, fields)], BAD);
    }
    // Of HEAD and 304 the length is that of another answer.
    client("HEAD", &[head(BOTH, &[ok, ("content-length", "9")])], "head 1 200 end");
    client("GET", &[head(BOTH, &[(":status", "304"), ("content-length", "9")])], "head 1 304 end");
    let content = [head(WHOLE, &[ok]), frame(DATA, 1, 1, b"x")];
    client("HEAD", &content, "head 1 200\nfailed 1 protocol_error malformed");
    client("GET", &[frame(DATA, 1, 1, b"x")], BAD);
    client("GET", &[head(WHOLE, &[ok]), head(BOTH, &[("x", "y")])], "head 1 200\ntrailers 1 x");
    client("GET", &[frame(HEADERS, BOTH, 3, block(&[ok]))], "error protocol_error stream_state");
    client("GET", &[frame(HEADERS, BOTH, 2, block(&[ok]))], "error protocol_error stream_state");
    client("GET", &[frame(PUSH, 4, 1, [0, 0, 0, 2])], "error protocol_error push");
    client("GET", &[settings(&[(2, 1)])], "error protocol_error settings");
    let away = frame(GO_AWAY, 0, 0, [0, 0, 0, 0, 0, 0, 0, 0]);
    client("GET", &[away], "goaway 0 no_error\nreset 1 refused_stream");
    let large = "x".repeat(120);
    let many: Vec<(&str, &str)> =
        [ok].into_iter().chain((0..9).map(|_| ("x", large.as_str()))).collect();
    client("GET", &[head(BOTH, &many)], "unacceptable 1 head_too_large end");
}

/// Garbage behind a good beginning, whole and in pieces: no panic, and the same said.
#[test]
fn garbage_means_the_same_however_it_is_cut() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..3000 {
        let mut bytes = Vec::new();
        for _ in 0..next() % 8 + 1 {
            let kind = u8::try_from(next() % 11).unwrap();
            let flags =
                u8::try_from(next() % 64).unwrap() & if next() % 2 == 0 { 0x0d } else { 0x3f };
            let stream = u32::try_from(next() % 6).unwrap();
            let mut payload = match next() % 4 {
                0 => block(&GET),
                1 => block(&POST),
                2 => vec![0; usize::try_from(next() % 12).unwrap()],
                _ => next().to_be_bytes().to_vec(),
            };
            if next() % 4 == 0 && !payload.is_empty() {
                let at = usize::try_from(next()).unwrap() % payload.len();
                payload[at] ^= u8::try_from(next() % 256).unwrap();
            }
            bytes.extend_from_slice(&frame(kind, flags, stream, payload));
        }
        let whole = server_says(&bytes, usize::MAX);
        for piece in [1, 5, 13] {
            assert_eq!(server_says(&bytes, piece), whole, "{}", bytes.escape_ascii());
        }
    }
}
