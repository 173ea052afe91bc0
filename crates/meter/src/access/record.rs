//! What is known of an exchange when it is over.

use std::net::IpAddr;

use sluice_message::RequestHead;

/// One exchange, as the access log sees it. Empty names are logged as `-`.
#[derive(Clone, Copy, Debug)]
pub struct AccessRecord<'a> {
    /// Address of the client.
    pub client: IpAddr,
    /// When the request's first byte came, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Head of the request; `None` if it could not be decoded.
    pub head: Option<&'a RequestHead>,
    /// Status of the final response; 0 if none was sent.
    pub status: u16,
    /// Bytes of the request.
    pub received_bytes: u64,
    /// Bytes of the response.
    pub sent_bytes: u64,
    /// From the request's first byte to the response's last, in nanoseconds.
    pub duration_nanos: u64,
    /// Name of the route.
    pub route: &'a str,
    /// Name of the listener.
    pub listener: &'a str,
    /// How the client's connection is encrypted; `None` if it is not.
    pub tls: Option<TlsRecord<'a>>,
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Address of the server that was asked last.
    pub upstream_address: &'a str,
    /// From the request sent to the response head, in nanoseconds; `None` if there was none.
    pub upstream_nanos: Option<u64>,
    /// How often the request was sent to the upstream.
    pub attempts: u32,
    /// How a gRPC call ended ([`sluice_message::GrpcStatus::name`]); `None` for other requests.
    pub grpc_status: Option<&'static str>,
    /// Reason of the fault ([`sluice_message::FaultKind::reason`]) if there was one, or why a filter refused the
    /// request.
    pub fault: Option<&'static str>,
    /// Who the client has proved to be, if a filter asked for it.
    pub user: Option<&'a [u8]>,
    /// The variant of the route that was chosen, if a filter chose one.
    pub variant: Option<&'a str>,
}

/// How a client's connection is encrypted. Empty texts are logged as `-`.
#[derive(Clone, Copy, Debug)]
pub struct TlsRecord<'a> {
    /// The version, like "1.3".
    pub version: &'a str,
    /// The cipher suite by its IANA name.
    pub suite: &'a str,
    /// The group the key was agreed upon in.
    pub group: &'a str,
    /// Whether a ticket shortened the handshake: "yes" or "no".
    pub resumed: &'a str,
    /// The server name the client asked for.
    pub server_name: &'a str,
    /// The certificate the client has shown; `None` if it has not.
    pub client: Option<ClientRecord<'a>>,
}

/// The certificate a client has shown.
#[derive(Clone, Copy, Debug)]
pub struct ClientRecord<'a> {
    /// Its subject.
    pub subject: &'a str,
    /// The names it is for.
    pub names: &'a [String],
    /// Its SHA-256 digest in hexadecimal digits.
    pub fingerprint: &'a str,
}
