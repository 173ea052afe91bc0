//! A connection to a client or to an origin, encrypted or not.

use std::cell::{Ref, RefCell};
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::disk::{DiskFile, Reading};
use crate::permits::{Permit, Permits};
use crate::socket::Connected;
use crate::tls::session::Session;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix-domain socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection of this thread. What is written and read is plain text; on the way it may be encrypted.
///
/// A method that answers `Pending` has made sure that the task is woken when it may succeed.
pub struct Stream {
    socket: Connected,
    /// Absent on connections that are not encrypted, which pay for it with one comparison.
    session: Option<Box<RefCell<Session>>>,
    /// Given back after the descriptor is closed, as fields are dropped in their order.
    held: Option<Box<Permit<Arc<Permits>>>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Drop for Stream {
    #[inline]
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.borrow_mut().farewell(&self.socket);
        }
    }
}

impl Stream {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self::plain(Connected::new(fd)?))
    }

    /// Two ends of one connection that never leaves the process.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self::new(one)?, Self::new(other)?))
    }

    pub(crate) const fn plain(socket: Connected) -> Self {
        Self { socket, session: None, held: None }
    }

    pub(crate) const fn socket(&self) -> &Connected {
        &self.socket
    }

    /// From now on what goes over it is encrypted.
    pub(crate) fn encrypt(&mut self, session: Box<RefCell<Session>>) {
        self.session = Some(session);
    }

    /// What encrypts it; absent if nothing does.
    pub(crate) fn session(&self) -> Option<Ref<'_, Session>> {
        self.session.as_ref().map(|session| session.borrow())
    }

    /// Holds a permit as long as the connection is open.
    pub fn hold(&mut self, permit: Permit<Arc<Permits>>) {
        self.held = Some(Box::new(permit));
    }

    /// Whether what is written and read is encrypted on the way.
    #[must_use]
    #[inline]
    pub const fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// Whether both sides have agreed on HTTP/2 (RFC 7301).
    #[must_use]
    pub fn speaks_http2(&self) -> bool {
        self.session().is_some_and(|session| session.connection().alpn_protocol() == Some(b"h2"))
    }

    /// Reads into the spare capacity of `buffer`, which must not be full; 0 means that the peer
    /// closed its sending side. What was encrypted comes in whole records: they make the buffer grow
    /// if they do not fit.
    #[inline]
    pub fn poll_read(&self, cx: &Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match &self.session {
            None => self.socket.poll_read(cx, buffer),
            Some(session) => decrypt(session, &self.socket, cx, buffer),
        }
    }

    /// Copies what has arrived and is not encrypted to `room`, and leaves it where it is; 0 means that
    /// no more will arrive. `seen` bytes are known from a look before: there have to be more now.
    pub fn poll_peek(
        &self,
        cx: &Context<'_>,
        room: &mut [u8],
        seen: usize,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_peek(cx, room, seen)
    }

    /// Takes `length` bytes away that [`Stream::poll_peek`] has found.
    ///
    /// # Errors
    /// The connection broke meanwhile.
    pub fn skip(&self, length: usize) -> io::Result<()> {
        self.socket.skip(length)
    }

    /// The address of the peer and our own; `None` for sockets of a machine.
    #[must_use]
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.socket.addresses()
    }

    /// Ready once a read may succeed or end, without reading.
    #[inline]
    pub fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        match &self.session {
            Some(session) if session.borrow().has_input() => Poll::Ready(()),
            _ => self.socket.poll_readable(cx),
        }
    }

    /// Ready once the peer has closed its sending side or the connection is broken. Wakes for
    /// incoming data as well, then answers `Pending` again.
    #[inline]
    pub fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        self.socket.poll_closed(cx)
    }

    /// Whether data or an end arrived that nobody has read: such an idle connection is of no use.
    #[must_use]
    #[inline]
    pub fn is_stale(&self) -> bool {
        match &self.session {
            None => self.socket.is_stale(),
            Some(session) => session.borrow_mut().is_stale(&self.socket),
        }
    }

    /// Whether the peer has closed its sending side or the connection is broken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.socket.is_closed()
    }

    /// Writes some of `bytes`.
    ///
    /// After `Pending` the next bytes offered must begin with the same ones, or come to nothing at
    /// all: some of them may be encrypted already, in the order they were offered in.
    #[inline]
    pub fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &self.session {
            None => self.socket.poll_write(cx, bytes),
            Some(session) => encrypt(session, &self.socket, cx, (bytes, &[])),
        }
    }

    /// Writes some of `first` and then some of `second`, in one system call. As for the rest,
    /// [`Stream::poll_write`].
    #[inline]
    pub fn poll_write_two(
        &self,
        cx: &Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &self.session {
            None => self.socket.poll_write_two(cx, first, second),
            Some(session) => encrypt(session, &self.socket, cx, (first, second)),
        }
    }

    /// Writes some of `bytes`, which the kernel may hold back for what follows at once. As for the rest,
    /// [`Stream::poll_write`].
    pub fn poll_write_more(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &self.session {
            None => self.socket.poll_write_more(cx, bytes),
            Some(session) => encrypt(session, &self.socket, cx, (bytes, &[])),
        }
    }

    /// Has the kernel write up to `length` bytes of a file from `offset` on, without their coming by here; 0
    /// means that the file has ended. Only for a connection that is not encrypted: nothing is written to
    /// another, which is an error. The disk is waited for on another thread, by means of `reading`.
    pub fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        (file, reading): (&Arc<DiskFile>, &mut Reading),
        (offset, length): (u64, u64),
    ) -> Poll<io::Result<u64>> {
        if self.is_encrypted() {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        let near = ready!(reading.poll_near(cx, file, (offset, length)))?;
        let part = (offset, usize::try_from(near).unwrap_or(usize::MAX));
        let written = ready!(self.socket.poll_send_file(cx, file, part))?;
        Poll::Ready(Ok(u64::try_from(written).unwrap_or(u64::MAX)))
    }

    /// Makes the coming close a reset, so that a peer that reads until the end of the connection does
    /// not take half of something for the whole. For the same reason nothing is said of an end then.
    pub fn abort_on_close(&self) {
        if let Some(session) = &self.session {
            session.borrow_mut().leave_silently();
        }
        self.socket.abort_on_close();
    }

    /// Closes one or both directions. A connection that is gone already is no error.
    pub fn shut_down(&self, how: Shutdown) {
        if let Some(session) = &self.session
            && how != Shutdown::Read
        {
            session.borrow_mut().farewell(&self.socket);
        }
        self.socket.shut_down(how);
    }
}

// Apart from the methods, so that what plain connections run through stays small.

#[cold]
#[inline(never)]
fn decrypt(
    session: &RefCell<Session>,
    socket: &Connected,
    cx: &Context<'_>,
    buffer: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    session.borrow_mut().poll_read(socket, cx, buffer)
}

#[cold]
#[inline(never)]
fn encrypt(
    session: &RefCell<Session>,
    socket: &Connected,
    cx: &Context<'_>,
    bytes: (&[u8], &[u8]),
) -> Poll<io::Result<usize>> {
    session.borrow_mut().poll_write(socket, cx, bytes)
}
