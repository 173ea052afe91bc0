//! Content through the proxy: every framing both ways, and not a byte other than it was.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test fails by panicking"
)]

use std::io::{self, ErrorKind};

use sluice_acceptance::passing;
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Fields, Framing, Origin, Sluice, behaviour,
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
