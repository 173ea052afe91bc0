//! What belongs to one Lua state beside it: its settings, its coroutines, and who is to run next.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mlua_sys::lua_State;
use slab::Slab;
use sluice_meter::CustomFamily;
use sluice_net::interrupt::Limit;

use crate::intake::Intake;
use crate::lease::Lease;
use crate::memory::Memory;
use crate::patterns::Patterns;
use crate::ports::Ports;
use crate::settings::{Level, Settings};
use crate::throttle::Throttled;
use crate::timers::Timers;
use crate::unsent::Unsent;
use crate::voice::Voice;

/// A coroutine that the loop drives; the generation tells it from one that had its place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) index: usize,
    pub(crate) generation: u64,
}

/// Bytes that the program keeps for a coroutine, beside its thread.
pub(crate) const TASK: usize = 512;

/// What a coroutine is at, in the words of `silly.task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It runs at this moment.
    Run,
    /// It is in the queue of those who run next.
    Ready,
    /// It waits for `wakeup`.
    Wait,
    /// It waits for time to pass.
    Sleep,
    /// It waits for a connection.
    Io,
}

/// How a coroutine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its function returned.
    Returned,
    /// With an error, which is in the log.
    Failed,
}

/// Who wants to know how a coroutine ended.
pub(crate) trait Owner {
    fn ended(&self, ending: Ending);
}

/// One coroutine.
pub(crate) struct Coroutine {
    pub(crate) thread: *mut lua_State,
    /// Where the registry keeps it from being collected.
    pub(crate) anchor: i32,
    pub(crate) generation: u64,
    /// What it is at when it does not run.
    pub(crate) status: Status,
    /// How many values lie ready for its next run.
    pub(crate) values: i32,
    pub(crate) owner: Option<Rc<dyn Owner>>,
    /// Who runs it, if that is not the loop: it belongs to an exchange.
    pub(crate) desk: Option<Rc<Desk>>,
    /// Its exchange is over: that it misses it is no news.
    pub(crate) bereft: bool,
    /// A script has a handle of it: it is not used again for something else.
    pub(crate) exposed: bool,
}

/// Where a coroutine that belongs to an exchange leaves word that it can go on.
#[derive(Default)]
pub(crate) struct Desk {
    /// How many values lie on its stack for it.
    ready: Cell<Option<i32>>,
    waker: RefCell<Option<Waker>>,
}

