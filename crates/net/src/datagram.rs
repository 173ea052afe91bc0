//! Datagrams: UDP sockets of a thread.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseport};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, getsockname,
    recvfrom, send, sendto, socket_with,
};

use crate::reactor::{Registration, Watch};
use crate::runtime::reactor;
use crate::task::poll_budget;

/// Whether several sockets may have one address, among which the kernel spreads what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It is taken for everybody else.
    Alone,
    /// With others that say so, too.
    Shared,
}

/// A UDP socket of this thread.
pub struct Datagrams {
    fd: OwnedFd,
    registration: Registration,
}

impl fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datagrams").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl Datagrams {
    /// A socket at an address; port 0 takes a free one.
    ///
    /// # Errors
    /// What the kernel says: in use, not ours, permission denied.
    pub fn bind(own: SocketAddr, sharing: Sharing) -> io::Result<Self> {
        let fd = open(own)?;
        if sharing == Sharing::Shared && own.port() != 0 {
            set_socket_reuseport(&fd, true)?;
        }
        bind(&fd, &own)?;
        Self::watch(fd)
    }

    /// A socket for one peer: it hears nobody else.
    ///
    /// # Errors
    /// What the kernel says: unreachable, or `own` is none of our addresses or is taken.
    pub fn connect(peer: SocketAddr, own: Option<SocketAddr>) -> io::Result<Self> {
        let fd = open(peer)?;
        if let Some(own) = own {
            bind(&fd, &own)?;
        }
        connect(&fd, &peer)?;
        Self::watch(fd)
    }

    fn watch(fd: OwnedFd) -> io::Result<Self> {
        let registration = reactor()?.register(&fd, Watch::Connection)?;
        Ok(Self { fd, registration })
    }

    /// Where it is.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::try_from(getsockname(&self.fd)?).map_err(|_| Errno::AFNOSUPPORT.into())
    }

    /// The next datagram, as much of it as `room` holds, and who sent it.
    pub fn poll_receive(
        &self,
        cx: &Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let read = &self.registration.readiness.read;
        ready!(read.poll_ready(cx));
        ready!(poll_budget(cx));
        loop {
            match recvfrom(&self.fd, &mut *room, RecvFlags::empty()) {
                Ok((length, _, from)) => {
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    return Poll::Ready(from.map_or_else(
                        || Err(Errno::AFNOSUPPORT.into()),
                        |from| Ok((length, from)),
                    ));
                }
                Err(Errno::AGAIN) => {
                    read.set_drained();
                    read.await_ready(cx);
                    return Poll::Pending;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Sends a datagram, to the peer of [`Datagrams::connect`] unless `to` says another one.
    ///
    /// # Errors
    /// What the kernel says. When it has no room at the moment, [`io::ErrorKind::WouldBlock`]: the datagram is lost, as
    /// it could be on its way.
    pub fn send(&self, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<()> {
        match to {
            Some(to) => sendto(&self.fd, bytes, SendFlags::NOSIGNAL, &to)?,
            None => send(&self.fd, bytes, SendFlags::NOSIGNAL)?,
        };
        Ok(())
    }
}

fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::DGRAM, flags, None)?;
    if address.is_ipv6() {
        // As for listeners: "[::]" is version 6 alone.
        set_ipv6_v6only(&fd, true)?;
    }
    Ok(fd)
}
