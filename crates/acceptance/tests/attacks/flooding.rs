//! Clients that send a flood over connection after connection, for a time and no longer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::frames::{Flood, GOAWAY, PREFACE, Reading};

/// Clients that attack at the same time.
const ATTACKERS: usize = 4;

/// Steps that are written at once.
const BURST: u32 = 64;

/// ENHANCE_YOUR_CALM (RFC 9113, 7).
const CALM: u32 = 11;

/// What attackers did and saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Connections they opened.
    pub(crate) connections: u64,
    /// Steps they sent.
    pub(crate) steps: u64,
    /// GOAWAY with `ENHANCE_YOUR_CALM`.
    pub(crate) calmed: u64,
    /// GOAWAY with another code.
    pub(crate) goodbyes: u64,
}

/// Attacks for so long, or until so many steps were sent on each connection of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// New connections until the time is over.
    Time(Duration),
    /// One connection for each attacker, and so many steps.
    Steps(u32),
}

/// Sends a flood to a server.
pub(crate) fn flood(address: &str, flood: &Flood, bound: Bound) -> Sent {
    let sum = Mutex::new(Sent::default());
    let end = match bound {
        Bound::Time(time) => Instant::now() + time,
        Bound::Steps(_) => Instant::now() + Duration::from_secs(20),
    };
    std::thread::scope(|scope| {
        for _ in 0..ATTACKERS {
            scope.spawn(|| {
                loop {
                    let sent = connection(address, flood, bound, end);
                    let mut sum = sum.lock().unwrap();
                    sum.connections += 1;
                    sum.steps += sent.steps;
                    sum.calmed += sent.calmed;
                    sum.goodbyes += sent.goodbyes;
                    if matches!(bound, Bound::Steps(_)) || Instant::now() >= end {
                        return;
                    }
                }
            });
        }
    });
    sum.into_inner().unwrap()
}

/// One connection, until it ends.
fn connection(address: &str, flood: &Flood, bound: Bound, end: Instant) -> Sent {
    let mut sent = Sent::default();
    let Ok(mut socket) = TcpStream::connect(address) else {
        // The queue of the listener is full.
        std::thread::sleep(Duration::from_millis(1));
        return sent;
    };
    socket.set_nonblocking(true).unwrap();
    let mut output = [PREFACE, &(flood.begin)()].concat();
    let (mut input, mut stream) = (Vec::new(), 1_u32);
    let most = match bound {
        Bound::Time(_) => u32::MAX / 4,
        Bound::Steps(steps) => steps,
    };
    while Instant::now() < end {
        if output.is_empty() && stream / 2 < most {
            for _ in 0..BURST {
                output.extend((flood.step)(stream));
                stream += 2;
            }
            sent.steps += u64::from(BURST);
        }
        let written = match socket.write(&output) {
            Ok(count) => {
                output.drain(..count);
                count
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => break,
        };
        let read = match flood.reading {
            Reading::All => read(&mut socket, &mut input, &mut sent),
            Reading::Nothing => Some(0),
        };
        match read {
            None => break,
            // Nothing moves: the server is busy with others, or has stopped reading.
            Some(0) if written == 0 => std::thread::sleep(Duration::from_millis(1)),
            Some(_) => {}
        }
    }
    // What came before the end says why it ended.
    while read(&mut socket, &mut input, &mut sent).is_some_and(|count| count > 0) {}
    sent
}

/// Reads what is there; `None` at the end.
fn read(socket: &mut TcpStream, input: &mut Vec<u8>, sent: &mut Sent) -> Option<usize> {
    let mut room = [0; 32 * 1024];
    let count = match socket.read(&mut room) {
        Ok(0) => return None,
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(0),
        Err(_) => return None,
    };
    input.extend_from_slice(&room[..count]);
    while let Some(head) = input.first_chunk::<9>() {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let kind = head[3];
        let Some(frame) = input.get(..9 + length) else { break };
        if kind == GOAWAY {
            let code =
                frame.get(13..17).map_or(0, |code| u32::from_be_bytes(code.try_into().unwrap()));
            *(if code == CALM { &mut sent.calmed } else { &mut sent.goodbyes }) += 1;
        }
        input.drain(..9 + length);
    }
    Some(count)
}
