//! A script on one worker: its state, the functions it has for the phases of an exchange, and coroutines to run them in.

use std::cell::RefCell;
use std::rc::Rc;

use mlua_sys::{lua_CFunction, lua_State};
use sluice_net::spawn;

use super::script::Script;
use super::{answer, beginning, direct, fetch, metrics, openresty, request, response, shared};
use crate::frame::{Frame, Kind};
use crate::host::{Desk, Host, Id, Status};
use crate::modules::{install, push_functions};
use crate::ports::Ports;
use crate::settings::Role;
use crate::task;
use crate::vm::{self, Vm};
use crate::voice::Voice;

/// What a script of the gateway is made ready with.
const GATEWAY: &str = include_str!("../script/gateway.lua");

/// What makes `metrics`.
const METRICS: &str = include_str!("../script/metrics.lua");

/// What makes `store`.
const STORE: &str = include_str!("../script/store.lua");

/// Coroutines that are kept for the next exchanges.
const IDLE: usize = 256;

/// The functions that a script may have, by name.
pub(crate) const FUNCTIONS: [&str; 6] =
    ["request_head", "request_body", "response_head", "response_body", "done", "answer"];

/// One of [`FUNCTIONS`], by its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    RequestHead,
    RequestBody,
    ResponseHead,
    ResponseBody,
    Done,
    Answer,
}

/// Which functions a script has: where the registry keeps them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Functions([Option<i32>; 6]);

impl Functions {
    /// Where it is kept, if there is one.
    #[inline]
    pub(crate) const fn of(self, function: Function) -> Option<i32> {
        let [request_head, request_body, response_head, response_body, done, answer] = self.0;
        match function {
            Function::RequestHead => request_head,
            Function::RequestBody => request_body,
            Function::ResponseHead => response_head,
            Function::ResponseBody => response_body,
            Function::Done => done,
            Function::Answer => answer,
        }
    }
}

/// A coroutine for one exchange after the other.
pub(crate) struct Run {
    pub(crate) id: Id,
    pub(crate) thread: *mut lua_State,
    pub(crate) desk: Rc<Desk>,
}

/// See the module.
pub(crate) struct Station {
    // Before the host: a state is closed while its surroundings are there.
    _vm: Vm,
    pub(crate) host: Rc<Host>,
    pub(crate) functions: Functions,
    /// The objects `request` and `response`, in the registry.
    pub(crate) request: i32,
    pub(crate) response: i32,
    idle: RefCell<Vec<Run>>,
}

impl Station {
    /// Makes a state and runs the script in it.
    ///
    /// # Errors
    /// What the script says, with its place.
    pub(crate) fn new(script: &Script, voice: Voice, worker: usize) -> Result<Self, String> {
        let ports = Ports::new(script.settings.workers);
        let host = Host::new(script.settings.clone(), voice, ports, worker);
        host.exchange.owner.set(Some(script.owner));
        let vm =
            Vm::new(Rc::clone(&host)).map_err(|error| format!("cannot start LuaJIT: {error}"))?;
        install(&host)?;
        let [request, response] = prepare(&host)?;
        // Where no loop runs, on threads that only try a script, nobody does.
        spawn(task::pump(Rc::clone(&host)));
        let functions = match script.settings.role {
            Role::Listener(_) => beginning::begin(&host, script).map(|()| Functions::default())?,
            Role::Service | Role::Part => load(&host, script)?,
        };
        Ok(Self { _vm: vm, host, functions, request, response, idle: RefCell::default() })
    }

