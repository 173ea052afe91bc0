//! The headers filter: adds, changes and removes header fields.

mod edit;
mod trailers;

pub use edit::{Change, HeaderEdit, HeaderNames};

use std::sync::Arc;

use sluice_filter::{
    Filter, Level, Phases, RequestContext, ResponseContext, ResponseVerdict, Source, Transform,
    Verdict,
};
use sluice_meter::FilterMeter;

use edit::{Edits, Fault};
use trailers::Trailers;

/// Which answers are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Those of origins, routes and filters.
    Given,
    /// Those too that the gateway gives because something failed or the request was refused.
    All,
}

/// See the module.
#[derive(Debug)]
pub struct Headers {
    request: Edits,
    response: Edits,
    trailers: Edits,
    answers: Answers,
    meter: Arc<FilterMeter>,
}

/// Places among [`Headers::OUTCOMES`].
const CHANGED: usize = 0;
const FAILED: usize = 1;

impl Headers {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["changed", "failed"];

    /// A filter that does nothing yet.
    #[must_use]
    pub fn new(answers: Answers, meter: Arc<FilterMeter>) -> Self {
        let none = Edits::default;
        Self { request: none(), response: none(), trailers: none(), answers, meter }
    }

    /// The same with these edits of requests.
    #[must_use]
    pub fn with_request(mut self, edits: Vec<HeaderEdit>) -> Self {
        self.request = Edits::new(edits);
        self
    }

    /// The same with these edits of answers.
    #[must_use]
    pub fn with_response(mut self, edits: Vec<HeaderEdit>) -> Self {
        self.response = Edits::new(edits);
        self
    }

    /// The same with these edits of what comes behind the content of answers.
    #[must_use]
    pub fn with_trailers(mut self, edits: Vec<HeaderEdit>) -> Self {
        self.trailers = Edits::new(edits);
        self
    }

    fn leaves_out(&self, source: Source) -> bool {
        source == Source::Fault && self.answers == Answers::Given
    }
}

impl Filter for Headers {
    fn phases(&self) -> Phases {
        let used = [
            (&self.request, Phases::REQUEST_HEAD),
            (&self.response, Phases::RESPONSE_HEAD),
            (&self.trailers, Phases::RESPONSE_BODY),
        ];
        let used = used.into_iter().filter(|(edits, _)| !edits.is_empty());
        used.fold(Phases::NONE, |all, (_, phase)| all | phase)
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        match self.request.apply(context) {
            Ok(()) => {
                self.meter.count(worker, CHANGED);
                Verdict::Continue
            }
            Err(Fault) => {
                self.meter.count(worker, FAILED);
                Verdict::refuse(431, "no room for more header fields")
            }
        }
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if self.leaves_out(context.source) {
            return ResponseVerdict::Continue;
        }
        let outcome = match self.response.apply(context) {
            Ok(()) => CHANGED,
            Err(Fault) => {
                let line = format_args!("no room for more header fields in an answer");
                context.gateway.log(Level::Warn, line);
                FAILED
            }
        };
        self.meter.count(context.gateway.worker(), outcome);
        ResponseVerdict::Continue
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        if self.leaves_out(context.source) {
            return None;
        }
        Some(Box::new(Trailers::new(&self.trailers, context)))
    }
}

#[cfg(test)]
mod tests;
