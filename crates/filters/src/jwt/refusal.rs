//! Why a token is not accepted.

use std::fmt;

/// Why a token is not accepted. Nothing of the token itself is in it, so that it may be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// More than [`crate::jwt::MAX_TOKEN`] bytes.
    TooLong,
    /// It has not the form of a signed token; the text says what is wrong.
    Malformed(&'static str),
    /// It asks for something that has to be understood (`crit`) and is not.
    Critical,
    /// Its algorithm is none that is supported, `none` among them.
    UnknownAlgorithm,
    /// No key of the set has its key id.
    UnknownKey,
    /// The key is not for its algorithm.
    WrongAlgorithm,
    /// The signature does not fit.
    Signature,
    /// `exp` is over.
    Expired,
    /// `nbf` has not come.
    NotYet,
    /// `iat` has not come.
    IssuedLater,
    /// `iss` is none of those expected.
    Issuer,
    /// `aud` holds none of those expected.
    Audience,
    /// A required claim is missing.
    Missing(Box<str>),
    /// A required claim has another value.
    Claim(Box<str>),
}

impl Refusal {
    /// One word for metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::TooLong | Self::Malformed(_) | Self::Critical => "malformed",
            Self::UnknownAlgorithm | Self::WrongAlgorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYet | Self::IssuedLater => "not_yet",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Missing(_) | Self::Claim(_) => "claim",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => formatter.write_str("the token is too long"),
            Self::Malformed(what) => write!(formatter, "the token is malformed: {what}"),
            Self::Critical => formatter.write_str("the token has critical extensions"),
            Self::UnknownAlgorithm => formatter.write_str("the token's algorithm is not supported"),
            Self::UnknownKey => formatter.write_str("the token's key is not known"),
            Self::WrongAlgorithm => formatter.write_str("no key is for the token's algorithm"),
            Self::Signature => formatter.write_str("the token's signature does not fit"),
            Self::Expired => formatter.write_str("the token has expired"),
            Self::NotYet => formatter.write_str("the token is not valid yet"),
            Self::IssuedLater => formatter.write_str("the token was issued in the future"),
            Self::Issuer => formatter.write_str("the token has another issuer"),
            Self::Audience => formatter.write_str("the token is for another audience"),
            Self::Missing(claim) => write!(formatter, "the token has no claim `{claim}`"),
            Self::Claim(claim) => write!(formatter, "the token's claim `{claim}` does not fit"),
        }
    }
}
