//! The origin and the raw client against each other.

use std::time::Duration;

use super::{Gate, Origin};
use crate::behaviour;
use crate::exchange::After;
use crate::response::{Asked, Framing};
use crate::scratch::Scratch;
use crate::script::{ByteScript, Failure, State, ask, get};

#[test]
fn echoes_and_records_on_one_connection() {
    let origin = Origin::start(behaviour::echo);
    let mut script = ByteScript::connect(origin.address());
    script.send("POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    let first = script.read_response(Asked::Get).unwrap();
    assert_eq!(first.text(), "POST /a?b HTTP/1.1\nHost: x\nContent-Length: 3\n\nabc");
    script.send_pieces(
        b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;e\r\nhi\r\n0\r\nT: u\r\n\r\n",
        1,
    );
    assert!(script.read_response(Asked::Get).unwrap().text().ends_with("\n\nhi\nT: u"));
    assert_eq!(script.state(), State::Open);
    assert_eq!((origin.connections(), origin.complete_requests()), (1, 2));
    assert_eq!(origin.last_request().number, 2);
}

#[test]
fn bad_behaviours_look_bad() {
    let request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let origin = Origin::start(behaviour::close_unanswered);
    let mut script = ByteScript::connect(origin.address());
    let ended = script.send(request).read_response(Asked::Get);
    assert_eq!(ended, Err(Failure::Ended(State::Closed, Vec::new())));

    let origin = Origin::start(behaviour::reset);
    let mut script = ByteScript::connect(origin.address());
    let ended = script.send(request).read_response(Asked::Get);
    assert_eq!(ended, Err(Failure::Ended(State::Reset, Vec::new())));

    let origin = Origin::start(behaviour::close_after(1));
    let mut script = ByteScript::connect(origin.address());
    assert_eq!(script.send(request).read_response(Asked::Get).unwrap().text(), "good");
    assert!(script.send(request).read_response(Asked::Get).is_err());

    let origin = Origin::start(behaviour::cut_short(10, "half", After::Close));
    let mut script = ByteScript::connect(origin.address());
    assert!(matches!(script.send(request).read_response(Asked::Get), Err(Failure::Malformed(..))));
}

#[test]
fn streams_sinks_and_interim_answers() {
    let origin = Origin::start(behaviour::sink);
    let answer =
        ask(origin.address(), "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345");
    assert_eq!((answer.text().as_str(), origin.sunk()), ("5", 5));

    let origin = Origin::start(behaviour::stream(3_000_000));
    let mut script = ByteScript::connect(origin.address());
    script.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").read_until(b"\r\n\r\n").unwrap();
    script.discard(3_000_000).unwrap();
    assert!(script.unread().is_empty());

    let origin = Origin::start(behaviour::interim(&[103, 102], &["Link: </a>"]));
    let answer = get(origin.address(), "/");
    assert_eq!(answer.interim.len(), 2);
    assert_eq!(answer.interim[0].fields.first("link"), Some("</a>"));

    let origin = Origin::start(behaviour::chunked(&["ab", "c"], &["X: y"]));
    let answer = get(origin.address(), "/");
    assert_eq!((answer.framing, answer.text().as_str()), (Framing::Chunked, "abc"));
    assert_eq!(answer.trailers.first("x"), Some("y"));
}

#[test]
fn upgrades_gates_and_slow_writers() {
    let origin = Origin::start(behaviour::upgrade_echo);
    let mut script = ByteScript::connect(origin.address());
    script.send("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\nearly");
    assert_eq!(script.read_response(Asked::Get).unwrap().fields.first("upgrade"), Some("foo"));
    assert_eq!(script.read_exactly(5).unwrap(), b"early");
    script.send("late");
    assert_eq!(script.read_exactly(4).unwrap(), b"late");
    script.finish_sending();
    assert_eq!(script.wait_for_end(), State::Closed);

    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let mut script = ByteScript::connect(origin.address());
    script.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    assert_eq!(script.state(), State::Open);
    gate.open();
    assert_eq!(script.read_response(Asked::Get).unwrap().text(), "late");
    drop(script);
    assert!(origin.wait_for_open_connections(0));

    let origin = Origin::start(behaviour::slow_writer("abc", Duration::from_millis(1)));
    assert_eq!(get(origin.address(), "/").text(), "abc");
}

#[test]
fn listens_on_a_unix_socket_and_refuses_ambiguity() {
    let scratch = Scratch::new();
    let origin = Origin::start_unix(&scratch.path().join("o.sock"), behaviour::echo);
    assert!(get(origin.address(), "/unix").text().starts_with("GET /unix "));

    let origin = Origin::start(behaviour::echo);
    let mut script = ByteScript::connect(origin.address());
    script
        .send("GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    script.read_to_end();
    assert_eq!(origin.complaints().len(), 1);
}
