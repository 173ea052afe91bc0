//! The filter `lua` and the action `lua`: functions of a script, called in the phases of an exchange.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use sluice_filter::{
    DoneContext, Filter, Gateway, Level, Notes, Owner, Phases, Reply, RequestContext,
    ResponseContext, ResponseVerdict, Transform, Verdict,
};
use sluice_meter::FilterMeter;

use super::content::{Failure, Rewriting};
use super::program::Program;
use super::station::{Function, Run, Station};
use super::turn::{Begun, Outcome, Phase, ToClient, ToOrigin, Turn};
use crate::lease::{After, Answer, Wish};

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
    /// Whose notes are functions for the content of the request and of the answer.
    content: [Owner; 2],
}

/// What a function for content is kept as until content is there.
type Left = Option<Box<dyn Transform>>;

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({})", self.program.voice().name())
    }
}

impl Scripted {
    /// What its meter tells apart.
    pub(crate) const OUTCOMES: &'static [&'static str] = &["ran", "answered", "rerouted", "failed"];

    fn new(program: Arc<Program>, on_error: OnError, meter: Option<Arc<FilterMeter>>) -> Self {
        Self { program, on_error, meter, content: [Owner::new(), Owner::new()] }
    }

    #[inline]
    fn count(&self, worker: usize, outcome: usize) {
        if let Some(meter) = &self.meter {
            meter.count(worker, outcome);
        }
    }

    #[cold]
    fn complain(&self, gateway: &dyn Gateway, said: &str) {
        self.count(gateway.worker(), FAILED);
        gateway.log(Level::Error, format_args!("{}{said}", self.program.prefix(said)));
    }

    /// Whoever goes on with the message after its script has failed.
    pub(crate) fn failed(&self) -> Failure {
        Failure { meter: self.meter.clone(), worker: 0, voice: self.program.voice().clone() }
    }

    #[inline(always)]
    fn station(&self, gateway: &dyn Gateway) -> Option<Rc<Station>> {
        match self.program.station(|| gateway.worker()) {
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

    fn refuse_answer(&self) -> ResponseVerdict {
        match self.on_error {
            OnError::Refuse(status) => {
                ResponseVerdict::Replace(Box::new(Reply::refusal(status, FAILED_WORD)))
            }
            OnError::Pass => ResponseVerdict::Continue,
        }
    }

    /// Runs a function about a request.
    // In line: for a function that is known there, with nothing to say, little is left of this.
    #[inline(always)]
    fn run(self: &Arc<Self>, function: Function, context: &mut RequestContext<'_>) -> Verdict {
        let Some(station) = self.station(context.gateway) else { return self.refuse() };
        let Some(place) = station.functions.of(function) else { return Verdict::Continue };
        match station.begin(ToOrigin::lend(context), place, [station.request]) {
            Begun::Quiet
                if function == Function::RequestHead
                    && station.functions.of(Function::RequestBody).is_none() =>
            {
                self.count(station.host.worker, RAN);
                Verdict::Continue
            }
            Begun::Quiet => {
                let run = station.take();
                self.follow(station, function, Turn::Returned(run), context)
            }
            Begun::Turn(turn) => self.follow(station, function, turn, context),
        }
    }

    /// The same for one of several functions.
    #[inline(never)]
    fn run_more(self: &Arc<Self>, function: Function, context: &mut RequestContext<'_>) -> Verdict {
        self.run(function, context)
    }

    /// What is not over at once, or has more to say.
    #[inline(never)]
    fn follow(
        self: &Arc<Self>,
        station: Rc<Station>,
        function: Function,
        turn: Turn,
        context: &mut RequestContext<'_>,
    ) -> Verdict {
        if let Turn::Returned(run) = turn {
            return self.conclude(&station, (function, run), context);
        }
        let this = Arc::clone(self);
        let of = Rc::clone(&station);
        let conclude = move |outcome: Outcome, context: &mut RequestContext<'_>| match outcome {
            Outcome::Returned(run) => this.conclude(&of, (function, run), context),
            Outcome::Failed(said) => {
                this.complain(context.gateway, &said);
                this.refuse()
            }
        };
        station.follow::<ToOrigin>(turn, context, Box::new(conclude))
    }

    /// A function about a request has returned: what it said.
    #[inline]
    fn conclude(
        self: &Arc<Self>,
        station: &Rc<Station>,
        (function, run): (Function, Run),
        context: &mut RequestContext<'_>,
    ) -> Verdict {
        if function == Function::RequestBody {
            let made = self.rewriting(station, &run, context.gateway);
            leave(context.notes, self.content[0], made);
        }
        station.give_back(run);
        let lease = &station.host.exchange;
        let (answer, wish) = (lease.answer.take(), lease.wish.take());
        match (answer, wish) {
            (Some(answer), _) => {
                self.count(station.host.worker, ANSWERED);
                match answer {
                    Answer::Made(reply) => Verdict::Respond(reply),
                    Answer::Ready(ready) => Verdict::Give(ready),
                }
            }
            (None, Wish::Leave(After::Again)) => self.run_more(function, context),
            (None, Wish::Reroute | Wish::Leave(After::Reroute))
                if matches!(function, Function::RequestHead | Function::Answer) =>
            {
                self.count(station.host.worker, REROUTED);
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
                let more = function == Function::RequestHead
                    && station.functions.of(Function::RequestBody).is_some();
                if more && context.request.has_content() {
                    return self.run_more(Function::RequestBody, context);
                }
                self.count(station.host.worker, RAN);
                Verdict::Continue
            }
        }
    }

    /// Runs a function about an answer.
    #[inline]
    fn run_on_answer(
        self: &Arc<Self>,
        function: Function,
        context: &mut ResponseContext<'_>,
    ) -> ResponseVerdict {
        let Some(station) = self.station(context.gateway) else { return self.refuse_answer() };
        let Some(place) = station.functions.of(function) else {
            return ResponseVerdict::Continue;
        };
        let arguments = [station.request, station.response];
        match station.begin(ToClient::lend(context), place, arguments) {
            Begun::Quiet
                if function == Function::ResponseHead
                    && station.functions.of(Function::ResponseBody).is_none() =>
            {
                self.count(station.host.worker, RAN);
                ResponseVerdict::Continue
            }
            Begun::Quiet => {
                let run = station.take();
                self.follow_answer(station, function, Turn::Returned(run), context)
            }
            Begun::Turn(turn) => self.follow_answer(station, function, turn, context),
        }
    }

    #[inline(never)]
    fn follow_answer(
        self: &Arc<Self>,
        station: Rc<Station>,
        function: Function,
        turn: Turn,
        context: &mut ResponseContext<'_>,
    ) -> ResponseVerdict {
        if let Turn::Returned(run) = turn {
            return self.conclude_on_answer(&station, (function, run), context);
        }
        let this = Arc::clone(self);
        let of = Rc::clone(&station);
        let conclude = move |outcome: Outcome, context: &mut ResponseContext<'_>| match outcome {
            Outcome::Returned(run) => this.conclude_on_answer(&of, (function, run), context),
            Outcome::Failed(said) => {
                this.complain(context.gateway, &said);
                this.refuse_answer()
            }
        };
        station.follow::<ToClient>(turn, context, Box::new(conclude))
    }

    /// A function about an answer has returned.
    #[inline]
    fn conclude_on_answer(
        self: &Arc<Self>,
        station: &Rc<Station>,
        (function, run): (Function, Run),
        context: &mut ResponseContext<'_>,
    ) -> ResponseVerdict {
        if function == Function::ResponseBody {
            let made = self.rewriting(station, &run, context.gateway);
            leave(context.notes, self.content[1], made);
        }
        station.give_back(run);
        let lease = &station.host.exchange;
        lease.wish.take();
        if let Some(answer) = lease.answer.take() {
            self.count(station.host.worker, ANSWERED);
            return ResponseVerdict::Replace(answer.into_reply());
        }
        let more = function == Function::ResponseHead
            && station.functions.of(Function::ResponseBody).is_some();
        if more {
            return self.run_on_answer(Function::ResponseBody, context);
        }
        self.count(station.host.worker, RAN);
        ResponseVerdict::Continue
    }

    /// What content goes through, if a run has returned a function for it.
    fn rewriting(&self, station: &Rc<Station>, run: &Run, gateway: &dyn Gateway) -> Left {
        let failure = Failure { worker: gateway.worker(), ..self.failed() };
        Rewriting::of(station, run, failure)
    }
}

