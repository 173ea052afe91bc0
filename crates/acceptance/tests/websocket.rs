//! WebSocket through the gateway, for clients of HTTP/1.1 and of HTTP/2.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluice_acceptance::http2::{Appetite, Http2Client};
use sluice_acceptance::http2_origin::{Deed, Http2Origin};
use sluice_acceptance::websocket::{
    Client, Ended, Frame, More, Opcode, WAYS, Way, agree, echo, frame, repeat, socket,
};
use sluice_acceptance::{eventually, metric, passing};
use sluice_message::BodyLength;
use sluice_testkit::{After, Exchange, Gate, Origin, Signal, Sluice, behaviour};
use sluice_wire::h2::{End, ErrorCode};

/// A gateway that passes everything on, with further lines of its upstream.
fn before(origin: &Origin, upstream: &str) -> Sluice {
    Sluice::start(&passing("", origin.address(), upstream))
}

fn tunnels(sluice: &Sluice, what: &str) -> u64 {
    let labels = "upstream=\"origin\",protocol=\"websocket\"";
    metric(&sluice.admin(), &format!("sluice_upstream_{what}{{{labels}}}"))
}

/// Bytes without a rhythm.
fn noise(count: usize) -> Vec<u8> {
    let mut seed = 1_u64;
    let step = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_be_bytes()[0]
    };
    std::iter::repeat_with(step).take(count).collect()
}

#[test]
fn messages_go_both_ways() {
    let origin = Origin::start(echo);
    let sluice = before(&origin, "");
    for way in WAYS {
        let mut client = Client::open(way, &sluice.address("web"));
        assert_eq!(tunnels(&sluice, "tunnels"), 1, "{way:?}");
        client.send_frame(Opcode::Text, More::No, b"hello");
        let expected = |opcode, more, payload: &[u8]| Frame {
            opcode,
            more,
            masked: false,
            payload: payload.to_vec(),
        };
        assert_eq!(client.read_frame(), expected(Opcode::Text, More::No, b"hello"));
        // A ping in the middle of a message (RFC 6455, 5.4).
        client.send_frame(Opcode::Binary, More::Yes, b"one");
        client.send_frame(Opcode::Ping, More::No, b"there?");
        client.send_frame(Opcode::Continuation, More::Yes, b"");
        client.send_frame(Opcode::Continuation, More::No, b"two");
        assert_eq!(client.read_frame(), expected(Opcode::Binary, More::Yes, b"one"));
        assert_eq!(client.read_frame(), expected(Opcode::Pong, More::No, b"there?"));
        assert_eq!(client.read_frame(), expected(Opcode::Continuation, More::Yes, b""));
        assert_eq!(client.read_frame(), expected(Opcode::Continuation, More::No, b"two"));
        client.send_frame(Opcode::Close, More::No, b"\x03\xE8bye");
        assert_eq!(client.read_frame(), expected(Opcode::Close, More::No, b"\x03\xE8bye"));
        client.finish();
        assert_eq!(client.read_to_end(), (Vec::new(), Ended::Well), "{way:?}");
        assert!(eventually(|| tunnels(&sluice, "tunnels") == 0), "{way:?}");
    }
    assert_eq!(tunnels(&sluice, "tunnels_opened_total"), 2);
    assert!(origin.complaints().is_empty());
    sluice.stop();
}

