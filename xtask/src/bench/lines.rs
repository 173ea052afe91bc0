//! Requests that are lines: a client for services without HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::server::Server;

/// Connections at once, as those of h2load.
const CONNECTIONS: usize = 50;

const PING: &[u8] = b"PING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// Sends so many lines, as each connection's answer to the one before is there.
pub fn ping(server: &Server, count: u64) -> Result<(), String> {
    let open = || -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", server.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    };
    let all: Result<Vec<_>, _> = (0..CONNECTIONS).map(|_| open()).collect();
    let mut all = all.map_err(|error| format!("cannot connect: {error}"))?;
    let rounds = usize::try_from(count).unwrap_or(usize::MAX) / CONNECTIONS;
    for _ in 0..rounds {
        all.iter_mut()
            .try_for_each(|it| it.write_all(PING))
            .map_err(|it| format!("write: {it}"))?;
        for stream in &mut all {
            let mut answer = [0; PONG.len()];
            stream.read_exact(&mut answer).map_err(|error| format!("read: {error}"))?;
            if answer != PONG {
                return Err(format!("the service said {:?}", String::from_utf8_lossy(&answer)));
            }
        }
    }
    Ok(())
}
