//! Content that many answers share goes out whole and in order, however much of it is asked for at a time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use sluice_acceptance::config;
use sluice_testkit::{Origin, Scratch, Sluice};

/// Around the sizes from which on content is not copied, or not sent with its head.
const SIZES: [usize; 8] = [1, 4095, 4096, 16_384, 16_385, 24_000, 65_536, 65_537];

/// Content of so many bytes that shows what is missing, twice or another one's.
fn content(length: usize) -> Vec<u8> {
    let start = length % 26;
    (0..length).map(|at| b'a' + u8::try_from((start + at) % 26).unwrap()).collect()
}

/// Answers of every size from the configuration, from files and from what is kept.
fn gateway(scratch: &Scratch, origin: &Origin) -> Sluice {
    let mut text = "[filter.kept.cache]\n".to_owned();
    for size in SIZES {
        let file = scratch.path().join(format!("{size}.txt"));
        std::fs::write(&file, content(size)).unwrap();
        let file = file.display();
        writeln!(text, "[[route]]\npath = \"/fixed/{size}.txt\"\nrespond = {{ file = '{file}' }}")
            .unwrap();
    }
    let root = scratch.path().display();
    writeln!(text, "[[route]]\npath = \"/files/*\"\n[route.files]\nroot = '{root}'").unwrap();
    writeln!(text, "strip_prefix = \"/files\"\ncache = {{ file = \"128KiB\" }}").unwrap();
    let origin = origin.address();
    writeln!(text, "[[route]]\npath = \"/kept/*\"\nproxy = \"{origin}\"\nfilters = [\"kept\"]")
        .unwrap();
    Sluice::start(&config(&text))
}

fn origin() -> Origin {
    Origin::start(|exchange| {
        let target = exchange.head().target.clone();
        let name = target.rsplit('/').next().unwrap().strip_suffix(".txt").unwrap();
        exchange.answer(200, &["Cache-Control: max-age=600"], content(name.parse().unwrap()))
    })
}

/// The head and the length it states; content follows.
fn read_head(stream: &mut BufReader<TcpStream>) -> (String, usize) {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the connection ended after {head:?}");
        if line == "\r\n" {
            return (head, length);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
}

/// Everything a client asks for on one connection before it reads any of it.
fn ask_all(gateway: &Sluice, requests: &[(&str, String, usize)]) {
    let stream = TcpStream::connect(gateway.address("web")).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut text = String::new();
    for (at, (method, path, _)) in requests.iter().enumerate() {
        let last = if at + 1 == requests.len() { "Connection: close\r\n" } else { "" };
        write!(text, "{method} {path} HTTP/1.1\r\nHost: a\r\n{last}\r\n").unwrap();
    }
    let writing = std::thread::spawn(move || writer.write_all(text.as_bytes()).unwrap());
    let mut stream = BufReader::new(stream);
    for (method, path, size) in requests {
        let (head, length) = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        assert_eq!(length, *size, "{method} {path}");
        if *method == "GET" {
            let mut got = vec![0; length];
            stream.read_exact(&mut got).unwrap();
            assert!(got == content(*size), "{path}");
        }
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"", "nothing follows");
    writing.join().unwrap();
}

#[test]
fn answers_of_all_sizes_follow_each_other() {
    let (scratch, origin) = (Scratch::new(), origin());
    let gateway = gateway(&scratch, &origin);
    for place in ["fixed", "files", "kept"] {
        let request = |method, size| (method, format!("/{place}/{size}.txt"), size);
        // What is not at hand yet is when it is asked for again.
        for size in SIZES {
            for method in ["GET", "HEAD", "GET"] {
                ask_all(&gateway, &[request(method, size)]);
            }
        }
        let mut mixed = Vec::new();
        for one in SIZES {
            for other in SIZES {
                mixed.extend([request("GET", one), request("HEAD", other), request("GET", other)]);
            }
        }
        ask_all(&gateway, &mixed);
    }
    gateway.stop();
}

#[test]
fn a_client_that_reads_late_gets_all_of_it() {
    let (scratch, origin) = (Scratch::new(), origin());
    let gateway = gateway(&scratch, &origin);
    for place in ["fixed", "files", "kept"] {
        for size in [24_000, 65_536] {
            let path = format!("/{place}/{size}.txt");
            ask_all(&gateway, &[("GET", path.clone(), size)]);
            // More than sockets hold, so that the writes end anywhere.
            let many = vec![("GET", path, size); 20 * 1024 * 1024 / size];
            ask_all(&gateway, &many);
        }
    }
    gateway.stop();
}
