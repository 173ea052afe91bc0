//! Many clients that are slow: heads, bodies, readers, handshakes, windows that stay shut.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::frames::shut_windows;
use crate::target::Target;

/// A way to be slow.
pub(crate) struct Slowness {
    pub(crate) name: &'static str,
    /// How many connections of `clients` it takes: windows have a hundred streams on each.
    pub(crate) share: usize,
    pub(crate) address: fn(&Target) -> &str,
    /// What is sent at once.
    pub(crate) begin: fn() -> Vec<u8>,
    /// What is sent each second, over and over.
    pub(crate) drip: &'static [u8],
    /// Bytes that are read each second.
    pub(crate) sip: usize,
}

#[rustfmt::skip]
pub(crate) const SLOWNESSES: &[Slowness] = &[
    Slowness {
        name: "slow heads", share: 1, address: |target| &target.http1,
        begin: || b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ".to_vec(), drip: b"x", sip: 0,
    },
    Slowness {
        name: "slow bodies", share: 1, address: |target| &target.http1,
        begin: || b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n".to_vec(),
        drip: b"x", sip: 0,
    },
    Slowness {
        name: "slow readers of 256 KiB", share: 1, address: |target| &target.http1,
        begin: || b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), drip: b"", sip: 1,
    },
    Slowness {
        name: "TLS handshakes that stall", share: 1, address: |target| &target.tls,
        // The beginning of a ClientHello of 512 bytes.
        begin: || b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec(), drip: b"", sip: 0,
    },
    Slowness {
        name: "TLS handshakes byte by byte", share: 1, address: |target| &target.tls,
        begin: || b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec(), drip: b"x", sip: 0,
    },
    Slowness {
        name: "windows of zero, 100 streams each", share: 20, address: |target| &target.http2,
        begin: shut_windows, drip: b"", sip: 0,
    },
];

/// Keeps so many connections slow for so long; how many were still open at the end.
pub(crate) fn hold(
    target: &Target,
    slowness: &Slowness,
    clients: usize,
    time: Duration,
) -> (usize, usize) {
    let begin = (slowness.begin)();
    let count = clients / slowness.share;
    let mut sockets: Vec<TcpStream> = (0..count)
        .filter_map(|_| {
            let mut socket = TcpStream::connect((slowness.address)(target)).ok()?;
            socket.write_all(&begin).ok()?;
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        })
        .collect();
    let end = Instant::now() + time;
    loop {
        let next = Instant::now() + Duration::from_secs(1).min(time / 4);
        sockets.retain_mut(|socket| drip(socket, slowness));
        if Instant::now() >= end {
            return (count, sockets.len());
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Sends and reads a little; whether the connection is still open.
fn drip(socket: &mut TcpStream, slowness: &Slowness) -> bool {
    if !slowness.drip.is_empty() && socket.write(slowness.drip).is_err_and(|it| is_over(&it)) {
        return false;
    }
    let mut room = [0; 16];
    if slowness.sip > 0 {
        let read = socket.read(&mut room[..slowness.sip]);
        return !matches!(read, Ok(0)) && !read.is_err_and(|it| is_over(&it));
    }
    // Whoever is not read from may still have been closed.
    loop {
        match socket.read(&mut room) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return !is_over(&error),
        }
    }
}

fn is_over(error: &std::io::Error) -> bool {
    error.kind() != ErrorKind::WouldBlock
}
