//! Listening sockets: bound by the control thread, accepted from by the workers.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_reuseaddr, set_socket_reuseport, set_tcp_nodelay, socket_reuseport,
};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    acceptfrom_with, bind, getsockname, listen, socket_with,
};

use crate::reactor::{Registration, Watch};
use crate::runtime::reactor;
use crate::task::poll_budget;
use crate::{Endpoint, Inherited, Stream, descriptors};

/// Connections the kernel keeps for us until they are accepted.
const BACKLOG: i32 = 4096;

/// The sockets of one listening address: one per worker, or some that all workers share.
#[derive(Debug)]
pub struct Binding {
    endpoint: Endpoint,
    sockets: Vec<Arc<OwnedFd>>,
    spread: Spread,
    workers: usize,
    file: Option<SocketFile>,
    /// Set once another process has the sockets too and goes on with them.
    given_away: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// SO_REUSEPORT: the kernel spreads connections, each socket has a queue of its own and one worker
    /// that empties it. There may be more sockets than workers.
    PerWorker,
    /// Unix-domain sockets know no SO_REUSEPORT spreading, and sockets of a service manager may have
    /// been opened without.
    Shared,
}

/// The file of a Unix-domain socket goes with the listener, if the listener made it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    ours: AtomicBool,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.ours.load(Ordering::Acquire) {
            // Somebody may have removed or replaced it; then there is nothing of ours to remove.
            let _ = std::fs::remove_file(&self.path);
        }
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
                Ok(Self::new(Endpoint::Tcp(address), sockets, Spread::PerWorker, workers))
            }
            Endpoint::Unix(path) => {
                let sockets = vec![Arc::new(bind_unix(path)?)];
                let binding = Self::new(endpoint.clone(), sockets, Spread::Shared, workers);
                binding.keep();
                Ok(binding)
            }
        }
    }

    /// Takes sockets over that somebody else bound. Every one of them will be accepted from, however
    /// many there are. The file of a Unix-domain socket stays until [`Binding::keep`].
    ///
    /// # Errors
    /// If the kernel refuses a descriptor, or the sockets do not listen.
    pub fn adopt(inherited: &Inherited, workers: usize) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for socket in inherited.sockets() {
            // Descriptors of our own: the same sockets may be adopted a second time.
            let socket = rustix::io::fcntl_dupfd_cloexec(socket, 0)?;
            prepare(&socket, inherited.endpoint())?;
            sockets.push(Arc::new(socket));
        }
        let alone = |socket: &Arc<OwnedFd>| socket_reuseport(&**socket).unwrap_or(false);
        let spread = match inherited.endpoint() {
            Endpoint::Tcp(address) if sockets.iter().all(alone) => {
                // One of ours beside one for both families would take IPv6 alone.
                while sockets.len() < workers
                    && inherited.is_exact()
                    && let Ok(socket) = bind_tcp(*address)
                {
                    sockets.push(Arc::new(socket));
                }
                if sockets.len() < workers { Spread::Shared } else { Spread::PerWorker }
            }
            _ => Spread::Shared,
        };
        Ok(Self::new(inherited.endpoint().clone(), sockets, spread, workers))
    }

    fn new(endpoint: Endpoint, sockets: Vec<Arc<OwnedFd>>, spread: Spread, workers: usize) -> Self {
        let file = match &endpoint {
            Endpoint::Unix(path) => {
                Some(SocketFile { path: path.clone(), ours: AtomicBool::new(false) })
            }
            Endpoint::Tcp(_) => None,
        };
        Self { endpoint, sockets, spread, workers, file, given_away: Arc::default() }
    }

    /// The file of a Unix-domain socket is ours: it goes with the listener.
    pub fn keep(&self) {
        if let Some(file) = &self.file {
            file.ours.store(true, Ordering::Release);
        }
    }

    /// Another process goes on with these sockets: what they hold is left to it, and so is the file.
    pub fn give_away(&self) {
        self.given_away.store(true, Ordering::Release);
        if let Some(file) = &self.file {
            file.ours.store(false, Ordering::Release);
        }
    }

    /// The other process did not want them: all is as before [`Binding::give_away`].
    pub fn take_back(&self) {
        if self.given_away.swap(false, Ordering::AcqRel) {
            self.keep();
        }
    }

    /// The sockets, for another process to take over.
    #[must_use]
    pub fn sockets(&self) -> &[Arc<OwnedFd>] {
        &self.sockets
    }

    /// The address that was bound, with the real port.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The listeners of one worker; to be called on that worker's thread.
    ///
    /// # Errors
    /// If a socket cannot be watched, or there is no such worker.
    pub fn listeners(&self, worker: usize) -> io::Result<Vec<Listener>> {
        if worker >= self.workers {
            return Err(Errno::INVAL.into());
        }
        let watch = match self.spread {
            Spread::PerWorker => Watch::Listener,
            Spread::Shared => Watch::SharedListener,
        };
        let family = match self.endpoint {
            Endpoint::Tcp(_) => Family::Tcp,
            Endpoint::Unix(_) => Family::Unix,
        };
        let mut listeners = Vec::new();
        for (at, socket) in self.sockets.iter().enumerate() {
            if watch == Watch::SharedListener || at % self.workers == worker {
                let registration = reactor()?.register(socket, watch)?;
                let (socket, given_away) = (Arc::clone(socket), Arc::clone(&self.given_away));
                listeners.push(Listener { socket, registration, family, watch, given_away });
            }
        }
        Ok(listeners)
    }
}

