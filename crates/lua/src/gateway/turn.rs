//! One function of a script, run for an exchange: until it returns, fails, or waits for something.

use std::ffi::c_int;
use std::future::poll_fn;
use std::rc::Rc;

use mlua_sys::{LUA_YIELD, lua_State};
use sluice_filter::{Local, RequestContext, ResponseContext, ResponseVerdict, Verdict};

use super::request::push_body;
use super::station::{Run, Station};
use crate::frame::Frame;
use crate::host::{Id, Status};
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

/// A phase of an exchange in which functions can wait.
pub(crate) trait Phase: 'static {
    /// What its functions are called with.
    type Context<'a>;
    /// What comes of it.
    type Verdict;
    /// What runs may ask of it.
    fn lend<'x, 'a: 'x>(context: &'x mut Self::Context<'a>) -> Exchange<'x, 'a>;
    /// Content that was waited for, if this is a phase in which that is possible.
    fn content<'x>(context: &'x Self::Context<'_>) -> &'x [u8];
    /// Waits until so much content is there.
    fn gather(wanted: usize, resume: Resume<Self>) -> Self::Verdict;
    /// Waits for this.
    fn wait(waiting: Local<Resume<Self>>) -> Self::Verdict;
}

/// What a phase goes on with after a wait.
pub(crate) type Resume<P> =
    Box<dyn FnOnce(&mut <P as Phase>::Context<'_>) -> <P as Phase>::Verdict>;

/// Who is asked when a run is over.
pub(crate) type Conclude<P> =
    Box<dyn FnOnce(Outcome, &mut <P as Phase>::Context<'_>) -> <P as Phase>::Verdict>;

/// A request is on its way.
pub(crate) struct ToOrigin;

/// An answer is on its way.
pub(crate) struct ToClient;

impl Phase for ToOrigin {
    type Context<'a> = RequestContext<'a>;
    type Verdict = Verdict;

    #[inline]
    fn lend<'x, 'a: 'x>(context: &'x mut RequestContext<'a>) -> Exchange<'x, 'a> {
        Exchange::Request(context)
    }

    fn content<'x>(context: &'x RequestContext<'_>) -> &'x [u8] {
        context.content.bytes
    }

    fn gather(wanted: usize, resume: Resume<Self>) -> Verdict {
        Verdict::Gather(wanted, resume)
    }

    fn wait(waiting: Local<Resume<Self>>) -> Verdict {
        Verdict::Wait(waiting)
    }
}

impl Phase for ToClient {
    type Context<'a> = ResponseContext<'a>;
    type Verdict = ResponseVerdict;

    #[inline]
    fn lend<'x, 'a: 'x>(context: &'x mut ResponseContext<'a>) -> Exchange<'x, 'a> {
        Exchange::Response(context)
    }

    /// The request is gone: its content is no wish that could be had here.
    fn content<'x>(_: &'x ResponseContext<'_>) -> &'x [u8] {
        b""
    }

    fn gather(_: usize, resume: Resume<Self>) -> ResponseVerdict {
        Self::wait(Box::pin(std::future::ready(resume)))
    }

    fn wait(waiting: Local<Resume<Self>>) -> ResponseVerdict {
        ResponseVerdict::Wait(Box::new(waiting))
    }
}

/// How a run of a phase ended.
pub(crate) enum Outcome {
    /// Its function returned. What it returned is on the stack of the run, which is to be given back.
    Returned(Run),
    /// It failed, with this message.
    Failed(String),
}

/// What it came to that a function was begun.
pub(crate) enum Begun {
    /// It has returned nothing, and asked for nothing.
    Quiet,
    /// Something else.
    Turn(Turn),
}

impl Station {
    /// Begins a function with the objects that are its arguments.
    #[inline(always)]
    pub(crate) fn begin<const N: usize>(
        &self,
        exchange: Exchange<'_, '_>,
        function: i32,
        arguments: [i32; N],
    ) -> Begun {
        let (host, (id, thread)) = (&*self.host, self.idle());
        host.exchange.wish.set(Wish::None);
        vm::with_stack(host, thread, |frame| {
            frame.push_kept(function);
            for argument in arguments {
                frame.push_kept(argument);
            }
        });
        let values = i32::try_from(N).unwrap_or(0);
        let lent = host.exchange.lend(exchange);
        let status = vm::step(host, Some(id), thread, values);
        drop(lent);
        if status == 0 && self.is_quiet(thread) {
            return Begun::Quiet;
        }
        Begun::Turn(self.look_into(status, id))
    }

