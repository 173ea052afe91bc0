//! What an expression reads, so that it is judged when that is known and nobody works it out in vain.

/// Something that is not known of every request from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `response.*`: the head of the response.
    Response,
    /// `auth.*`: whoever authenticates has to have done so.
    Auth,
    /// `canary.variant`: the variant has to be chosen.
    Variant,
    /// `note.*`: another filter has to have left it.
    Note,
    /// `capture.*`: named segments and groups of the route's path.
    Capture,
    /// `certificate.*`: what the client's certificate says.
    Certificate,
    /// `time.*`: the clock.
    Clock,
    /// `request.id`: one has to be made or taken over.
    RequestId,
    /// Who sends the request, and by which connection: `client.*`, `connection.*`, `tls.*`, `certificate.*`,
    /// `auth.*`, `request.header.*`, `request.cookie.*`, `note.*`. Two requests for the same URL may differ in it.
    Client,
}

impl Need {
    const fn bit(self) -> u16 {
        match self {
            Self::Response => 1,
            Self::Auth => 1 << 1,
            Self::Variant => 1 << 2,
            Self::Note => 1 << 3,
            Self::Capture => 1 << 4,
            Self::Certificate => 1 << 5,
            Self::Clock => 1 << 6,
            Self::RequestId => 1 << 7,
            Self::Client => 1 << 8,
        }
    }
}

/// All that an expression needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u16);

impl Needs {
    /// Whether this is among it.
    #[must_use]
    pub const fn has(self, need: Need) -> bool {
        self.0 & need.bit() != 0
    }

    /// What this and the other need.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn add(&mut self, need: Need) {
        self.0 |= need.bit();
    }
}
