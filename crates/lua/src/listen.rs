//! Listening and connecting.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use sluice_filter::{Client as Newcomer, Place};
use sluice_net::tls::TlsClient;
use sluice_net::{
    Accepted, Deadline, Endpoint, Listener, PeerAddress, Pool, Stream, connect_from, offload_to,
    resolve, spawn,
};

use crate::address::{self, Peer};
use crate::cause::Cause;
use crate::frame::{Frame, Kind, Reply, native};
use crate::host::{Ending, Host, Owner};
use crate::intake::{Arrival, Door, Hold};
use crate::ports::Share;
use crate::settings::{Encryption, Level, ListenerRole, Role};
use crate::tcp::{milliseconds, no_task, push_connection};
use crate::tls::{self, Client, Server};
use crate::vm;

/// Pause after the kernel refused a connection: descriptors come back when others close.
const PAUSE: Duration = Duration::from_millis(100);

native!(native_listen, listen);
native!(native_connect, start_connect);
native!(native_close, close);

/// A listener of a script. It listens until it is closed, also if the script has forgotten it.
struct Acceptor {
    /// Where it listens.
    site: RefCell<Site>,
    wakers: RefCell<Vec<Waker>>,
    /// The function that gets the connections, in the registry.
    handler: Cell<i32>,
    /// What encrypts them, if anything does.
    server: Option<Rc<Server>>,
}

/// Where connections come from.
enum Site {
    /// An address of the script's own.
    Address { _share: Share },
    /// A listener of the gateway.
    Gateway,
    /// Nowhere any more.
    Closed,
}

impl Acceptor {
    fn is_closed(&self) -> bool {
        matches!(&*self.site.borrow(), Site::Closed)
    }
}

/// `listen(address, handler, server | nil)`: the listener, its number and its address, or nil and an error.
fn listen(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.text(1) else { return frame.raise("tcp.listen: an address is missing") };
    if frame.kind(2) != Kind::Function {
        return frame.raise("tcp.listen: a function for its connections is missing");
    }
    let Some(endpoint) = address::listen(&text) else {
        return frame.fail(Cause::INVALID.text().as_bytes());
    };
    let host = frame.host().shared();
    match &host.settings.role {
        Role::Service => {}
        Role::Listener(listener) => return take_over(frame, &host, listener),
        Role::Part => {
            return frame.raise("tcp.listen: addresses of the gateway are those of its listeners");
        }
    }
    let opened = host.ports.listen(endpoint, host.worker).and_then(|share| {
        let listeners = share.binding.listeners(host.worker)?;
        share.binding.keep();
        Ok((share, listeners))
    });
    let (share, listeners) = match opened {
        Ok(opened) => opened,
        Err(error) => return frame.fail(Cause::of(&error).text().as_bytes()),
    };
    let bound = share.binding.endpoint().to_string();
    let acceptor = acceptor(frame, Site::Address { _share: share });
    for listener in listeners {
        spawn(accept_all(Rc::clone(&host), Rc::clone(&acceptor), listener));
    }
    answer(frame, acceptor, &bound)
}

/// What hands connections to the function that is the second argument.
fn acceptor(frame: &Frame<'_>, site: Site) -> Rc<Acceptor> {
    frame.push_copy(2);
    let handler = Cell::new(frame.keep());
    let server = frame.object::<Rc<Server>>(3).cloned();
    let (site, wakers) = (RefCell::new(site), RefCell::default());
    Rc::new(Acceptor { site, wakers, handler, server })
}

fn answer(frame: &Frame<'_>, acceptor: Rc<Acceptor>, bound: &str) -> Reply {
    frame.push_object(acceptor, 1024);
    frame.push_count(frame.host().next_number());
    frame.push_bytes(bound.as_bytes());
    Reply::Values(3)
}

/// The connections of a listener of the gateway go to the script from now on.
fn take_over(frame: &Frame<'_>, host: &Rc<Host>, listener: &ListenerRole) -> Reply {
    if !host.intake.is_awaited() {
        return frame.raise(
            "tcp.listen: a script of a listener gets its connections and no others, and this one has them already",
        );
    }
    if frame.object::<Rc<Server>>(3).is_some() && listener.encryption == Encryption::Gateway {
        return frame
            .raise("tls.listen: the gateway encrypts this listener already: use tcp.listen");
    }
    let acceptor = acceptor(frame, Site::Gateway);
    let door = GatewayDoor { host: Rc::downgrade(host), acceptor: Rc::clone(&acceptor) };
    let waiting = host.intake.open(Rc::new(door));
    if !waiting.is_empty() {
        let host = Rc::clone(host);
        // The script runs at this moment.
        spawn(async move { waiting.into_iter().for_each(|arrival| host.intake.receive(arrival)) });
    }
    answer(frame, acceptor, &listener.address)
}

