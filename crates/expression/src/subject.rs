//! Whom an expression asks: the exchange it is judged for.

use std::borrow::Cow;
use std::net::IpAddr;

use sluice_message::{RequestHead, ResponseHead};

use crate::needs::Need;

/// A fact of one text that no head holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// `request.scheme`: `http` or `https`, as the client sent the request.
    Scheme,
    /// `request.id`: the identifier that the request was given or brought.
    RequestId,
    /// `connection.listener`: the listener's name.
    Listener,
    /// `tls.version`: `1.3`; absent without TLS, as all of `tls`.
    TlsVersion,
    /// `tls.cipher`: the name of the cipher suite.
    TlsCipher,
    /// `tls.server_name`: the name the client asked for (SNI).
    TlsServerName,
    /// `tls.resumed`, a truth: `true` if the session was resumed, anything else if not.
    TlsResumed,
    /// `certificate.subject`: the subject of the client's certificate, once it was verified.
    CertificateSubject,
    /// `certificate.names`: its DNS names and URIs, with commas between them.
    CertificateNames,
    /// `certificate.fingerprint`: the SHA-256 of it, in lower-case hexadecimal.
    CertificateFingerprint,
    /// `route.id`: the route's name.
    Route,
    /// `auth.user`: who the request is from, as a filter found out.
    User,
    /// `canary.variant`: the variant that was chosen.
    Variant,
}

impl Word {
    /// What has to be done before it is known.
    pub(crate) const fn need(self) -> Option<Need> {
        match self {
            Self::CertificateSubject | Self::CertificateNames | Self::CertificateFingerprint => {
                Some(Need::Certificate)
            }
            Self::User => Some(Need::Auth),
            Self::Variant => Some(Need::Variant),
            Self::RequestId => Some(Need::RequestId),
            _ => None,
        }
    }

    /// Whether two requests for the same URL may differ in it because of who sends them.
    pub(crate) const fn is_of_client(self) -> bool {
        match self {
            Self::Scheme | Self::RequestId | Self::Route => false,
            Self::Listener
            | Self::TlsVersion
            | Self::TlsCipher
            | Self::TlsServerName
            | Self::TlsResumed
            | Self::CertificateSubject
            | Self::CertificateNames
            | Self::CertificateFingerprint
            | Self::User
            | Self::Variant => true,
        }
    }
}

/// An exchange, as expressions see it. What is not known is absent: `None`.
pub trait Subject {
    /// The head of the request, as it is now.
    fn request(&self) -> &RequestHead;

    /// The head of the response, once there is one.
    fn response(&self) -> Option<&ResponseHead>;

    /// The client's address: behind trusted proxies the one they name.
    fn client(&self) -> IpAddr;

    /// The address at the other end of the connection.
    fn peer(&self) -> IpAddr;

    /// The port at the other end of the connection.
    fn port(&self) -> u16;

    /// Any other fact of one text.
    fn word(&self, word: Word) -> Option<Cow<'_, [u8]>>;

    /// The text that a named segment or group of the route's path stands for.
    fn capture(&self, name: &str) -> Option<Cow<'_, [u8]>>;

    /// The claim of a verified token at this path: a string as it is, everything else as its JSON.
    fn claim(&self, path: &[Box<str>]) -> Option<Cow<'_, [u8]>>;

    /// What a filter noted under this name.
    fn note(&self, name: &str) -> Option<Cow<'_, [u8]>>;

    /// Milliseconds since 1970.
    fn unix_ms(&self) -> u64;
}
