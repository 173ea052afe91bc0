//! Encrypted connections to servers.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use super::certificate::{Certificate, certificates};
use super::session::{Broken, Session};
use super::terms::Terms;
use super::words::{HandshakeError, Peer};
use crate::Stream;

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those the system trusts.
    System,
    /// Those of this PEM text.
    Pem(Vec<u8>),
    /// Everybody's: the connection is encrypted, but to whom is not known.
    Anything,
}

impl Trust {
    /// The certificates of a PEM text.
    ///
    /// # Errors
    /// There are none in it, or one cannot be read, in words.
    pub fn pem(text: Vec<u8>) -> Result<Self, String> {
        roots(&text)?;
        Ok(Self::Pem(text))
    }
}

/// How connections to servers are opened.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSettings {
    /// Whose certificates are believed.
    pub trust: Trust,
    /// What may be agreed upon.
    pub terms: Terms,
    /// The certificate shown to servers that want to see one.
    pub certificate: Option<Certificate>,
    /// Whether a handshake may be shortened by what an earlier one left behind.
    pub resumption: Reuse,
}

/// Whether handshakes may be shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Every connection has a handshake of its own.
    Never,
    /// A server that gave out a ticket is shown it.
    Tickets,
}

impl ClientSettings {
    /// For servers that speak HTTP/1.1, with a handshake for each connection.
    #[must_use]
    pub fn new(trust: Trust) -> Self {
        let terms = Terms { protocols: vec![b"http/1.1".to_vec()], ..Terms::default() };
        Self { trust, terms, certificate: None, resumption: Reuse::Never }
    }
}

/// How encrypted connections are opened. Clones share the tickets of servers.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl PartialEq for TlsClient {
    /// Whether connections of the one are as good as those of the other: the same settings, in the same
    /// place, and the same name.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Servers whose tickets are kept.
const TICKETS: usize = 256;

impl TlsClient {
    /// For connections to the server of this name or address.
    ///
    /// # Errors
    /// A name no certificate can hold, or certificates that cannot be read, in words.
    pub fn new(host: &str, settings: &ClientSettings) -> Result<Self, String> {
        let name = server_name(host)?;
        let provider = Arc::new(settings.terms.provider()?);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&settings.terms.versions())
            .map_err(|error| error.to_string())?;
        let builder = match &settings.trust {
            Trust::Anything => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Credulous(provider)))
            }
            Trust::System => builder.with_root_certificates(system()?),
            Trust::Pem(text) => builder.with_root_certificates(roots(text)?),
        };
        let mut config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let only = SingleCertAndKey::from(Arc::clone(&certificate.key));
                builder.with_client_cert_resolver(Arc::new(only))
            }
        };
        config.alpn_protocols.clone_from(&settings.terms.protocols);
        config.resumption = match settings.resumption {
            Reuse::Never => Resumption::disabled(),
            Reuse::Tickets => Resumption::in_memory_sessions(TICKETS),
        };
        Ok(Self { config: Arc::new(config), name })
    }

    /// The same for a server of another name. Tickets are kept by name.
    ///
    /// # Errors
    /// A name no certificate can hold.
    pub fn with_name(&self, host: &str) -> Result<Self, String> {
        Ok(Self { config: Arc::clone(&self.config), name: server_name(host)? })
    }

    /// The same for a connection that has to speak HTTP/1.1.
    #[must_use]
    pub fn for_http1(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { config: Arc::new(config), name: self.name.clone() }
    }

    /// The same with tickets of its own: like another client that knows the server equally little.
    #[must_use]
    pub fn with_own_tickets(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(1);
        Self { config: Arc::new(config), name: self.name.clone() }
    }

    /// Shakes hands over an open connection. The caller limits how long it waits.
    ///
    /// # Errors
    /// The server is not believed, speaks no TLS, or broke the connection.
    pub async fn connect(&self, mut stream: Stream) -> Result<Stream, HandshakeError> {
        let failed = |broken: Broken| HandshakeError::new(Peer::Server, &broken);
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let connection = connection.map_err(|error| failed(Broken::Refused(error)))?;
        let mut session = Box::new(RefCell::new(Session::new(Connection::Client(connection))));
        let done = poll_fn(|cx| session.get_mut().poll_handshake(stream.socket(), cx)).await;
        done.map_err(failed)?;
        stream.encrypt(session);
        Ok(stream)
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    let name = ServerName::try_from(host.to_owned());
    name.map_err(|_| format!("\"{host}\" is no name a certificate can hold"))
}

fn system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(found.certs);
    if good > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
    Err(format!("the system has no certificates to trust{why}"))
}

/// The certificates of a PEM text, to be believed.
pub(crate) fn roots(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// Believes every certificate, but not that somebody has a key who has not.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