/// Where a script takes the connections of a listener of the gateway.
struct GatewayDoor {
    /// It belongs to the host.
    host: Weak<Host>,
    acceptor: Rc<Acceptor>,
}

impl Door for GatewayDoor {
    fn admit(&self, arrival: Arrival) {
        let (Some(host), Some(state)) = (self.host.upgrade(), arrival.state.upgrade()) else {
            return;
        };
        let Newcomer { stream, peer, place } = arrival.client;
        let hold = Some(Hold::new(place, state));
        let acceptor = Rc::clone(&self.acceptor);
        match &acceptor.server {
            Some(_) => spawn(shake_hands(host, acceptor, (stream, peer), hold)),
            None => take_in(&host, &acceptor, (stream, peer), (None, hold)),
        }
    }
}

/// A coroutine that serves a connection of a listener of the gateway.
struct Handling {
    connection: Rc<dyn Owner>,
    place: Rc<dyn Place>,
}

impl Owner for Handling {
    fn ended(&self, ending: Ending) {
        self.connection.ended(ending);
        if ending == Ending::Failed {
            self.place.on_failure();
        }
    }
}

/// `close(listener)`.
fn close(frame: &Frame<'_>) -> Reply {
    let Some(acceptor) = frame.object::<Acceptor>(1) else {
        return frame.raise("bad argument #1: a listener is expected");
    };
    match acceptor.site.replace(Site::Closed) {
        Site::Closed => return frame.refuse(Cause::Closed.text().as_bytes()),
        Site::Gateway => frame.host().intake.shut(),
        Site::Address { .. } => {}
    }
    frame.forget(acceptor.handler.get());
    acceptor.wakers.take().iter().for_each(Waker::wake_by_ref);
    frame.push_truth(true);
    Reply::Values(1)
}

/// Accepts until the listener is closed.
async fn accept_all(host: Rc<Host>, acceptor: Rc<Acceptor>, listener: Listener) {
    let pause = Deadline::new();
    while let Some(accepted) = accept_or_close(&acceptor, &listener).await {
        let taken = accepted.and_then(|accepted| {
            let peer = accepted.peer;
            Ok((accepted.into_stream()?, peer))
        });
        match taken {
            Ok((stream, peer)) if acceptor.server.is_some() => {
                let (host, acceptor) = (Rc::clone(&host), Rc::clone(&acceptor));
                spawn(shake_hands(host, acceptor, (stream, peer), None));
            }
            Ok((stream, peer)) => take_in(&host, &acceptor, (stream, peer), (None, None)),
            Err(error) => {
                host.say(Level::Error, &format!("cannot accept connections: {error}"));
                pause.sleep(PAUSE).await;
            }
        }
    }
}

async fn accept_or_close(acceptor: &Acceptor, listener: &Listener) -> Option<io::Result<Accepted>> {
    let mut accept = pin!(listener.accept());
    poll_fn(|cx| {
        if acceptor.is_closed() {
            return Poll::Ready(None);
        }
        let polled = accept.as_mut().poll(cx).map(Some);
        let mut wakers = acceptor.wakers.borrow_mut();
        if polled.is_pending() && !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        polled
    })
    .await
}

/// Gives a connection to the handler, in a coroutine of its own.
fn take_in(
    host: &Rc<Host>,
    acceptor: &Acceptor,
    (stream, peer): (Stream, PeerAddress),
    (protocol, hold): (Option<&[u8]>, Option<Hold>),
) {
    // The listener may have been closed during a handshake, and its handler with it.
    if acceptor.is_closed() {
        return;
    }
    let place = hold.as_ref().map(|hold| Rc::clone(&hold.place));
    let (id, thread) = vm::create(host, None);
    let connection = vm::with_stack(host, thread, |frame| {
        frame.push_kept(acceptor.handler.get());
        let connection = push_connection(frame, host, (stream, peer), hold);
        frame.push_bytes(address::show(peer).as_bytes());
        push_protocol(frame, protocol);
        connection
    });
    host.set_owner(
        id,
        match place {
            None => connection,
            Some(place) => Rc::new(Handling { connection, place }),
        },
    );
    vm::run(host, id, 3);
}

fn push_protocol(frame: &Frame<'_>, protocol: Option<&[u8]>) {
    match protocol {
        Some(protocol) => frame.push_bytes(protocol),
        None => frame.push_nil(),
    }
}

