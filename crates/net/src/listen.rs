//! Listening sockets: bound by the control thread, accepted from by the workers.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_reuseaddr, set_socket_reuseport, set_tcp_nodelay,
};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    acceptfrom_with, bind, getsockname, listen, socket_with,
};

use crate::reactor::{Registration, Watch};
use crate::runtime::reactor;
use crate::task::poll_budget;
use crate::{Endpoint, Stream};

/// Connections the kernel keeps for us until they are accepted.
const BACKLOG: i32 = 4096;

/// The sockets of one listening address: one per worker, or one that all workers share.
#[derive(Debug)]
pub struct Binding {
    endpoint: Endpoint,
    sockets: Sockets,
}

#[derive(Debug)]
enum Sockets {
    /// SO_REUSEPORT: the kernel spreads connections, each worker has a queue of its own.
    PerWorker(Vec<Arc<OwnedFd>>),
    /// Unix-domain sockets know no SO_REUSEPORT spreading.
    Shared {
        socket: Arc<OwnedFd>,
        #[expect(dead_code, reason = "kept for what its drop does")]
        file: UnlinkOnDrop,
    },
}

/// The file of a Unix-domain socket goes with the listener.
#[derive(Debug)]
struct UnlinkOnDrop(std::path::PathBuf);

impl Drop for UnlinkOnDrop {
    fn drop(&mut self) {
        // Somebody may have removed or replaced it; then there is nothing of ours to remove.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Binding {
    /// Binds `endpoint` for so many workers. Port 0 takes a free one, the same for all.
    ///
    /// # Errors
    /// What the kernel says: address in use, not ours, permission denied.
    pub fn bind(endpoint: &Endpoint, workers: usize) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(address) => {
                let first = bind_tcp(*address)?;
                let address = local_address(&first)?;
                let mut sockets = vec![Arc::new(first)];
                for _ in 1..workers {
                    sockets.push(Arc::new(bind_tcp(address)?));
                }
                let endpoint = Endpoint::Tcp(address);
                Ok(Self { endpoint, sockets: Sockets::PerWorker(sockets) })
            }
            Endpoint::Unix(path) => {
                let socket = Arc::new(bind_unix(path)?);
                let sockets = Sockets::Shared { socket, file: UnlinkOnDrop(path.clone()) };
                Ok(Self { endpoint: endpoint.clone(), sockets })
            }
        }
    }

    /// The address that was bound, with the real port.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The listener of one worker; to be called on that worker's thread.
    ///
    /// # Errors
    /// If the socket cannot be watched, or there is no such worker.
    pub fn listener(&self, worker: usize) -> io::Result<Listener> {
        let (socket, watch) = match &self.sockets {
            Sockets::PerWorker(sockets) => {
                (sockets.get(worker).ok_or(Errno::INVAL)?, Watch::Listener)
            }
            Sockets::Shared { socket, .. } => (socket, Watch::SharedListener),
        };
        let registration = reactor()?.register(socket, watch)?;
        let family = match self.endpoint {
            Endpoint::Tcp(_) => Family::Tcp,
            Endpoint::Unix(_) => Family::Unix,
        };
        Ok(Listener { socket: Arc::clone(socket), registration, family })
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, flags(), None)?;
    set_socket_reuseaddr(&fd, true)?;
    set_socket_reuseport(&fd, true)?;
    if address.is_ipv6() {
        // "[::]" is IPv6 alone, so that "0.0.0.0" can be bound beside it.
        set_ipv6_v6only(&fd, true)?;
    }
    // Accepted sockets inherit it, which saves a system call per connection.
    set_tcp_nodelay(&fd, true)?;
    bind(&fd, &address)?;
    listen(&fd, BACKLOG)?;
    Ok(fd)
}

fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    remove_dead_socket(path, &address);
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None)?;
    bind(&fd, &address)?;
    listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// A socket file that a killed process left behind, nobody listens on, would block the address.
fn remove_dead_socket(path: &Path, address: &SocketAddrUnix) {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let Ok(probe) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None) else {
        return;
    };
    if is_socket && rustix::net::connect(&probe, address) == Err(Errno::CONNREFUSED) {
        // If it cannot be removed, the bind that follows says why.
        let _ = std::fs::remove_file(path);
    }
}

const fn flags() -> SocketFlags {
    SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC)
}

fn local_address(fd: &OwnedFd) -> io::Result<SocketAddr> {
    SocketAddr::try_from(getsockname(fd)?).map_err(|_| Errno::AFNOSUPPORT.into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Tcp,
    Unix,
}

/// A listening socket as one worker sees it.
pub struct Listener {
    socket: Arc<OwnedFd>,
    registration: Registration,
    family: Family,
}

/// Who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// A TCP client.
    Tcp(SocketAddr),
    /// A process of this machine, by a Unix-domain socket.
    Unix,
}

impl PeerAddress {
    /// The address for logs, rules and limits; clients of Unix-domain sockets count as loopback.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        match self {
            Self::Tcp(address) => address.ip().to_canonical(),
            Self::Unix => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

/// A connection that was accepted but is not watched yet, so that refusing it costs nothing.
#[derive(Debug)]
pub struct Accepted {
    fd: OwnedFd,
    /// Who connected.
    pub peer: PeerAddress,
}

impl Accepted {
    /// The connection, watched by this thread from now on.
    ///
    /// # Errors
    /// If the kernel refuses to watch it.
    pub fn into_stream(self) -> io::Result<Stream> {
        Stream::new(self.fd)
    }
}

impl Listener {
    /// Accepts the next connection.
    ///
    /// # Errors
    /// Out of descriptors or memory. The socket then counts as not ready: the caller waits a while
    /// and calls again.
    pub async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Accepts a connection only if one waits already; used to empty the queue before closing.
    pub fn try_accept(&self) -> Option<Accepted> {
        self.accept_one().ok()
    }

    fn poll_accept(&self, cx: &Context<'_>) -> Poll<io::Result<Accepted>> {
        let read = &self.registration.readiness.read;
        loop {
            ready!(read.poll_ready(cx));
            ready!(poll_budget(cx));
            match self.accept_one() {
                Ok(accepted) => return Poll::Ready(Ok(accepted)),
                Err(Errno::AGAIN) => read.set_drained(),
                // The connection is gone before it was ours (accept(2), "Error handling").
                Err(
                    Errno::INTR
                    | Errno::CONNABORTED
                    | Errno::PROTO
                    | Errno::NETDOWN
                    | Errno::HOSTUNREACH
                    | Errno::NETUNREACH,
                ) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    fn accept_one(&self) -> rustix::io::Result<Accepted> {
        match self.family {
            Family::Tcp => {
                let (fd, from) = acceptfrom_with(&self.socket, flags())?;
                let peer = from.and_then(|any: SocketAddrAny| SocketAddr::try_from(any).ok());
                // A TCP peer always has an address; without one there is nobody to answer.
                let peer = PeerAddress::Tcp(peer.ok_or(Errno::CONNABORTED)?);
                Ok(Accepted { fd, peer })
            }
            Family::Unix => {
                let fd = accept_with(&self.socket, flags())?;
                Ok(Accepted { fd, peer: PeerAddress::Unix })
            }
        }
    }
}
