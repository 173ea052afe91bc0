//! One stream type over TCP and Unix sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected stream socket.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP, with Nagle's algorithm off.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Connects to `127.0.0.1:9000`, `http://127.0.0.1:9000` or `unix:/path`.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn connect(address: &str) -> io::Result<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            return UnixStream::connect(path).map(Self::Unix);
        }
        let stream = TcpStream::connect(address.strip_prefix("http://").unwrap_or(address))?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// A second handle on the same socket.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    /// Bounds reading and writing.
    ///
    /// # Errors
    /// When `wait` is zero.
    pub fn set_timeout(&self, wait: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(wait))?;
                stream.set_write_timeout(Some(wait))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(wait))?;
                stream.set_write_timeout(Some(wait))
            }
        }
    }

    /// Makes reads return at once with `WouldBlock` when there is nothing, or wait again.
    pub(crate) fn set_waiting(&self, waiting: Waiting) -> io::Result<()> {
        let off = matches!(waiting, Waiting::Never);
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(off),
            Self::Unix(stream) => stream.set_nonblocking(off),
        }
    }

    /// Shuts one or both directions down.
    ///
    /// # Errors
    /// When the peer has already gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }

    /// Makes the last close of the socket send RST instead of FIN. A Unix socket has no such thing and just closes.
    pub fn reset_on_close(&self) {
        if let Self::Tcp(stream) = self {
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }

    /// Shrinks the receive buffer, for a peer that reads slowly.
    pub fn shrink_receive_buffer(&self, bytes: usize) {
        if let Self::Tcp(stream) = self {
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(stream, bytes);
        }
    }
}

/// Whether a read waits for bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    /// Up to the timeout.
    Bounded,
    /// Not at all.
    Never,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
