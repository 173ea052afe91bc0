//! The header by which a load balancer in front says whose connection it passes on.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use sluice_message::{Fault, FaultKind};
use sluice_net::Stream;
use sluice_wire::proxy::{Ends, HeaderError, LONGEST, Owner, decode};

use crate::answer::Level;
use crate::burst::{Exchanges, Received};
use crate::connection::Connection;
use crate::handshake::serve_encrypted;
use crate::serve::{give, serve};
use crate::streams::serve_streams;
use crate::{Beginning, ListenerPlan};

/// Why a connection is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// What came is no header.
    Header(HeaderError),
    TimedOut,
    Closed,
    /// The client has as many connections as it may.
    Crowded,
}

/// Reads the header of a connection whose peer has to send one, and serves its client.
pub(crate) async fn serve_announced(
    exchanges: Rc<Exchanges>,
    mut connection: Connection,
    timeout: Duration,
) {
    // In a box of its own: what a header needs is no burden to connections that are open.
    if let Err(trouble) = Box::pin(admit(&mut connection, timeout)).await {
        return refuse(&connection, trouble);
    }
    let plan = connection.listener.plan();
    match plan.tls.clone() {
        None if plan.service.is_some() => give(connection),
        None if plan.beginning == Beginning::Shared => {
            serve_streams(exchanges, Rc::new(connection), Received::default()).await;
        }
        None => serve(exchanges, Rc::new(connection)).await,
        Some(tls) => serve_encrypted(exchanges, connection, tls).await,
    }
}

async fn admit(connection: &mut Connection, timeout: Duration) -> Result<(), Trouble> {
    let limited = connection.deadline.limit(timeout, read_header(&connection.stream)).await;
    // Of anybody but a client, the address of the connection itself is all there is.
    if let Owner::Client(ends) = limited.unwrap_or(Err(Trouble::TimedOut))? {
        let ends = Ends { source: plain(ends.source), destination: plain(ends.destination) };
        connection.peer = ends.source.ip();
        connection.announced = Some(Box::new(ends));
    }
    connection.count_client().map_err(|_| Trouble::Crowded)
}

/// IPv4 written as IPv6 is IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Takes the header and not a byte more.
async fn read_header(stream: &Stream) -> Result<Owner, Trouble> {
    let mut room = vec![0; LONGEST];
    let mut seen = 0;
    loop {
        let arrived = poll_fn(|cx| stream.poll_peek(cx, &mut room, seen)).await;
        seen = arrived.ok().filter(|length| *length > 0).ok_or(Trouble::Closed)?;
        let there = room.get(..seen).unwrap_or_default();
        if let Some(header) = decode(there).map_err(Trouble::Header)? {
            stream.skip(header.length).map_err(|_| Trouble::Closed)?;
            return Ok(header.owner);
        }
    }
}

/// Counts and logs why nothing came of it. The connection is closed without a word: there is none that
/// its peer would understand.
fn refuse(connection: &Connection, trouble: Trouble) {
    let (listener, worker) = (&connection.listener, &connection.worker);
    let (name, peer) = (&listener.plan().name, connection.peer);
    let count = |kind| {
        worker.meters.faults().worker(worker.index).on_fault(Fault::downstream(kind));
    };
    let log = |level, what: std::fmt::Arguments<'_>| {
        worker.fault_log.write(level, format_args!("listener {name}: {what}, peer {peer}"));
    };
    match trouble {
        Trouble::Header(error) => {
            count(FaultKind::ProxyHeader);
            log(Level::Warn, format_args!("PROXY header refused: {error}"));
        }
        Trouble::TimedOut => {
            count(FaultKind::TimedOut);
            log(Level::Info, format_args!("no PROXY header in time"));
        }
        Trouble::Closed => {
            count(FaultKind::Closed);
            log(Level::Info, format_args!("closed before the PROXY header was there"));
        }
        Trouble::Crowded => {
            listener.meter().rejected_client_limit.increment();
            log(Level::Warn, format_args!("connection refused, too many from one client"));
        }
    }
}

impl ListenerPlan {
    /// How long the header of a connection of this peer may take; `None` if it has to send none.
    #[inline]
    pub(crate) fn header_timeout(&self, peer: std::net::IpAddr) -> Option<Duration> {
        let rule = self.proxy_protocol.as_ref()?;
        rule.from.contains(peer).then_some(rule.timeout)
    }
}
