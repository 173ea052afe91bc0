//! Handshakes that break rules: each ends with the alert that belongs to it, and with the connection.
//!
//! `make audit` has a hundred more of them, with keys agreed upon.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use sluice_acceptance::tls::{Held, made};
use sluice_acceptance::{eventually, metric};
use sluice_testkit::{PATIENCE, Scratch, Sluice};

/// A gateway whose time-outs are longer than any test waits.
fn gateway(scratch: &Scratch) -> Sluice {
    made(&["localhost"]).write(scratch.path(), "a");
    let folder = scratch.path().display();
    Sluice::start(&format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\n\
         address = \"127.0.0.1:0\"\ntls.folder = \"{folder}\"\n\
         timeout = {{ handshake = \"10m\", head = \"10m\", idle = \"10m\" }}\n\
         [[route]]\nrespond = \"hello\"\n"
    ))
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length[..], bytes].concat()
}

fn record(kind: u8, data: &[u8]) -> Vec<u8> {
    [&[kind, 3, 1][..], &sized(data)].concat()
}

fn extension(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[0, kind][..], &sized(body)].concat()
}

const VERSIONS: &[u8] = &[0, 43, 0, 3, 2, 3, 4];
const GROUPS: &[u8] = &[0, 10, 0, 4, 0, 2, 0, 0x1D];
const SCHEMES: &[u8] = &[0, 13, 0, 4, 0, 2, 4, 3];

/// A share of X25519.
fn share(key: [u8; 32]) -> Vec<u8> {
    let entry = [&[0, 0x1D][..], &sized(&key)].concat();
    extension(51, &sized(&entry))
}

/// A ClientHello in a record; `version` is the one of old.
fn hello(version: u8, suites: &[u8], extensions: &[&[u8]]) -> Vec<u8> {
    let body =
        [&[3, version][..], &[7; 32], &[0], &sized(suites), &[1, 0], &sized(&extensions.concat())]
            .concat();
    let message = [&[1, 0][..], &sized(&body)].concat();
    record(22, &message)
}

/// Bytes, and the description of the alert that answers them (RFC 8446, 6).
fn handshakes() -> Vec<(&'static str, Vec<u8>, u8)> {
    let (old, new): (&[u8], &[u8]) = (&[0xC0, 0x2B], &[0x13, 1]);
    let good = share([9; 32]);
    vec![
        ("application data first", record(23, b"GET / HTTP/1.1\r\n\r\n"), 10),
        ("ChangeCipherSpec first", record(20, &[1]), 10),
        ("a hello that ends early", record(22, &[1, 0, 0, 2, 3, 3]), 50),
        ("TLS 1.0", hello(1, old, &[GROUPS, SCHEMES]), 70),
        ("no suite in common", hello(3, &[0, 0x2F], &[GROUPS, SCHEMES]), 40),
        ("suites for another key", hello(3, &[0xC0, 0x2F], &[GROUPS, SCHEMES]), 40),
        ("a key of zeros", hello(3, new, &[VERSIONS, GROUPS, SCHEMES, &share([0; 32])]), 47),
        ("groups twice", hello(3, new, &[VERSIONS, GROUPS, SCHEMES, &good, GROUPS]), 47),
        (
            "no protocol in common",
            hello(3, old, &[GROUPS, SCHEMES, &extension(16, &[0, 3, 2, b'x', b'y'])]),
            120,
        ),
    ]
}

#[test]
fn each_ends_with_its_alert() {
    let scratch = Scratch::new();
    let sluice = gateway(&scratch);
    for (name, bytes, alert) in handshakes() {
        let mut socket = TcpStream::connect(sluice.address("web")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&bytes).unwrap();
        let mut said = Vec::new();
        // What was not read may make the end a reset.
        let ended = socket.read_to_end(&mut said);
        assert!(
            ended.as_ref().err().is_none_or(|it| it.kind() == std::io::ErrorKind::ConnectionReset),
            "{name} does not end: {ended:?}"
        );
        assert_eq!((said.first(), said.get(5..)), (Some(&21), Some(&[2, alert][..])), "{name}");
    }
    sluice.stop();
}

#[test]
fn a_record_that_nobody_can_decrypt_ends_a_connection_without_requests() {
    let scratch = Scratch::new();
    let sluice = gateway(&scratch);
    let web = TcpStream::connect(sluice.address("web")).unwrap();
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = Held::open(&between.local_addr().unwrap().to_string());
    let (client, _) = between.accept().unwrap();
    // One thread for each direction; they end with the connections.
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)))
    };
    let up = pass(client.try_clone().unwrap(), web.try_clone().unwrap());
    let down = pass(web.try_clone().unwrap(), client.try_clone().unwrap());
    let done = "sluice_listener_handshakes_total{listener=\"web\",version=\"1.3\",resumed=\"no\"}";
    assert!(eventually(|| metric(&sluice.admin(), done) == 1));
    (&web).write_all(&record(23, &[0; 40])).unwrap();
    let open = "sluice_listener_connections{listener=\"web\"}";
    assert!(eventually(|| metric(&sluice.admin(), open) == 0), "the connection stays open");
    drop(held);
    for socket in [&web, &client] {
        let _ = socket.set_read_timeout(Some(Duration::from_secs(1)));
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }
    up.join().unwrap();
    down.join().unwrap();
    sluice.stop();
}