/// Keeps what content goes through until it is asked for; what was there before is gone.
fn leave(notes: &mut Notes, owner: Owner, made: Left) {
    if made.is_some() || notes.left::<Left>(owner).is_some() {
        notes.leave(owner, Box::new(made));
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
        let filter = Self(Arc::new(Scripted::new(program, on_error, Some(meter))));
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
        // What asks for a function for content may wait, so it is called when the head is there.
        let rows = [
            (Function::RequestHead, Phases::REQUEST_HEAD),
            (Function::RequestBody, Phases::REQUEST_HEAD | Phases::REQUEST_BODY),
            (Function::ResponseHead, Phases::RESPONSE_HEAD),
            (Function::ResponseBody, Phases::RESPONSE_HEAD | Phases::RESPONSE_BODY),
            (Function::Done, Phases::DONE),
        ];
        let has = rows.into_iter().filter(|(function, _)| self.0.program.has(*function));
        has.fold(Phases::NONE, |all, (_, phase)| all | phase)
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        if self.0.program.has(Function::RequestHead) {
            return self.0.run(Function::RequestHead, context);
        }
        match context.request.has_content() {
            true => self.0.run_more(Function::RequestBody, context),
            false => Verdict::Continue,
        }
    }

    fn request_body(&self, context: &mut RequestContext<'_>) -> Option<Box<dyn Transform>> {
        context.notes.left::<Left>(self.0.content[0])?.take()
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let first = match self.0.program.has(Function::ResponseHead) {
            true => Function::ResponseHead,
            false => Function::ResponseBody,
        };
        self.0.run_on_answer(first, context)
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        context.notes.left::<Left>(self.0.content[1])?.take()
    }

    fn on_done(&self, done: &DoneContext<'_>) {
        let failure = Failure { worker: done.worker, ..self.0.failed() };
        let station = match self.0.program.station(|| done.worker) {
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
        Ok(Self(Arc::new(Scripted::new(program, on_error, None))))
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
