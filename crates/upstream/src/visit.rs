//! A request at a server, from the choice of the server to the end of the answer.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sluice_net::{Permit, Permits, Queued, Refused};

use crate::{Cluster, Server};

/// Counts a request as under way for as long as it lives: while a connection is opened, too, since a
/// server that hangs there must not look idle, and while the answer is passed on.
#[derive(Debug)]
pub struct Visit {
    cluster: Rc<Cluster>,
    server: Rc<Server>,
    /// Its room at a server with a limit.
    room: Option<Permit<Arc<Permits>>>,
}

impl Visit {
    /// Begins one.
    #[must_use]
    #[inline]
    pub fn new(cluster: &Rc<Cluster>, server: &Rc<Server>) -> Self {
        Self::with_room(cluster, server, None)
    }

    #[inline]
    fn with_room(
        cluster: &Rc<Cluster>,
        server: &Rc<Server>,
        room: Option<Permit<Arc<Permits>>>,
    ) -> Self {
        cluster.meter().active.increment();
        server.meter().active.increment();
        Self { cluster: Rc::clone(cluster), server: Rc::clone(server), room }
    }

    /// Begins one if the server has room for it.
    #[must_use]
    #[inline]
    pub fn try_new(cluster: &Rc<Cluster>, server: &Rc<Server>) -> Option<Self> {
        match if cluster.is_limited() { server.limit() } else { None } {
            None => Some(Self::new(cluster, server)),
            Some(limit) => Some(Self::with_room(cluster, server, Some(limit.try_enter()?))),
        }
    }

    /// Begins one when the server has room; the future leaves the queue when it is dropped.
    ///
    /// # Errors
    /// [`Refused::Full`]: as many wait already as may.
    pub fn queue(cluster: &Rc<Cluster>, server: &Rc<Server>) -> Result<VisitToBe, Refused> {
        let queued = server.limit().map(|limit| limit.queue()).transpose()?;
        cluster.meter().waiting.increment();
        Ok(VisitToBe { cluster: Rc::clone(cluster), server: Rc::clone(server), queued })
    }
}

/// A visit for which there may be no room yet. Counted as waiting.
#[derive(Debug)]
pub struct VisitToBe {
    cluster: Rc<Cluster>,
    server: Rc<Server>,
    /// Absent if the server has no limit any more.
    queued: Option<Queued<Arc<Permits>>>,
}

impl Future for VisitToBe {
    type Output = Visit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Visit> {
        let room = match &mut self.queued {
            None => None,
            Some(queued) => Some(ready!(Pin::new(queued).poll(cx))),
        };
        Poll::Ready(Visit::with_room(&self.cluster, &self.server, room))
    }
}

impl Drop for VisitToBe {
    fn drop(&mut self) {
        self.cluster.meter().waiting.decrement();
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
        // A connection that requests share is idle with the last of them.
        if self.room.is_some() {
            self.server.make_room();
        }
    }
}
