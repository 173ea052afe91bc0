//! TLS: rustls driven right over the sockets of a thread.

mod certificate;
mod client;
mod der;
mod pace;
mod peer;
mod server;
pub(crate) mod session;
mod terms;
#[cfg(test)]
mod tests;
mod tickets;
mod words;

pub use certificate::{Certificate, fingerprint, has_certificate};
pub use client::{ClientSettings, Reuse, TlsClient, Trust};
pub use der::not_after;
pub use peer::PeerCertificate;
pub use server::{ClientCertificates, Handshake, Security, ServerSettings, TlsServer};
pub use terms::{Terms, groups, suites};
pub use tickets::TicketKeys;
pub use words::{HandshakeError, Reason, Version};
