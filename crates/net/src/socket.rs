//! A connected socket: its bytes as they travel.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::fs::sendfile;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, getpeername, getsockname, recv, send, sendmsg,
};

use crate::disk::DiskFile;
use crate::reactor::{Registration, Watch};
use crate::runtime::reactor;
use crate::task::poll_budget;

/// A connected socket of this thread.
///
/// Both directions are registered once, edge-triggered. A method that answers `Pending` has made sure
/// that the task is woken when it may succeed.
pub(crate) struct Connected {
    fd: OwnedFd,
    registration: Registration,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl Connected {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let registration = reactor()?.register(&fd, Watch::Connection)?;
        Ok(Self { fd, registration })
    }

    /// Reads into the spare capacity of `buffer`, which must not be full; 0 means that the peer
    /// closed its sending side.
    ///
    /// A read that leaves capacity spare found the socket drained: the next one waits for the kernel
    /// to announce more instead of asking it, which saves a system call a request.
    // In line, as `poll_write`.
    #[inline(always)]
    pub(crate) fn poll_read(
        &self,
        cx: &Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let readiness = &self.registration.readiness;
        ready!(readiness.read.poll_ready(cx));
        ready!(poll_budget(cx));
        let spare = buffer.capacity() - buffer.len();
        match recv(&self.fd, spare_capacity(buffer), RecvFlags::empty()) {
            Ok((length, _)) => {
                // The end of the stream comes without another event if it came with this one.
                if length < spare && !readiness.closed.get() {
                    readiness.read.set_drained();
                }
                Poll::Ready(Ok(length))
            }
            Err(rustix::io::Errno::AGAIN) => {
                readiness.read.set_drained();
                readiness.read.await_ready(cx);
                Poll::Pending
            }
            Err(rustix::io::Errno::INTR) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Copies what has arrived to `room`, and leaves it where it is; 0 means that the peer closed its
    /// sending side. What is looked at again is looked at when more has arrived: `seen` bytes are known.
    pub(crate) fn poll_peek(
        &self,
        cx: &Context<'_>,
        room: &mut [u8],
        seen: usize,
    ) -> Poll<io::Result<usize>> {
        let readiness = &self.registration.readiness;
        loop {
            ready!(readiness.read.poll_ready(cx));
            ready!(poll_budget(cx));
            match recv(&self.fd, &mut *room, RecvFlags::PEEK) {
                Ok((0, _)) => return Poll::Ready(Ok(0)),
                Ok((_, length)) if length > seen => return Poll::Ready(Ok(length)),
                // All there will ever be.
                Ok(_) if readiness.closed.get() => return Poll::Ready(Ok(0)),
                Ok(_) | Err(rustix::io::Errno::AGAIN) => readiness.read.set_drained(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Takes `length` bytes away that a look has found.
    pub(crate) fn skip(&self, length: usize) -> io::Result<()> {
        let mut room = vec![0; length];
        let (_, taken) = recv(&self.fd, &mut room[..], RecvFlags::WAITALL)?;
        if taken == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// The address of the peer and our own; `None` if it has none, like sockets of a machine.
    pub(crate) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let peer = SocketAddr::try_from(getpeername(&self.fd).ok()??).ok()?;
        let own = SocketAddr::try_from(getsockname(&self.fd).ok()?).ok()?;
        Some((peer, own))
    }

    /// Ready once a read may succeed or end, without reading.
    #[inline]
    pub(crate) fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        self.registration.readiness.read.poll_ready(cx)
    }

    /// Ready once the peer has closed its sending side or the connection is broken. Wakes for
    /// incoming data as well, then answers `Pending` again.
    #[inline]
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        if self.registration.readiness.closed.get() {
            return Poll::Ready(());
        }
        self.registration.readiness.read.await_ready(cx);
        Poll::Pending
    }

    /// Whether data or an end arrived that nobody has read: such an idle connection is of no use.
    pub(crate) fn is_stale(&self) -> bool {
        self.registration.readiness.read.is_ready() || self.registration.readiness.closed.get()
    }

    /// Whether the peer has closed its sending side or the connection is broken.
    pub(crate) fn is_closed(&self) -> bool {
        self.registration.readiness.closed.get()
    }

    /// Writes some of `bytes`.
    // In line, though content and heads are written from several places: a call costs measurably.
    #[inline(always)]
    pub(crate) fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.registration.readiness.write.poll_ready(cx));
        ready!(poll_budget(cx));
        self.written(cx, send(&self.fd, bytes, SendFlags::NOSIGNAL), bytes.len())
    }

    /// Writes some of `first` and then some of `second`, in one system call.
    pub(crate) fn poll_write_two(
        &self,
        cx: &Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.registration.readiness.write.poll_ready(cx));
        ready!(poll_budget(cx));
        self.send_parts(
            cx,
            &[IoSlice::new(first), IoSlice::new(second)],
            first.len() + second.len(),
        )
    }

    /// Writes some of the bytes of all `parts`, in one system call.
    pub(crate) fn poll_write_parts(
        &self,
        cx: &Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.registration.readiness.write.poll_ready(cx));
        ready!(poll_budget(cx));
        self.send_parts(cx, parts, parts.iter().map(|part| part.len()).sum())
    }