#[test]
fn both_ways_mean_the_same() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        agree(
            exchange,
            &["Sec-WebSocket-Protocol: chat.2", "Sec-WebSocket-Extensions: x", "X-Own: 1"],
        )?;
        exchange.write("welcome")
    });
    let text = format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         [log]\naccess = \"{{request.method}} {{request.target}} {{request.version}} {{response.status}} {{response.bytes}}\"\n\
         [[route]]\nmethod = \"GET\"\npath = \"/chat\"\nheader = {{ x-room = \"blue\" }}\nproxy = \"{}\"\n",
        origin.address()
    );
    let sluice = Sluice::start(&text);
    let asked = [
        ("Sec-WebSocket-Protocol", "chat.1, chat.2"),
        ("Sec-WebSocket-Extensions", "x; y=1"),
        ("X-Room", "blue"),
    ];
    let lower: Vec<(String, &str)> =
        asked.iter().map(|(name, value)| (name.to_lowercase(), *value)).collect();
    let lower: Vec<(&str, &str)> =
        lower.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for way in WAYS {
        let mark = sluice.stdout().mark();
        let fields: &[(&str, &str)] = if way == Way::Old { &asked } else { &lower };
        let (mut client, status, answer) =
            Client::ask(way, &sluice.address("web"), "/chat", fields);
        let of = |name: &str| {
            answer.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(of("sec-websocket-protocol"), Some("chat.2"));
        assert_eq!((of("sec-websocket-extensions"), of("x-own")), (Some("x"), Some("1")));
        match way {
            Way::Old => assert_eq!(
                (status, of("sec-websocket-accept")),
                (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
            ),
            Way::New => {
                assert_eq!(
                    (status, of("sec-websocket-accept"), of("content-length")),
                    (200, None, None)
                );
                assert_eq!((of("upgrade"), of("connection")), (None, None));
            }
        }
        assert_eq!(client.read(7), b"welcome");
        client.finish();
        assert_eq!(client.read_to_end(), (Vec::new(), Ended::Well));
        let seen = origin.last_request();
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/chat"));
        let of = |name: &str| seen.fields.first(name);
        assert_eq!((of("upgrade"), of("sec-websocket-version")), (Some("websocket"), Some("13")));
        assert!(seen.fields.has_token("connection", "upgrade"), "{seen:?}");
        assert_eq!(of("sec-websocket-key").map(str::len), Some(24));
        assert_eq!(of("sec-websocket-protocol"), Some("chat.1, chat.2"));
        assert_eq!(of("sec-websocket-extensions"), Some("x; y=1"));
        assert_eq!((of("transfer-encoding"), of("content-length")), (None, None));
        // The line comes when all is over, with what went through.
        let line = match way {
            Way::Old => "GET /chat HTTP/1.1 101 ",
            Way::New => "GET /chat HTTP/2.0 200 ",
        };
        let line = sluice.stdout().wait_after(mark, line).expect("a line");
        let bytes: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(bytes > 7, "{line}");
    }
    let keys: Vec<Option<String>> = origin
        .requests()
        .iter()
        .map(|request| request.fields.first("sec-websocket-key").map(str::to_owned))
        .collect();
    assert_ne!(keys[0], keys[1], "a key of our own");
    // A condition of the route that does not hold.
    for way in WAYS {
        let (_, status, _) = Client::ask(way, &sluice.address("web"), "/chat", &[]);
        assert_eq!(status, 404, "{way:?}");
    }
    sluice.stop();
}

#[test]
fn every_byte_arrives_as_it_was_sent() {
    let origin = Origin::start(repeat);
    let sluice = before(&origin, "");
    let mask = Some([0xA5, 0x00, 0xFF, 0x3C]);
    for way in WAYS {
        let mut client = Client::open(way, &sluice.address("web"));
        let mut through = |bytes: &[u8]| {
            client.send(bytes);
            assert!(client.read(bytes.len()) == bytes, "{way:?}: {} bytes", bytes.len());
        };
        // Where the length is written in another form, and where buffers end.
        for size in
            [0, 1, 2, 3, 124, 125, 126, 127, 128, 254, 65_534, 65_535, 65_536, 65_537, 131_072]
        {
            let payload = noise(size);
            through(&frame((Opcode::Binary, More::No), &payload, mask));
            through(&frame((Opcode::Text, More::Yes), &payload, None));
        }
        // Fragments of one byte, and control frames between them.
        for byte in noise(64) {
            through(&frame((Opcode::Continuation, More::Yes), &[byte], mask));
            through(&frame((Opcode::Pong, More::No), &noise(125), mask));
        }
        // Every code an end can have, those that must not be among them (RFC 6455, 7.4).
        for code in (0..=5000_u16).step_by(37).chain([999, 1000, 1004, 1005, 1006, 1015, 65_535]) {
            through(&frame((Opcode::Close, More::No), &code.to_be_bytes(), mask));
        }
        // What no endpoint may send: reserved bits and opcodes, long and fragmented control frames,
        // lengths in a longer form than needed, a length beyond all reason, text that is none.
        let invalid: [&[u8]; 11] = [
            &[0xFF, 0x00],
            &[0x83, 0x80, 1, 2, 3, 4],
            &[0x8F, 0x7E, 0, 1, 7],
            &[0x09, 0x00],
            &[0x89, 0x7E, 0x00, 0x7E],
            &[0x88, 0x01, 0x03],
            &[0x81, 0x7E, 0x00, 0x01, b'a'],
            &[0x82, 0x7F, 0, 0, 0, 0, 0, 0, 0, 1, b'a'],
            &[0x82, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            &[0x81, 0x04, 0xC3, 0x28, 0xED, 0xA0],
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ];
        for bytes in invalid {
            through(bytes);
        }
        for size in [1, 2, 1000, 300_000] {
            through(&noise(size));
        }
        client.finish();
        assert_eq!(client.read_to_end(), (Vec::new(), Ended::Well));
    }
    sluice.stop();
}

#[test]
fn large_messages_take_their_time() {
    const LENGTH: usize = 16 << 20;
    let origin = Origin::start(|exchange: &mut Exchange| {
        agree(exchange, &[])?;
        // All of it first, so that one direction has to hold all the other sends.
        let (stream, early) = exchange.raw();
        let mut all = std::mem::take(early);
        let mut piece = vec![0; 64 * 1024];
        while all.len() < LENGTH {
            let count = stream.read(&mut piece)?;
            all.extend_from_slice(&piece[..count]);
        }
        stream.write_all(&all)
    });
    let sluice = before(&origin, "");
    let message = noise(LENGTH);
    for way in WAYS {
        let mut client = Client::open(way, &sluice.address("web"));
        client.send(&message);
        assert!(client.read(LENGTH) == message, "{way:?}");
        client.finish();
        assert_eq!(client.read_to_end(), (Vec::new(), Ended::Well));
    }
    sluice.stop();
}

#[test]
fn who_reads_slowly_holds_the_other_side_back() {
    const LENGTH: usize = 48 << 20;
    let taken = Arc::new(AtomicUsize::new(0));
    let stalled = Gate::new();
    let (of_origin, gate) = (Arc::clone(&taken), stalled.clone());
    let origin = Origin::start(move |exchange: &mut Exchange| {
        agree(exchange, &[])?;
        let stream = socket(exchange);
        let piece = vec![7; 64 * 1024];
        of_origin.store(0, Ordering::SeqCst);
        while of_origin.load(Ordering::SeqCst) < LENGTH {
            // Nobody takes more for as long as this: it will stay so until the client reads.
            stream.set_timeout(Duration::from_millis(500))?;
            match stream.write(&piece[..piece.len().min(LENGTH - of_origin.load(Ordering::SeqCst))])
            {
                Ok(count) => _ = of_origin.fetch_add(count, Ordering::SeqCst),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    gate.open();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
    let sluice = before(&origin, "");
    for way in WAYS {
        let mut client = Client::open(way, &sluice.address("web"));
        if let Client::New(client, _) = &mut client {
            client.set_appetite(Appetite::Sated);
        }
        stalled.pass();
        // What sockets of this machine hold is a few megabytes; the rest has to wait.
        let begun = taken.load(Ordering::SeqCst);
        assert!(begun < LENGTH / 2, "{way:?}: {begun} bytes were taken");
        if let Client::New(client, _) = client {
            drop(client);
        } else {
            assert!(client.read(LENGTH).iter().all(|byte| *byte == 7));
        }
        assert!(origin.wait_for_open_connections(0), "{way:?}");
    }
    sluice.stop();
}

#[test]
fn each_direction_ends_for_itself() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        let first = exchange.head().target == "/origin";
        agree(exchange, &[])?;
        let mut heard = String::new();
        let stream = socket(exchange);
        if first {
            stream.write_all(b"done")?;
            stream.shutdown(Shutdown::Write)?;
            stream.read_to_string(&mut heard)?;
            assert_eq!(heard, "reply");
            return Ok(());
        }
        stream.read_to_string(&mut heard)?;
        stream.write_all(format!("heard {heard}").as_bytes())
    });
    let sluice = before(&origin, "");
    let web = sluice.address("web");
    for way in WAYS {
        let (mut client, _, _) = Client::ask(way, &web, "/client", &[]);
        client.send(b"question");
        client.finish();
        assert_eq!(client.read_to_end(), (b"heard question".to_vec(), Ended::Well), "{way:?}");
        assert!(origin.wait_for_open_connections(0), "{way:?}");
    }
    let (mut client, _, _) = Client::ask(Way::Old, &web, "/origin", &[]);
    assert_eq!(client.read_to_end(), (b"done".to_vec(), Ended::Well));
    client.send(b"reply");
    client.finish();
    assert!(origin.wait_for_open_connections(0));
    // The end of its half does not end the stream.
    let mut client = Http2Client::connect(&web);
    client.settle();
    let stream = client.begin_extended("/origin", "websocket", &[]);
    assert_eq!((client.wait_for_head(stream), client.read(stream, 4)), (200, b"done".to_vec()));
    client.send(stream, b"reply", End::Stream);
    assert_eq!(client.wait(stream).reset, None);
    assert!(origin.wait_for_open_connections(0));
    assert!(eventually(|| tunnels(&sluice, "tunnels") == 0));
    sluice.stop();
}

#[test]
fn what_breaks_on_one_side_breaks_on_the_other() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        agree(exchange, &[])?;
        let mut word = [0; 3];
        socket(exchange).read_exact(&mut word)?;
        exchange.then(After::Reset);
        Ok(())
    });
    let sluice = before(&origin, "");
    for way in WAYS {
        let mut client = Client::open(way, &sluice.address("web"));
        client.send(b"die");
        assert_eq!(client.read_to_end().1, Ended::Broken, "{way:?}");
        let client = Client::open(way, &sluice.address("web"));
        client.reset();
        assert!(origin.wait_for_open_connections(0), "{way:?}");
    }
    // RFC 8441, 5.
    let mut client = Http2Client::connect(&sluice.address("web"));
    client.settle();
    let stream = client.begin_extended("/chat", "websocket", &[]);
    assert_eq!(client.wait_for_head(stream), 200);
    client.send(stream, b"die", End::More);
    assert_eq!(client.wait(stream).reset, Some(ErrorCode::CANCEL));
    // The connection goes on.
    let stream = client.begin_extended("/chat", "websocket", &[]);
    assert_eq!(client.wait_for_head(stream), 200);
    drop(client);
    assert!(origin.wait_for_open_connections(0));
    assert!(eventually(|| tunnels(&sluice, "tunnels") == 0));
    sluice.stop();
}

