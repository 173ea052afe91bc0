//! The beginning of an encrypted connection.

use std::future::poll_fn;
use std::rc::Rc;

use sluice_conn::linger;
use sluice_meter::HandshakeMeter;
use sluice_net::tls::{Handshake, HandshakeError, Reason, Security, Version};

use crate::answer::Level;
use crate::burst::{Exchanges, Received};
use crate::connection::Connection;
use crate::serve::{give, serve};
use crate::streams::serve_streams;
use crate::{Beginning, ListenerTls};

/// What somebody is told who sends a request without encryption, in the one way that is understood.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
    content-length: 64\r\nconnection: close\r\n\r\n\
    400 Bad Request: this port speaks HTTPS, the request came plain\n";

/// Shakes hands with a client, and serves it.
pub(crate) async fn serve_encrypted(
    exchanges: Rc<Exchanges>,
    mut connection: Connection,
    tls: ListenerTls,
) {
    // In a box of its own: what a handshake needs is no burden to connections that are open.
    match Box::pin(shake_hands(&mut connection, &tls)).await {
        Ok(()) if connection.listener.plan().service.is_some() => give(connection),
        Ok(()) if is_shared(&connection) => {
            Box::pin(serve_streams(exchanges, Rc::new(connection), Received::default())).await;
        }
        Ok(()) => serve(exchanges, Rc::new(connection)).await,
        Err(error) => Box::pin(refuse(&connection, &error)).await,
    }
}

/// Whether it was agreed that the connection carries many requests at once (RFC 9113, 3.2).
fn is_shared(connection: &Connection) -> bool {
    let security = connection.security.as_ref();
    connection.listener.plan().beginning == Beginning::Shared
        || security.is_some_and(|security| security.protocol.as_deref() == Some(b"h2"))
}

async fn shake_hands(connection: &mut Connection, tls: &ListenerTls) -> Result<(), HandshakeError> {
    let Connection { stream, deadline, .. } = connection;
    let done = deadline.limit(tls.timeout, tls.server.accept(stream)).await;
    done.unwrap_or_else(|_| Err(HandshakeError::timed_out()))?;
    if let Some(security) = stream.security() {
        count(&connection.listener.meter().handshakes, &security);
        connection.security = Some(Box::new(security));
    }
    Ok(())
}

fn count(meter: &HandshakeMeter, security: &Security) {
    let [old, new] = match security.handshake {
        Handshake::Full => &meter.full,
        Handshake::Resumed => &meter.resumed,
    };
    match security.version {
        Version::Tls12 => old.increment(),
        Version::Tls13 => new.increment(),
    }
}

/// Counts and logs why nothing came of it. The client has been told in the words of TLS; it gets the
/// time to read them.
async fn refuse(connection: &Connection, error: &HandshakeError) {
    let listener = &connection.listener;
    listener.meter().handshakes.on_failure(error.reason.index());
    let level = if error.reason == Reason::Closed { Level::Info } else { Level::Warn };
    let (name, peer) = (&listener.plan().name, connection.peer);
    let line = format_args!("listener {name}: TLS handshake failed: {error}, client {peer}");
    connection.worker.fault_log.write(level, line);
    if error.reason == Reason::PlainHttp {
        // It fits into the socket, which was never written to.
        let _ = poll_fn(|cx| connection.stream.poll_write(cx, PLAIN)).await;
    }
    if !matches!(error.reason, Reason::Closed | Reason::TimedOut) {
        linger(&connection.stream, &connection.deadline).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_meter::{HANDSHAKE_REASONS, TLS_VERSIONS};

    #[test]
    fn every_reason_is_counted_under_its_word() {
        let words = Reason::ALL.map(Reason::word);
        assert_eq!(words, HANDSHAKE_REASONS);
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), at);
        }
        assert_eq!([Version::Tls12, Version::Tls13].map(Version::name), TLS_VERSIONS);
    }

    #[test]
    fn the_answer_to_plain_requests_has_its_length() {
        let text = std::str::from_utf8(PLAIN).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
