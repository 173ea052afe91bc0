//! Content through the proxy as it comes, no faster than it is taken, and kept nowhere.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluice_acceptance::{eventually, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Gate, Origin, PATIENCE, Sluice, Stream, behaviour,
};

fn post(framing: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n")
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn events_arrive_one_by_one() {
    const EVENTS: [&str; 4] = ["data: 1\n\n", "x", "data: three\n\n", "end"];
    let total: usize = EVENTS.iter().map(|event| event.len()).sum();
    for framing in ["Transfer-Encoding: chunked\r\n", &format!("Content-Length: {total}\r\n"), ""] {
        let gates: Vec<Gate> = EVENTS.iter().map(|_| Gate::new()).collect();
        let (of_origin, head) = (gates.clone(), format!("HTTP/1.1 200 OK\r\n{framing}\r\n"));
        let framed = framing.starts_with('T');
        let origin = Origin::start(move |exchange: &mut Exchange| {
            exchange.write(&head)?;
            for (event, gate) in EVENTS.iter().zip(&of_origin) {
                gate.pass();
                let size = event.len();
                exchange.write(if framed {
                    format!("{size:x}\r\n{event}\r\n")
                } else {
                    (*event).to_owned()
                })?;
            }
            exchange.then(After::Close);
            exchange.write(if framed { "0\r\n\r\n" } else { "" })
        });
        let sluice = Sluice::start(&passing("", origin.address(), ""));
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(GET).read_until(b"\r\n\r\n").expect("the head, before there is any content");
        for (event, gate) in EVENTS.iter().zip(&gates) {
            gate.open();
            client.read_until(event.as_bytes()).expect("an event, before the next one is sent");
        }
        sluice.stop();
    }
}

#[test]
fn pieces_of_an_upload_arrive_one_by_one() {
    let origin = Origin::start(behaviour::sink);
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    for framed in [false, true] {
        let mut client = ByteScript::connect(&sluice.address("web"));
        let framing = if framed { "Transfer-Encoding: chunked" } else { "Content-Length: 12" };
        let before = origin.sunk();
        client.send(post(framing));
        for round in 1..=4 {
            client.send(if framed { "3\r\nabc\r\n" } else { "abc" });
            assert!(eventually(|| origin.sunk() == before + round * 3), "{framing}, {round}");
        }
        client.send(if framed { "0\r\n\r\n" } else { "" });
        assert_eq!(client.read_response(Asked::Get).unwrap().text(), "12");
    }
    sluice.stop();
}

/// Resident memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Waits until a count has stopped growing.
fn settled(count: impl Fn() -> u64) -> u64 {
    let (mut last, mut since) = (count(), Instant::now());
    assert!(eventually(|| {
        if count() != last {
            (last, since) = (count(), Instant::now());
        }
        last > 0 && since.elapsed() > Duration::from_millis(300)
    }));
    last
}

/// What sockets hold between a sender and a reader that does not read: two pairs of buffers at most
/// as large as the kernel lets them grow.
const IN_FLIGHT: u64 = 24 << 20;

#[test]
fn an_origin_gets_no_further_than_its_client_reads() {
    for framing in ["Content-Length: 1099511627776", "Transfer-Encoding: chunked", ""] {
        let written = Arc::new(AtomicU64::new(0));
        let (count, head) = (Arc::clone(&written), format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
        let piece = if framing.starts_with('T') {
            format!("8000\r\n{}\r\n", "x".repeat(0x8000))
        } else {
            "x".repeat(0x8000)
        };
        let origin = Origin::start(move |exchange: &mut Exchange| {
            exchange.write(&head)?;
            loop {
                exchange.write(&piece)?;
                count.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
        });
        let sluice = Sluice::start(&passing("", origin.address(), ""));
        let before = resident(sluice.pid());
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(GET).read_until(b"\r\n\r\n").unwrap();
        let stalled = settled(|| written.load(Ordering::Relaxed));
        assert!(stalled < IN_FLIGHT, "{framing:?}: {stalled}");
        assert!(resident(sluice.pid()) < before + 4096, "{before} {}", resident(sluice.pid()));
        client.discard(2 * IN_FLIGHT).unwrap();
        assert!(written.load(Ordering::Relaxed) > IN_FLIGHT, "it goes on when the client does");
        drop(client);
        assert!(origin.wait_for_open_connections(0));
        sluice.stop();
    }
}

#[test]
fn a_client_gets_no_further_than_its_origin_reads() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::sink));
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let before = resident(sluice.pid());
    let mut client = Stream::connect(&sluice.address("web")).unwrap();
    let total: u64 = 64 << 20;
    client.write_all(post(&format!("Content-Length: {total}")).as_bytes()).unwrap();
    client.set_timeout(Duration::from_millis(300)).unwrap();
    let (mut sent, piece) = (0, vec![b'x'; 1 << 16]);
    while let Ok(count) = client.write(&piece) {
        sent += count as u64;
        assert!(sent < IN_FLIGHT, "the origin has read nothing");
    }
    assert!(resident(sluice.pid()) < before + 4096, "{before} {}", resident(sluice.pid()));
    gate.open();
    client.set_timeout(PATIENCE).unwrap();
    while sent < total {
        sent += client.write(&piece[..piece.len().min((total - sent) as usize)]).unwrap() as u64;
    }
    let mut answer = [0; 4096];
    let count = client.read(&mut answer).unwrap();
    assert!(answer[..count].ends_with(total.to_string().as_bytes()));
    sluice.stop();
}

#[test]
fn four_gigabytes_each_way_take_no_memory() {
    const TOTAL: u64 = 4 << 30;
    let origin = Origin::start(|exchange: &mut Exchange| {
        if exchange.head().method == "GET" {
            return behaviour::stream(TOTAL)(exchange);
        }
        // Read past the testkit's own framing: it copies every byte twice.
        let (stream, early) = exchange.raw();
        let (mut left, mut piece) = (TOTAL - early.len() as u64, vec![0; 1 << 18]);
        while left > 0 {
            left -= stream.read(&mut piece)? as u64;
        }
        exchange.then(After::Close);
        exchange.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ndone")
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let before = resident(sluice.pid());
    let mut most = before;
    let mut client = Stream::connect(&sluice.address("web")).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let mut piece = vec![b'x'; 1 << 18];
    client.write_all(GET.as_bytes()).unwrap();
    let (mut came, mut looked) = (0, 0);
    while came < TOTAL {
        let count = client.read(&mut piece).unwrap();
        assert_ne!(count, 0, "closed after {came}");
        came += count as u64;
        if came >> 28 != looked {
            (looked, most) = (came >> 28, most.max(resident(sluice.pid())));
        }
    }
    let mut client = Stream::connect(&sluice.address("web")).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client.write_all(post(&format!("Content-Length: {TOTAL}")).as_bytes()).unwrap();
    for _ in 0..TOTAL >> 28 {
        (0..1 << 10).for_each(|_| client.write_all(&piece).unwrap());
        most = most.max(resident(sluice.pid()));
    }
    let mut answer = String::new();
    let _ = client.read_to_string(&mut answer);
    assert!(answer.ends_with("done"), "{answer}");
    assert!(most < before + 16 * 1024, "grew from {before} to {most} KiB");
    sluice.stop();
}
