//! Listening sockets that were open before this process began.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use listenfd::ListenFd;
use rustix::fd::OwnedFd;
use rustix::net::sockopt::{ipv6_v6only, socket_acceptconn};
use rustix::net::{AddressFamily, SocketAddrUnix, getsockname};

use crate::Endpoint;

/// A listening socket, to be passed on.
pub type Socket = Arc<OwnedFd>;

/// Several of them.
pub type Sockets = Vec<Socket>;

/// Sockets that listen at one address, opened by somebody else.
#[derive(Clone, Debug)]
pub struct Inherited {
    endpoint: Endpoint,
    sockets: Vec<Arc<OwnedFd>>,
    reach: Reach,
}

/// What comes in at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// What its address says.
    Exact,
    /// `[::]` takes connections to IPv4 addresses too (ipv6(7), `IPV6_V6ONLY`).
    BothFamilies,
}

impl Inherited {
    /// These sockets, which all listen at one address.
    ///
    /// # Errors
    /// In words: there is none, one does not listen, or they are of another kind.
    pub fn new(sockets: Vec<OwnedFd>) -> Result<Self, String> {
        let first = sockets.first().ok_or("there is no socket")?;
        let endpoint = local_endpoint(first)?;
        let dual = matches!(endpoint, Endpoint::Tcp(SocketAddr::V6(it)) if it.ip().is_unspecified())
            && !ipv6_v6only(first).unwrap_or(true);
        for socket in &sockets {
            if local_endpoint(socket)? != endpoint {
                return Err(format!("a socket is not at {endpoint}"));
            }
            if !socket_acceptconn(socket).unwrap_or(false) {
                return Err(format!("the socket at {endpoint} does not listen"));
            }
        }
        let reach = if dual { Reach::BothFamilies } else { Reach::Exact };
        Ok(Self { endpoint, sockets: sockets.into_iter().map(Arc::new).collect(), reach })
    }

    /// Where they listen.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The sockets.
    #[must_use]
    pub fn sockets(&self) -> &[Arc<OwnedFd>] {
        &self.sockets
    }

    /// Whether they take nothing but what their address says.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.reach == Reach::Exact
    }

    /// More sockets of the same address.
    pub fn join(&mut self, more: Self) {
        self.sockets.extend(more.sockets);
    }

    /// Whether a listener at this address can be served by them.
    #[must_use]
    pub fn serves(&self, wanted: &Endpoint) -> bool {
        if self.endpoint == *wanted {
            return true;
        }
        let (Endpoint::Tcp(own), Endpoint::Tcp(wanted)) = (&self.endpoint, wanted) else {
            return false;
        };
        let all = wanted.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        self.reach == Reach::BothFamilies && all && own.port() == wanted.port()
    }
}

/// The sockets a service manager opened for this process (sd_listen_fds(3)), and what was wrong with
/// the others, in words. To be called once, before any thread is started: it takes the variables out
/// of the environment.
#[must_use]
pub fn sockets_of_service_manager() -> (Vec<Inherited>, Vec<String>) {
    let (mut good, mut problems): (Vec<Inherited>, Vec<String>) = Default::default();
    // Meant for the process it names: others inherit the variables by accident.
    if std::env::var("LISTEN_PID").ok() != Some(std::process::id().to_string()) {
        return (good, problems);
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut passed = ListenFd::from_env();
    for at in 0..passed.len() {
        let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unnamed");
        match take(&mut passed, at) {
            // Several sockets of one address (SO_REUSEPORT) belong together.
            Ok(socket) => match good.iter_mut().find(|it| it.endpoint == socket.endpoint) {
                Some(same) => same.join(socket),
                None => good.push(socket),
            },
            Err(problem) => {
                problems.push(format!("socket {} ({name}) from outside: {problem}", at + 3));
            }
        }
    }
    (good, problems)
}

fn take(passed: &mut ListenFd, at: usize) -> Result<Inherited, String> {
    // Which of both it is shows when it is taken.
    let tcp = passed.take_tcp_listener(at).ok().flatten().map(OwnedFd::from);
    let unix = || passed.take_unix_listener(at).ok().flatten().map(OwnedFd::from);
    let socket = tcp.or_else(unix).ok_or("it is no stream socket of TCP or of a path")?;
    Inherited::new(vec![socket])
}

fn local_endpoint(socket: &OwnedFd) -> Result<Endpoint, String> {
    let say = |error: rustix::io::Errno| io::Error::from(error).to_string();
    let address = getsockname(socket).map_err(say)?;
    if address.address_family() != AddressFamily::UNIX {
        let address = SocketAddr::try_from(address).map_err(say)?;
        return Ok(Endpoint::Tcp(address));
    }
    let address = SocketAddrUnix::try_from(address).map_err(say)?;
    let path = address.path_bytes().ok_or("it is a Unix-domain socket without a path")?;
    Ok(Endpoint::Unix(PathBuf::from(std::ffi::OsStr::from_bytes(path))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_says_where_it_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inherited = Inherited::new(vec![listener.into()]).unwrap();
        assert!(inherited.serves(&Endpoint::Tcp(address)));
        let other = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
        assert!(!inherited.serves(&Endpoint::Tcp(other)));
    }

    #[test]
    fn a_socket_of_both_families_serves_both() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let inherited = Inherited::new(vec![listener.into()]).unwrap();
        for (address, serves) in [("0.0.0.0", true), ("[::]", true), ("127.0.0.1", false)] {
            let wanted = format!("{address}:{port}").parse().unwrap();
            assert_eq!(inherited.serves(&Endpoint::Tcp(wanted)), serves, "{address}");
        }
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let problem = Inherited::new(vec![stream.into()]).unwrap_err();
        assert!(problem.contains("does not listen"), "{problem}");
        assert!(Inherited::new(Vec::new()).is_err());
    }
}