    /// Whether a run that returned has left nothing to look into.
    #[inline(always)]
    fn is_quiet(&self, thread: *mut lua_State) -> bool {
        let host = &*self.host;
        host.exchange.is_silent()
            && vm::is_empty(thread)
            && !host.exposed.get()
            && host.ready.borrow().is_empty()
            && !host.memory.is_near_the_limit()
    }

    #[inline(never)]
    fn look_into(&self, status: c_int, id: Id) -> Turn {
        match self.take_running(id) {
            Some(run) => self.settle(status, run),
            None => Turn::Failed(GONE.to_owned()),
        }
    }

    /// Goes on with so many values on the stack of the coroutine.
    #[inline]
    pub(crate) fn advance(&self, exchange: Exchange<'_, '_>, run: Run, values: i32) -> Turn {
        let _lent = self.host.exchange.lend(exchange);
        self.step(run, values)
    }

    /// The same without an exchange.
    pub(crate) fn step(&self, run: Run, values: i32) -> Turn {
        let host = &*self.host;
        host.set_status(run.id, Status::Io);
        let status = vm::step(host, Some(run.id), run.thread, values);
        self.settle(status, run)
    }

    /// What became of a run, by the status of LuaJIT.
    fn settle(&self, status: c_int, run: Run) -> Turn {
        let host = &*self.host;
        let turn = match status {
            0 => Turn::Returned(run),
            _ if matches!(host.exchange.wish.get(), Wish::Leave(_)) => {
                // It stopped in the middle, wherever it was.
                vm::retire(host, run.id);
                Turn::Returned(self.take())
            }
            LUA_YIELD if host.waits.take() => Turn::Waits(run),
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

    /// What a turn means: the end of the run, or a wait after which it goes on.
    #[inline]
    pub(crate) fn follow<P: Phase>(
        self: Rc<Self>,
        turn: Turn,
        context: &mut P::Context<'_>,
        conclude: Conclude<P>,
    ) -> P::Verdict {
        match turn {
            Turn::Returned(run) => conclude(Outcome::Returned(run), context),
            Turn::Failed(said) => conclude(Outcome::Failed(said), context),
            Turn::Waits(run) => self.wait::<P>(run, conclude),
        }
    }

    #[cold]
    fn wait<P: Phase>(self: Rc<Self>, run: Run, conclude: Conclude<P>) -> P::Verdict {
        let wish = self.host.exchange.wish.take();
        let of_content = matches!(wish, Wish::Content(_));
        let waits_for = if of_content { For::Content } else { For::Others };
        let pending = Pending { station: self, run: Some(run), waits_for };
        if let Wish::Content(wanted) = wish {
            return P::gather(wanted, pending.with_content::<P>(wanted - 1, conclude));
        }
        P::wait(Box::pin(async move {
            let values = match &pending.run {
                Some(run) => poll_fn(|cx| run.desk.poll(cx)).await,
                None => 0,
            };
            pending.with_values::<P>(values, conclude)
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
    fn with_values<P: Phase>(mut self, values: i32, conclude: Conclude<P>) -> Resume<P> {
        Box::new(move |context| {
            let station = Rc::clone(&self.station);
            let turn = match self.run.take() {
                Some(run) => station.advance(P::lend(context), run, values),
                None => Turn::Failed(GONE.to_owned()),
            };
            station.follow::<P>(turn, context, conclude)
        })
    }

    fn with_content<P: Phase>(mut self, most: usize, conclude: Conclude<P>) -> Resume<P> {
        Box::new(move |context| {
            let station = Rc::clone(&self.station);
            let turn = match self.run.take() {
                Some(run) => {
                    let bytes = P::content(context);
                    let push = |frame: &Frame<'_>| push_body(frame, bytes, most);
                    let values = vm::with_stack(&station.host, run.thread, push);
                    station.advance(P::lend(context), run, values)
                }
                None => Turn::Failed(GONE.to_owned()),
            };
            station.follow::<P>(turn, context, conclude)
        })
    }
}

/// Never said: a run is taken out of its wait once.
const GONE: &str = "the run is gone";

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
