//! Interim answers, the handshake before content, and connections that become tunnels.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sluice_acceptance::{eventually, metric, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Gate, Origin, SOON, Sluice, State, ask, behaviour,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const EXPECTING: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
const SWITCHING: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n";

#[test]
fn interim_answers_are_passed_on_to_those_who_know_them() {
    let origin = Origin::start(behaviour::interim(
        &[102, 103, 103],
        &["Link: </a.css>; rel=preload", "Connection: x-hop", "X-Hop: 1"],
    ));
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let answer = ask(&sluice.address("web"), GET);
    let statuses: Vec<u16> = answer.interim.iter().map(|interim| interim.status).collect();
    assert_eq!((answer.text().as_str(), statuses), ("final", vec![102, 103, 103]));
    for interim in &answer.interim {
        assert_eq!(interim.fields.first("link"), Some("</a.css>; rel=preload"));
        for name in ["x-hop", "connection", "date", "content-length"] {
            assert_eq!(interim.fields.first(name), None, "{interim:?}");
        }
    }
    let old = ask(&sluice.address("web"), "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!((old.text().as_str(), old.interim.len()), ("final", 0));
    sluice.stop();
}

#[test]
fn an_interim_answer_does_not_wait_for_the_final_one() {
    let gate = Gate::new();
    let of_origin = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.answer(103, &["Link: </a>"], "")?;
        of_origin.pass();
        exchange.answer(200, &[], "final")
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    let hint = client.send(GET).read_until(b"\r\n\r\n").expect("the hint while the answer is made");
    assert!(hint.starts_with(b"HTTP/1.1 103 "));
    gate.open();
    assert_eq!(client.read_response(Asked::Get).unwrap().text(), "final");
    sluice.stop();
}

#[test]
fn content_waits_for_the_origins_consent() {
    let origin = Origin::start(behaviour::mirror);
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..2 {
        let consent = client.send(EXPECTING).read_until(b"\r\n\r\n").unwrap();
        assert!(consent.starts_with(b"HTTP/1.1 100 "), "{consent:?}");
        assert_eq!(client.send("hello").read_response(Asked::Get).unwrap().text(), "hello");
    }
    assert_eq!(origin.last_request().fields.first("expect"), Some("100-continue"));
    // A client that does not wait.
    let answer = client.send(EXPECTING).send("hasty").read_response(Asked::Get).unwrap();
    assert_eq!(answer.text(), "hasty");
    sluice.stop();
}

#[test]
fn an_origin_that_refuses_or_never_consents_is_an_origin_all_the_same() {
    let refusing = Origin::start(behaviour::early(417, After::Next));
    let sluice = Sluice::start(&passing("", refusing.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    let answer = client.send(EXPECTING).read_response(Asked::Get).unwrap();
    assert_eq!((answer.status, answer.interim.len(), answer.text().as_str()), (417, 0, "early"));
    // Nobody can tell whether content follows: the connection is of no further use.
    assert!(answer.fields.has_token("connection", "close"));
    assert_eq!(client.finish_sending().wait_for_end(), State::Closed);
    sluice.stop();

    let silent = Origin::start(|exchange: &mut Exchange| {
        let (stream, content) = exchange.raw();
        let mut piece = [0; 64];
        while content.len() < 5 {
            let count = stream.read(&mut piece)?;
            content.extend_from_slice(&piece[..count]);
        }
        exchange.then(After::Close);
        exchange.answer(200, &["Connection: close"], "took it")
    });
    let sluice = Sluice::start(&passing("", silent.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(EXPECTING);
    assert!(silent.wait_for_requests(1), "the head goes up at once");
    assert_eq!(client.state(), State::Open);
    let answer = client.send("hello").read_response(Asked::Get).unwrap();
    assert_eq!((answer.text().as_str(), answer.interim.len()), ("took it", 0));
    sluice.stop();
}

#[test]
fn a_tunnel_carries_every_byte_from_the_first() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        // The first words of the new protocol come in one piece with the handshake.
        exchange.write(
            "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: y\r\n\r\nwelcome",
        )?;
        echo(exchange)
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(format!("{SWITCHING}early"));
    let answer = client.read_response(Asked::Get).unwrap();
    assert_eq!((answer.status, answer.fields.first("upgrade")), (101, Some("websocket")));
    assert!(answer.fields.has_token("connection", "upgrade"), "{answer:?}");
    assert_eq!(answer.fields.first("sec-websocket-accept"), Some("y"));
    assert_eq!(client.read_exactly(12).unwrap(), b"welcomeearly");
    let seen = origin.last_request();
    assert_eq!(seen.fields.first("upgrade"), Some("websocket"));
    assert!(seen.fields.has_token("connection", "upgrade"), "{seen:?}");
    assert_eq!(seen.fields.first("sec-websocket-key"), Some("k"));
    for size in [1, 100, 65_536, 300_000] {
        let bytes: Vec<u8> = (0..size).map(|i: u32| i.to_le_bytes()[0] ^ 0x5a).collect();
        assert_eq!(client.send(&bytes).read_exactly(bytes.len()).unwrap(), bytes);
    }
    // Bytes that look like HTTP are none.
    let text = "GET / HTTP/1.1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(client.send(text).read_exactly(text.len()).unwrap(), text.as_bytes());
    client.finish_sending();
    assert_eq!(client.wait_for_end(), State::Closed);
    assert!(origin.wait_for_open_connections(0));
    let through = |direction| {
        let sample = format!("sluice_upstream_{direction}_bytes_total{{upstream=\"origin\"}}");
        metric(&sluice.admin(), &sample)
    };
    assert!(eventually(|| through("sent") > 365_000 && through("received") > 365_000));
    sluice.stop();
}

/// Returns what comes until the gateway has no more to say.
fn echo(exchange: &mut Exchange) -> io::Result<()> {
    exchange.then(After::Close);
    let (stream, early) = exchange.raw();
    stream.write_all(&std::mem::take(early))?;
    let mut piece = [0; 16_384];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&piece[..count])?;
    }
}

#[test]
fn each_direction_of_a_tunnel_ends_for_itself() {
    // One side says that it is done, the other goes on and has its last word.
    let origin = Origin::start(|exchange: &mut Exchange| {
        let first = exchange.head().target == "/origin";
        exchange.answer(101, &["Connection: Upgrade", "Upgrade: x"], "")?;
        exchange.then(After::Close);
        let (stream, _) = exchange.raw();
        let mut heard = String::new();
        if first {
            stream.write_all(b"done")?;
            stream.shutdown(Shutdown::Write)?;
            return stream.read_to_string(&mut heard).map(|_| assert_eq!(heard, "reply"));
        }
        stream.read_to_string(&mut heard)?;
        stream.write_all(format!("heard {heard}").as_bytes())
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    for (target, sent, expected) in
        [("/client", "question", "heard question"), ("/origin", "", "done")]
    {
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(SWITCHING.replace("/chat", target));
        assert_eq!(client.read_response(Asked::Get).unwrap().status, 101);
        if sent.is_empty() {
            assert_eq!(client.read_to_end(), (expected.into(), State::Closed));
            client.send("reply").finish_sending();
        } else {
            client.send(sent).finish_sending();
            assert_eq!(client.read_to_end(), (expected.into(), State::Closed));
        }
        assert!(origin.wait_for_open_connections(0), "{target}");
    }
    sluice.stop();
}

#[test]
fn a_tunnel_ends_when_nothing_moves_and_not_before() {
    let origin = Origin::start(behaviour::upgrade_echo);
    let limited = "timeout = { tunnel = \"2s\" }";
    let sluice = Sluice::start(&passing(
        "timeout = { idle = \"100ms\", body = \"100ms\" }",
        origin.address(),
        limited,
    ));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(SWITCHING).read_response(Asked::Get).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2500) {
        assert_eq!(client.send("ping").read_exactly(4).unwrap(), b"ping");
    }
    let idle = Instant::now();
    assert_ne!(client.wait_for_end(), State::Open);
    let waited = idle.elapsed();
    assert!(waited >= Duration::from_millis(1900) && waited < SOON, "{waited:?}");
    assert!(origin.wait_for_open_connections(0));
    sluice.stop();
}

#[test]
fn either_end_of_a_tunnel_can_be_gone() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.answer(101, &["Connection: Upgrade", "Upgrade: x"], "")?;
        let mut word = [0; 3];
        let (stream, _) = exchange.raw();
        let count = stream.read(&mut word)?;
        exchange.then(if count == 3 { After::Reset } else { After::Close });
        Ok(())
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(SWITCHING).read_response(Asked::Get).unwrap();
    client.reset();
    assert!(origin.wait_for_open_connections(0));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(SWITCHING).read_response(Asked::Get).unwrap();
    assert_ne!(client.send("die").wait_for_end(), State::Open);
    sluice.stop();
}

#[test]
fn what_an_end_said_before_it_took_nothing_more_arrives() {
    let (heard, go_on) = (Gate::new(), Gate::new());
    let (of_heard, of_go_on) = (heard.clone(), go_on.clone());
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.answer(101, &["Connection: Upgrade", "Upgrade: x"], "")?;
        let (stream, _) = exchange.raw();
        stream.read_exact(&mut [0; 3])?;
        of_heard.open();
        of_go_on.pass();
        stream.write_all(b"last words")?;
        exchange.then(After::Reset);
        Ok(())
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(SWITCHING).read_response(Asked::Get).unwrap();
    client.send("one");
    heard.pass();
    // All of it lies before the gateway when it looks again: bytes for somebody who takes none, and his last ones.
    let process = Pid::from_raw(sluice.pid().try_into().unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let stat = format!("/proc/{}/stat", sluice.pid());
    assert!(eventually(|| std::fs::read_to_string(&stat).unwrap().contains(") T ")));
    go_on.open();
    client.send("two");
    assert!(origin.wait_for_open_connections(0));
    kill_process(process, Signal::CONT).unwrap();
    assert_eq!(client.read_to_end(), (b"last words".to_vec(), State::Reset));
    sluice.stop();
}

#[test]
fn an_origin_may_stay_with_http() {
    let origin = Origin::start(behaviour::fixed(426, "not here"));
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..2 {
        let answer = client.send(SWITCHING).read_response(Asked::Get).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (426, "not here"));
    }
    // With content, or in the old protocol, no switch is asked for.
    let content = SWITCHING.replace("\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nhi");
    let old = SWITCHING.replace("HTTP/1.1", "HTTP/1.0");
    for request in [content, old] {
        assert_eq!(client.send(&request).read_response(Asked::Get).unwrap().status, 426);
        assert_eq!(origin.last_request().fields.first("upgrade"), None, "{request}");
    }
    sluice.stop();
}
