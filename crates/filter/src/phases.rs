//! When a filter is called.

use std::ops::BitOr;

/// A part of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request's head.
    RequestHead,
    /// The request's content.
    RequestBody,
    /// The answer's head.
    ResponseHead,
    /// The answer's content.
    ResponseBody,
    /// The end.
    Done,
}

/// A set of [`Phase`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases(u8);

impl Phases {
    /// No phase: a filter that has nothing to do.
    pub const NONE: Self = Self(0);
    /// [`Phase::RequestHead`] alone.
    pub const REQUEST_HEAD: Self = Self(1);
    /// [`Phase::RequestBody`] alone.
    pub const REQUEST_BODY: Self = Self(1 << 1);
    /// [`Phase::ResponseHead`] alone.
    pub const RESPONSE_HEAD: Self = Self(1 << 2);
    /// [`Phase::ResponseBody`] alone.
    pub const RESPONSE_BODY: Self = Self(1 << 3);
    /// [`Phase::Done`] alone.
    pub const DONE: Self = Self(1 << 4);

    /// Whether a phase of the request is among them.
    #[must_use]
    pub const fn act_on_requests(self) -> bool {
        self.0 & (Self::REQUEST_HEAD.0 | Self::REQUEST_BODY.0) != 0
    }

    /// Whether the phase is among them.
    #[must_use]
    pub const fn contain(self, phase: Phase) -> bool {
        let bit = match phase {
            Phase::RequestHead => Self::REQUEST_HEAD,
            Phase::RequestBody => Self::REQUEST_BODY,
            Phase::ResponseHead => Self::RESPONSE_HEAD,
            Phase::ResponseBody => Self::RESPONSE_BODY,
            Phase::Done => Self::DONE,
        };
        self.0 & bit.0 != 0
    }
}

/// What becomes of the phases of the request of a filter whose condition is about the response: nobody knows yet
/// whether the filter is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseCondition {
    /// The filter does not do what it is for without them: such a condition is refused.
    Refused,
    /// They are left out; what the filter does in the phases of the response is enough.
    ResponseAlone,
    /// The head of every request is shown to it: there it prepares what it may have to do to the response, and
    /// neither refuses nor answers.
    Prepared,
}

impl BitOr for Phases {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
