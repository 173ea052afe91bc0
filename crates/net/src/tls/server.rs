//! Encrypted connections of clients.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::{Connection, HandshakeKind, ProtocolVersion, ServerConfig, ServerConnection};

use super::certificate::{Certificate, Shelf};
use super::client::roots;
use super::pace;
use super::peer::PeerCertificate;
use super::session::{Broken, Session};
use super::terms::{Terms, group_name, suite_name};
use super::tickets::{TicketKeys, Tickets};
use super::words::{HandshakeError, Peer, Version};
use crate::Stream;

/// What is asked of clients to prove who they are. Issuers are given as a PEM text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Nothing.
    #[default]
    Unasked,
    /// A client may show a certificate of one of these issuers; one of somebody else is refused.
    Optional(Vec<u8>),
    /// A client has to show a certificate of one of these issuers.
    Required(Vec<u8>),
}

/// How clients are met.
#[derive(Clone, Debug, Default)]
pub struct ServerSettings {
    /// What may be agreed upon.
    pub terms: Terms,
    /// What is asked of clients.
    pub clients: ClientCertificates,
    /// The keys of session tickets; absent: made at random, and replaced every six hours.
    pub ticket_keys: Option<Arc<TicketKeys>>,
}

/// Meets clients. Shared by all threads.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    shelf: Arc<Shelf>,
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").field("shelf", &self.shelf).finish_non_exhaustive()
    }
}

impl TlsServer {
    /// With these certificates, the first of which is for clients that name nobody who is known.
    ///
    /// # Errors
    /// Settings that contradict each other, or issuers that cannot be read, in words.
    pub fn new(settings: &ServerSettings, list: &[Certificate]) -> Result<Self, String> {
        let provider = Arc::new(settings.terms.provider()?);
        let verifier = verifier(&settings.clients, &provider)?;
        let shelf = Arc::new(Shelf::default());
        shelf.replace(list);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&settings.terms.versions())
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::<Shelf>::clone(&shelf));
        // The order of the suites is ours; a client that cannot go by it has others in common with us.
        config.ignore_client_order = true;
        config.alpn_protocols.clone_from(&settings.terms.protocols);
        // Tickets are kept by the clients: nothing to share, nothing that grows.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ticketer(settings)?;
        Ok(Self { config: Arc::new(config), shelf })
    }

    /// Shows other certificates from now on. Nothing happens to connections that are open.
    pub fn replace(&self, list: &[Certificate]) {
        self.shelf.replace(list);
    }

    /// Shakes hands with a client. The caller limits how long it waits.
    ///
    /// # Errors
    /// The client speaks no TLS or left, nothing in common, a certificate that is not accepted.
    pub async fn accept(&self, stream: &mut Stream) -> Result<(), HandshakeError> {
        let failed = |broken: Broken| HandshakeError::new(Peer::Client, &broken);
        let connection = ServerConnection::new(Arc::clone(&self.config));
        let connection = connection.map_err(|error| failed(Broken::Refused(error)))?;
        poll_fn(|cx| stream.poll_readable(cx)).await;
        // Only now there is something to compute.
        pace::begin().await;
        let mut session = Box::new(RefCell::new(Session::new(Connection::Server(connection))));
        let done = poll_fn(|cx| session.get_mut().poll_handshake(stream.socket(), cx)).await;
        done.map_err(failed)?;
        stream.encrypt(session);
        Ok(())
    }
}

fn verifier(
    clients: &ClientCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let build = |issuers: &[u8]| {
        let issuers = Arc::new(roots(issuers)?);
        Ok::<_, String>(WebPkiClientVerifier::builder_with_provider(issuers, Arc::clone(provider)))
    };
    let builder = match clients {
        ClientCertificates::Unasked => return Ok(Arc::new(NoClientAuth)),
        ClientCertificates::Optional(issuers) => build(issuers)?.allow_unauthenticated(),
        ClientCertificates::Required(issuers) => build(issuers)?,
    };
    builder.build().map_err(|error| error.to_string())
}

fn ticketer(settings: &ServerSettings) -> Result<Arc<dyn ProducesTickets>, String> {
    let Some(keys) = &settings.ticket_keys else {
        return aws_lc_rs::Ticketer::new().map_err(|error| error.to_string());
    };
    let bound_to = match &settings.clients {
        ClientCertificates::Unasked => Vec::new(),
        ClientCertificates::Optional(issuers) => [b"optional ", issuers.as_slice()].concat(),
        ClientCertificates::Required(issuers) => [b"required ", issuers.as_slice()].concat(),
    };
    Ok(Arc::new(Tickets::new(keys, &bound_to)))
}

/// What was agreed upon in a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    /// The version of TLS.
    pub version: Version,
    /// The cipher suite, as IANA writes it.
    pub suite: &'static str,
    /// The group the key was agreed upon in; absent if an earlier key was used.
    pub group: Option<&'static str>,
    /// Whether the handshake was shortened.
    pub handshake: Handshake,
    /// The protocol to be spoken over it; absent if there was no talk of it.
    pub protocol: Option<Vec<u8>>,
    /// The server name the client asked for; absent if it named none, and on our own connections.
    pub server_name: Option<String>,
    /// The certificate the peer has shown.
    pub peer_certificate: Option<PeerCertificate>,
}

/// How a connection began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// With everything.
    Full,
    /// Shortened by what an earlier one left behind.
    Resumed,
}

impl Stream {
    /// What was agreed upon; absent if the connection is not encrypted.
    #[must_use]
    pub fn security(&self) -> Option<Security> {
        self.session().map(|session| read(&session))
    }
}

fn read(session: &Session) -> Security {
    let connection = session.connection();
    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
        _ => Version::Tls13,
    };
    let server_name = match connection {
        Connection::Server(connection) => connection.server_name().map(str::to_owned),
        Connection::Client(_) => None,
    };
    let handshake = match connection.handshake_kind() {
        Some(HandshakeKind::Resumed) => Handshake::Resumed,
        _ => Handshake::Full,
    };
    let shown = connection.peer_certificates().and_then(<[_]>::first);
    Security {
        version,
        suite: connection.negotiated_cipher_suite().map_or("unknown", |it| suite_name(&it)),
        group: connection.negotiated_key_exchange_group().map(group_name),
        handshake,
        protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
        server_name,
        peer_certificate: shown.map(|certificate| PeerCertificate::new(certificate)),
    }
}
