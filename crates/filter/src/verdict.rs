//! What a filter wants to happen next.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::context::{RequestContext, ResponseContext};
use crate::reply::{Ready, Reply};

/// What happens after a filter has seen the head of a request.
pub enum Verdict {
    /// The next filter, and in the end what the route says.
    Continue,
    /// The client gets this answer; no further filter sees the request.
    Respond(Box<Reply>),
    /// The same, as an answer that is given often.
    Give(Ready),
    /// The request was changed so that another route may be for it: it is looked for anew, and the filters of
    /// the route that is found are gone through from the first.
    Reroute,
    /// The filter has to wait for something. It is called back through what the future yields.
    Wait(Waiting),
    /// The filter has to see content first: up to so many bytes of it are read, kept for the origin, and
    /// put into [`RequestContext::content`] when the filter is called back. Content that is larger than what
    /// the route lets through is refused meanwhile, with 413.
    Gather(usize, Resume),
}

/// What a filter goes on with after a wait.
pub type Resume = Box<dyn FnOnce(&mut RequestContext<'_>) -> Verdict>;

/// A wait of a filter. It owns what it needs: the request cannot be looked at meanwhile.
pub type Waiting = Pin<Box<dyn Future<Output = Resume>>>;

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continue => f.write_str("Continue"),
            Self::Respond(reply) => f.debug_tuple("Respond").field(reply).finish(),
            Self::Give(ready) => f.debug_tuple("Give").field(ready).finish(),
            Self::Reroute => f.write_str("Reroute"),
            Self::Wait(_) => f.write_str("Wait"),
            Self::Gather(most, _) => f.debug_tuple("Gather").field(most).finish(),
        }
    }
}

impl Verdict {
    /// Refuses the request; see [`Reply::refusal`].
    #[must_use]
    pub fn refuse(status: u16, reason: &'static str) -> Self {
        Self::Respond(Box::new(Reply::refusal(status, reason)))
    }
}

/// What happens after a filter has seen the head of an answer.
pub enum ResponseVerdict {
    /// The next filter, and in the end the client gets it.
    Continue,
    /// The client gets this instead. Filters that come later see it as they would have seen the other.
    Replace(Box<Reply>),
    /// The filter has to wait for something. It is called back through what the future yields; content is not read
    /// meanwhile. In a box, as the others: whoever looks at answers without waiting is not to pay for its size.
    Wait(Box<ResponseWaiting>),
}

/// What a filter goes on with after a wait, once there is an answer.
pub type ResponseResume = Box<dyn FnOnce(&mut ResponseContext<'_>) -> ResponseVerdict>;

/// A wait of a filter that was shown an answer. It owns what it needs.
pub type ResponseWaiting = Pin<Box<dyn Future<Output = ResponseResume>>>;

impl fmt::Debug for ResponseVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continue => f.write_str("Continue"),
            Self::Replace(reply) => f.debug_tuple("Replace").field(reply).finish(),
            Self::Wait(_) => f.write_str("Wait"),
        }
    }
}
