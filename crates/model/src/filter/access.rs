//! Which filters say who gets something: a cache in front of them would pass them by.

use super::FilterKind;

/// Whether a filter says who gets something. Each kind has to declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessControl {
    /// It does.
    Always,
    /// It responds itself: it does where its condition depends on the client.
    IfConditional,
    /// A script may: it does where the script has a function for requests.
    IfScripted,
    /// It does not.
    Never,
}

impl FilterKind {
    /// Whether this filter says who gets something.
    #[must_use]
    pub fn access(&self) -> AccessControl {
        match self {
            // Without rules it tells origins where clients are, and refuses nobody.
            Self::Geo(geo) if !geo.has_rules() => AccessControl::Never,
            kind => kind.declared_access(),
        }
    }
}
