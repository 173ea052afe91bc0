//! A request at a server, from the choice of the server to the end of the answer.

use std::ops::Deref;
use std::rc::Rc;

use crate::{Cluster, Server};

/// Counts a request as under way for as long as it lives: while a connection is opened, too, since a
/// server that hangs there must not look idle, and while the answer is passed on.
#[derive(Debug)]
pub struct Visit {
    cluster: Rc<Cluster>,
    server: Rc<Server>,
}

impl Visit {
    /// Begins one.
    #[must_use]
    #[inline]
    pub fn new(cluster: &Rc<Cluster>, server: &Rc<Server>) -> Self {
        cluster.meter().active.increment();
        server.meter().active.increment();
        Self { cluster: Rc::clone(cluster), server: Rc::clone(server) }
    }
}

impl Deref for Visit {
    type Target = Rc<Server>;

    #[inline]
    fn deref(&self) -> &Rc<Server> {
        &self.server
    }
}

impl Drop for Visit {
    #[inline]
    fn drop(&mut self) {
        self.cluster.meter().active.decrement();
        self.server.meter().active.decrement();
    }
}
