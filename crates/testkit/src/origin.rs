//! A scriptable origin: a thread for each connection, a closure for each request.

use std::io;
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::net::listen;

use crate::deadline::PATIENCE;
use crate::exchange::{After, Exchange, Left};
use crate::records::Shared;
use crate::request::{Inbox, Received};
use crate::response::Fields;
use crate::stream::Stream;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// What an origin does with each request. An error it returns is the gateway's going away: the connection ends.
pub type Behaviour = dyn Fn(&mut Exchange) -> io::Result<()> + Send + Sync;

/// An origin on a port of its own, stopped on drop.
pub struct Origin {
    address: String,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }
}

impl Origin {
    /// Starts an origin on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn start<B>(behaviour: B) -> Self
    where
        B: Fn(&mut Exchange) -> io::Result<()> + Send + Sync + 'static,
    {
        Self::start_at("127.0.0.1:0", behaviour)
    }

    /// Starts an origin on this address, for one that comes back on the port it had.
    ///
    /// # Panics
    /// When the address is taken.
    #[must_use]
    #[track_caller]
    pub fn start_at<B>(address: &str, behaviour: B) -> Self
    where
        B: Fn(&mut Exchange) -> io::Result<()> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind(address).expect("the origin's address is free");
        // With the 128 of the standard library hundreds of connections at once meet a full queue, and some are reset.
        listen(&listener, BACKLOG).expect("a bound socket listens");
        let address = listener.local_addr().expect("a bound socket has an address").to_string();
        Self::serve(Listener::Tcp(listener), address, Arc::new(behaviour))
    }

    /// Starts an origin on a Unix socket.
    ///
    /// # Panics
    /// When the socket cannot be made there.
    #[must_use]
    pub fn start_unix<B>(path: &Path, behaviour: B) -> Self
    where
        B: Fn(&mut Exchange) -> io::Result<()> + Send + Sync + 'static,
    {
        let listener =
            UnixListener::bind(path).expect("a socket can be made in the test's directory");
        let address = format!("unix:{}", path.display());
        Self::serve(Listener::Unix(listener), address, Arc::new(behaviour))
    }

    fn serve(listener: Listener, address: String, behaviour: Arc<Behaviour>) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &of_thread, &behaviour));
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// `127.0.0.1:38000` or `unix:/path`, as a configuration names a server.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Every request head received so far, in their order.
    ///
    /// # Panics
    /// When anything but plain, unambiguous HTTP/1.1 reached the origin.
    #[must_use]
    #[track_caller]
    pub fn requests(&self) -> Vec<Received> {
        let records = self.shared.records();
        assert!(records.complaints.is_empty(), "{:?}", records.complaints);
        records.requests.clone()
    }

    /// The last request received.
    ///
    /// # Panics
    /// When there was none.
    #[must_use]
    #[track_caller]
    pub fn last_request(&self) -> Received {
        self.requests().pop().expect("the origin has received a request")
    }

    /// What reached this origin and is not plain HTTP/1.1; empty as long as the gateway does its work.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.shared.records().complaints.clone()
    }

    /// How many requests came with their whole body.
    #[must_use]
    pub fn complete_requests(&self) -> usize {
        self.shared.records().requests.iter().filter(|request| request.complete).count()
    }

    /// How many connections were ever made.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.records().connections
    }

    /// How many connections are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.records().open.len()
    }

    /// Bytes of request bodies that sinks have read so far.
    #[must_use]
    pub fn sunk(&self) -> u64 {
        self.shared.records().sunk
    }

    /// Waits until so many requests have come; whether they have.
    #[must_use]
    pub fn wait_for_requests(&self, count: usize) -> bool {
        self.shared.wait(PATIENCE, |records| records.requests.len() >= count)
    }

    /// Waits until exactly so many connections are open; whether they are.
    #[must_use]
    pub fn wait_for_open_connections(&self, count: usize) -> bool {
        self.shared.wait(PATIENCE, |records| records.open.len() == count)
    }

    /// How many requests have come since this was asked last; what is known of them is forgotten.
    #[must_use]
    pub fn take_requests(&self) -> usize {
        self.shared.change(|records| std::mem::take(&mut records.requests).len())
    }

    /// Closes every open connection, idle ones too, as an origin does whose keep-alive time has ended.
    pub fn close_connections(&self) {
        for stream in self.shared.records().open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.change(|records| records.stopped = true);
        self.close_connections();
        // Wakes the acceptor out of `accept`.
        let woken = Stream::connect(&self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            let _ = acceptor.join();
        }
        if let Some(path) = self.address.strip_prefix("unix:") {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("address", &self.address).finish_non_exhaustive()
    }
}

