//! What differs between the roles: what a peer's heads are.

use sluice_message::{BodyLength, Method, RequestHead, ResponseHead};

use super::Connection;
use crate::h2::head::{End, Refusal, read_response};
use crate::h2::hpack::Invalid;
use crate::h2::settings::FromServer;

/// The head a peer sends: a client's is a [`RequestHead`], a server's a [`ResponseHead`].
pub trait Peer: Sized + sealed::Sealed {}

impl Peer for RequestHead {}
impl Peer for ResponseHead {}

pub(in crate::h2) mod sealed {
    use super::{BodyLength, Connection, End, FromServer, Invalid, Method, Refusal};

    /// What [`super::Peer`] is to the connection, closed to others.
    pub trait Sealed {
        #[doc(hidden)]
        #[allow(private_interfaces, reason = "sealed: nobody outside names it")]
        const FROM: FromServer;

        #[doc(hidden)]
        #[allow(private_interfaces, reason = "sealed: nobody outside names it")]
        fn read(
            connection: &mut Connection<Self>,
            block: (&[u8], End),
            request: Method,
            head: &mut Self,
        ) -> Result<Result<(), Refusal>, Invalid>
        where
            Self: Sized;

        #[doc(hidden)]
        fn content(&self) -> BodyLength;

        #[doc(hidden)]
        fn is_final(&self) -> Final;
    }

    /// Whether another head follows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Final {
        Yes,
        No,
    }
}
pub(super) use sealed::Final;

impl sealed::Sealed for RequestHead {
    #[allow(private_interfaces, reason = "sealed: nobody outside names it")]
    const FROM: FromServer = FromServer::No;

    #[inline(always)]
    #[allow(private_interfaces, reason = "sealed: nobody outside names it")]
    fn read(
        connection: &mut Connection<Self>,
        block: (&[u8], End),
        _: Method,
        head: &mut Self,
    ) -> Result<Result<(), Refusal>, Invalid> {
        let config = &connection.config;
        let rules = (&config.limits, config.connect);
        connection.reader.read(&mut connection.decoder, block, rules, head)
    }

    #[inline(always)]
    fn content(&self) -> BodyLength {
        self.body
    }

    #[inline(always)]
    fn is_final(&self) -> Final {
        Final::Yes
    }
}

impl sealed::Sealed for ResponseHead {
    #[allow(private_interfaces, reason = "sealed: nobody outside names it")]
    const FROM: FromServer = FromServer::Yes;

    #[inline(always)]
    #[allow(private_interfaces, reason = "sealed: nobody outside names it")]
    fn read(
        connection: &mut Connection<Self>,
        block: (&[u8], End),
        request: Method,
        head: &mut Self,
    ) -> Result<Result<(), Refusal>, Invalid> {
        let rules = (&connection.config.limits, request);
        read_response(&mut connection.decoder, block, rules, head)
    }

    #[inline(always)]
    fn content(&self) -> BodyLength {
        self.body
    }

    #[inline(always)]
    fn is_final(&self) -> Final {
        if self.is_interim() { Final::No } else { Final::Yes }
    }
}
