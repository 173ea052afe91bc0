//! Where requests come from: the seam between what is sent and the engine that sends it.

use std::time::Duration;

use sluice_message::{Method, ResponseHead};

/// A plan of requests that any number of workers carry out at the same time.
pub trait Requests: Send + Sync {
    /// URLs whose scheme and authority the requests go to; at least one. Paths in them mean nothing.
    fn targets(&self) -> &[String];

    /// What a worker sends, one request after the other. Workers are counted from 0.
    fn worker(&self, number: u32) -> Box<dyn RequestSource>;

    /// What is sent first, over a single connection, outside the figures; it ends by itself.
    fn warm_up(&self) -> Option<Box<dyn RequestSource>>;
}

/// The requests of one worker, which has one request out at a time.
///
/// The engine asks for the next step only after it has told how the last request ended.
pub trait RequestSource {
    /// The next thing to do. A request is appended to `out` as it goes over the wire.
    fn next(&mut self, out: &mut Vec<u8>) -> Step;

    /// Takes a whole answer.
    fn on_response(&mut self, request: RequestMeta, reply: &Reply<'_>) -> Verdict;

    /// Takes the news that no answer came.
    fn on_failure(&mut self, request: RequestMeta, failure: Failure);
}

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send what was appended.
    Send(RequestMeta),
    /// Wait, then ask again. The wait is no part of any latency.
    Pause(Duration),
    /// Nothing is left to send.
    End,
}

/// What the engine has to know of a request, and what the source wants to hear back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestMeta {
    /// The source's own name for it; comes back unchanged.
    pub id: u32,
    /// Which of [`Requests::targets`] it goes to.
    pub target: u32,
    /// Decides whether an answer may have content (RFC 9112, 6.3).
    pub method: Method,
    /// What happens to the answer's content.
    pub content: Content,
}

/// What the engine does with an answer's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Count it; [`Reply::body`] stays empty.
    Discard,
    /// Gather it for [`Reply::body`].
    Gather,
}

/// A whole answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Status and fields.
    pub head: &'a ResponseHead,
    /// The content without its framing, if it was asked for.
    pub body: &'a [u8],
    /// Bytes of the content, gathered or not.
    pub body_length: u64,
    /// From sending to the last byte, in nanoseconds.
    pub elapsed: u64,
}

/// Whether an answer is what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is, or nothing was expected.
    Expected,
    /// The status is not.
    UnexpectedStatus,
    /// Something else in it is not.
    UnexpectedContent,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection.
    Connect,
    /// The connection ended or broke before the whole answer was there.
    Read,
    /// The request could not be sent.
    Write,
    /// The time ran out.
    Timeout,
    /// The answer is no HTTP.
    Protocol,
}
