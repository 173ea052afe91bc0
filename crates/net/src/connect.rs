//! Connections to origins.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay, socket_error};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect as start, socket_with,
};

use crate::socket::Connected;
use crate::{Endpoint, Stream, descriptors};

/// Opens a connection. The caller limits how long it waits.
///
/// # Errors
/// What the kernel says: refused, unreachable, no such socket, out of descriptors.
pub async fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
    connect_from(None, endpoint).await
}

/// The same from an address of this machine; one for a Unix-domain socket is ignored.
///
/// # Errors
/// As above, and if the address is none of this machine or is taken.
pub async fn connect_from(own: Option<SocketAddr>, endpoint: &Endpoint) -> io::Result<Stream> {
    let (fd, started) = match endpoint {
        Endpoint::Tcp(address) => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let fd = socket(family)?;
            // Answers of several writes must not wait for the peer's acknowledgement (Nagle).
            set_tcp_nodelay(&fd, true)?;
            if let Some(own) = own {
                // Connections that ended a moment ago do not keep the port.
                set_socket_reuseaddr(&fd, true)?;
                bind(&fd, &own)?;
            }
            let started = start(&fd, address);
            (fd, started)
        }
        Endpoint::Unix(path) => {
            let address = SocketAddrUnix::new(path)?;
            let fd = socket(AddressFamily::UNIX)?;
            let started = start(&fd, &address);
            (fd, started)
        }
    };
    match started {
        Ok(()) => Stream::new(fd),
        Err(Errno::INPROGRESS) => {
            let socket = Connected::new(fd)?;
            socket.expect_event();
            poll_fn(|cx| socket.poll_writable(cx)).await;
            socket_error(socket.fd())?.map_err(io::Error::from)?;
            Ok(Stream::plain(socket))
        }
        Err(error) => Err(error.into()),
    }
}

fn socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    // What is kept back is for the admin listener, files and reloads.
    if descriptors::is_reserved(&fd) {
        return Err(Errno::MFILE.into());
    }
    Ok(fd)
}
