//! What an expression may speak of where it stands.

/// When an expression is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request is known, the response is not.
    Request,
    /// Both are known.
    Response,
}

/// What an expression may speak of where it stands.
#[derive(Clone, Debug)]
pub struct Scope {
    phase: Phase,
    captures: Option<Vec<Box<str>>>,
}

impl Scope {
    /// For expressions read in this phase, with captures of any name.
    #[must_use]
    pub const fn new(phase: Phase) -> Self {
        Self { phase, captures: None }
    }

    /// With captures of these names alone: those that the route's path has.
    #[must_use]
    pub fn with_captures<N: Into<Box<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.captures = Some(names.into_iter().map(Into::into).collect());
        self
    }

    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The names of captures, if only some are known.
    pub(crate) fn captures(&self) -> Option<&[Box<str>]> {
        self.captures.as_deref()
    }
}
