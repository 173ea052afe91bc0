//! Floods of frames that cost their sender little: they end the connection they come over, and nobody else
//! notices.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Gate, Origin, Sluice, behaviour, get};

/// What a flood may cost in memory at most, in KiB, whatever it sends.
const COST: u64 = 8 * 1024;

/// Memory in use, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// GET / http a, which changes nothing in the table.
const REQUEST: &[u8] = &[0x82, 0x84, 0x86, 0x01, 1, b'a'];

/// POST /held http a, whose answer does not come.
const HELD: &[u8] = b"\x83\x04\x05/held\x86\x41\x01a";

fn streams() -> impl Iterator<Item = u32> {
    (1_u32..).step_by(2)
}

fn repeated(times: usize, bytes: &[u8]) -> Vec<u8> {
    bytes.repeat(times)
}

/// The bytes behind the preface, and the reason the connection ends for.
fn floods() -> Vec<(&'static str, Vec<u8>)> {
    let reset = |stream| {
        let begun = frame(HEADERS, END_STREAM | END_HEADERS, stream, HELD);
        [begun, frame(3, 0, stream, &[0, 0, 0, 8])].concat()
    };
    // Without a path: the gateway resets it.
    let faulty =
        |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &[0x82, 0x86, 0x41, 1, b'a']);
    let held = frame(HEADERS, END_HEADERS, 1, HELD);
    let endless = [frame(HEADERS, 0, 1, REQUEST), repeated(5_000, &frame(9, 0, 1, b"\x82"))];
    vec![
        ("flood_resets", streams().take(5_000).flat_map(reset).collect()),
        ("flood_provoked_resets", streams().take(5_000).flat_map(faulty).collect()),
        ("flood_settings", repeated(20_000, &frame(4, 0, 0, &[]))),
        ("flood_pings", repeated(20_000, &frame(6, 0, 0, &[0; 8]))),
        ("flood_empty", [held, repeated(20_000, &frame(0, 0, 1, &[]))].concat()),
        ("flood_windows", repeated(20_000, &frame(8, 0, 0, &[0, 0, 0, 1]))),
        ("flood_priorities", repeated(20_000, &frame(2, 0, 1, &[0, 0, 0, 0, 1]))),
        ("flood_continuations", endless.concat()),
    ]
}

/// Sends all of it, as far as it is taken, and waits for the end of the connection.
fn send(web: &str, flood: &[u8]) {
    let mut socket = TcpStream::connect(web.trim_start_matches("http://")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let begin = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    socket.write_all(&begin).unwrap();
    // It may be cut off in the middle.
    let _ = socket.write_all(flood);
    let mut room = [0; 16 * 1024];
    while matches!(socket.read(&mut room), Ok(1..)) {}
}

fn start(origin: &Origin) -> Sluice {
    let rest = format!(
        "[[route]]\npath = \"/held\"\nproxy = \"{}\"\n\n[[route]]\npath = \"/*\"\nrespond = \"hello\"\n",
        origin.address()
    );
    // All connections are of one worker: nobody is out of the way of the flood.
    Sluice::start(&format!("workers = 1\n{}", config(&rest)))
}

#[test]
fn they_end_their_connection_and_no_other() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "late")));
    let sluice = start(&origin);
    let web = sluice.address("web");
    let mut other = Http2Client::connect(&web);
    assert_eq!(other.get("/").text(), "hello");
    for (reason, flood) in floods() {
        let memory = resident(sluice.pid());
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send(&web, &flood));
            for _ in 0..50 {
                assert_eq!(other.get("/").text(), "hello", "{reason}");
                assert_eq!(get(&web, "/").text(), "hello", "{reason}");
            }
            sending.join().unwrap();
        });
        let sample =
            format!("sluice_listener_http2_errors_total{{listener=\"web\",reason=\"{reason}\"}}");
        assert!(eventually(|| metric(&sluice.admin(), &sample) == 1), "{reason}");
        let grown = resident(sluice.pid()).saturating_sub(memory);
        assert!(grown < COST, "{reason} cost {grown} KiB");
    }
    gate.open();
    sluice.stop();
}

#[test]
fn a_small_block_that_says_much_is_refused() {
    let origin = Origin::start(behaviour::fixed(200, "late"));
    let sluice = start(&origin);
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "hello");
    let memory = resident(sluice.pid());
    // A field of 3 KB that goes into the table, and is then named by one byte a thousand times.
    let field = [&b"\x40\x01x\x7F\xB9\x16"[..], &[b'y'; 3_000]].concat();
    let mut bytes = frame(HEADERS, END_STREAM | END_HEADERS, 1, &[REQUEST, &field].concat());
    for stream in streams().skip(1).take(100) {
        let block = [REQUEST, &[0xBE; 10_000]].concat();
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &block));
    }
    // A ping on a stream ends the connection.
    bytes.extend(frame(6, 0, 1, &[0; 8]));
    send(&web, &bytes);
    let mut other = Http2Client::connect(&web);
    assert_eq!(other.get("/").text(), "hello");
    let refused = |reason| {
        let sample = format!("sluice_faults_total{{side=\"downstream\",reason=\"{reason}\"}}");
        metric(&sluice.admin(), &sample)
    };
    assert_eq!(refused("head_too_large") + refused("too_many_fields"), 100);
    let grown = resident(sluice.pid()).saturating_sub(memory);
    assert!(grown < COST, "heads of 3 GB in all cost {grown} KiB");
    sluice.stop();
}
