//! The contract between the gateway and what may look at and change requests on their way: filters.
//!
//! A [`Filter`] is one object for all workers and all requests. It says in which [`Phases`] of an exchange it
//! takes part, and is called in those alone: natively, and later the same way from Lua and by proxy-wasm, whose
//! phases these are. What it may do beyond changing heads the [`Gateway`] lends it; connections it never sees.
//!
//! Filters of a route form a [`Chain`]. Towards the origin it is gone through in the order of the configuration,
//! towards the client the other way round, so that the first filter is the outermost one.

mod body;
mod chain;
mod context;
mod fetcher;
mod gateway;
mod notes;
mod owner;
mod phases;
mod reply;
mod service;
mod throttle;
mod transform;
mod verdict;

pub use body::{Body, BodySource, Piece, SharedBytes};
pub use chain::{
    Chain, Entry, Interrupted, LONGEST, Link, Pause, Paused, PausedResponse, Progress, Shown,
};
pub use context::{
    Behind, DoneContext, REQUEST_ID, RequestContext, ResponseContext, Source, View, Whole,
};
pub use fetcher::{Fetcher, LentFetcher, fetcher};
pub use gateway::{
    Beside, Certificate, Computation, Elsewhere, Encryption, Fetch, FetchFault, Fetched, Fetching,
    Gateway, Level, Local, compute,
};
pub use notes::{Claims, Held, Notes};
pub use owner::Owner;
pub use phases::{Phase, Phases, ResponseCondition};
pub use reply::{Content, Ready, Reply, phrase};
pub use service::{Client, Place, Service};
pub use throttle::{Bandwidth, Throttle, Way};
pub use transform::{Broken, Pipeline, Transform};
pub use verdict::{ResponseResume, ResponseVerdict, ResponseWaiting, Resume, Verdict, Waiting};

use std::fmt::Debug;

/// Something that looks at requests and answers on their way, and may change them or answer itself.
///
/// All methods but [`Filter::phases`] have a default that does nothing; the ones of phases that are not named
/// are never called. A panic in any of them costs the request it happened in: it is answered with 500.
pub trait Filter: Debug + Send + Sync {
    /// When it is to be called. Asked once, when the chain is built.
    fn phases(&self) -> Phases;

    /// What a condition about the response makes of its phases of the request. Asked when the configuration is
    /// read, and only of a filter that has such phases. A kind that says nothing is refused with such a condition:
    /// left out silently, a filter that authenticates would let everybody in.
    fn response_condition(&self) -> ResponseCondition {
        ResponseCondition::Refused
    }

    /// Names of parameters of the query that hold secrets, as they are when decoded: logs mask their values.
    fn secret_parameters(&self) -> Vec<Box<[u8]>> {
        Vec::new()
    }

    /// The head of a request is there. Runs on the hot path: whoever has nothing to do returns
    /// [`Verdict::Continue`] without having allocated or looked at a clock.
    fn on_request_head(&self, request: &mut RequestContext<'_>) -> Verdict {
        let _ = request;
        Verdict::Continue
    }

    /// What the content of the request has to go through on its way to the origin, if this one's is to.
    /// Asked when an origin is about to get it; not asked for requests without content.
    fn request_body(&self, request: &mut RequestContext<'_>) -> Option<Box<dyn Transform>> {
        let _ = request;
        None
    }

    /// The head of the final answer is there, of the origin's or of one the gateway gives itself.
    fn on_response_head(&self, response: &mut ResponseContext<'_>) -> ResponseVerdict {
        let _ = response;
        ResponseVerdict::Continue
    }

    /// What the content of the answer has to go through on its way to the client, if this one's is to. Asked
    /// after the head was seen by all filters; not asked for answers without content and for tunnels.
    fn response_body(&self, response: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let _ = response;
        None
    }

    /// Whether it takes part in answers that this one gave. Asked once for each, when the chain is built: answers
    /// that concern nobody are sent without anybody being asked.
    fn concerns(&self, source: Source) -> bool {
        let _ = source;
        true
    }

    /// Whether what it puts content of answers through changes it; whoever only looks on says no. Asked once, when
    /// the chain is built.
    fn alters_content(&self) -> bool {
        true
    }

    /// All is over: for counting and logging.
    fn on_done(&self, done: &DoneContext<'_>) {
        let _ = done;
    }
}
