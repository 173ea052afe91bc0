//! Who is connected to a listener, over all workers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Limits of number for one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Requests served on one connection before it is closed.
    pub requests: u64,
    /// Connections in all.
    pub total: u32,
    /// Connections from one client: an IPv4 address, or an IPv6 network of 64 bits.
    pub per_client: u32,
    /// What becomes of a new one when there are as many in all as may be.
    pub when_full: WhenFull,
}

/// What becomes of a new connection when a listener has as many as it may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is refused.
    #[default]
    Refuse,
    /// The connections of the worker that are idle the longest are closed for it.
    CloseIdle,
}

impl ConnectionLimits {
    /// How many connections are to be closed, if they are idle, so that others have room.
    pub(crate) const fn excess(&self, total: u32) -> Option<u32> {
        match self.when_full {
            // Some at a time: choosing costs a look at each.
            WhenFull::CloseIdle if total >= self.total => Some(self.total.div_ceil(4)),
            _ => None,
        }
    }
}

/// Counts of connections. Touched when a connection opens and closes, never per request.
#[derive(Debug, Default)]
pub struct ConnectionGuard {
    total: AtomicU32,
    clients: Mutex<HashMap<IpAddr, u32>>,
}

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Listener,
    Client,
}

/// A connection's place among the counted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// Set if the client was counted too: limits may change while the connection is open.
    client: Option<IpAddr>,
}

impl ConnectionGuard {
    /// Nobody connected.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of open connections.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts a connection in, if the limits allow it. Clients are only counted where they are
    /// limited.
    pub(crate) fn enter(&self, client: IpAddr, limits: &ConnectionLimits) -> Result<Seat, Refusal> {
        if self.total.fetch_add(1, Ordering::Relaxed) >= limits.total {
            self.total.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Listener);
        }
        self.enter_client(client, limits).inspect_err(|_| {
            self.total.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Counts a connection in whose client will be told; see [`ConnectionGuard::enter_client`].
    pub(crate) fn enter_unnamed(&self, limits: &ConnectionLimits) -> Result<Seat, Refusal> {
        let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        self.enter(nobody, &ConnectionLimits { per_client: u32::MAX, ..*limits })
    }

    /// Counts the client of a connection that is counted itself.
    pub(crate) fn enter_client(
        &self,
        client: IpAddr,
        limits: &ConnectionLimits,
    ) -> Result<Seat, Refusal> {
        if limits.per_client == u32::MAX {
            return Ok(Seat { client: None });
        }
        let client = network(client);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_default();
        if *count >= limits.per_client {
            return Err(Refusal::Client);
        }
        *count += 1;
        Ok(Seat { client: Some(client) })
    }

    pub(crate) fn leave(&self, seat: Seat) {
        self.total.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = seat.client else { return };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&client);
            }
        }
    }
}

/// What counts as one client: of IPv6 the network of 64 bits, whose addresses a client may all have (RFC 4291, 2.5.1).
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let guard = ConnectionGuard::new();
        let limits =
            ConnectionLimits { requests: 1, total: 9, per_client: 2, when_full: WhenFull::Refuse };
        let enter = |address: &str| guard.enter(address.parse().unwrap(), &limits);
        let first = enter("2001:db8:0:1::1").unwrap();
        enter("2001:db8:0:1:ffff:ffff:ffff:ffff").unwrap();
        assert_eq!(enter("2001:db8:0:1::2"), Err(Refusal::Client));
        enter("2001:db8:0:2::1").unwrap();
        guard.leave(first);
        enter("2001:db8:0:1::3").unwrap();
        // IPv4 written as IPv6 is an address of its own.
        for address in ["::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2"] {
            enter(address).unwrap();
        }
        assert_eq!(enter("::ffff:10.0.0.1"), Err(Refusal::Client));
    }

    #[test]
    fn limits_hold_and_places_come_back() {
        let guard = ConnectionGuard::new();
        let limits =
            ConnectionLimits { requests: 1, total: 3, per_client: 2, when_full: WhenFull::Refuse };
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let two: IpAddr = "10.0.0.2".parse().unwrap();
        let first = guard.enter(one, &limits).unwrap();
        guard.enter(one, &limits).unwrap();
        assert_eq!(guard.enter(one, &limits), Err(Refusal::Client));
        guard.enter(two, &limits).unwrap();
        assert_eq!(guard.enter(two, &limits), Err(Refusal::Listener));
        assert_eq!(guard.total(), 3);
        assert_eq!(guard.enter_unnamed(&limits), Err(Refusal::Listener));
        guard.leave(first);
        assert!(guard.enter_unnamed(&limits).is_ok());
        assert_eq!(guard.enter_client(one, &limits), Ok(Seat { client: Some(one) }));
        assert_eq!(guard.enter_client(one, &limits), Err(Refusal::Client));
        assert_eq!(guard.total(), 3);
    }
}
