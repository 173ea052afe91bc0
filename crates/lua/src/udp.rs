//! `silly.net.udp`: datagrams.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use sluice_net::{Datagrams, Deadline, Endpoint, Nanos, Sharing, now, spawn};

use crate::address::{self, Peer};
use crate::cause::Cause;
use crate::connection::nanos;
use crate::frame::{Frame, Kind, Reply, native};
use crate::listen::own_address;
use crate::tcp::{milliseconds, no_task};
use crate::vm;

native!(native_bind, bind);
native!(native_connect, connect);
native!(native_send, send);
native!(native_receive, receive);
native!(native_close, close);
native!(native_isalive, isalive);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 6] = [
    ("udp_bind", native_bind),
    ("udp_connect", native_connect),
    ("udp_send", native_send),
    ("udp_receive", native_receive),
    ("udp_close", native_close),
    ("udp_isalive", native_isalive),
];

/// Largest datagram.
const LARGEST: usize = 65_536;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket of a script; gone once it is closed.
struct Socket {
    datagrams: RefCell<Option<Datagrams>>,
    /// A task waits for a datagram.
    read: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// What the script has of it.
struct Shared(Rc<Socket>);

impl Socket {
    fn poll_receive(&self, cx: &Context<'_>) -> Poll<Result<(Vec<u8>, SocketAddr), Cause>> {
        let datagrams = self.datagrams.borrow();
        let Some(datagrams) = &*datagrams else { return Poll::Ready(Err(Cause::Closed)) };
        ROOM.with_borrow_mut(|room| {
            room.resize(LARGEST, 0);
            match datagrams.poll_receive(cx, room) {
                Poll::Ready(Ok((length, from))) => {
                    let bytes = room.get(..length).unwrap_or_default().to_vec();
                    Poll::Ready(Ok((bytes, from)))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(Cause::of(&error))),
                Poll::Pending => {
                    *self.waker.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

fn give(frame: &Frame<'_>, opened: io::Result<Datagrams>) -> Reply {
    let opened = opened.and_then(|datagrams| Ok((datagrams.address()?, datagrams)));
    match opened {
        Ok((address, datagrams)) => {
            frame.push_object(
                Rc::new(Shared(Rc::new(Socket {
                    datagrams: RefCell::new(Some(datagrams)),
                    read: Cell::default(),
                    waker: RefCell::default(),
                }))),
                1024,
            );
            frame.push_count(frame.host().next_number());
            frame.push_bytes(address.to_string().as_bytes());
            Reply::Values(3)
        }
        Err(error) => frame.fail(Cause::of(&error).text().as_bytes()),
    }
}

/// `bind(address)`: the socket, its number and its address, or nil and an error.
fn bind(frame: &Frame<'_>) -> Reply {
    let Ok(own) = own_address(frame, 1) else {
        return frame.fail(Cause::INVALID.text().as_bytes());
    };
    let Some(own) = own else { return frame.raise("udp.bind: an address is missing") };
    let sharing = if frame.host().ports.workers() > 1 { Sharing::Shared } else { Sharing::Alone };
    give(frame, Datagrams::bind(own, sharing))
}

/// `connect(address, own_address)`: the same.
fn connect(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.text(1) else {
        return frame.raise("udp.connect: an address is missing");
    };
    let (Some(peer), Ok(own)) = (known(&text), own_address(frame, 2)) else {
        return frame.fail(Cause::INVALID.text().as_bytes());
    };
    give(frame, Datagrams::connect(peer, own))
}

/// An address in digits: names are for `silly.net.dns`.
fn known(text: &str) -> Option<SocketAddr> {
    match address::peer(text) {
        Some(Peer::Known(Endpoint::Tcp(address))) => Some(address),
        _ => None,
    }
}

fn socket<'f>(frame: &'f Frame<'_>) -> Option<&'f Socket> {
    frame.object::<Shared>(1).map(|shared| &*shared.0)
}

#[cold]
fn no_socket(frame: &Frame<'_>) -> Reply {
    frame.raise("bad argument #1: a socket is expected")
}

/// `send(socket, data, address | nil)`.
fn send(frame: &Frame<'_>) -> Reply {
    let Some(socket) = socket(frame) else { return no_socket(frame) };
    let Some(data) = frame.bytes(2) else {
        return frame
            .raise("bad argument #2 to 'sendto': a string or a table of strings is expected");
    };
    let to = match frame.kind(3) {
        Kind::Nil => None,
        _ => match frame.text(3).as_deref().and_then(known) {
            Some(to) => Some(to),
            None => return frame.refuse(Cause::INVALID.text().as_bytes()),
        },
    };
    let datagrams = socket.datagrams.borrow();
    let Some(datagrams) = &*datagrams else {
        return frame.refuse(Cause::Closed.text().as_bytes());
    };
    match datagrams.send(data, to) {
        Ok(()) => {
            frame.push_truth(true);
            Reply::Values(1)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            frame.refuse(Cause::NO_BUFFERS.text().as_bytes())
        }
        Err(error) => frame.refuse(Cause::of(&error).text().as_bytes()),
    }
}

/// `receive(socket, timeout_ms | nil)`: a datagram and who sent it, or nil and an error.
fn receive(frame: &Frame<'_>) -> Reply {
    let Some(shared) = frame.object::<Shared>(1).map(|it| Rc::clone(&it.0)) else {
        return no_socket(frame);
    };
    if shared.read.get() {
        return frame.raise("another task is reading from this socket");
    }
    if shared.datagrams.borrow().is_none() {
        return frame.fail(Cause::Closed.text().as_bytes());
    }
    let until = match frame.kind(2) {
        Kind::Nil => None,
        _ => match frame.number(2) {
            Some(wait) => Some(now().saturating_add(nanos(milliseconds(wait)))),
            None => return frame.raise("bad argument #2: milliseconds are expected"),
        },
    };
    let host = frame.host().shared();
    let Some(id) = frame.task() else { return no_task(frame) };
    shared.read.set(true);
    spawn(async move {
        let received = arrive(&shared, until).await;
        shared.read.set(false);
        drop(shared);
        vm::answer(&host, id, |frame| {
            match received {
                Ok((bytes, from)) => {
                    frame.push_bytes(&bytes);
                    frame.push_bytes(from.to_string().as_bytes());
                }
                Err(cause) => {
                    frame.fail(cause.text().as_bytes());
                }
            }
            2
        });
    });
    Reply::Wait
}

async fn arrive(socket: &Socket, until: Option<Nanos>) -> Result<(Vec<u8>, SocketAddr), Cause> {
    let deadline = Deadline::new();
    poll_fn(|cx| {
        let received = socket.poll_receive(cx);
        if received.is_pending()
            && let Some(until) = until
            && deadline.poll_at(until, cx).is_ready()
        {
            return Poll::Ready(Err(Cause::TIMED_OUT));
        }
        received
    })
    .await
}

/// `close(socket)`: whoever waits for a datagram hears of it.
fn close(frame: &Frame<'_>) -> Reply {
    let Some(socket) = socket(frame) else { return no_socket(frame) };
    if socket.datagrams.take().is_none() {
        return frame.refuse(Cause::Closed.text().as_bytes());
    }
    if let Some(waker) = socket.waker.take() {
        waker.wake();
    }
    frame.push_truth(true);
    Reply::Values(1)
}

/// `isalive(socket)`.
fn isalive(frame: &Frame<'_>) -> Reply {
    let Some(socket) = socket(frame) else { return no_socket(frame) };
    frame.push_truth(socket.datagrams.borrow().is_some());
    Reply::Values(1)
}
