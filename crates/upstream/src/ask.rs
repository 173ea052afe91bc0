//! What the choice of a server may depend on.

use std::net::IpAddr;
use std::rc::Rc;

use sluice_message::RequestHead;

use crate::Server;

/// What the choice of a server may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The request.
    pub head: &'a RequestHead,
    /// Whose it is.
    pub client: IpAddr,
    /// Servers that were asked in vain; chosen again only if there is no other.
    pub avoid: &'a [Rc<Server>],
}

impl Ask<'_> {
    /// Whether this server was asked in vain.
    #[must_use]
    pub fn avoids(&self, server: &Rc<Server>) -> bool {
        self.avoid.iter().any(|avoided| Rc::ptr_eq(avoided, server))
    }
}