impl Desk {
    /// What it waited for is there.
    pub(crate) fn hand_over(&self, values: i32) {
        self.ready.set(Some(values));
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for that; with how many values it goes on.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<i32> {
        match self.ready.take() {
            Some(values) => Poll::Ready(values),
            None => {
                *self.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// With how many values it can go on, if it can at once.
    pub(crate) fn take(&self) -> Option<i32> {
        self.ready.take()
    }
}

/// A thread that has nothing to do and can be given something.
pub(crate) struct Idle {
    pub(crate) thread: *mut lua_State,
    pub(crate) anchor: i32,
}

/// One state's surroundings. `repr(C)`, with the memory first: LuaJIT gives back one pointer, for both.
#[repr(C)]
pub(crate) struct Host {
    pub(crate) memory: Memory,
    pub(crate) settings: Settings,
    pub(crate) voice: Voice,
    pub(crate) level: Cell<Level>,
    log: Throttled,
    /// The main thread of the state; null before it is made and after it is closed.
    pub(crate) main: Cell<*mut lua_State>,
    /// The metatable of all objects and that of connections, in the registry.
    pub(crate) object_meta: Cell<i32>,
    pub(crate) connection_meta: Cell<i32>,
    /// The environment of connections that have no fields yet, in the registry.
    pub(crate) no_fields: Cell<i32>,
    /// The function `sizeof` of the library for C, in the registry, where that is used.
    pub(crate) size_of: Cell<Option<i32>>,
    pub(crate) coroutines: RefCell<Slab<Coroutine>>,
    pub(crate) idle: RefCell<Vec<Idle>>,
    pub(crate) ready: RefCell<VecDeque<Id>>,
    /// It gave way in order to wait, and not to somebody of its own.
    pub(crate) waits: Cell<bool>,
    /// The coroutine that runs, and its thread.
    pub(crate) current: Cell<Option<(Id, *mut lua_State)>>,
    /// The task that runs those who are ready, and sees to timers.
    pub(crate) pump: RefCell<Option<Waker>>,
    /// A timer is due and has to wait until a task ends.
    pub(crate) crowded: Cell<bool>,
    pub(crate) limit: OnceCell<Rc<Limit>>,
    /// The run took too long, and is being ended.
    pub(crate) overrun: Cell<bool>,
    /// The script asked for the end of the program, with this status.
    pub(crate) exit: Cell<Option<u8>>,
    /// Who waits for that.
    pub(crate) watcher: RefCell<Option<Waker>>,
    /// A script has got a handle of some coroutine since this was false.
    pub(crate) exposed: Cell<bool>,
    /// Coroutines by their threads.
    pub(crate) threads: RefCell<HashMap<usize, Id>>,
    /// What is to happen later.
    pub(crate) timers: RefCell<Timers<Id>>,
    /// Addresses that workers listen at together, and which worker this is.
    pub(crate) ports: Ports,
    pub(crate) worker: usize,
    /// The function that is told of signals, in the registry.
    pub(crate) on_signal: Cell<Option<i32>>,
    this: Weak<Self>,
    /// The lowest address of the stack that runs of this state may use.
    pub(crate) stack_floor: Cell<usize>,
    /// Where the last collection left the memory, when it was forced.
    pub(crate) collected: Cell<usize>,
    /// How many connections there are whose handler is over and whose peer has left.
    pub(crate) forsaken: Cell<usize>,
    /// Connections whose peers get something before the turn ends.
    pub(crate) unsent: Rc<Unsent>,
    /// What runs of exchanges may ask of theirs.
    pub(crate) exchange: Lease,
    /// Connections of a listener of the gateway.
    pub(crate) intake: Intake,
    /// Files that `require` has read.
    pub(crate) sources: RefCell<Vec<PathBuf>>,
    /// Metrics that the script has made, which are there as long as it is.
    families: RefCell<Vec<Arc<CustomFamily>>>,
    /// The script is in force: what it says of the process holds.
    pub(crate) in_force: Cell<bool>,
    /// Regular expressions it has used.
    pub(crate) patterns: RefCell<Patterns>,
    last: Cell<u64>,
}

impl Host {
    pub(crate) fn new(settings: Settings, voice: Voice, ports: Ports, worker: usize) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            memory: Memory::new(settings.memory),
            level: Cell::new(settings.log_level),
            log: Throttled::default(),
            settings,
            voice,
            main: Cell::new(std::ptr::null_mut()),
            object_meta: Cell::default(),
            connection_meta: Cell::default(),
            no_fields: Cell::default(),
            size_of: Cell::default(),
            coroutines: RefCell::default(),
            idle: RefCell::default(),
            ready: RefCell::default(),
            waits: Cell::default(),
            current: Cell::default(),
            pump: RefCell::default(),
            crowded: Cell::default(),
            limit: OnceCell::new(),
            overrun: Cell::default(),
            exit: Cell::default(),
            watcher: RefCell::default(),
            exposed: Cell::default(),
            threads: RefCell::default(),
            timers: RefCell::default(),
            ports,
            worker,
            on_signal: Cell::default(),
            this: Weak::clone(this),
            stack_floor: Cell::default(),
            collected: Cell::default(),
            forsaken: Cell::default(),
            unsent: Rc::default(),
            exchange: Lease::default(),
            intake: Intake::default(),
            sources: RefCell::default(),
            families: RefCell::default(),
            in_force: Cell::default(),
            patterns: RefCell::default(),
            last: Cell::default(),
        })
    }

    /// The host itself, for tasks that outlive a call.
    ///
    /// # Panics
    /// Never: whoever calls has a reference.
    #[expect(
        clippy::expect_used,
        reason = "a host is only ever made in an `Rc`, and it is borrowed right now"
    )]
    pub(crate) fn shared(&self) -> Rc<Self> {
        self.this.upgrade().expect("it is alive")
    }

    /// The script wants the program to end.
    pub(crate) fn leave(&self, status: u8) {
        if self.exit.get().is_none() {
            self.exit.set(Some(status));
        }
        if let Some(watcher) = &*self.watcher.borrow() {
            watcher.wake_by_ref();
        }
    }

    /// A coroutine is given to an exchange, or back to the loop.
    pub(crate) fn set_desk(&self, id: Id, desk: Option<Rc<Desk>>) {
        let mut coroutines = self.coroutines.borrow_mut();
        if let Some(it) = coroutines.get_mut(id.index).filter(|it| it.generation == id.generation) {
            it.desk = desk;
        }
    }

    /// The exchange of a coroutine is over: it goes on in the loop, without.
    pub(crate) fn bereave(&self, id: Id) {
        let mut coroutines = self.coroutines.borrow_mut();
        if let Some(it) = coroutines.get_mut(id.index).filter(|it| it.generation == id.generation) {
            it.desk = None;
            it.bereft = true;
        }
    }

    /// Whether a script has a handle of this coroutine.
    pub(crate) fn is_exposed(&self, id: Id) -> bool {
        self.coroutines.borrow().get(id.index).is_none_or(|it| it.exposed)
    }

    /// Who is told how a coroutine ends.
    pub(crate) fn set_owner(&self, id: Id, owner: Rc<dyn Owner>) {
        if let Some(it) = self.coroutines.borrow_mut().get_mut(id.index) {
            it.owner = Some(owner);
        }
    }

    /// A script has a handle of this coroutine.
    pub(crate) fn expose(&self, id: Id) {
        self.exposed.set(true);
        if let Some(it) = self.coroutines.borrow_mut().get_mut(id.index) {
            it.exposed = true;
        }
    }

    /// Keeps a metric that the script has made.
    pub(crate) fn keep_family(&self, family: &Arc<CustomFamily>) {
        let mut families = self.families.borrow_mut();
        if families.iter().any(|known| Arc::ptr_eq(known, family)) {
            return;
        }
        if self.in_force.get() {
            family.publish();
        }
        families.push(Arc::clone(family));
    }

    /// The metrics that the script has made so far.
    pub(crate) fn take_families(&self) -> Vec<Arc<CustomFamily>> {
        self.families.take()
    }

    /// Whether there may be one more task.
    pub(crate) fn has_room_for_a_task(&self) -> bool {
        self.coroutines.borrow().len() < self.settings.tasks
    }

    /// Takes a coroutine out of those that the loop drives.
    pub(crate) fn remove(&self, id: Id) -> Option<Coroutine> {
        let removed = {
            let mut coroutines = self.coroutines.borrow_mut();
            let known = coroutines.get(id.index).is_some_and(|it| it.generation == id.generation);
            if known { coroutines.try_remove(id.index) } else { None }
        }?;
        self.threads.borrow_mut().remove(&removed.thread.addr());
        self.memory.release(TASK);
        if self.crowded.replace(false) {
            self.wake_pump();
        }
        Some(removed)
    }

    /// A number that this state has not given out before.
    pub(crate) fn next_number(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// The coroutine that runs on this thread of the state; absent if it is one that a script made, which the
    /// loop does not know.
    #[inline]
    pub(crate) fn running(&self, thread: *mut lua_State) -> Option<Id> {
        self.current.get().filter(|(_, running)| std::ptr::eq(*running, thread)).map(|(id, _)| id)
    }

    /// What a coroutine is at; absent if it has ended.
    pub(crate) fn status(&self, id: Id) -> Option<Status> {
        if self.current.get().is_some_and(|(running, _)| running == id) {
            return Some(Status::Run);
        }
        let coroutines = self.coroutines.borrow();
        coroutines.get(id.index).filter(|it| it.generation == id.generation).map(|it| it.status)
    }

    /// Notes what a coroutine is at when it does not run; unless somebody says more, it waits for a connection.
    #[inline]
    pub(crate) fn set_status(&self, id: Id, status: Status) {
        let mut coroutines = self.coroutines.borrow_mut();
        if let Some(it) = coroutines.get_mut(id.index).filter(|it| it.generation == id.generation) {
            it.status = status;
        }
    }

    /// The coroutine with this thread; absent if it has ended.
    pub(crate) fn find(&self, thread: *mut lua_State) -> Option<Id> {
        self.threads.borrow().get(&thread.addr()).copied()
    }

    /// Puts a coroutine into the queue of those who run next, with so many values on its stack.
    pub(crate) fn make_ready(&self, id: Id, values: i32) {
        {
            let mut coroutines = self.coroutines.borrow_mut();
            let found = coroutines.get_mut(id.index).filter(|it| it.generation == id.generation);
            let Some(it) = found else { return };
            it.status = Status::Ready;
            it.values = values;
        }
        self.ready.borrow_mut().push_back(id);
        if self.current.get().is_none() {
            self.wake_pump();
        }
    }

    /// Has those who are ready run in a task of their own.
    pub(crate) fn wake_pump(&self) {
        if let Some(pump) = &*self.pump.borrow() {
            pump.wake_by_ref();
        }
    }

    /// A line of the program's own about the script, or a traceback.
    pub(crate) fn say(&self, level: Level, text: &str) {
        let write = |voice: &Voice| voice.report(level, text.as_bytes());
        self.log.write(&self.voice, self.settings.log_rate, write);
    }

    /// A line of the script, unless there are too many of them.
    pub(crate) fn log(&self, level: Level, line: &[u8]) {
        self.log.write(&self.voice, self.settings.log_rate, |voice| voice.write(level, line));
    }
}
