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
    /// A server that was asked in vain; chosen again only if there is no other.
    pub avoid: Option<&'a Rc<Server>>,
}
