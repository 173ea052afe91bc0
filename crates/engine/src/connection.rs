//! A client's connection: idle most of the time, and then as small as can be.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use sluice_filter::Client;
use sluice_message::{Fields, RequestHead, SpaceExhausted};
use sluice_net::tls::{PeerCertificate, Security};
use sluice_net::{Deadline, PeerAddress, Stream};
use sluice_wire::proxy::Ends;

use crate::errand::Errand;
use crate::forward::Introduction;
use crate::guard::{Refusal, Seat};
use crate::listener::ListenerState;
use crate::local::{Scope, Worker};
use crate::pace::Lines;
use crate::presence::Presence;

/// What a connection keeps between requests.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) deadline: Deadline,
    pub(crate) peer: IpAddr,
    /// What was agreed upon when it was encrypted.
    pub(crate) security: Option<Box<Security>>,
    /// The ends of the client's connection, where somebody in front passes it on.
    pub(crate) announced: Option<Box<Ends>>,
    /// What origins are told about this client, once it was asked for.
    introduction: RefCell<Option<Box<Introduction>>>,
    /// What it has used of bandwidths it is held to, once it was.
    lines: OnceCell<Box<Lines>>,
    pub(crate) served: Cell<u64>,
    pub(crate) listener: Rc<ListenerState>,
    pub(crate) worker: Rc<Worker>,
    /// What is to be done instead of what it says, where there is no client.
    pub(crate) errand: Option<Box<Errand>>,
    /// That it is there, for those that count.
    presence: Presence,
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        peer: IpAddr,
        seat: Seat,
        listener: &Rc<ListenerState>,
        worker: &Rc<Worker>,
    ) -> Self {
        Self {
            stream,
            deadline: Deadline::new(),
            peer,
            security: None,
            announced: None,
            introduction: RefCell::new(None),
            lines: OnceCell::new(),
            served: Cell::new(0),
            listener: Rc::clone(listener),
            worker: Rc::clone(worker),
            errand: None,
            presence: Presence::of_client(seat, listener, worker),
        }
    }

    /// A connection for an errand, of which nobody can tell that it is not this one. It is not counted, and is no part
    /// of the listener that this one belongs to.
    pub(crate) fn shadow(&self, stream: Stream, scope: &Scope, errand: Errand) -> Self {
        let listener = ListenerState::new(&scope.view, &scope.listener, self.worker.index);
        Self {
            stream,
            deadline: Deadline::new(),
            peer: self.peer,
            security: self.security.clone(),
            announced: self.ends().map(Box::new),
            introduction: RefCell::new(None),
            lines: OnceCell::new(),
            served: Cell::new(0),
            presence: Presence::of_nobody(&listener, &self.worker),
            listener,
            worker: Rc::clone(&self.worker),
            errand: Some(Box::new(errand)),
        }
    }

    /// The ends of the client's connection, as far as they have addresses.
    #[cold]
    pub(crate) fn ends(&self) -> Option<Ends> {
        let plain =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        match &self.announced {
            Some(ends) => Some(**ends),
            None => self
                .stream
                .addresses()
                .map(|(peer, own)| Ends { source: plain(peer), destination: plain(own) }),
        }
    }

    /// Something happens on it: a comparison, but for the first time in a second.
    #[inline]
    pub(crate) fn touch(&self) {
        self.presence.touch();
    }

    /// Counts the client, which was told by a header, among those of the listener.
    pub(crate) fn count_client(&mut self) -> Result<(), Refusal> {
        self.presence.count_client(self.peer)
    }

    /// The connection for a service: what is spoken over it, whose it is, and that it is there.
    pub(crate) fn into_client(self) -> Client {
        let peer = match self.ends() {
            Some(ends) => PeerAddress::Tcp(ends.source),
            None => PeerAddress::Unix,
        };
        Client { stream: self.stream, peer, place: Box::new(self.presence) }
    }

    /// The scheme of the URLs it was opened for.
    #[inline]
    pub(crate) fn scheme(&self) -> &'static str {
        if self.security.is_some() { "https" } else { "http" }
    }

    /// The certificate the client has shown.
    pub(crate) fn certificate(&self) -> Option<&PeerCertificate> {
        self.security.as_ref()?.peer_certificate.as_ref()
    }

    /// Tells the origin of the certificate the client has shown, where that is wanted.
    #[cold]
    pub(crate) fn show_certificate(&self, fields: &mut Fields) -> Result<(), SpaceExhausted> {
        let plan = self.listener.plan();
        match (self.certificate(), &plan.tls) {
            (Some(shown), Some(tls)) => tls.fields.push(fields, shown),
            _ => Ok(()),
        }
    }

    /// What it has used of bandwidths it is held to.
    #[cold]
    pub(crate) fn lines(&self) -> &Lines {
        self.lines.get_or_init(Box::default)
    }

    /// Tells the origin of this client, and of nobody else: see [`Introduction`].
    pub(crate) fn introduce(&self, head: &mut RequestHead) -> Result<(), SpaceExhausted> {
        let mut known = self.introduction.borrow_mut();
        match &*known {
            Some(introduction) if introduction.is_for(head) => {
                introduction.replace(&mut head.fields)
            }
            _ => {
                let introduction = Introduction::new(self.peer, self.scheme(), head)?;
                known.insert(Box::new(introduction)).replace(&mut head.fields)
            }
        }
    }
}
