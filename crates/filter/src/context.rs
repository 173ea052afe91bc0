//! What a filter sees of an exchange, and may change.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use sluice_expression::{Subject, Word};
use sluice_message::{RequestHead, ResponseHead};

use crate::{Body, Content, Gateway, Notes, SharedBytes};

/// Everything that can be read of an exchange: what conditions and templates look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The request as it is now.
    pub request: &'a RequestHead,
    /// The answer, once there is one.
    pub response: Option<&'a ResponseHead>,
    /// The client: whom trusted proxies name, or who opened the connection.
    pub client: IpAddr,
    /// What filters found out.
    pub notes: &'a Notes,
    /// Facts about connection and route.
    pub gateway: &'a dyn Gateway,
}

/// The name of the note that holds the identifier of a request.
pub const REQUEST_ID: &str = "request.id";

impl Subject for View<'_> {
    #[inline]
    fn request(&self) -> &RequestHead {
        self.request
    }

    #[inline]
    fn response(&self) -> Option<&ResponseHead> {
        self.response
    }

    fn client(&self) -> IpAddr {
        self.client
    }

    fn peer(&self) -> IpAddr {
        self.gateway.peer()
    }

    fn port(&self) -> u16 {
        self.gateway.port()
    }

    fn word(&self, word: Word) -> Option<Cow<'_, [u8]>> {
        let gateway = self.gateway;
        let text = |text: &str| (!text.is_empty()).then(|| Cow::Owned(text.as_bytes().to_vec()));
        let borrowed = match word {
            Word::Scheme => gateway.scheme().as_bytes(),
            Word::RequestId => self.notes.get(REQUEST_ID)?,
            Word::Listener => gateway.listener().as_bytes(),
            Word::Route => gateway.route().as_bytes(),
            Word::User => self.notes.user()?,
            Word::Variant => self.notes.variant()?.as_bytes(),
            Word::TlsVersion => return text(gateway.encryption()?.version),
            Word::TlsCipher => return text(gateway.encryption()?.suite),
            Word::TlsServerName => return text(gateway.encryption()?.server_name),
            Word::TlsResumed if gateway.encryption()?.resumed == "yes" => b"true",
            Word::TlsResumed => b"false",
            Word::CertificateSubject => return text(gateway.certificate()?.subject),
            Word::CertificateNames => return text(&gateway.certificate()?.names.join(",")),
            Word::CertificateFingerprint => return text(gateway.certificate()?.fingerprint),
        };
        Some(Cow::Borrowed(borrowed))
    }

    fn capture(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.gateway.capture(name)
    }

    fn claim(&self, path: &[Box<str>]) -> Option<Cow<'_, [u8]>> {
        self.notes.claims()?.claim(path)
    }

    fn note(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.notes.get(name).map(Cow::Borrowed)
    }

    fn unix_ms(&self) -> u64 {
        self.gateway.unix_ms()
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("client", &self.client).finish_non_exhaustive()
    }
}

/// The head of a request on its way to what answers it.
pub struct RequestContext<'a> {
    /// The head. The decoder let it through: what is changed in it has to keep its rules.
    pub request: &'a mut RequestHead,
    /// The client: whom trusted proxies name, or who opened the connection.
    pub client: IpAddr,
    /// What filters found out.
    pub notes: &'a mut Notes,
    /// What the gateway lends.
    pub gateway: &'a dyn Gateway,
    /// Content that was asked for with [`crate::Verdict::Gather`]; empty before.
    pub content: Content<'a>,
}

impl RequestContext<'_> {
    /// All that can be read.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View {
            request: self.request,
            response: None,
            client: self.client,
            notes: self.notes,
            gateway: self.gateway,
        }
    }
}

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An origin.
    Origin,
    /// The gateway, as the route or a filter says.
    Gateway,
    /// The gateway, because something failed or the request was refused.
    Fault,
}

/// Content of an answer, where all of it is in memory when its head is shown.
#[derive(Clone, Copy, Debug)]
pub enum Whole<'a> {
    /// It is not: it is still to come, or made while it is sent.
    Unknown,
    /// These bytes.
    Bytes(&'a [u8]),
    /// These, which other answers may have too.
    Shared(&'a SharedBytes),
}

impl<'a> Whole<'a> {
    /// Content that is in memory.
    #[must_use]
    pub const fn of(body: &'a Body) -> Self {
        match body {
            Body::Bytes(bytes) => Self::Bytes(bytes.as_slice()),
            Body::Shared(bytes) => Self::Shared(bytes),
            Body::Stream(_) => Self::Unknown,
        }
    }

    /// The bytes, if they are there.
    #[must_use]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Unknown => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::Shared(bytes) => Some(bytes),
        }
    }
}

/// What the filters behind the one that is asked, which see the answer before it, may do with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing.
    Nothing,
    /// Look on while it passes.
    Watches,
    /// Change it.
    Alters,
}

/// The head of an answer on its way to the client.
pub struct ResponseContext<'a> {
    /// The request as it went to what answered it.
    pub request: &'a RequestHead,
    /// The head. What is changed in it has to keep its rules.
    pub response: &'a mut ResponseHead,
    /// Who gave it.
    pub source: Source,
    /// Its content before any filter has changed it, if that is in memory.
    pub whole: Whole<'a>,
    /// What may become of the content until this filter gets it.
    pub behind: Behind,
    /// The client.
    pub client: IpAddr,
    /// What filters found out.
    pub notes: &'a mut Notes,
    /// What the gateway lends.
    pub gateway: &'a dyn Gateway,
}

impl ResponseContext<'_> {
    /// All that can be read.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View {
            request: self.request,
            response: Some(self.response),
            client: self.client,
            notes: self.notes,
            gateway: self.gateway,
        }
    }
}

/// An exchange that is over.
pub struct DoneContext<'a> {
    /// What became of it: the status the client got, 499 if it did not wait.
    pub status: u16,
    /// From the first byte of the request to the last of the answer, in nanoseconds.
    pub nanos: u64,
    /// From sending the request to an origin to the head of its answer, in nanoseconds, if one answered.
    pub upstream_nanos: Option<u64>,
    /// What filters found out.
    pub notes: &'a Notes,
    /// Number of the worker, from 0.
    pub worker: usize,
}
