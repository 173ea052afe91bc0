//! One function of a script, run for an exchange: until it returns, fails, or waits for something.

use std::future::poll_fn;
use std::rc::Rc;

use mlua_sys::LUA_YIELD;
use sluice_filter::{RequestContext, Resume, Verdict};

use super::request::push_body;
use super::station::{Run, Station};
use crate::frame::Frame;
use crate::host::Status;
use crate::lease::{Exchange, Wish};
use crate::vm;

/// What a run came to.
pub(crate) enum Turn {
    /// It returned.
    Returned(Run),
    /// It waits.
    Waits(Run),
    /// It failed, with this message and where.
    Failed(String),
}

/// Who is asked when a run is over.
pub(crate) type Conclude = Box<dyn FnOnce(Outcome, &mut RequestContext<'_>) -> Verdict>;

/// How a run about a request ended.
pub(crate) enum Outcome {
    /// Its function returned.
    Returned,
    /// It failed, with this message.
    Failed(String),
}

/// Whether a phase can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Can,
    Cannot,
}

impl Station {
    /// Begins a function with the objects that are its arguments.
    #[inline]
    pub(crate) fn begin(
        &self,
        exchange: Exchange<'_, '_>,
        function: i32,
        arguments: &[i32],
        waits: Waits,
    ) -> Turn {
        let run = self.take();
        vm::with_stack(&self.host, run.thread, |frame| {
            frame.push_kept(function);
            for argument in arguments {
                frame.push_kept(*argument);
            }
        });
        let values = i32::try_from(arguments.len()).unwrap_or(0);
        self.advance(exchange, run, values, waits)
    }

    /// Goes on with so many values on the stack of the coroutine.
    #[inline]
    pub(crate) fn advance(
        &self,
        exchange: Exchange<'_, '_>,
        run: Run,
        values: i32,
        waits: Waits,
    ) -> Turn {
        let host = &*self.host;
        host.exchange.lend(exchange, || self.step(run, values, waits))
    }

    /// The same without an exchange.
    #[inline]
    pub(crate) fn step(&self, run: Run, values: i32, waits: Waits) -> Turn {
        let host = &*self.host;
        host.set_status(run.id, Status::Run);
        let id = (waits == Waits::Can).then_some(run.id);
        let turn = match vm::step(host, id, run.thread, values) {
            0 => Turn::Returned(run),
            LUA_YIELD if host.status(run.id) != Some(Status::Run) => Turn::Waits(run),
            LUA_YIELD => self.fail(&run, Some(vm::STRAY)),
            _ => self.fail(&run, None),
        };
        if !host.ready.borrow().is_empty() {
            host.wake_pump();
        }
        vm::collect_if_near_the_limit(host);
        turn
    }

    #[cold]
    fn fail(&self, run: &Run, word: Option<&str>) -> Turn {
        let said = vm::problem(&self.host, run.thread, word);
        vm::retire(&self.host, run.id);
        // What it had said before is not the whole.
        self.host.exchange.answer.take();
        self.host.exchange.wish.take();
        Turn::Failed(said)
    }

    /// What a turn about a request means: the end of the run, or a wait after which it goes on.
    #[inline]
    pub(crate) fn follow(
        self: Rc<Self>,
        turn: Turn,
        context: &mut RequestContext<'_>,
        conclude: Conclude,
    ) -> Verdict {
        match turn {
            Turn::Returned(run) => {
                self.give_back(run);
                conclude(Outcome::Returned, context)
            }
            Turn::Failed(said) => conclude(Outcome::Failed(said), context),
            Turn::Waits(run) => self.wait(run, conclude),
        }
    }

    #[cold]
    fn wait(self: Rc<Self>, run: Run, conclude: Conclude) -> Verdict {
        let wish = self.host.exchange.wish.take();
        let of_content = matches!(wish, Wish::Content(_));
        let waits_for = if of_content { For::Content } else { For::Others };
        let pending = Pending { station: self, run: Some(run), waits_for };
        if let Wish::Content(wanted) = wish {
            return Verdict::Gather(wanted, pending.with_content(wanted - 1, conclude));
        }
        Verdict::Wait(Box::pin(async move {
            let values = match &pending.run {
                Some(run) => poll_fn(|cx| run.desk.poll(cx)).await,
                None => 0,
            };
            pending.with_values(values, conclude)
        }))
    }
}

/// A run in the middle of a wait. If it is dropped, its exchange is over: the script goes on without.
struct Pending {
    station: Rc<Station>,
    run: Option<Run>,
    waits_for: For,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Content of the request.
    Content,
    /// Whatever leaves word at the desk.
    Others,
}

impl Pending {
    fn with_values(mut self, values: i32, conclude: Conclude) -> Resume {
        Box::new(move |context| {
            let station = Rc::clone(&self.station);
            let Some(run) = self.run.take() else { return Verdict::Continue };
            let turn = station.advance(Exchange::Request(context), run, values, Waits::Can);
            station.follow(turn, context, conclude)
        })
    }

    fn with_content(mut self, most: usize, conclude: Conclude) -> Resume {
        Box::new(move |context| {
            let station = Rc::clone(&self.station);
            let Some(run) = self.run.take() else { return Verdict::Continue };
            let bytes = context.content.bytes;
            let push = |frame: &Frame<'_>| push_body(frame, bytes, most);
            let values = vm::with_stack(&station.host, run.thread, push);
            let turn = station.advance(Exchange::Request(context), run, values, Waits::Can);
            station.follow(turn, context, conclude)
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let host = &*self.station.host;
        host.bereave(run.id);
        let ready = match self.waits_for {
            For::Others => run.desk.take(),
            For::Content => {
                // Nobody else would tell it.
                vm::with_stack(host, run.thread, |frame| frame.fail(b"the client has left"));
                Some(2)
            }
        };
        if let Some(values) = ready {
            host.make_ready(run.id, values);
        }
    }
}