    /// Writes some of `bytes`; the kernel may wait for what follows at once before it sends them.
    pub(crate) fn poll_write_more(
        &self,
        cx: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.registration.readiness.write.poll_ready(cx));
        ready!(poll_budget(cx));
        let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
        self.written(cx, send(&self.fd, bytes, flags), bytes.len())
    }

    /// Has the kernel write up to `length` bytes of a file from `offset` on; 0 means that the file ends there.
    pub(crate) fn poll_send_file(
        &self,
        cx: &Context<'_>,
        file: &DiskFile,
        (offset, length): (u64, usize),
    ) -> Poll<io::Result<usize>> {
        ready!(self.registration.readiness.write.poll_ready(cx));
        ready!(poll_budget(cx));
        let mut at = offset;
        // Less than was asked for may be because of the file: only the next call tells.
        self.written(cx, sendfile(&self.fd, file.fd(), Some(&mut at), length), 0)
    }

    #[inline]
    fn send_parts(
        &self,
        cx: &Context<'_>,
        parts: &[IoSlice<'_>],
        offered: usize,
    ) -> Poll<io::Result<usize>> {
        let mut nothing = SendAncillaryBuffer::default();
        let result = sendmsg(&self.fd, parts, &mut nothing, SendFlags::NOSIGNAL);
        self.written(cx, result, offered)
    }

    #[inline]
    fn written(
        &self,
        cx: &Context<'_>,
        result: rustix::io::Result<usize>,
        offered: usize,
    ) -> Poll<io::Result<usize>> {
        let write = &self.registration.readiness.write;
        match result {
            Ok(length) => {
                if length < offered {
                    write.set_drained();
                }
                Poll::Ready(Ok(length))
            }
            Err(rustix::io::Errno::AGAIN) => {
                write.set_drained();
                write.await_ready(cx);
                Poll::Pending
            }
            Err(rustix::io::Errno::INTR) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// Ready once a write may succeed; what [`crate::connect`] waits for.
    pub(crate) fn poll_writable(&self, cx: &Context<'_>) -> Poll<()> {
        self.registration.readiness.write.poll_ready(cx)
    }

    pub(crate) fn expect_event(&self) {
        self.registration.readiness.write.set_drained();
        self.registration.readiness.read.set_drained();
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Makes the coming close a reset, so that a peer that reads until the end of the connection does
    /// not take half of something for the whole.
    pub(crate) fn abort_on_close(&self) {
        // If it fails the connection is gone already.
        let _ = set_socket_linger(&self.fd, Some(Duration::ZERO));
    }

    /// Closes one or both directions. A connection that is gone already is no error.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        // ENOTCONN: the peer was faster.
        let _ = rustix::net::shutdown(&self.fd, how);
    }
}