    /// A coroutine that has nothing to do.
    #[inline]
    pub(crate) fn take(&self) -> Run {
        match self.idle.borrow_mut().pop() {
            Some(run) => run,
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Run {
        let (id, thread) = vm::create(&self.host, None);
        let desk = Rc::<Desk>::default();
        self.host.set_desk(id, Some(Rc::clone(&desk)));
        self.host.set_status(id, Status::Io);
        Run { id, thread, desk }
    }

    /// A coroutine that has nothing to do; it stays among those as long as it does no more than run.
    #[inline(always)]
    pub(crate) fn idle(&self) -> (Id, *mut lua_State) {
        let idle = self.idle.borrow();
        match idle.last() {
            Some(run) => (run.id, run.thread),
            None => {
                drop(idle);
                self.add()
            }
        }
    }

    #[cold]
    fn add(&self) -> (Id, *mut lua_State) {
        let run = self.make();
        let (id, thread) = (run.id, run.thread);
        self.idle.borrow_mut().push(run);
        (id, thread)
    }

    /// Takes the coroutine that runs out of those that have nothing to do.
    pub(crate) fn take_running(&self, id: Id) -> Option<Run> {
        let mut idle = self.idle.borrow_mut();
        let place = idle.iter().rposition(|run| run.id == id)?;
        Some(idle.swap_remove(place))
    }

    /// A coroutine whose function has returned.
    #[inline]
    pub(crate) fn give_back(&self, run: Run) {
        vm::clear(run.thread);
        self.host.exposed.set(false);
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE && !self.host.is_exposed(run.id) {
            // Whatever it waited for: the next time it begins as if it were new.
            self.host.set_status(run.id, Status::Io);
            idle.push(run);
        } else {
            drop(idle);
            vm::retire(&self.host, run.id);
        }
    }
}

/// Functions for the chunk that prepares a state.
const NATIVE: [(&str, lua_CFunction); 6] = [
    ("request_get", request::native_get),
    ("request_set", request::native_set),
    ("response_get", response::native_get),
    ("response_set", response::native_set),
    ("respond", answer::native_respond),
    ("fetch", fetch::native_fetch),
];

/// Gives the script what it finds beside the modules; where the two objects are kept.
fn prepare(host: &Host) -> Result<[i32; 2], String> {
    let kept = direct::make_objects(host)?;
    vm::with_stack(host, host.main.get(), |frame| {
        frame.push_chunk(GATEWAY.as_bytes(), "=gateway")?;
        frame.push_table(0, 8);
        for (name, place) in ["request", "response"].into_iter().zip(kept) {
            frame.push_kept(place);
            frame.set_field(name.as_bytes());
        }
        for (name, function) in NATIVE {
            frame.push_native(function);
            frame.set_field(name.as_bytes());
        }
        frame.push_count(u64::try_from(request::BODY).unwrap_or(u64::MAX));
        frame.set_field(b"body_limit");
        frame.push_chunk(METRICS.as_bytes(), "=metrics")?;
        frame.set_field(b"make_metrics");
        push_functions(frame, &metrics::FUNCTIONS);
        frame.set_field(b"metrics");
        frame.push_chunk(STORE.as_bytes(), "=store")?;
        frame.set_field(b"make_store");
        push_functions(frame, &shared::FUNCTIONS);
        frame.set_field(b"store");
        Ok::<_, String>(())
    })?;
    vm::call_main(host, 1, 0)?;
    Ok(kept)
}

/// Runs the script, and looks which functions it has: in the table it returned, or else among its global variables.
fn load(host: &Host, script: &Script) -> Result<Functions, String> {
    match script.chunks.as_slice() {
        [whole] if whole.phase.is_none() => {
            let push = |frame: &Frame<'_>| frame.push_chunk(&whole.text, &whole.name);
            vm::with_stack(host, host.main.get(), push)?;
            vm::call_main(host, 0, 1)?;
        }
        phases => openresty::load(host, phases, &NATIVE)?,
    }
    Ok(vm::with_stack(host, host.main.get(), |frame| {
        if frame.kind(-1) != Kind::Table {
            frame.pop();
            frame.push_globals();
        }
        let table = frame.absolute(-1);
        let functions = FUNCTIONS.map(|name| function(frame, table, name));
        frame.pop();
        Functions(functions)
    }))
}

fn function(frame: &Frame<'_>, table: i32, name: &str) -> Option<i32> {
    frame.push_field(table, name.as_bytes());
    if frame.kind(-1) == Kind::Function {
        return Some(frame.keep());
    }
    frame.pop();
    None
}
