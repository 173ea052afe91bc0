//! `silly.net.tls`: what encrypts connections.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use sluice_net::tls::{
    Certificate, ClientCertificates, ClientSettings, HandshakeError, Reuse, ServerSettings, Terms,
    TlsClient, TlsServer, Trust,
};
use sluice_net::{Deadline, Stream};

use crate::frame::{Frame, Kind, Reply, native};

native!(native_server, server);
native!(native_client, client);
native!(native_replace, replace);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 3] =
    [("tls_server", native_server), ("tls_client", native_client), ("tls_replace", native_replace)];

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Most certificates of a server, and most protocols or suites.
const MOST: usize = 256;

/// What meets clients, and may be exchanged.
pub(crate) struct Server(RefCell<TlsServer>);

impl Server {
    /// Shakes hands with a client; the protocol that was agreed upon.
    pub(crate) async fn accept(&self, stream: &mut Stream) -> Result<Option<Vec<u8>>, String> {
        let server = self.0.borrow().clone();
        match Deadline::new().limit(HANDSHAKE, server.accept(stream)).await {
            Ok(done) => done.map_err(|error| error.to_string())?,
            Err(_) => return Err(HandshakeError::timed_out().to_string()),
        }
        Ok(protocol(stream))
    }
}

/// What is to be spoken over a connection, if there was talk of it.
pub(crate) fn protocol(stream: &Stream) -> Option<Vec<u8>> {
    stream.security().and_then(|security| security.protocol)
}

/// What reaches servers.
pub(crate) struct Client(pub(crate) TlsClient);

/// The strings of a table; none if it is nil.
fn strings(frame: &Frame<'_>, index: i32) -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    if frame.kind(index) == Kind::Table {
        for at in 1..=i32::try_from(frame.elements(index).min(MOST)).unwrap_or(0) {
            frame.push_element(index, at);
            list.push(frame.bytes(-1).unwrap_or_default().to_vec());
            frame.pop();
        }
    }
    list
}

/// The certificates are `{cert, key, cert, key, ...}`, protocols and suites lists of names.
fn make(frame: &Frame<'_>, first: i32) -> Result<TlsServer, String> {
    let texts = strings(frame, first);
    let mut certificates = Vec::new();
    for pair in texts.chunks(2) {
        let [chain, key] = pair else { return Err("a certificate without its key".to_owned()) };
        certificates.push(Certificate::from_pem(chain, key)?);
    }
    if certificates.is_empty() {
        return Err("a certificate is missing".to_owned());
    }
    let suites = strings(frame, first + 2);
    let terms = Terms {
        protocols: strings(frame, first + 1),
        suites: suites.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
        ..Terms::default()
    };
    let settings =
        ServerSettings { terms, clients: ClientCertificates::Unasked, ticket_keys: None };
    TlsServer::new(&settings, &certificates)
}

/// `server(certificates, protocols, suites)`: what a listener meets its clients with, or nil and an error.
fn server(frame: &Frame<'_>) -> Reply {
    match make(frame, 1) {
        Ok(server) => frame.push_object(Rc::new(Rc::new(Server(RefCell::new(server)))), 16384),
        Err(said) => return frame.fail(said.as_bytes()),
    }
    Reply::Values(1)
}

/// `replace(server, certificates, protocols, suites)`: for connections to come.
fn replace(frame: &Frame<'_>) -> Reply {
    let Some(server) = frame.object::<Rc<Server>>(1) else {
        return frame.raise("bad argument #1: a listener is expected");
    };
    match make(frame, 2) {
        Ok(made) => {
            server.0.replace(made);
            frame.push_truth(true);
            Reply::Values(1)
        }
        Err(said) => frame.refuse(said.as_bytes()),
    }
}

/// `client(host, protocols, issuers | nil, insecure)`: what a server is reached by, or nil and an error.
fn client(frame: &Frame<'_>) -> Reply {
    let Some(host) = frame.text(1) else { return frame.raise("a host name is expected") };
    let trust = match (frame.truth(4), frame.kind(3)) {
        (true, _) => Ok(Trust::Anything),
        (false, Kind::Nil) => Ok(Trust::System),
        (false, _) => Trust::pem(frame.bytes(3).unwrap_or_default().to_vec()),
    };
    let made = trust.and_then(|trust| {
        let terms = Terms { protocols: strings(frame, 2), ..Terms::default() };
        let settings =
            ClientSettings { trust, terms, certificate: None, resumption: Reuse::Tickets };
        TlsClient::new(host.trim_start_matches('[').trim_end_matches(']'), &settings)
    });
    match made {
        Ok(client) => frame.push_object(Rc::new(Client(client)), 16384),
        Err(said) => return frame.fail(said.as_bytes()),
    }
    Reply::Values(1)
}
