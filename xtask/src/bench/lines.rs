//! Requests that are lines: clients for services without HTTP.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::server::Server;

/// Connections at once, as those of h2load.
const CONNECTIONS: usize = 50;

const PING: &[u8] = b"PING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// Clients whose connections stay open from one load to the next: lines are counted, not the opening of connections,
/// which a service's clients do once for a million of them.
#[derive(Debug, Default)]
pub struct Clients(RefCell<Vec<TcpStream>>);

impl Clients {
    /// Sends so many lines, as each connection's answer to the one before is there.
    pub fn ping(&self, server: &Server, count: u64) -> Result<(), String> {
        let mut all = self.0.borrow_mut();
        while all.len() < CONNECTIONS {
            all.push(open(server).map_err(|error| format!("cannot connect: {error}"))?);
        }
        let rounds = usize::try_from(count).unwrap_or(usize::MAX) / CONNECTIONS;
        (0..rounds).try_for_each(|_| round(&mut all))
    }
}

fn open(server: &Server) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", server.port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    Ok(stream)
}

/// A line over each connection.
fn round(all: &mut [TcpStream]) -> Result<(), String> {
    for stream in &mut *all {
        stream.write_all(PING).map_err(|error| format!("write: {error}"))?;
    }
    for stream in all {
        let mut answer = [0; PONG.len()];
        stream.read_exact(&mut answer).map_err(|error| format!("read: {error}"))?;
        if answer != PONG {
            return Err(format!("the service said {:?}", String::from_utf8_lossy(&answer)));
        }
    }
    Ok(())
}