#[test]
fn an_origin_has_to_agree() {
    let answers: [(&str, u16, u16); 8] = [
        // What it answers, and what clients of each version get.
        ("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", 403, 403),
        ("HTTP/1.1 302 There\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302, 302),
        ("HTTP/1.1 426 Not\r\nContent-Length: 0\r\n\r\n", 426, 426),
        // To an extended CONNECT every success is a tunnel: these are none.
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, 502),
        ("HTTP/1.1 204 OK\r\n\r\n", 204, 502),
        ("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 101, 502),
        (
            "HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            101,
            502,
        ),
        ("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n", 101, 502),
    ];
    for (answer, old, new) in answers {
        let origin = Origin::start(behaviour::raw(answer.as_bytes(), After::Close));
        let sluice = before(&origin, "");
        for (way, expected) in [(Way::Old, old), (Way::New, new)] {
            let (_, status, _) = Client::ask(way, &sluice.address("web"), "/chat", &[]);
            assert_eq!(status, expected, "{way:?}: {answer}");
        }
        if old < 300 && old != 101 {
            let sample = "sluice_faults_total{side=\"upstream\",reason=\"upgrade_refused\"}";
            assert_eq!(metric(&sluice.admin(), sample), 1, "{answer}");
        }
        sluice.stop();
    }
}

#[test]
fn nothing_else_is_a_tunnel() {
    let origin = Origin::start(echo);
    let own = "[[route]]\npath = \"/own\"\nrespond = \"own\"\n\
               [[route]]\npath = \"/gone\"\nrespond = { status = 410 }\n\
               [[route]]\npath = \"/moved\"\nredirect = \"/own\"\n\
               [[route]]\npath = \"/members\"\nproxy = \"origin\"\nclient_certificate = true\n";
    let listener = "[[listener]]\nname = \"members\"\naddress = \"127.0.0.1:0\"\n\
                    tls = { self_signed = true, client = { ca = \"CA\", mode = \"optional\" } }\n";
    let scratch = sluice_testkit::Scratch::new();
    let ca = scratch.write("ca.pem", sluice_acceptance::tls::Authority::new("some").cert);
    let listener = listener.replace("CA", &ca.display().to_string());
    let sluice = Sluice::start(&(passing("", origin.address(), "") + own + &listener));
    let web = sluice.address("web");
    let mut client = Http2Client::connect(&web);
    client.settle();
    let cases = [
        ("/own", "websocket", 501),
        ("/gone", "websocket", 410),
        ("/moved", "websocket", 302),
        // A policy on the opening request is one on the tunnel.
        ("/members", "websocket", 403),
        ("/chat", "webtransport", 501),
        ("/chat", "WebSocket", 200),
    ];
    for (path, protocol, status) in cases {
        let stream = client.begin_extended(path, protocol, &[]);
        assert_eq!(client.wait_for_head(stream), status, "{path} {protocol}");
    }
    assert_eq!(Client::ask(Way::Old, &web, "/members", &[]).1, 403);
    let length = ([("content-length", "5")], BodyLength::Known(5));
    let stream = client.begin_for(("CONNECT", "/chat"), "websocket", (&length.0, length.1));
    assert_eq!(client.wait_for_head(stream), 400);
    // `:protocol` belongs to CONNECT (RFC 8441, 4).
    let stream = client.begin_for(("GET", "/chat"), "websocket", (&[], BodyLength::Empty));
    let answer = client.wait(stream);
    assert!(answer.status() == 400 || answer.reset.is_some(), "{answer:?}");
    // An opening request that has ended already ends the tunnel's half.
    let stream = client.begin_for(("CONNECT", "/chat"), "websocket", (&[], BodyLength::Empty));
    assert_eq!(client.wait(stream).status(), 200);
    assert_eq!(client.get("/own").text(), "own", "the connection goes on");
    // A tunnel is open, which the gateway would wait for.
    drop(client);
    sluice.stop();
}

#[test]
fn time_is_limited() {
    let origin = Origin::start(echo);
    let text = "timeout = { tunnel = \"1s\" }";
    let sluice = before(&origin, text);
    for way in WAYS {
        let mut client = Client::open(way, &sluice.address("web"));
        client.send_frame(Opcode::Text, More::No, b"hello");
        assert_eq!(client.read_frame().payload, b"hello");
        assert_eq!(client.read_to_end(), (Vec::new(), Ended::Well), "{way:?}");
        assert!(origin.wait_for_open_connections(0), "{way:?}");
    }
    sluice.stop();
    let sluice = before(&origin, "timeout = { tunnel_lifetime = \"700ms\" }");
    for way in WAYS {
        let mut client = Client::open(way, &sluice.address("web"));
        let over = |client: &mut Client| match client {
            Client::Old(script) => script.state() != sluice_testkit::State::Open,
            Client::New(client, stream) => client.is_over(*stream),
        };
        // However much moves.
        while !over(&mut client) {
            client.send_frame(Opcode::Ping, More::No, b"");
            match &mut client {
                Client::Old(script) => _ = script.read_exactly(2),
                Client::New(http2, _) => _ = http2.turn(),
            }
        }
        assert!(origin.wait_for_open_connections(0), "{way:?}");
    }
    sluice.stop();
}

#[test]
fn a_reload_leaves_tunnels_alone_and_the_end_gives_them_time() {
    let origin = Origin::start(echo);
    let text = passing("", origin.address(), "");
    let mut sluice = Sluice::start(&format!("shutdown_timeout = \"2s\"\n{text}"));
    let web = sluice.address("web");
    let mut clients = WAYS.map(|way| Client::open(way, &web));
    let mut talk = || {
        for client in &mut clients {
            client.send_frame(Opcode::Text, More::No, b"still there");
            assert_eq!(client.read_frame().payload, b"still there");
        }
    };
    talk();
    let other = Origin::start(behaviour::fixed(200, "other"));
    let changed = passing("timeout = { idle = \"1s\" }", other.address(), "");
    sluice.reload(&format!("shutdown_timeout = \"2s\"\n{changed}"));
    talk();
    sluice.signal(Signal::Drain);
    sluice.wait_for_line("draining");
    talk();
    // They are cut off when the time is over.
    for client in &mut clients {
        match client {
            Client::Old(script) => {
                assert_ne!(script.wait_for_end(), sluice_testkit::State::Open);
            }
            Client::New(http2, _) => http2.wait_for_end(),
        }
    }
    assert!(origin.wait_for_open_connections(0));
    let _ = sluice.wait_for_exit();
}

/// A gateway that asks an origin in HTTP/2.
fn asking_in_http2(origin: &str, upstream: &str) -> Sluice {
    let server = origin.trim_start_matches("http://").trim_end_matches('/');
    Sluice::start(&passing("", server, &format!("protocol = \"http2\"\n{upstream}")))
}

#[test]
fn origins_of_http_2_are_asked_by_an_extended_connect() {
    // A gateway as the origin: it takes both ways, and its own origin speaks HTTP/1.1.
    let origin = Origin::start(echo);
    let inner = before(&origin, "");
    let sluice = asking_in_http2(&inner.address("web"), "");
    let mut clients = WAYS.map(|way| Client::open(way, &sluice.address("web")));
    let payload = noise(1 << 20);
    for client in &mut clients {
        client.send_frame(Opcode::Text, More::No, b"hello");
        assert_eq!(client.read_frame().payload, b"hello");
        client.send_frame(Opcode::Binary, More::No, &payload);
        assert_eq!(client.read_frame().payload, payload);
    }
    let connects = "sluice_upstream_connects_total{upstream=\"origin\"}";
    assert_eq!(metric(&sluice.admin(), connects), 1, "both are streams of one connection");
    assert_eq!((tunnels(&sluice, "tunnels"), tunnels(&inner, "tunnels")), (2, 2));
    for mut client in clients {
        client.send_frame(Opcode::Close, More::No, b"\x03\xE8");
        assert_eq!(client.read_frame().payload, b"\x03\xE8");
        client.finish();
        assert_eq!(client.read_to_end(), (Vec::new(), Ended::Well));
    }
    assert!(eventually(|| tunnels(&sluice, "tunnels") + tunnels(&inner, "tunnels") == 0));
    // One whose client breaks off is broken off.
    for way in WAYS {
        let client = Client::open(way, &sluice.address("web"));
        assert!(eventually(|| tunnels(&inner, "tunnels") == 1));
        drop(client);
        assert!(eventually(|| tunnels(&inner, "tunnels") == 0), "{way:?}");
    }
    sluice.stop();
    inner.stop();
}

#[test]
fn what_an_origin_of_http_2_refuses_is_refused() {
    let origin = Origin::start(behaviour::fixed(403, "not you"));
    let inner = before(&origin, "");
    let sluice = asking_in_http2(&inner.address("web"), "");
    for way in WAYS {
        let (_, status, _) = Client::ask(way, &sluice.address("web"), "/chat", &[]);
        assert_eq!(status, 403, "{way:?}");
    }
    sluice.stop();
    inner.stop();
    // One that never said that it takes such requests.
    let origin = Http2Origin::start(|_| Deed::text("hello"));
    let sluice = asking_in_http2(&origin.address(), "");
    for way in WAYS {
        let (_, status, _) = Client::ask(way, &sluice.address("web"), "/chat", &[]);
        assert_eq!(status, 502, "{way:?}");
    }
    assert!(origin.seen().iter().all(|asked| asked.path != "/chat"), "{:?}", origin.seen());
    sluice.wait_for_line("upgrade_refused");
    sluice.stop();
}
