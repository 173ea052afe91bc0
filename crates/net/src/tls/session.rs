//! The encryption of one connection: plain text on one side, a socket on the other.

use std::cell::RefCell;
use std::io::{self, BufRead, ErrorKind, IoSlice, Write};
use std::task::{Context, Poll, Waker, ready};

use rustls::Connection;

use crate::socket::Connected;

/// Plain text that is encrypted before its bytes are on the way: one record (RFC 8446, 5.1). With more
/// of them a slow reader would make memory grow.
const PIECE: usize = 16 * 1024;

/// Encrypted bytes read at once: two records.
const ROOM: usize = 33 * 1024;

/// Parts of one system call when a handshake is written.
const PARTS: usize = 8;

thread_local! {
    /// Where encrypted bytes come in, for all connections of a thread: what is complete is decrypted at
    /// once, so that a connection that waits needs no buffer of its own.
    static INBOX: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How a handshake fails.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The peer closed the connection.
    Ended,
    /// A client that begins with a request instead of a handshake.
    PlainHttp,
    /// The socket failed.
    Socket(io::Error),
    /// The peer breaks the rules, or is not believed.
    Refused(rustls::Error),
}

/// The encryption of one connection.
pub(crate) struct Session {
    connection: Connection,
    /// Plain text that came in together with the end of the handshake.
    early: Vec<u8>,
    /// Bytes that were encrypted and of which the writer does not know yet that they were taken.
    offered: usize,
    /// The peer said that it sends no more.
    ended: bool,
    /// Nothing is said any more: the end was announced, or is not to be.
    silent: bool,
}