/// Encrypts a connection, and gives it to the handler.
async fn shake_hands(
    host: Rc<Host>,
    acceptor: Rc<Acceptor>,
    (mut stream, peer): (Stream, PeerAddress),
    hold: Option<Hold>,
) {
    let Some(server) = &acceptor.server else { return };
    match server.accept(&mut stream).await {
        Ok(protocol) => {
            take_in(&host, &acceptor, (stream, peer), (protocol.as_deref(), hold));
        }
        Err(problem) if host.level.get() <= Level::Info => {
            let line = format!("connection of {}: {problem}", address::show(peer));
            host.say(Level::Info, &line);
        }
        Err(_) => {}
    }
}

/// `connect(address, timeout_ms, own_address, client | nil)`: a connection and what is to be spoken over it, or nil, an
/// error and, if it is about encryption, what exactly is wrong.
fn start_connect(frame: &Frame<'_>) -> Reply {
    let Some(text) = frame.text(1) else {
        return frame.raise("tcp.connect: an address is missing");
    };
    let Some(peer) = address::peer(&text) else {
        return frame.fail(Cause::INVALID.text().as_bytes());
    };
    let own = match own_address(frame, 3) {
        Ok(own) => own,
        Err(cause) => return frame.fail(cause.text().as_bytes()),
    };
    let limit = match frame.kind(2) {
        Kind::Nil => Duration::MAX,
        _ => milliseconds(frame.number(2).unwrap_or(0.0)),
    };
    let host = frame.host().shared();
    let Some(id) = frame.task() else { return no_task(frame) };
    let client = frame.object::<Client>(4).map(|client| client.0.clone());
    spawn(async move {
        let done = Deadline::new().limit(limit, reach_with(peer, own, client)).await;
        let done = done.unwrap_or(Err((Cause::TIMED_OUT, None)));
        vm::answer(&host, id, |frame| match done {
            Ok((stream, peer)) => {
                let protocol = tls::protocol(&stream);
                push_connection(frame, &host, (stream, peer), None);
                let Some(protocol) = protocol else { return 1 };
                frame.push_bytes(&protocol);
                2
            }
            Err((cause, why)) => {
                frame.fail(cause.text().as_bytes());
                let Some(why) = why else { return 2 };
                frame.push_bytes(why.as_bytes());
                3
            }
        });
    });
    Reply::Wait
}

/// The address of this machine that a script wants to connect from.
pub(crate) fn own_address(frame: &Frame<'_>, index: i32) -> Result<Option<SocketAddr>, Cause> {
    if frame.kind(index) == Kind::Nil {
        return Ok(None);
    }
    match frame.text(index).as_deref().and_then(address::listen) {
        Some(Endpoint::Tcp(address)) => Ok(Some(address)),
        _ => Err(Cause::INVALID),
    }
}

type Reached = Result<(Stream, PeerAddress), (Cause, Option<String>)>;

/// Connects, and encrypts the connection if a client is given for that.
async fn reach_with(peer: Peer, own: Option<SocketAddr>, client: Option<TlsClient>) -> Reached {
    let (stream, peer) = reach(peer, own).await.map_err(|cause| (cause, None))?;
    let Some(client) = client else { return Ok((stream, peer)) };
    match client.connect(stream).await {
        Ok(stream) => Ok((stream, peer)),
        Err(error) => Err((Cause::Encryption, Some(error.to_string()))),
    }
}

/// Connects to the first address that answers.
async fn reach(peer: Peer, own: Option<SocketAddr>) -> Result<(Stream, PeerAddress), Cause> {
    let endpoints = match peer {
        Peer::Known(endpoint) => vec![endpoint],
        Peer::Named(host, port) => {
            let found: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
            let place = Arc::clone(&found);
            // What is not found leaves the place empty.
            let work = move || {
                if let Ok(addresses) = resolve::look_up(&host, port) {
                    *place.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
                }
            };
            offload_to(Pool::Disks, Box::new(work)).await;
            let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
            found.into_iter().map(Endpoint::Tcp).collect()
        }
    };
    let mut last = Cause::Unresolved;
    for endpoint in endpoints {
        let peer = match &endpoint {
            Endpoint::Tcp(address) => PeerAddress::Tcp(*address),
            Endpoint::Unix(_) => PeerAddress::Unix,
        };
        match connect_from(own, &endpoint).await {
            Ok(stream) => return Ok((stream, peer)),
            Err(error) => last = Cause::of(&error),
        }
    }
    Err(last)
}
