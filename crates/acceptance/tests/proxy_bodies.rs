//! Content through the proxy: every framing both ways, and no faster than it is taken.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test fails by panicking"
)]

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluice_acceptance::{eventually, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Fields, Framing, Gate, Origin, PATIENCE, Sluice, Stream,
    behaviour,
};

fn post(framing: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n")
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn content_goes_up_in_both_framings_and_any_pieces() {
    let origin = Origin::start(behaviour::echo);
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    // What is sent, and what follows the head in the echo.
    let rows = [
        (post("Content-Length: 5") + "hello", "hello"),
        (post("Content-Length: 0"), ""),
        ("POST / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), ""),
        (post("Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n", "hello"),
        (
            post("Transfer-Encoding: chunked") + "1;a=b\r\nh\r\n0004;x\r\nello\r\n000\r\n\r\n",
            "hello",
        ),
        (post("Transfer-Encoding: chunked") + "0\r\n\r\n", ""),
        (
            post("Transfer-Encoding: chunked\r\nTrailer: X-Sum")
                + "2\r\nhi\r\n0\r\nX-Sum: 9\r\nX-B: c\r\n\r\n",
            "hi\nX-Sum: 9\nX-B: c",
        ),
        (
            post("Transfer-Encoding: chunked") + "A\r\n0123456789\r\na\r\nabcdefghij\r\n0\r\n\r\n",
            "0123456789abcdefghij",
        ),
    ];
    for size in [1, 7, 100_000] {
        let mut client = ByteScript::connect(&sluice.address("web"));
        for (request, expected) in &rows {
            client.send_pieces(request.as_bytes(), size);
            let answer = client.read_response(Asked::Get).unwrap();
            let text = answer.text();
            let (_, content) = text.split_once("\n\n").unwrap();
            assert_eq!(content, *expected, "{request} in pieces of {size}");
        }
    }
    assert_eq!(origin.complete_requests(), rows.len() * 3);
    sluice.stop();
}

/// Answers, the method they are for, and what becomes of them.
const ANSWERS: &[(&str, &str, &str, Framing)] = &[
    ("GET", "200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", Framing::Length),
    ("GET", "200 OK\r\nContent-Length: 0\r\n\r\n", "", Framing::Length),
    (
        "GET",
        "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        "hello",
        Framing::Chunked,
    ),
    ("GET", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", Framing::Chunked),
    (
        "GET",
        "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-T: u\r\n\r\n",
        "hi",
        Framing::Chunked,
    ),
    ("GET", "204 No Content\r\n\r\n", "", Framing::None),
    ("GET", "304 Not Modified\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n", "", Framing::None),
    ("HEAD", "200 OK\r\nContent-Length: 5\r\n\r\n", "", Framing::None),
    ("HEAD", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", Framing::None),
    ("HEAD", "200 OK\r\n\r\n", "", Framing::None),
    ("HEAD", "404 Not Found\r\nContent-Length: 7\r\n\r\n", "", Framing::None),
];

#[test]
fn answers_come_down_in_every_framing_on_connections_that_are_kept() {
    for size in [1, 100_000] {
        let origin = Origin::start(move |exchange: &mut Exchange| {
            let index: usize = exchange.head().target[1..].parse().unwrap();
            let bytes = format!("HTTP/1.1 {}", ANSWERS[index].1);
            bytes.as_bytes().chunks(size).try_for_each(|piece| exchange.write(piece))
        });
        let sluice = Sluice::start(&passing("", origin.address(), ""));
        let mut client = ByteScript::connect(&sluice.address("web"));
        for (index, (method, bytes, text, framing)) in ANSWERS.iter().enumerate() {
            client.send(format!("{method} /{index} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let asked = if *method == "HEAD" { Asked::Head } else { Asked::Get };
            let answer = client.read_response(asked).unwrap();
            assert_eq!((answer.text().as_str(), answer.framing), (*text, *framing), "{bytes}");
            assert_eq!(
                answer.trailers.first("x-t"),
                bytes.contains("X-T").then_some("u"),
                "{bytes}"
            );
            if *method == "HEAD" || bytes.starts_with("304") {
                // RFC 9110, 8.6: what a GET would have had.
                let stated =
                    bytes.split("Content-Length: ").nth(1).and_then(|it| it.lines().next());
                assert_eq!(answer.fields.first("content-length"), stated, "{bytes}");
            }
        }
        assert_eq!(origin.connections(), 1, "every answer left the connection usable");
        sluice.stop();
    }
}

#[test]
fn content_until_the_close_gets_an_end_for_those_who_know_one() {
    for (version, framing) in [("1.1", Framing::Chunked), ("1.0", Framing::UntilClose)] {
        for text in ["", "x", "until the close"] {
            let bytes = format!("HTTP/1.1 200 OK\r\n\r\n{text}");
            let origin = Origin::start(behaviour::raw(bytes.as_bytes(), After::Close));
            let sluice = Sluice::start(&passing("", origin.address(), ""));
            let mut client = ByteScript::connect(&sluice.address("web"));
            let request = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
            let answer = client.send(&request).read_response(Asked::Get).unwrap();
            assert_eq!((answer.text().as_str(), answer.framing), (text, framing));
            if framing == Framing::Chunked {
                assert_eq!(client.send(&request).read_response(Asked::Get).unwrap().text(), text);
                assert_eq!(origin.connections(), 2);
            }
            sluice.stop();
        }
    }
}

/// A block no repetition of smaller ones equals.
fn block() -> Vec<u8> {
    (0..1_000_003_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Checksum(u64, u64);

impl Checksum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325, 0)
    }

    fn add(&mut self, bytes: &[u8]) {
        self.1 += bytes.len() as u64;
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

const LARGE: usize = 100 << 20;

/// 100 MiB in pieces of changing size, each framed as a chunk if asked.
fn send_large(to: &mut impl FnMut(&[u8]) -> io::Result<()>, framed: bool) -> io::Result<Checksum> {
    let (block, mut sum, mut left, mut size) = (block(), Checksum::new(), LARGE, 1);
    while left > 0 {
        let piece = &block[..size.min(left).min(block.len())];
        sum.add(piece);
        if framed {
            to(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        to(piece)?;
        if framed {
            to(b"\r\n")?;
        }
        left -= piece.len();
        size = size * 3 % 999_983;
    }
    if framed {
        to(b"0\r\n\r\n")?;
    }
    Ok(sum)
}

#[test]
fn large_content_is_the_same_at_the_other_end() {
    for framed in [false, true] {
        let framing = if framed {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {LARGE}")
        };
        let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
        let origin = Origin::start(move |exchange: &mut Exchange| {
            let mut sum = Checksum::new();
            while let Some(bytes) = exchange.read_some(&mut Fields::default())? {
                sum.add(&bytes);
            }
            if exchange.head().method == "POST" {
                return exchange.answer(200, &[], format!("{sum:?}"));
            }
            exchange.write(&head)?;
            send_large(&mut |bytes| exchange.write(bytes), framed).map(drop)
        });
        let sluice = Sluice::start(&passing("", origin.address(), ""));
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(post(&framing));
        let sent = send_large(
            &mut |bytes| client.try_send(bytes).map_err(|_| ErrorKind::TimedOut.into()),
            framed,
        )
        .unwrap();
        assert_eq!(client.read_response(Asked::Get).unwrap().text(), format!("{sent:?}"));

        client.send(GET).read_until(b"\r\n\r\n").unwrap();
        let mut came = Checksum::new();
        while came.1 < LARGE as u64 {
            if framed {
                let line = String::from_utf8(client.read_until(b"\r\n").unwrap()).unwrap();
                let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
                came.add(&client.read_exactly(size).unwrap());
                assert_eq!(client.read_exactly(2).unwrap(), b"\r\n");
            } else {
                came.add(&client.read_exactly(1 << 20).unwrap());
            }
        }
        assert_eq!(came, sent);
        sluice.stop();
    }
}

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
