//! The filter `lua` and the action `lua`: functions of a script, called in the phases of an exchange.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use sluice_filter::{
    DoneContext, Filter, Gateway, Level, Phases, Reply, RequestContext, ResponseContext,
    ResponseVerdict, Transform, Verdict,
};
use sluice_meter::FilterMeter;

use super::content::{Failure, Rewriting};
use super::program::Program;
use super::station::{Function, Station};
use super::turn::{Outcome, Turn, Waits};
use crate::lease::{Exchange, Wish};

/// What becomes of a request whose script fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It is refused with this status.
    Refuse(u16),
    /// It passes as if there were no script.
    Pass,
}

/// What the client is told of a script that failed.
const FAILED_WORD: &str = "a script failed";

/// Places among [`Scripted::OUTCOMES`].
const RAN: usize = 0;
const ANSWERED: usize = 1;
const REROUTED: usize = 2;
const FAILED: usize = 3;

/// A script between the gateway and its meter.
pub(crate) struct Scripted {
    program: Arc<Program>,
    on_error: OnError,
    /// Absent for what answers a route, which is counted by its answers.
    meter: Option<Arc<FilterMeter>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({})", self.program.voice().name())
    }
}

impl Scripted {
    /// What its meter tells apart.
    pub(crate) const OUTCOMES: &'static [&'static str] = &["ran", "answered", "rerouted", "failed"];

    fn count(&self, gateway: &dyn Gateway, outcome: usize) {
        if let Some(meter) = &self.meter {
            meter.count(gateway.worker(), outcome);
        }
    }

    #[cold]
    fn complain(&self, gateway: &dyn Gateway, said: &str) {
        self.count(gateway, FAILED);
        gateway.log(Level::Error, format_args!("{}{said}", self.program.prefix(said)));
    }

    /// Whoever goes on with the message after its script has failed.
    pub(crate) fn failed(&self) -> Failure {
        Failure { meter: self.meter.clone(), worker: 0, voice: self.program.voice().clone() }
    }

    #[inline]
    fn station(&self, gateway: &dyn Gateway) -> Option<Rc<Station>> {
        match self.program.station(gateway.worker()) {
            Ok(station) => Some(station),
            Err(said) => {
                self.complain(gateway, &said);
                None
            }
        }
    }

    fn refuse(&self) -> Verdict {
        match self.on_error {
            OnError::Refuse(status) => Verdict::refuse(status, FAILED_WORD),
            OnError::Pass => Verdict::Continue,
        }
    }

    /// Runs a function about a request.
    #[inline]
    fn run(self: &Arc<Self>, function: Function, context: &mut RequestContext<'_>) -> Verdict {
        let Some(station) = self.station(context.gateway) else { return self.refuse() };
        let Some(place) = station.functions.of(function) else { return Verdict::Continue };
        let arguments = [station.request];
        let turn = station.begin(Exchange::Request(context), place, &arguments, Waits::Can);
        if let Turn::Returned(run) = turn {
            station.give_back(run);
            return self.conclude(&station, function, context);
        }
        self.follow(station, function, turn, context)
    }

    /// What is not over at once.
    #[cold]
    fn follow(
        self: &Arc<Self>,
        station: Rc<Station>,
        function: Function,
        turn: Turn,
        context: &mut RequestContext<'_>,
    ) -> Verdict {
        let this = Arc::clone(self);
        let of = Rc::clone(&station);
        let conclude = move |outcome: Outcome, context: &mut RequestContext<'_>| match outcome {
            Outcome::Returned => this.conclude(&of, function, context),
            Outcome::Failed(said) => {
                this.complain(context.gateway, &said);
                this.refuse()
            }
        };
        station.follow(turn, context, Box::new(conclude))
    }

    /// A function about a request has returned: what it said.
    #[inline]
    fn conclude(
        &self,
        station: &Station,
        function: Function,
        context: &RequestContext<'_>,
    ) -> Verdict {
        let lease = &station.host.exchange;
        let (answer, wish) = (lease.answer.take(), lease.wish.take());
        match (answer, wish) {
            (Some(reply), _) => {
                self.count(context.gateway, ANSWERED);
                Verdict::Respond(reply)
            }
            (None, Wish::Reroute) if function == Function::RequestHead => {
                self.count(context.gateway, REROUTED);
                Verdict::Reroute
            }
            (None, _) if function == Function::Answer => {
                self.complain(
                    context.gateway,
                    "the function answer has returned without an answer",
                );
                self.refuse()
            }
            (None, _) => {
                self.count(context.gateway, RAN);
                Verdict::Continue
            }
        }
    }
}

