//! Encrypted connections to servers: rustls driven right over a socket of this thread.

use std::fmt;
use std::io::{self, BufRead, ErrorKind, Write};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use crate::Stream;

#[cfg(test)]
mod tests;

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
        of_pem(&text)?;
        Ok(Self::Pem(text))
    }
}

/// How encrypted connections are opened. Every connection has a handshake of its own: none is
/// shortened by what an earlier one left behind.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// For connections to the server of this name or address, which speaks HTTP/1.1.
    ///
    /// # Errors
    /// A name no certificate can hold, or certificates that cannot be read, in words.
    pub fn new(host: &str, trust: &Trust) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| format!("\"{host}\" is no name a certificate can hold"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = match trust {
            Trust::Anything => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Credulous(provider)))
                .with_no_client_auth(),
            Trust::System => builder.with_root_certificates(system()?).with_no_client_auth(),
            Trust::Pem(text) => builder.with_root_certificates(of_pem(text)?).with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name })
    }

    /// Shakes hands over an open connection. The caller limits how long it waits.
    ///
    /// # Errors
    /// The server is not believed, speaks no TLS, or broke the connection.
    pub async fn connect(&self, stream: Stream) -> io::Result<TlsStream> {
        let session = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let session = session.map_err(io::Error::other)?;
        let (inbox, outbox) = (Vec::new(), Vec::new());
        let mut stream = TlsStream { stream, session: Box::new(session), inbox, taken: 0, outbox };
        std::future::poll_fn(|cx| stream.poll_handshake(cx)).await?;
        Ok(stream)
    }
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

fn of_pem(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|error| format!("a broken PEM text: {error}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    match roots.is_empty() {
        true => Err("no certificate is in it; it should be a PEM text".to_owned()),
        false => Ok(roots),
    }
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

/// An encrypted connection of this thread. It behaves like a [`Stream`] of plain bytes.
pub struct TlsStream {
    stream: Stream,
    session: Box<ClientConnection>,
    /// Encrypted bytes that came in.
    inbox: Vec<u8>,
    /// So many of them are decrypted.
    taken: usize,
    /// Encrypted bytes that wait for the socket.
    outbox: Vec<u8>,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Encrypted bytes taken from the socket at once: a little more than a record.
const ROOM: usize = 20 * 1024;

impl TlsStream {
    fn poll_handshake(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_flush(cx))?;
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if self.session.wants_write() {
                continue;
            }
            if ready!(self.poll_fill(cx))? == 0 {
                let what = "the server closed the connection while shaking hands";
                return Poll::Ready(Err(io::Error::new(ErrorKind::UnexpectedEof, what)));
            }
        }
    }

    /// Whether [`TlsStream::poll_read`] may have something. It makes sure that the task is woken.
    #[inline]
    pub fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        let idle = self.session.wants_read() && self.taken == self.inbox.len();
        match idle && self.outbox.is_empty() {
            true => self.stream.poll_readable(cx),
            // Decrypted bytes are there, or some have to be written first.
            false => Poll::Ready(()),
        }
    }

    /// Adds what the server has sent to `buffer`; 0 means that it sends no more.
    ///
    /// # Errors
    /// The connection or its encryption broke.
    pub fn poll_read(&mut self, cx: &Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        // What waits to be sent is flushed here too, since whoever reads waits for an answer to it.
        if let Poll::Ready(result) = self.poll_flush(cx) {
            result?;
        }
        loop {
            match self.take_plain(buffer) {
                Ok(length) => return Poll::Ready(Ok(length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // An end without a farewell: whoever reads knows whether something is missing.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(0));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }

    fn take_plain(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut reader = self.session.reader();
        let mut taken = 0;
        loop {
            let length = match reader.fill_buf() {
                Ok([]) => return Ok(taken),
                Ok(piece) => {
                    buffer.extend_from_slice(piece);
                    piece.len()
                }
                Err(_) if taken > 0 => return Ok(taken),
                Err(error) => return Err(error),
            };
            reader.consume(length);
            taken += length;
        }
    }

    /// Decrypts some of what came in, after reading more if there is nothing left; says whether there
    /// was anything. Little is decrypted at once, because the session keeps little for its taker.
    fn poll_fill(&mut self, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        if self.taken == self.inbox.len() {
            self.inbox.clear();
            self.taken = 0;
            self.inbox.reserve(ROOM);
            ready!(self.stream.poll_read(cx, &mut self.inbox))?;
        }
        let mut rest = self.inbox.get(self.taken..).unwrap_or_default();
        // No bytes at all tell the session that the connection has ended.
        let length = self.session.read_tls(&mut rest)?;
        self.taken += length;
        if let Err(error) = self.session.process_new_packets() {
            // The alert that says why; nobody waits for it to arrive.
            let _ = self.poll_flush(cx);
            return Poll::Ready(Err(in_words(&error)));
        }
        Poll::Ready(Ok(length))
    }

    /// Takes some of `bytes`, to be sent at once as far as the socket takes it. What it does not take
    /// is sent by later calls of any `poll` method.
    ///
    /// # Errors
    /// The connection broke.
    pub fn poll_write(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let taken = self.session.writer().write(bytes)?;
        if let Poll::Ready(result) = self.poll_flush(cx) {
            result?;
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.session.wants_write() {
                self.session.write_tls(&mut self.outbox)?;
            }
            if self.outbox.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let written = ready!(self.stream.poll_write(cx, &self.outbox))?;
            self.outbox.drain(..written);
        }
    }

    /// Whether the server has closed the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }
}

/// The server's certificate is not accepted, and why, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrust(String);

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server's certificate is not accepted: {}", self.0)
    }
}

impl std::error::Error for Distrust {}

fn in_words(error: &rustls::Error) -> io::Error {
    let text = match error {
        rustls::Error::InvalidCertificate(why) => {
            return io::Error::new(ErrorKind::InvalidData, Distrust(complaint(why)));
        }
        rustls::Error::InvalidMessage(_) => format!("the server does not speak TLS: {error}"),
        rustls::Error::AlertReceived(alert) => {
            format!("the server refuses the encryption: TLS alert {alert:?}")
        }
        other => other.to_string(),
    };
    io::Error::new(ErrorKind::InvalidData, text)
}

/// What is wrong with a certificate.
fn complaint(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "nobody who is trusted has issued it".to_owned(),
        CertificateError::BadSignature => "its signature is not its issuer's".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it expired {} ago", distance(*not_after, *time))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it is not valid yet, only in {}", distance(*time, *not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let name = expected.to_str();
            match presented.is_empty() {
                true => format!("it is not for \"{name}\" and names nobody else either"),
                false => format!("it is not for \"{name}\" but for {}", bare(presented)),
            }
        }
        other => other.to_string(),
    }
}

/// Names as the library shows them, like `DnsName("localhost")`, without their kind.
fn bare(names: &[String]) -> String {
    let name = |shown: &String| shown.split('"').nth(1).unwrap_or(shown).to_owned();
    names.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The time between two moments in a unit that says something.
fn distance(earlier: UnixTime, later: UnixTime) -> String {
    let seconds = later.as_secs().saturating_sub(earlier.as_secs());
    match (seconds / 86_400, seconds / 3600) {
        (0, 0) => format!("{seconds} seconds"),
        (0, hours) => format!("{hours} hours"),
        (days, _) => format!("{days} days"),
    }
}
