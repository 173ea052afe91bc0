//! A request that is done for a filter and not for a client.

use std::net::IpAddr;

use sluice_filter::Notes;
use sluice_message::{RequestHead, Span};

use crate::Route;

/// A request as it was when it came, before any filter changed it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Came {
    /// The path that the route was found by, if the route has names for parts of it.
    pub(crate) path: Vec<u8>,
    /// Target, path, query and authority as the client wrote them.
    pub(crate) asked: [Span; 4],
    /// How often it had passed this process.
    pub(crate) passes: usize,
}

/// What is to be done.
pub(crate) struct Errand {
    pub(crate) head: RequestHead,
    pub(crate) came: Came,
    /// Whose request it was made for.
    pub(crate) client: IpAddr,
    pub(crate) notes: Notes,
    /// The route, with those filters that are to see it.
    pub(crate) route: Route,
}