impl Session {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, early: Vec::new(), offered: 0, ended: false, silent: false }
    }

    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Shakes hands until both sides know each other and all of it is written.
    pub(crate) fn poll_handshake(
        &mut self,
        socket: &Connected,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        loop {
            ready!(self.poll_flush(socket, cx)).map_err(Broken::Socket)?;
            if !self.connection.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            let mut early = std::mem::take(&mut self.early);
            let came = self.poll_input(socket, cx, &mut early);
            self.early = early;
            if let Err(broken) = ready!(came) {
                // The alert that says why; nobody waits for it to arrive.
                let _ = self.poll_flush(socket, cx);
                return Poll::Ready(Err(broken));
            }
        }
    }

    /// Whether a read finds something without the socket.
    pub(crate) fn has_input(&self) -> bool {
        self.ended || !self.early.is_empty()
    }

    /// Adds what came in to `buffer`; 0 is the end.
    pub(crate) fn poll_read(
        &mut self,
        socket: &Connected,
        cx: &Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if !self.early.is_empty() {
            let length = self.early.len();
            buffer.append(&mut std::mem::take(&mut self.early));
            return Poll::Ready(Ok(length));
        }
        let before = buffer.len();
        while !self.ended {
            match ready!(self.poll_input(socket, cx, buffer)) {
                Ok(()) if buffer.len() > before => break,
                // A ticket, a new key, or half a record.
                Ok(()) => {}
                // An end without a farewell: whoever reads knows whether something is missing.
                Err(Broken::Ended | Broken::PlainHttp) => self.ended = true,
                Err(Broken::Socket(error)) => return Poll::Ready(Err(error)),
                Err(Broken::Refused(error)) => {
                    let _ = self.poll_flush(socket, cx);
                    let error = io::Error::new(ErrorKind::InvalidData, error);
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(buffer.len() - before))
    }

    /// Reads once from the socket, and decrypts what came.
    fn poll_input(
        &mut self,
        socket: &Connected,
        cx: &Context<'_>,
        plain: &mut Vec<u8>,
    ) -> Poll<Result<(), Broken>> {
        INBOX.with_borrow_mut(|inbox| {
            inbox.clear();
            inbox.reserve(ROOM);
            let length = ready!(socket.poll_read(cx, inbox)).map_err(Broken::Socket)?;
            if length == 0 {
                return Poll::Ready(Err(Broken::Ended));
            }
            if self.connection.is_handshaking() && self.is_plain_http(inbox) {
                return Poll::Ready(Err(Broken::PlainHttp));
            }
            self.decrypt(inbox, plain).map_err(Broken::Refused)?;
            // An answer to a new key of the peer is sent with the next bytes, if not now. While a writer
            // waits it is not done here: the reader would be woken for it instead.
            if self.offered == 0
                && self.connection.wants_write()
                && let Poll::Ready(written) = self.poll_flush(socket, cx)
            {
                written.map_err(Broken::Socket)?;
            }
            Poll::Ready(Ok(()))
        })
    }

    /// A handshake begins with the number 22 (RFC 8446, 5.1), a request with a letter of its method.
    fn is_plain_http(&self, input: &[u8]) -> bool {
        let first = matches!(&self.connection, Connection::Server(it) if it.server_name().is_none())
            && self.connection.protocol_version().is_none();
        first && input.first().is_some_and(u8::is_ascii_uppercase)
    }

    fn decrypt(&mut self, mut input: &[u8], plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        while !input.is_empty() {
            // Little is taken at once, because the library keeps little plain text for us.
            match self.connection.read_tls(&mut input) {
                Ok(1..) => {}
                // What comes behind the end is to be ignored (RFC 8446, 6.1).
                Ok(0) => return Ok(()),
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
            let state = self.connection.process_new_packets()?;
            self.ended |= state.peer_has_closed();
            let mut left = state.plaintext_bytes_to_read();
            let mut reader = self.connection.reader();
            while left > 0 {
                let Ok(piece @ [_, ..]) = reader.fill_buf() else { break };
                plain.extend_from_slice(piece);
                let length = piece.len();
                reader.consume(length);
                left = left.saturating_sub(length);
            }
        }
        Ok(())
    }

    /// Takes some of the bytes, the second ones behind the first, once they are written.
    pub(crate) fn poll_write(
        &mut self,
        socket: &Connected,
        cx: &Context<'_>,
        (first, second): (&[u8], &[u8]),
    ) -> Poll<io::Result<usize>> {
        if self.offered == 0 {
            ready!(self.poll_flush(socket, cx))?;
            let first = first.get(..PIECE).unwrap_or(first);
            let second = second.get(..PIECE - first.len()).unwrap_or(second);
            let mut writer = self.connection.writer();
            self.offered = match second.is_empty() {
                true => writer.write(first)?,
                false => writer.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?,
            };
        }
        ready!(self.poll_flush(socket, cx))?;
        // What was offered may come again in other pieces than before.
        let taken = self.offered.min(first.len() + second.len());
        self.offered -= taken;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(&mut self, socket: &Connected, cx: &Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Outlet { socket, cx }) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether an idle connection is of no use. What servers send at any time, like tickets, is taken.
    pub(crate) fn is_stale(&mut self, socket: &Connected) -> bool {
        if self.has_input() || socket.is_closed() {
            return true;
        }
        if !socket.is_stale() {
            return false;
        }
        let mut plain = Vec::new();
        self.poll_read(socket, &Context::from_waker(Waker::noop()), &mut plain).is_ready()
    }

    /// Says that nothing more comes (RFC 8446, 6.1), as far as the socket takes it now.
    pub(crate) fn farewell(&mut self, socket: &Connected) {
        if !std::mem::replace(&mut self.silent, true) {
            self.connection.send_close_notify();
            let _ = self.poll_flush(socket, &Context::from_waker(Waker::noop()));
        }
    }

    /// The connection is to end without a word.
    pub(crate) const fn leave_silently(&mut self) {
        self.silent = true;
    }
}

/// The socket as the library wants to see it.
struct Outlet<'o, 'c> {
    socket: &'o Connected,
    cx: &'o Context<'c>,
}

impl Write for Outlet<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        at_once(self.socket.poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match parts {
            [part] => self.write(part),
            parts => {
                let parts = parts.get(..PARTS).unwrap_or(parts);
                at_once(self.socket.poll_write_parts(self.cx, parts))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn at_once(written: Poll<io::Result<usize>>) -> io::Result<usize> {
    match written {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}