/// Makes a socket that somebody else opened what ours are.
fn prepare(socket: &OwnedFd, endpoint: &Endpoint) -> io::Result<()> {
    rustix::io::ioctl_fionbio(socket, true)?;
    if let Endpoint::Tcp(_) = endpoint {
        set_tcp_nodelay(socket, true)?;
    }
    // Listens already; this makes room for as many waiting connections as ours have.
    Ok(listen(socket, BACKLOG)?)
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
    watch: Watch,
    given_away: Arc<AtomicBool>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.unwatch();
    }
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
    /// Whether it took one of the descriptors that are kept back.
    #[must_use]
    pub fn is_in_reserve(&self) -> bool {
        descriptors::is_reserved(&self.fd)
    }

    /// The connection, watched by this thread from now on.
    ///
    /// # Errors
    /// If the kernel refuses to watch it.
    pub fn into_stream(self) -> io::Result<Stream> {
        Stream::new(self.fd)
    }
}

impl Listener {
    /// Whether another connection would take one of the descriptors that are kept back.
    #[must_use]
    pub fn lacks_descriptors(&self) -> bool {
        descriptors::are_scarce(&self.socket)
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// Out of descriptors or memory. The socket then counts as not ready: the caller waits a while
    /// and calls again.
    pub async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// No longer hears of connections. Closing the socket does not do that while another worker or
    /// another process has it open: the kernel would wake us and not them.
    pub fn unwatch(&self) {
        self.registration.unwatch(&self.socket);
    }

    /// How many connections that wait already are to be accepted after [`Listener::unwatch`]: all of
    /// them, if the socket ends with us. If another process goes on with it, those the kernel may have
    /// told us alone of.
    #[must_use]
    pub fn leftovers(&self) -> usize {
        match (self.given_away.load(Ordering::Acquire), self.watch) {
            (false, _) => usize::MAX,
            (true, Watch::SharedListener) => usize::try_from(BACKLOG).unwrap_or(0),
            (true, _) => 0,
        }
    }

    /// Accepts a connection only if one waits already.
    pub fn try_accept(&self) -> Option<Accepted> {
        loop {
            match self.accept_one() {
                Ok(accepted) => return Some(accepted),
                Err(error) if is_of_the_peer(error) => {}
                Err(_) => return None,
            }
        }
    }

    fn poll_accept(&self, cx: &Context<'_>) -> Poll<io::Result<Accepted>> {
        let read = &self.registration.readiness.read;
        loop {
            ready!(read.poll_ready(cx));
            ready!(poll_budget(cx));
            match self.accept_one() {
                Ok(accepted) => return Poll::Ready(Ok(accepted)),
                Err(Errno::AGAIN) => read.set_drained(),
                Err(error) if is_of_the_peer(error) => {}
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

/// Whether the connection was gone before it was ours (accept(2), "Error handling").
const fn is_of_the_peer(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
    )
}
