//! What an expression may speak of where it stands.

use crate::nearest::nearest;

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
    /// What stood in braces in earlier versions, and what is written today.
    old: &'static [(&'static str, &'static str)],
}

/// Names of redirects, from before their place was a template like others; what is written today with its closing brace.
const OF_REDIRECTS: &[(&str, &str)] = &[
    ("scheme", "request.scheme}"),
    ("host", "request.host}"),
    ("path", "request.raw_path}"),
    ("query", "request.search}"),
];

impl Scope {
    /// For expressions read in this phase, with captures of any name.
    #[must_use]
    pub const fn new(phase: Phase) -> Self {
        Self { phase, captures: None, old: &[] }
    }

    /// For the place of a redirect, with the names that it had in earlier versions.
    #[must_use]
    pub const fn of_redirects() -> Self {
        Self { phase: Phase::Request, captures: None, old: OF_REDIRECTS }
    }

    /// What is written today for what stands in braces, up to the closing one, if that is an old spelling.
    pub(crate) fn today(&self, old: &str) -> Option<&'static str> {
        self.old.iter().find(|(known, _)| *known == old).map(|(_, today)| *today)
    }

    /// What is mostly spoken of here, if that is known.
    pub(crate) fn usual(&self) -> impl Iterator<Item = &'static str> {
        self.old.iter().filter_map(|(_, today)| today.strip_suffix('}'))
    }

    /// What may be meant by a name that is nearly an old one.
    pub(crate) fn meant(&self, name: &str) -> Option<&'static str> {
        let near = nearest(name, self.old.iter().map(|(old, _)| *old))?;
        self.today(near)?.strip_suffix('}')
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