fn accept(listener: &Listener, shared: &Arc<Shared>, behaviour: &Arc<Behaviour>) {
    while let Ok(stream) = listener.accept() {
        if shared.records().stopped {
            return;
        }
        let Ok(handle) = stream.try_clone() else { return };
        let number = shared.change(|records| {
            records.connections += 1;
            records.open.insert(records.connections, handle);
            records.connections
        });
        let (shared, behaviour) = (Arc::clone(shared), Arc::clone(behaviour));
        std::thread::spawn(move || {
            let closing = Closing { shared: Arc::clone(&shared), number };
            // The end of the connection, by whoever's wish, is the end of the thread.
            let _ = converse(stream, number, &shared, &behaviour);
            drop(closing);
        });
    }
}

/// Takes the connection out of the records however its thread ends.
struct Closing {
    shared: Arc<Shared>,
    number: usize,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let handle = self.shared.change(|records| records.open.remove(&self.number));
        drop(handle);
    }
}

fn converse(
    stream: Stream,
    connection: usize,
    shared: &Arc<Shared>,
    behaviour: &Arc<Behaviour>,
) -> io::Result<()> {
    let mut inbox = Inbox { stream, buffer: Vec::new() };
    for number in 1.. {
        let Some(head) = inbox.until(b"\r\n\r\n")? else { return Ok(()) };
        let parsed = Received::parse(&head).and_then(|head| Ok((head.extent()?, head)));
        let (extent, mut received) = match parsed {
            Ok(parsed) => parsed,
            Err(why) => {
                shared.complain(&why);
                return Ok(());
            }
        };
        (received.connection, received.number) = (connection, number);
        let left = Left::from(extent);
        let index = shared.change(|records| {
            records.requests.push(received.clone());
            records.requests.len() - 1
        });
        let (after, shared) = (After::Next, Arc::clone(shared));
        let awaited = received.fields.has_token("expect", "100-continue");
        let mut exchange = Exchange { received, inbox, left, after, shared, index, awaited };
        exchange.note_end();
        behaviour(&mut exchange)?;
        match exchange.after {
            // Nobody read the body and the final answer is out: the gateway need not send it.
            After::Next if exchange.awaited && exchange.left != Left::Nothing => {
                return exchange.inbox.stream.shutdown(Shutdown::Both);
            }
            After::Next => while exchange.read_some(&mut Fields::default())?.is_some() {},
            After::Close => return exchange.inbox.stream.shutdown(Shutdown::Both),
            After::Reset => {
                // The records hold a second handle: it has to go first, or this is not the last close.
                exchange.shared.change(|records| records.open.remove(&connection));
                exchange.inbox.stream.reset_on_close();
                return Ok(());
            }
        }
        inbox = exchange.inbox;
    }
    Ok(())
}

/// Holds requests at an origin until the test lets them go.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through from now on.
    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Waits for [`Self::open`], no longer than [`PATIENCE`].
    pub fn pass(&self) {
        let open = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_timeout_while(open, PATIENCE, |open| !*open));
    }
}

#[cfg(test)]
mod tests;
