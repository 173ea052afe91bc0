//! Servers of the tests: a thread for each connection, and no more HTTP than a test wants.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

trait Socket: Read + Write + Send {
    fn reset(&self) {}
}

impl Socket for TcpStream {
    fn reset(&self) {
        let linger = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(self, linger).unwrap();
    }
}

impl Socket for std::os::unix::net::UnixStream {}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    connections: AtomicU64,
}

/// A server on a free port, which accepts until it is dropped.
pub(super) struct Server {
    address: Option<SocketAddr>,
    counts: Arc<Counts>,
    stopped: Arc<AtomicBool>,
}

/// One accepted connection.
pub(super) struct Connection {
    socket: Box<dyn Socket>,
    input: Vec<u8>,
    counts: Arc<Counts>,
    /// Its number, from 0.
    pub(super) number: u64,
}

impl Server {
    pub(super) fn start(serve: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self::new(Some(address));
        let accept = move || {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Socket>)
        };
        server.accept(accept, serve);
        server
    }

    pub(super) fn start_unix(
        path: &Path,
        serve: impl Fn(&mut Connection) + Send + Sync + 'static,
    ) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).unwrap();
        let server = Self::new(None);
        server.accept(move || Ok(Box::new(listener.accept()?.0) as Box<dyn Socket>), serve);
        server
    }

    /// One thread for all connections, for many of them.
    pub(super) fn start_many(answer: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let server = Self::new(Some(listener.local_addr().unwrap()));
        let (counts, stopped) = (Arc::clone(&server.counts), Arc::clone(&server.stopped));
        std::thread::spawn(move || {
            let mut streams: Vec<TcpStream> = Vec::new();
            let mut buffer = [0; 4096];
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    counts.connections.fetch_add(1, Ordering::Relaxed);
                    streams.push(stream);
                }
                // One request at a time: each read is one.
                streams.retain_mut(|stream| match stream.read(&mut buffer) {
                    Ok(0) => false,
                    Ok(_) => stream.write_all(answer).is_ok(),
                    Err(error) => error.kind() == ErrorKind::WouldBlock,
                });
                std::thread::yield_now();
            }
        });
        server
    }

    fn new(address: Option<SocketAddr>) -> Self {
        Self { address, counts: Arc::default(), stopped: Arc::default() }
    }

    fn accept(
        &self,
        accept: impl Fn() -> std::io::Result<Box<dyn Socket>> + Send + 'static,
        serve: impl Fn(&mut Connection) + Send + Sync + 'static,
    ) {
        let (counts, stopped) = (Arc::clone(&self.counts), Arc::clone(&self.stopped));
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            while let Ok(socket) = accept() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let number = counts.connections.fetch_add(1, Ordering::Relaxed);
                let (serve, counts) = (Arc::clone(&serve), Arc::clone(&counts));
                let input = Vec::new();
                let mut connection = Connection { socket, input, counts, number };
                std::thread::spawn(move || serve(&mut connection));
            }
        });
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address.unwrap())
    }

    /// Requests that were read whole.
    pub(super) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(address) = self.address {
            // So that the acceptor looks up.
            let _ = TcpStream::connect(address);
        }
    }
}

impl Connection {
    /// Reads a request and its body; `None` at the end.
    pub(super) fn read_request(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.input[..end + 4]).into_owned();
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("Content-Length: "))
                    .map_or(0, |length| length.parse::<usize>().unwrap());
                self.input.drain(..end + 4);
                while self.input.len() < length {
                    self.fill()?;
                }
                self.input.drain(..length);
                self.counts.requests.fetch_add(1, Ordering::Relaxed);
                return Some(head);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Option<()> {
        let mut buffer = [0; 65_536];
        let length = self.socket.read(&mut buffer).ok().filter(|length| *length > 0)?;
        self.input.extend_from_slice(&buffer[..length]);
        Some(())
    }

    /// Reads the beginning of a request.
    pub(super) fn read_some(&mut self) {
        self.fill();
    }

    /// Whether the client was still there.
    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Makes the coming end a reset.
    pub(super) fn reset(&self) {
        self.socket.reset();
    }

    /// Waits for the client to leave.
    pub(super) fn wait(&mut self) {
        while self.fill().is_some() {}
    }
}
