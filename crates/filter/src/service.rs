//! What speaks with the clients of a listener in a protocol of its own, instead of HTTP.

use std::fmt::Debug;

use sluice_net::{PeerAddress, Stream};

/// A service: one object for all workers and all connections.
pub trait Service: Debug + Send + Sync {
    /// The worker that has to serve a connection that this one has accepted; `None` if any of them can.
    fn home(&self, worker: usize) -> Option<usize> {
        let _ = worker;
        None
    }

    /// Serves a connection on this worker, from now on until it is over; called on the thread of the worker.
    fn serve(&self, worker: usize, client: Client);
}

/// A connection that is given to a [`Service`].
pub struct Client {
    /// What it is spoken over; encrypted where the listener says so.
    pub stream: Stream,
    /// Whose it is: by the word of a load balancer in front, where there is one that is believed.
    pub peer: PeerAddress,
    /// Its place among the connections of the listener: dropped after the stream.
    pub place: Box<dyn Place>,
}

/// A connection's place among those of its listener; when it is dropped, the connection counts no longer.
pub trait Place {
    /// The service failed it.
    fn on_failure(&self);
}