/// The filter `lua`.
#[derive(Debug)]
pub struct LuaFilter(Arc<Scripted>);

impl LuaFilter {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = Scripted::OUTCOMES;

    /// A filter of this script.
    ///
    /// # Errors
    /// If the script has no function that would ever be called.
    pub fn new(
        program: Arc<Program>,
        on_error: OnError,
        meter: Arc<FilterMeter>,
    ) -> Result<Self, String> {
        let filter = Self(Arc::new(Scripted { program, on_error, meter: Some(meter) }));
        if filter.phases() == Phases::NONE {
            return Err("it has none of the functions request_head, request_body, response_head, \
                        response_body and done"
                .to_owned());
        }
        Ok(filter)
    }
}

impl Filter for LuaFilter {
    fn phases(&self) -> Phases {
        let rows = [
            (Function::RequestHead, Phases::REQUEST_HEAD),
            (Function::RequestBody, Phases::REQUEST_BODY),
            (Function::ResponseHead, Phases::RESPONSE_HEAD),
            (Function::ResponseBody, Phases::RESPONSE_BODY),
            (Function::Done, Phases::DONE),
        ];
        let has = rows.into_iter().filter(|(function, _)| self.0.program.has(*function));
        has.fold(Phases::NONE, |all, (_, phase)| all | phase)
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        self.0.run(Function::RequestHead, context)
    }

    fn request_body(&self, context: &mut RequestContext<'_>) -> Option<Box<dyn Transform>> {
        let this = &self.0;
        let worker = context.gateway.worker();
        let Some(station) = this.station(context.gateway) else {
            return Some(Box::new(this.failed()));
        };
        let place = station.functions.of(Function::RequestBody)?;
        let arguments = [station.request];
        let turn = station.begin(Exchange::Request(context), place, &arguments, Waits::Cannot);
        Rewriting::of(station, turn, Failure { worker, ..this.failed() })
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let this = &self.0;
        let refuse = || match this.on_error {
            OnError::Refuse(status) => {
                ResponseVerdict::Replace(Box::new(Reply::refusal(status, FAILED_WORD)))
            }
            OnError::Pass => ResponseVerdict::Continue,
        };
        let Some(station) = this.station(context.gateway) else { return refuse() };
        let Some(place) = station.functions.of(Function::ResponseHead) else {
            return ResponseVerdict::Continue;
        };
        let arguments = [station.request, station.response];
        let turn = station.begin(Exchange::Response(context), place, &arguments, Waits::Cannot);
        match turn {
            Turn::Returned(run) => station.give_back(run),
            Turn::Failed(said) => {
                this.complain(context.gateway, &said);
                return refuse();
            }
            Turn::Waits(_) => return refuse(),
        }
        match station.host.exchange.answer.take() {
            Some(reply) => {
                this.count(context.gateway, ANSWERED);
                ResponseVerdict::Replace(reply)
            }
            None => {
                this.count(context.gateway, RAN);
                ResponseVerdict::Continue
            }
        }
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let this = &self.0;
        let worker = context.gateway.worker();
        let Some(station) = this.station(context.gateway) else {
            return Some(Box::new(this.failed()));
        };
        let place = station.functions.of(Function::ResponseBody)?;
        let arguments = [station.request, station.response];
        let turn = station.begin(Exchange::Response(context), place, &arguments, Waits::Cannot);
        Rewriting::of(station, turn, Failure { worker, ..this.failed() })
    }

    fn on_done(&self, done: &DoneContext<'_>) {
        let failure = Failure { worker: done.worker, ..self.0.failed() };
        let station = match self.0.program.station(done.worker) {
            Ok(station) => station,
            Err(said) => return failure.complain(&said),
        };
        let Some(place) = station.functions.of(Function::Done) else { return };
        station.tell_end(done, place, &failure);
    }
}

/// The action `lua`.
#[derive(Debug)]
pub struct LuaAction(Arc<Scripted>);

impl LuaAction {
    /// What answers the requests of a route.
    ///
    /// # Errors
    /// If the script has no function `answer`.
    pub fn new(program: Arc<Program>) -> Result<Self, String> {
        if !program.has(Function::Answer) {
            return Err("it has no function answer".to_owned());
        }
        let on_error = OnError::Refuse(500);
        Ok(Self(Arc::new(Scripted { program, on_error, meter: None })))
    }
}

impl Filter for LuaAction {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        self.0.run(Function::Answer, context)
    }
}
